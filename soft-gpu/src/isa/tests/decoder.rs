//! The decoder is total, and nothing is lost on the way.

use proptest::prelude::*;

use super::encode::encode;
use super::generate::{Random, instruction};
use crate::isa::decode::{DecodeError, decode};
use crate::isa::op::Arch;

const ARCHES: [Arch; 2] = [Arch::Gfx90a, Arch::Gfx942];

proptest! {
    #[test]
    fn any_bytes_are_an_instruction_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
        for arch in ARCHES {
            if let Ok(inst) = decode(arch, &bytes) {
                prop_assert!(usize::from(inst.size) <= bytes.len());
                prop_assert!(!inst.to_string().is_empty());
            }
        }
    }

    #[test]
    fn what_is_decoded_can_be_encoded_again(seed in any::<u64>()) {
        for arch in ARCHES {
            let mut random = Random::new(seed);
            let inst = instruction(&mut random, arch);
            let code = encode(&inst);
            prop_assert_eq!(code.len(), usize::from(inst.size));
            let again = decode(arch, &code).expect("was decoded before");
            prop_assert_eq!(inst.to_string(), again.to_string());
            prop_assert_eq!(encode(&again), code);
        }
    }
}

#[test]
fn instructions_that_are_cut_off_say_so() {
    // s_load_dwordx2 s[0:1], s[4:5], 0x0
    let code = [0x02, 0x00, 0x06, 0xc0, 0, 0, 0, 0];
    for have in 0..8 {
        let need = if have < 4 { 4 } else { 8 };
        assert_eq!(decode(Arch::Gfx90a, &code[..have]).err(), Some(DecodeError::CutOff { have, need }));
    }
    assert_eq!(decode(Arch::Gfx90a, &code).expect("whole").to_string(), "s_load_dwordx2 s[0:1], s[4:5], 0x0");
}

#[test]
fn unknown_opcodes_and_encodings_name_their_words() {
    // MIMG, an image instruction, which no compute part has.
    let error = decode(Arch::Gfx90a, &0xf000_0000u32.to_le_bytes()).expect_err("unknown");
    assert_eq!(error.to_string(), "an encoding that is not known: word f0000000");
    let error = decode(Arch::Gfx90a, &0xbe80_ff00u32.to_le_bytes()).expect_err("unknown");
    assert_eq!(error.to_string(), "Sop1 opcode 0xff is unknown; words be80ff00 00000000");
}
