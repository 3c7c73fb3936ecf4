//! Counts what is executed, if somebody wants to know (`softgpu run --report`).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::inst::Inst;
use super::super::op::{Family, Op};

static WANTED: AtomicBool = AtomicBool::new(false);
static COUNTS: Mutex<BTreeMap<&'static str, Count>> = Mutex::new(BTreeMap::new());

/// How often waves executed an opcode.
#[derive(Clone, Debug)]
pub struct Count {
    /// Its family.
    pub family: Family,
    /// The opcode.
    pub op: &'static Op,
    number: Arc<AtomicU64>,
}

impl Count {
    /// The number so far.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// Counts what is executed in this process by code that is decoded from now on.
pub fn start() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether anything is counted.
pub(super) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Where an instruction is counted.
pub(super) fn counter(inst: &Inst) -> Arc<AtomicU64> {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || Count { family: inst.family, op: inst.op, number: Arc::default() };
    Arc::clone(&counts.entry(inst.op.name).or_insert_with(new).number)
}

/// What was executed, the most frequent first.
#[must_use]
pub fn counts() -> Vec<Count> {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut counts: Vec<_> = counts.values().filter(|count| count.number() != 0).cloned().collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.number()));
    counts
}

/// Writes [`counts`] as text: the number of wave64 instructions, whether results are exact or approximate, the family
/// and the name, with tabs between them.
///
/// # Errors
/// What `out` says.
pub fn write(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "instructions\tresults\tfamily\topcode")?;
    for count in counts() {
        let mark = if count.op.exact() { "exact" } else { "approximate" };
        writeln!(out, "{}\t{mark}\t{:?}\t{}", count.number(), count.family, count.op.name)?;
    }
    Ok(())
}
