//! The tables of checks that `hip/hip_kernels` and `c/opencl_kernels` print.

/// The checks of `hip/hip_kernels`.
pub const HIP: [&str; 18] = [
    "vector add",
    "saxpy",
    "double sin, exp, sqrt, pow",
    "reduction in LDS",
    "transpose",
    "histogram by atomics",
    "softmax",
    "matmul in tiles",
    "fp16 GEMM",
    "bf16 GEMM",
    "fp16 without matrix cores",
    "malloc memory, 1 B",
    "malloc memory, 64 KiB",
    "malloc memory, 64 MiB",
    "hipMemset",
    "copy on the GPU",
    "streams and events",
    "after that, 64 KiB",
];
/// The checks of `c/opencl_kernels`.
pub const OPENCL: [&str; 8] = [
    "vector add",
    "saxpy",
    "reduction in LDS",
    "transpose",
    "histogram by atomics",
    "softmax",
    "matmul in tiles",
    "fp16 without matrix cores",
];
/// The check of `hip/hip_kernels` that kernels work on memory of the program's own.
pub const HOST_REGISTER: &str = "hipHostRegister";
/// The check of `c/opencl_kernels` that the program reads a buffer through a pointer.
pub const MAPPED_BUFFER: &str = "mapped buffer";
/// Bytes of the checks of copies.
const BYTES: [(&str, u64); 4] = [
    ("malloc memory, 1 B", 1),
    ("malloc memory, 64 KiB", 64 << 10),
    ("malloc memory, 64 MiB", 64 << 20),
    ("after that, 64 KiB", 64 << 10),
];

/// What came of sharing memory of the program's own with the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It can be done.
    Works,
    /// It is refused, and the program goes on.
    IsRefused,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What was checked.
    pub name: String,
    /// How many values.
    pub values: u64,
    /// `OK`, or how many were wrong.
    pub verdict: String,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Table {
    /// The first line: name and processor of the GPU, and the runtime's version.
    pub device: String,
    /// Checks.
    pub rows: Vec<Row>,
    text: String,
}

impl Table {
    /// Reads what the program printed.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let device = text.lines().next().unwrap_or_default().to_owned();
        Self { device, rows: text.lines().filter_map(row).collect(), text: text.to_owned() }
    }

    /// Whether every one of these checks was made once, and all values were right.
    ///
    /// # Panics
    /// If not, with all that was printed.
    pub fn assert_all_right(&self, checks: &[&str]) {
        let text = &self.text;
        for name in checks {
            let rows: Vec<_> = self.rows.iter().filter(|row| row.name == *name).collect();
            let [row] = rows[..] else { panic!("{} lines of {name:?} in\n{text}", rows.len()) };
            assert!(row.verdict == "OK" && row.values > 0, "{row:?} in\n{text}");
            if let Some((_, bytes)) = BYTES.iter().find(|(of, _)| of == name) {
                assert_eq!(row.values, *bytes, "{text}");
            }
        }
        assert!(text.ends_with("all right\n"), "{text}");
    }

    /// What came of a check that needs memory of the program's own to be shared with the GPU.
    ///
    /// # Panics
    /// If there is not one line of it, right or refused.
    pub fn sharing(&self, check: &str) -> Sharing {
        let works = self.rows.iter().any(|row| row.name == check && row.verdict == "OK");
        let is_refused = self.text.lines().any(|line| line.starts_with(check) && line.contains(" refused: "));
        match (works, is_refused) {
            (true, false) => Sharing::Works,
            (false, true) => Sharing::IsRefused,
            _ => panic!("no single line of {check} in\n{}", self.text),
        }
    }
}

/// `NAME  COUNT values  VERDICT  TIME ms`.
fn row(line: &str) -> Option<Row> {
    let (left, right) = line.split_once(" values ")?;
    let (name, values) = left.rsplit_once(' ')?;
    let (verdict, _) = right.trim_end().strip_suffix(" ms")?.trim_end().rsplit_once(' ')?;
    Some(Row {
        name: name.trim().to_owned(),
        values: values.parse().ok()?,
        verdict: verdict.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_name_count_and_verdict() {
        let line = "malloc memory, 1 B                    1 values  WRONG 1            4.8 ms";
        let expected = Row { name: "malloc memory, 1 B".into(), values: 1, verdict: "WRONG 1".into() };
        assert_eq!(row(line), Some(expected));
        assert_eq!(row("all right"), None);
    }
}
