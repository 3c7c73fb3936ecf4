//! Names of GPUs for people: libdrm's table of products, and the widening that `hsakmt.h` wants.

use std::fs::File;
use std::io::Read;

use protocol::drm::info::InfoDevice;
use protocol::kfd::topology::GfxVersion;

use super::cpuinfo::CpuInfo;

/// libdrm's table, part of its common data in every distribution.
const PATH: &str = "/usr/share/libdrm/amdgpu.ids";

/// Most bytes of it that are read. It has some 30 KB.
const MAX_BYTES: u64 = 1 << 20;

/// `AMDGPU_IDS_FLAGS_FUSION`: the GPU is part of an APU.
pub(super) const FUSION: u64 = 1;

/// The products that libdrm knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Products {
    text: Vec<u8>,
}

impl Products {
    /// No table.
    pub(super) const NONE: Self = Self { text: Vec::new() };

    /// The installed table; empty if there is none.
    pub(super) fn read() -> Self {
        let mut text = Vec::new();
        match File::open(PATH).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)) {
            Ok(_) => Self { text },
            Err(error) => {
                log::info!("{PATH} cannot be read: {error}; GPUs stay without product names");
                Self::default()
            }
        }
    }

    /// Product with these PCI ids. The lines are `device,\trevision,\tname`, both ids hexadecimal; the first line
    /// that is no comment is the version of the table. Lines that are something else are ignored.
    pub(super) fn find(&self, device: u32, revision: u32) -> Option<&str> {
        let lines = self.text.split(|&byte| byte == b'\n');
        let mut entries = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).skip(1);
        entries.find_map(|line| {
            let mut fields = std::str::from_utf8(line).ok()?.split(',');
            let mut id = || u32::from_str_radix(fields.next()?.trim_start(), 16).ok();
            if (id()?, id()?) != (device, revision) {
                return None;
            }
            fields.next().map(str::trim_ascii).filter(|name| !name.is_empty())
        })
    }
}

/// What libdrm calls a GPU that it does not know.
const UNKNOWN: &str = "AMD Radeon Graphics";

/// Product name of a GPU as libdrm gives it (`amdgpu_get_marketing_name`): APUs that are not in the table are
/// called after their processor.
pub(super) fn product(products: &Products, device: &InfoDevice, cpus: &CpuInfo) -> String {
    if let Some(name) = products.find(device.device_id, device.pci_rev) {
        return name.to_owned();
    }
    let processor = cpus.first_model_name().filter(|_| device.ids_flags & FUSION != 0);
    let Some(name) = processor else { return UNKNOWN.to_owned() };
    let name = name.find("Radeon").and_then(|at| name.get(at..)).unwrap_or(name);
    if name.starts_with("AMD") { name.to_owned() } else { format!("AMD {name}") }
}

/// Name of a GPU whose device id tells no chip: `GFX` and the instruction set as six hexadecimal digits.
pub(super) fn of_gfx(gfx: GfxVersion) -> String {
    format!("GFX{:02x}{:02x}{:02x}", gfx.major, gfx.minor, gfx.stepping)
}

/// A text as `MarketingName`: UTF-16, cut before the last place, which stays 0.
pub(super) fn wide<const N: usize>(text: &str) -> [u16; N] {
    let mut wide = [0; N];
    let mut at = 0;
    for character in text.chars().take_while(|&character| character != '\0') {
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units);
        match wide.get_mut(at..at + units.len()) {
            Some(place) if at + units.len() < N => place.copy_from_slice(units),
            _ => break,
        }
        at += units.len();
    }
    wide
}

/// A text as `AMDName`: UTF-8, cut before the last place, which stays 0.
pub(super) fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let end = text.find('\0').unwrap_or(text.len()).min(N.saturating_sub(1));
    let end = (0..=end).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    for (to, from) in bytes.iter_mut().zip(text.bytes().take(end)) {
        *to = from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &[u8] = b"# List of AMDGPU IDs\n#\n\n1.0.0\n\
        740F,\t02,\tAMD Instinct MI210\n\
        744C,\tC8,\tAMD Radeon RX 7900 XTX\n\
        744c,\tcc,\t  AMD Radeon RX 7900 XT, cut  \n\
        nonsense\nx,\ty,\tz\n,,\n15DD,\t\n\xff,\xff,\xff\n6860,\t00,\t\n\
        6860,\t01,\tAMD Radeon Instinct MI25";

    fn products() -> Products {
        Products { text: TABLE.to_vec() }
    }

    #[test]
    fn products_are_keyed_by_device_and_revision() {
        let products = products();
        assert_eq!(products.find(0x740f, 2), Some("AMD Instinct MI210"));
        assert_eq!(products.find(0x740f, 0), None);
        assert_eq!(products.find(0x744c, 0xc8), Some("AMD Radeon RX 7900 XTX"));
        assert_eq!(products.find(0x744c, 0xcc), Some("AMD Radeon RX 7900 XT"));
        assert_eq!(products.find(0x6860, 0), None, "an empty name");
        assert_eq!(products.find(0x6860, 1), Some("AMD Radeon Instinct MI25"));
        assert_eq!(Products::default().find(0x740f, 2), None);
    }

    #[test]
    fn apus_without_entry_are_called_after_their_processor() {
        let cpus = |name: &str| CpuInfo::parse(format!("processor: 0\nmodel name: {name}\n").as_bytes());
        let apu = InfoDevice { device_id: 0x1638, ids_flags: FUSION, ..InfoDevice::default() };
        for (cpu, name) in [
            ("AMD Ryzen 7 5700G with Radeon Graphics", "AMD Radeon Graphics"),
            ("AMD EPYC", "AMD EPYC"),
            ("Some CPU", "AMD Some CPU"),
        ] {
            assert_eq!(product(&products(), &apu, &cpus(cpu)), name);
        }
        assert_eq!(product(&products(), &apu, &CpuInfo::default()), UNKNOWN);
        let card = InfoDevice { ids_flags: 0, ..apu };
        assert_eq!(product(&products(), &card, &cpus("AMD EPYC")), UNKNOWN);
        let mi210 = InfoDevice { device_id: 0x740f, pci_rev: 2, ..apu };
        assert_eq!(product(&products(), &mi210, &cpus("AMD EPYC")), "AMD Instinct MI210");
    }

    #[test]
    fn names_by_instruction_set_have_six_digits() {
        assert_eq!(of_gfx(GfxVersion::new(11, 0, 0)), "GFX0b0000");
        assert_eq!(of_gfx(GfxVersion::new(9, 4, 2)), "GFX090402");
        assert_eq!(of_gfx(GfxVersion::new(9, 0, 255)), "GFX0900ff");
    }

    #[test]
    fn long_names_are_cut_and_end_with_0() {
        assert_eq!(wide::<4>("MI210"), [77, 73, 50, 0]);
        assert_eq!(wide::<4>("a\u{1f600}b"), [97, 0xd83d, 0xde00, 0]);
        assert_eq!(wide::<4>("ab\u{1f600}"), [97, 98, 0, 0], "half a character is none");
        assert_eq!(bytes::<4>("MI210"), *b"MI2\0");
        assert_eq!(bytes::<4>("a\u{20ac}"), *b"a\0\0\0");
        assert_eq!(bytes::<4>("a\0b"), *b"a\0\0\0");
    }

    proptest! {
        #[test]
        fn any_table_is_read(text in prop::collection::vec(any::<u8>(), 0..300), device: u32, revision: u32) {
            let _ = Products { text }.find(device, revision);
        }

        #[test]
        fn any_name_fits(text in "\\PC{0,100}") {
            prop_assert_eq!(wide::<64>(&text)[63], 0);
            prop_assert_eq!(bytes::<64>(&text)[63], 0);
            prop_assert!(String::from_utf16(&wide::<64>(&text)).is_ok());
            prop_assert!(std::str::from_utf8(&bytes::<64>(&text)).is_ok());
        }
    }
}
