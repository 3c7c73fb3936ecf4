//! What is measured.

use std::fmt;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Live buffers where there are many.
    many: u32,
    /// More than Debian's library can have: it makes a mapping for each, of which a process may have 65,530
    /// (vm.max_map_count).
    most: u32,
    /// Live buffers where callgrind counts: valgrind keeps a list of at most 30,000 mappings. `None` leaves them out, and
    /// most cases too.
    many_counted: Option<u32>,
    /// Percent of the steps that a case has in the C program.
    pub steps: u32,
    /// Rounds of a process, of which the best counts.
    pub rounds: u32,
}

impl Scale {
    pub const FULL: Self =
        Self { many: 30_000, most: 100_000, many_counted: Some(5_000), steps: 100, rounds: 5 };
    pub const QUICK: Self = Self { many: 100, most: 200, many_counted: None, steps: 2, rounds: 1 };
}

/// Buffers that are there before and stay.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// As the C program calls it.
    pub kind: &'static str,
    pub count: u32,
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => f.write_str("0"),
            count => write!(f, "{count} {}", self.kind),
        }
    }
}

/// Cases that share a process.
#[derive(Clone, Debug)]
pub struct Group {
    pub live: Live,
    pub cases: Vec<&'static str>,
    /// Options of the libraries.
    pub env: &'static [(&'static str, &'static str)],
    /// What is told of them.
    pub note: &'static str,
}

/// A context save area is a buffer with both libraries, where ours would use SVM.
const NO_SVM: &[(&str, &str)] = &[("HSA_USE_SVM", "0")];
/// Memory that a program registers cannot be shared with the software GPU under valgrind.
const UNDER_VALGRIND: &[(&str, &str)] = &[("HSA_USE_SVM", "0"), ("HSA_USERPTR_FOR_PAGED_MEM", "0")];

const NONE: Live = Live { kind: "gtt", count: 0 };

fn group(live: Live, cases: &[&'static str]) -> Group {
    Group { live, cases: cases.to_vec(), env: &[], note: "" }
}

fn without_svm(live: Live, cases: &[&'static str]) -> Group {
    Group { env: NO_SVM, note: ", `HSA_USE_SVM=0`", ..group(live, cases) }
}

/// What is timed.
pub fn timed(scale: Scale) -> Vec<Group> {
    let gtt = Live { kind: "gtt", count: scale.many };
    let vram = Live { kind: "vram", count: scale.many };
    vec![
        group(NONE, &["open"]),
        group(NONE, &["topology", "gtt-4k", "gtt-2m", "vram-4k", "vram-2m", "pointer-info"]),
        group(NONE, &["paged-4k", "paged-2m"]),
        group(NONE, &["event", "event-wake"]),
        group(NONE, &["queue-sdma", "queue-aql"]),
        without_svm(NONE, &["queue-aql"]),
        group(gtt, &["gtt-4k", "gtt-2m", "pointer-info"]),
        group(vram, &["vram-4k", "vram-2m", "pointer-info"]),
    ]
}

/// Of our library alone: without live buffers, and with very many of VRAM without host access.
pub fn more_than_debian(scale: Scale) -> [Group; 2] {
    [NONE, Live { kind: "vram", count: scale.most }].map(|live| group(live, &["vram-4k", "vram-2m"]))
}

/// Of what instructions are counted.
pub fn counted(scale: Scale) -> Vec<Group> {
    let groups = match scale.many_counted {
        None => vec![group(NONE, &["gtt-4k", "pointer-info"])],
        Some(count) => vec![
            group(
                NONE,
                &[
                    "open",
                    "topology",
                    "gtt-4k",
                    "gtt-2m",
                    "vram-4k",
                    "vram-2m",
                    "pointer-info",
                    "event",
                    "queue-sdma",
                    "queue-aql",
                ],
            ),
            group(Live { kind: "gtt", count }, &["gtt-4k", "gtt-2m", "pointer-info"]),
            group(Live { kind: "vram", count }, &["vram-4k", "vram-2m", "pointer-info"]),
        ],
    };
    groups.into_iter().map(|group| Group { env: UNDER_VALGRIND, ..group }).collect()
}
