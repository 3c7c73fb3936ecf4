//! GPUs by PCI device id, as far as AMD's thunk knows them by it: those from gfx7 to gfx10.
//!
//! What programs see of it is the name (`AMDName`); on kernels that write no `gfx_target_version` it is also
//! the only source of the instruction set. Later GPUs are known by `gfx_target_version` alone.

use protocol::kfd::topology::GfxVersion;

/// GPUs of one chip.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asic {
    /// The chip's name.
    pub(super) name: &'static str,
    /// Its instruction set.
    pub(super) gfx: GfxVersion,
    /// PCI device ids of AMD (vendor 0x1002).
    devices: &'static [u16],
}

/// The GPU with this device id, if `gfx_target_version` does not say that it is a later one.
pub(super) fn find(device: u32, target: Option<GfxVersion>) -> Option<&'static Asic> {
    if target.is_some_and(|gfx| gfx.major > 10) {
        return None;
    }
    let device = u16::try_from(device).ok()?;
    ASICS.iter().find(|asic| asic.devices.contains(&device))
}

const fn asic(name: &'static str, gfx: (u8, u8, u8), devices: &'static [u16]) -> Asic {
    Asic { name, gfx: GfxVersion::new(gfx.0, gfx.1, gfx.2), devices }
}

/// Chips in order of their instruction sets; ids ascending. They are those of the `amdgpu` driver's table of
/// supported cards (`pciidlist`) and of the public PCI id list.
static ASICS: &[Asic] = &[
    asic(
        "Spectre",
        (7, 0, 0),
        &[
            0x1304, 0x1305, 0x1306, 0x1307, 0x1309, 0x130a, 0x130b, 0x130c, 0x130d, 0x130e, 0x130f, 0x1310,
            0x1311, 0x1313, 0x1315, 0x1318, 0x131b, 0x131c, 0x131d,
        ],
    ),
    asic("Spooky", (7, 0, 0), &[0x1312, 0x1316, 0x1317]),
    asic(
        "Hawaii",
        (7, 0, 1),
        &[0x67a0, 0x67a1, 0x67a2, 0x67a8, 0x67a9, 0x67aa, 0x67b0, 0x67b1, 0x67b8, 0x67b9, 0x67ba, 0x67be],
    ),
    asic("Carrizo", (8, 0, 1), &[0x9870, 0x9874, 0x9875, 0x9876, 0x9877]),
    asic("Tonga", (8, 0, 2), &[0x6920, 0x6921, 0x6928, 0x6929, 0x692b, 0x692f, 0x6930, 0x6938, 0x6939]),
    asic("Fiji", (8, 0, 3), &[0x7300, 0x730f]),
    asic(
        "Polaris10",
        (8, 0, 3),
        &[
            0x67c0, 0x67c1, 0x67c2, 0x67c4, 0x67c7, 0x67c8, 0x67c9, 0x67ca, 0x67cc, 0x67cf, 0x67d0, 0x67df,
            0x6fdf,
        ],
    ),
    asic("Polaris11", (8, 0, 3), &[0x67e0, 0x67e1, 0x67e3, 0x67e7, 0x67e8, 0x67e9, 0x67eb, 0x67ef, 0x67ff]),
    asic("Polaris12", (8, 0, 3), &[0x6980, 0x6981, 0x6985, 0x6986, 0x6987, 0x6995, 0x6997, 0x699f]),
    asic("VegaM", (8, 0, 3), &[0x694c, 0x694e, 0x694f]),
    asic(
        "Vega10",
        (9, 0, 0),
        &[
            0x6860, 0x6861, 0x6862, 0x6863, 0x6864, 0x6867, 0x6868, 0x6869, 0x686a, 0x686b, 0x686c, 0x686d,
            0x686e, 0x687f,
        ],
    ),
    asic("Raven", (9, 0, 2), &[0x15d8, 0x15dd]),
    asic("Vega12", (9, 0, 4), &[0x69a0, 0x69a1, 0x69a2, 0x69a3, 0x69af]),
    asic("Vega20", (9, 0, 6), &[0x66a0, 0x66a1, 0x66a2, 0x66a3, 0x66a4, 0x66a7, 0x66af]),
    asic("Arcturus", (9, 0, 8), &[0x7388, 0x738c, 0x738e, 0x7390]),
    asic("Aldebaran", (9, 0, 10), &[0x7408, 0x740c, 0x740f, 0x7410]),
    asic("Renoir", (9, 0, 12), &[0x15e7, 0x1636, 0x1638, 0x164c]),
    asic("Navi10", (10, 1, 0), &[0x7310, 0x7312, 0x7318, 0x731a, 0x731e, 0x731f]),
    asic("Navi12", (10, 1, 1), &[0x7360, 0x7362]),
    asic("Navi14", (10, 1, 2), &[0x7340, 0x7341, 0x7347]),
    asic("cyan_skillfish", (10, 1, 3), &[0x13f9, 0x13fa, 0x13fb, 0x13fc, 0x13fe, 0x143f]),
    asic(
        "SIENNA_CICHLID",
        (10, 3, 0),
        &[0x73a0, 0x73a1, 0x73a2, 0x73a3, 0x73a5, 0x73a8, 0x73a9, 0x73ab, 0x73ac, 0x73ad, 0x73ae, 0x73bf],
    ),
    asic(
        "NAVY_FLOUNDER",
        (10, 3, 1),
        &[0x73c0, 0x73c1, 0x73c3, 0x73da, 0x73db, 0x73dc, 0x73dd, 0x73de, 0x73df],
    ),
    asic(
        "DIMGREY_CAVEFISH",
        (10, 3, 2),
        &[0x73e0, 0x73e1, 0x73e2, 0x73e8, 0x73e9, 0x73ea, 0x73eb, 0x73ec, 0x73ed, 0x73ef, 0x73ff],
    ),
    asic("VanGogh", (10, 3, 3), &[0x163f]),
    asic("BEIGE_GOBY", (10, 3, 4), &[0x7420, 0x7421, 0x7422, 0x7423, 0x743f]),
    asic("YELLOW_CARP", (10, 3, 5), &[0x164d, 0x1681]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_device_stands_once_in_ascending_order() {
        let mut all = BTreeSet::new();
        for asic in ASICS {
            assert!(asic.devices.is_sorted(), "{}", asic.name);
            assert!(asic.devices.iter().all(|&device| all.insert(device)), "{}", asic.name);
            assert!((7..=10).contains(&asic.gfx.major), "{}", asic.name);
        }
        assert_eq!(all.len(), 180);
        assert!(ASICS.is_sorted_by_key(|asic| asic.gfx));
    }

    #[test]
    fn devices_are_found_unless_they_are_later_ones() {
        let gfx90a = GfxVersion::new(9, 0, 10);
        let found = find(0x740f, Some(gfx90a)).expect("an MI210");
        assert_eq!((found.name, found.gfx), ("Aldebaran", gfx90a));
        assert_eq!(
            find(0x6860, None).map(|asic| asic.name),
            Some("Vega10"),
            "a kernel without gfx_target_version"
        );
        assert_eq!(find(0x740f, Some(GfxVersion::new(11, 0, 0))), None);
        for unknown in [0, 0x744c, 0x1_740f, u32::MAX] {
            assert_eq!(find(unknown, None), None, "{unknown:#x}");
        }
    }
}
