//! Performance counters and traces.

use super::declare::{hsa_enums, hsa_structs, hsa_words};

hsa_enums! {
    /// Who may read a counter, and how.
    pub struct ProfileType: u32, "HSA_PROFILE_TYPE" {
        /// Privileged, read at once.
        PRIVILEGED_IMMEDIATE = 0, "HSA_PROFILE_TYPE_PRIVILEGED_IMMEDIATE";
        /// Privileged, streamed.
        PRIVILEGED_STREAMING = 1, "HSA_PROFILE_TYPE_PRIVILEGED_STREAMING";
        /// Everyone, read at once.
        NONPRIV_IMMEDIATE = 2, "HSA_PROFILE_TYPE_NONPRIV_IMMEDIATE";
        /// Everyone, streamed.
        NONPRIV_STREAMING = 3, "HSA_PROFILE_TYPE_NONPRIV_STREAMING";
    }
}

hsa_words! {
    /// Properties of a counter.
    pub struct CounterFlags: u32, "HsaCounterFlags" {
        /// One for the whole GPU.
        GLOBAL, global: 0, "Global";
        /// It can be reset.
        RESETTABLE, resettable: 1, "Resettable";
        /// It can only be read.
        READ_ONLY, read_only: 2, "ReadOnly";
        /// It can be streamed.
        STREAM, stream: 3, "Stream";
    }
}

hsa_structs! {
    /// Name of a block of counters.
    pub struct Uuid: "HSA_UUID", 16 {
        /// First group of digits.
        pub data1: u32, "Data1";
        /// Second.
        pub data2: u16, "Data2";
        /// Third.
        pub data3: u16, "Data3";
        /// Fourth and fifth.
        pub data4: [u8; 8], "Data4";
    }

    /// A counter.
    pub struct Counter: "HsaCounter", 32 {
        /// Who may read it.
        pub type_: ProfileType, "Type";
        /// Number of the counter in its block.
        pub counter_id: u64, "CounterId";
        /// Bits of its value.
        pub counter_size_in_bits: u32, "CounterSizeInBits";
        /// Bits of its value that count.
        pub counter_mask: u64, "CounterMask";
        /// Properties.
        pub flags: CounterFlags, "Flags";
        /// Which block of a kind.
        pub block_index: u32, "BlockIndex";
    }

    /// A block of counters, with the first one; the others follow.
    pub struct CounterBlockProperties: "HsaCounterBlockProperties", 56 {
        /// Name of the block.
        pub block_id: Uuid, "BlockId";
        /// Its counters.
        pub num_counters: u32, "NumCounters";
        /// Counters that can be used at the same time.
        pub num_concurrent: u32, "NumConcurrent";
        /// The first counter.
        pub counters: [Counter; 1], "Counters";
    }

    /// The counters of a node, with the first block; the others follow.
    pub struct CounterProperties: "HsaCounterProperties", 64 {
        /// Blocks.
        pub num_blocks: u32, "NumBlocks";
        /// Blocks that can be used at the same time.
        pub num_concurrent: u32, "NumConcurrent";
        /// The first block.
        pub blocks: [CounterBlockProperties; 1], "Blocks";
    }

    /// A trace that is registered.
    pub struct PmcTraceRoot: "HsaPmcTraceRoot", 20 {
        /// Size of the buffer that hsaKmtPmcStartTrace needs, in bytes.
        pub trace_buffer_min_size_bytes: u64, "TraceBufferMinSizeBytes";
        /// Passes that all counters take.
        pub number_of_passes: u32, "NumberOfPasses";
        /// Id of the trace.
        pub trace_id: u64, "TraceId";
    }
}

impl Uuid {
    /// From the digits in their usual order: `9ba429c6-af2d-4b38-b349-157271beac6a`.
    #[must_use]
    pub const fn from_u128(digits: u128) -> Uuid {
        let [a, b, c, d, e, f, g, h, data4 @ ..] = digits.to_be_bytes();
        Uuid {
            data1: u32::from_be_bytes([a, b, c, d]),
            data2: u16::from_be_bytes([e, f]),
            data3: u16::from_be_bytes([g, h]),
            data4,
        }
    }
}

/// Names of the blocks that have one in the header (`HSA_PROFILEBLOCK_AMD_*`).
pub static PROFILE_BLOCKS: &[(&str, Uuid)] = &[
    ("CB", Uuid::from_u128(0x9ba429c6_af2d_4b38_b349_157271beac6a)),
    ("CPF", Uuid::from_u128(0x2b0ad2b5_1c43_4f46_a7bc_e119411ea6c9)),
    ("CPG", Uuid::from_u128(0x590ec94d_20f0_448f_8dff_316c679de7ff)),
    ("DB", Uuid::from_u128(0x3d1a47fc_0013_4ed4_8306_822ca0b7a6c2)),
    ("GDS", Uuid::from_u128(0xf59276ec_2526_4bf8_8ec0_118f77700dc9)),
    ("GRBM", Uuid::from_u128(0x8f00933c_c33d_4801_97b7_7007f78573ad)),
    ("GRBMSE", Uuid::from_u128(0x34ebd8d7_7c8b_4d15_88fa_0e4e4af59ac1)),
    ("IA", Uuid::from_u128(0x34276944_4264_4fcd_9d6e_ae264582ec51)),
    ("IOMMUV2", Uuid::from_u128(0x80969879_b0f6_4be6_97f6_6a6300f5101d)),
    ("KERNEL_DRIVER", Uuid::from_u128(0xea9b5ae1_6c3f_44b3_8954_daf07565a90a)),
    ("MC", Uuid::from_u128(0x13900b57_4956_4d98_81d0_68521937f59c)),
    ("PASC", Uuid::from_u128(0xb0e7fb5d_0efc_4744_b516_5d23dc1fd56c)),
    ("PASU", Uuid::from_u128(0x9a152b6a_1fad_45f2_a5bf_f163826bd0cd)),
    ("SPI", Uuid::from_u128(0xeda81044_d62c_47eb_af89_4f6fbf3b38e0)),
    ("SQ", Uuid::from_u128(0xb5c396b6_d310_47e4_86fc_5cc3043af508)),
    ("SRBM", Uuid::from_u128(0x9f8040e0_6830_4019_acc8_463c9e445b89)),
    ("SX", Uuid::from_u128(0xbdb8d737_43cc_4162_be52_51cfb847beaf)),
    ("TA", Uuid::from_u128(0xc01ee43d_ad92_44b1_8ab9_be5e696ceea7)),
    ("TCA", Uuid::from_u128(0x333e393f_e147_4f49_a6d1_60914c7086b0)),
    ("TCC", Uuid::from_u128(0x848ce855_d805_4566_a8ab_73e884cc6bff)),
    ("TCP", Uuid::from_u128(0xe10a013b_17d4_4bf5_b089_429591059b60)),
    ("TCS", Uuid::from_u128(0x4126245c_4d96_4d1a_8aed_a939d4cc8ec9)),
    ("TD", Uuid::from_u128(0x7d7c0fe4_fe41_4fea_92c9_4544d7706dc6)),
    ("VGT", Uuid::from_u128(0x0b6a8cb7_7a01_409f_a22c_3014854f1359)),
    ("WD", Uuid::from_u128(0x0e176789_46ed_4b02_972a_916d2fac244a)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_groups_in_the_order_of_the_digits() {
        let uuid = Uuid::from_u128(0x00010203_0405_0607_0809_0a0b0c0d0e0f);
        assert_eq!(uuid.data1, 0x0001_0203);
        assert_eq!((uuid.data2, uuid.data3), (0x0405, 0x0607));
        assert_eq!(uuid.data4, [8, 9, 10, 11, 12, 13, 14, 15]);
    }
}
