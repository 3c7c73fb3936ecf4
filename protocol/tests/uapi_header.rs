//! The declarations against the uapi header that is installed here (`linux/kfd_ioctl.h`, package
//! linux-libc-dev), as the C compiler sees it.
//!
//! The header may be older than the tables: what it does not know is left out, and a struct that has grown
//! since is compared field by field.

mod header;
mod table;
mod uapi;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use header::{Header, assert_printed};
use table::{StructRow, lines, number, structs};

/// These differ from one header to the next by their nature.
const OF_A_VERSION: &[&str] = &["KFD_IOCTL_MINOR_VERSION", "AMDKFD_COMMAND_END"];

fn read(dir: &Path) -> Header {
    Header::read(dir, "linux/kfd_ioctl.h", "kfd_")
}

/// A member as C names it: the save area's first four are in a struct of their own.
fn path(row: &StructRow, field: &str) -> String {
    let nested = row.name == "kfd_context_save_area_header"
        && (field.starts_with("control_stack") || field.starts_with("wave_state"));
    if nested { format!("wave_state.{field}") } else { field.to_owned() }
}

#[test]
fn structs_are_laid_out_as_in_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = read(dir.path());
    let mut statements = String::new();
    let mut expected = BTreeSet::new();
    for row in structs(uapi::STRUCTS) {
        let Some(known) = header.known(&row) else { continue };
        for field in &known {
            let (name, path) = (row.name, path(&row, field.name));
            writeln!(
                statements,
                r#"printf("{name}.{path} %zu %zu\n", offsetof(struct {name}, {path}), sizeof(((struct {name} *)0)->{path}));"#
            )
            .expect("a string can be written");
            expected.insert(format!("{name}.{path} {} {}", field.offset, field.size));
        }
        let bodies = row.fields.iter().any(|field| field.name == "body");
        if known.len() == row.fields.len() || bodies {
            let name = row.name;
            writeln!(statements, r#"printf("{name} %zu\n", sizeof(struct {name}));"#).expect("as above");
            expected.insert(format!("{name} {}", row.size));
        }
    }
    // Interface 1.11 (Debian 12) is the oldest header that was tried.
    assert_printed(&header.run(dir.path(), &statements), &expected, 200);
}

#[test]
fn requests_have_the_codes_of_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = read(dir.path());
    let grown: BTreeSet<_> = structs(uapi::STRUCTS)
        .iter()
        .filter(|row| header.known(row).is_none_or(|known| known.len() < row.fields.len()))
        .filter(|row| !row.fields.iter().any(|field| field.name == "body"))
        .map(|row| row.name)
        .collect();
    let mut statements = String::new();
    let mut expected = BTreeSet::new();
    for line in lines(uapi::IOCTLS).filter(|line| !line.starts_with("rocm")) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (name, request, argument) = (format!("AMDKFD_IOC_{}", words[2]), number(words[4]), words[5]);
        if !header.names.contains(&name) {
            continue;
        }
        // The size of a struct that has grown is the header's own affair; number and direction are not.
        let mask = if grown.contains(argument) { 0xc000_ffff } else { 0xffff_ffff_u64 };
        writeln!(statements, r#"printf("{name} %#lx\n", (unsigned long){name} & {mask:#x});"#)
            .expect("as above");
        expected.insert(format!("{name} {:#x}", request & mask));
    }
    // Interface 1.11 ends with AVAILABLE_MEMORY.
    assert_printed(&header.run(dir.path(), &statements), &expected, 35);
}

#[test]
fn constants_have_the_values_of_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = read(dir.path());
    let mut values: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in lines(uapi::CONSTANTS) {
        let (name, value) = line.split_once(' ').expect("name and value");
        if header.names.contains(name) && !OF_A_VERSION.contains(&name) {
            values.entry(name).or_default().push(number(value));
        }
    }
    let mut statements = String::new();
    for name in values.keys() {
        writeln!(statements, r#"printf("{name} %llu\n", sizeof({name}) == 4 ? (unsigned)({name}) : (unsigned long long)({name}));"#).expect("as above");
    }
    let printed = header.run(dir.path(), &statements);
    assert_eq!(printed.len(), values.len());
    assert!(values.len() >= 80, "only {} constants were compared", values.len());
    for line in printed {
        let (name, value) = line.split_once(' ').expect("name and value");
        assert!(
            values[name].contains(&number(value)),
            "{name} is {value} in the header, {:?} here",
            values[name]
        );
    }
}
