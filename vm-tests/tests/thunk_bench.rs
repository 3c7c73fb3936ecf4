//! The comparison of our libhsakmt with Debian's runs; what it finds is for `scripts/bench` to say.

use std::{process::Command, time::Duration};

use vm_tests::{Result, command};

const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn every_case_is_timed_and_counted_with_both_libraries() -> Result<()> {
    let left = std::path::Path::new("/dev/shm/hsakmt_shared_mem");
    let before = left.exists();
    let output = command::succeed(Command::new(env!("CARGO_BIN_EXE_thunk_bench")).arg("--quick"), LIMIT)?;
    let rows: Vec<Vec<&str>> = output
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let positive = |cell: &str| {
        let number = cell.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        number.is_some_and(|number| number > 0.0)
    };
    let measured = rows.iter().filter(|row| row.len() == 5 && row[2..].iter().all(|cell| positive(cell)));
    // Three rows are headings.
    assert_eq!(measured.count(), rows.len() - 3, "{output}");
    assert!(rows.len() > 20, "{output}");
    assert!(before || !left.exists(), "Debian's library was not closed: {}", left.display());
    Ok(())
}
