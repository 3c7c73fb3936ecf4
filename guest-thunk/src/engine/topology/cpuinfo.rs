//! `/proc/cpuinfo` of this machine: what the processors are called, and their APIC ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

/// Where the kernel tells it.
const PATH: &str = "/proc/cpuinfo";

/// Most bytes that are read: some 20,000 processors' worth.
const MAX_BYTES: u64 = 32 << 20;

/// Most processors that are kept. Linux has at most 8,192 on x86 (`CONFIG_NR_CPUS`).
const MAX_PROCESSORS: usize = 65_536;

/// One `processor` of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Processor {
    /// `apicid`; 0 where there is none (other architectures, some virtual machines).
    pub(super) apic_id: u32,
    /// `model name`; empty where there is none.
    pub(super) model_name: String,
}

/// The processors by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuInfo {
    processors: BTreeMap<u32, Processor>,
}

impl CpuInfo {
    /// What this machine's file says: nothing if it cannot be read.
    pub(super) fn read() -> Self {
        match read_bounded() {
            Ok(text) => Self::parse(&text),
            Err(error) => {
                log::warn!("{PATH} cannot be read: {error}; processors stay without names");
                Self::default()
            }
        }
    }

    /// What a text says. Lines that are no `key : value` and keys that are not used are ignored, as are
    /// processors without a number.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut processors = BTreeMap::new();
        let mut current = None;
        for line in text.split(|&byte| byte == b'\n') {
            let Some((key, value)) = key_value(line) else { continue };
            match key {
                b"processor" => current = number(value).filter(|_| processors.len() < MAX_PROCESSORS),
                b"model name" | b"apicid" => {}
                _ => continue,
            }
            let Some(at) = current else { continue };
            let processor: &mut Processor = processors.entry(at).or_default();
            match key {
                b"model name" => processor.model_name = String::from_utf8_lossy(value).into_owned(),
                b"apicid" => processor.apic_id = number(value).unwrap_or(0),
                _ => {}
            }
        }
        Self { processors }
    }

    /// The first processor with this APIC id.
    pub(super) fn with_apic_id(&self, apic_id: u32) -> Option<&Processor> {
        self.processors.values().find(|processor| processor.apic_id == apic_id)
    }

    /// APIC id of a processor; 0 if it is unknown.
    pub(super) fn apic_id(&self, processor: u32) -> u32 {
        self.processors.get(&processor).map_or(0, |processor| processor.apic_id)
    }

    /// The first name that there is.
    pub(super) fn first_model_name(&self) -> Option<&str> {
        self.processors.values().map(|processor| &*processor.model_name).find(|name| !name.is_empty())
    }
}

fn read_bounded() -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(PATH)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// A line as key and value without the blanks around them.
fn key_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (key, value) = line.split_at_checked(colon)?;
    Some((key.trim_ascii(), value.get(1..)?.trim_ascii()))
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;

    use super::*;

    const EPYC: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 64-Core Processor\n\
        apicid\t\t: 16\ninitial apicid\t: 99\nflags\t\t: fpu vme\n\n\
        processor\t: 1\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\napicid\t\t: 17\n";

    #[test]
    fn names_and_apic_ids_of_x86() {
        let cpus = CpuInfo::parse(EPYC.as_bytes());
        assert_eq!(
            cpus.with_apic_id(16).map(|cpu| &*cpu.model_name),
            Some("AMD EPYC 7763 64-Core Processor")
        );
        assert_eq!(cpus.with_apic_id(99), None);
        assert_eq!((cpus.apic_id(1), cpus.apic_id(2)), (17, 0));
        assert_eq!(cpus.first_model_name(), Some("AMD EPYC 7763 64-Core Processor"));
    }

    #[test]
    fn t19_files_without_apicid_or_names_give_id_0() {
        let arm = CpuInfo::parse(b"processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n");
        assert_eq!(arm.with_apic_id(0), Some(&Processor::default()));
        assert_eq!((arm.apic_id(0), arm.first_model_name()), (0, None));
        assert_eq!(CpuInfo::parse(b"").with_apic_id(0), None);
    }

    #[test]
    fn t19_8192_processors_are_kept() {
        let mut text = String::new();
        for number in 0..8192 {
            let _ = writeln!(text, "processor : {number}\napicid : {}", number * 2);
        }
        let cpus = CpuInfo::parse(text.as_bytes());
        assert_eq!(cpus.apic_id(8191), 16_382);
        assert_eq!(cpus.processors.len(), 8192);
    }

    #[test]
    fn lines_before_the_first_processor_and_bad_numbers_are_ignored() {
        let cpus = CpuInfo::parse(
            b"apicid : 7\nprocessor : x\nmodel name : lost\nprocessor : 4294967296\napicid : 1\n",
        );
        assert_eq!(cpus, CpuInfo::default());
        let cpus = CpuInfo::parse(b"processor : 3\nmodel name :\napicid : -1\n: : :\n\xff\xfe");
        assert_eq!(cpus.processors.into_iter().collect::<Vec<_>>(), [(3, Processor::default())]);
    }

    #[test]
    fn this_machine_has_a_processor_0() {
        assert!(CpuInfo::read().processors.contains_key(&0));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(processor|apicid|model name|x| |\t|:|[0-9]{1,11}|\n|\u{e9}){0,60}") {
            let cpus = CpuInfo::parse(text.as_bytes());
            prop_assert!(cpus.processors.len() <= text.lines().count());
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = CpuInfo::parse(&bytes);
        }
    }
}
