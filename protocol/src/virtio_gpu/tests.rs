//! Requests from publicly reported faults, byte for byte, and random ones.

use proptest::prelude::*;
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use super::structs::{CtrlHdr, MemEntry, RespCapsetInfo};
use super::*;

fn hex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2));
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// A header of 24 bytes with this command and context, and no fence.
fn header(command: &str, ctx_id: &str) -> String {
    format!("{command}{}{ctx_id}00000000", "00".repeat(12))
}

#[test]
fn requests_of_reported_faults_are_read() {
    // CVE-2021-3546 (case X01), CVE-2021-3545 (X02), Droid-VM/DroidVM#49 (X10).
    let capset = hex(&(header("09010000", "00000000") + "ffffffff00000000"));
    assert_eq!(
        Request::decode(&capset).map(|request| request.command),
        Ok(Command::GetCapset { id: 0xffff_ffff, version: 0 })
    );
    let info = hex(&(header("08010000", "00000000") + "ffffffff00000000"));
    assert_eq!(
        Request::decode(&info).map(|request| request.command),
        Ok(Command::GetCapsetInfo { index: 0xffff_ffff })
    );
    let detach = hex(&(header("03020000", "4d000000") + "0100000000000000"));
    let detach = Request::decode(&detach).expect("well formed");
    assert_eq!((detach.header.ctx_id, detach.header.fence, detach.header.ring), (77, None, None));
    assert_eq!(detach.command, Command::CtxDetachResource { resource_id: 1 });
}

#[test]
fn a_context_names_its_capset_and_itself() {
    // Case X05.
    let name = format!("74657374{}", "00".repeat(60));
    let create = hex(&(header("00020000", "01000000") + "0400000008000000" + &name));
    let request = Request::decode(&create).expect("well formed");
    assert_eq!(request.header.ctx_id, 1);
    assert_eq!(request.command, Command::CtxCreate(CreateContext { capset_id: 8, debug_name: b"test" }));

    let too_long = hex(&(header("00020000", "01000000") + "4100000008000000" + &name));
    assert_eq!(Request::decode(&too_long), Err(DecodeError::NameLength(65)));
    let full = hex(&(header("00020000", "01000000") + "4000000008000000" + &name));
    assert!(Request::decode(&full).is_ok());
    let reserved = hex(&(header("00020000", "01000000") + "0400000008010000" + &name));
    assert_eq!(Request::decode(&reserved), Err(DecodeError::ContextInit(0x100)));
}

#[test]
fn a_blob_whose_backing_is_short_is_read_as_it_is() {
    // Case X06: 16 KiB with one entry of one byte. Whether that is enough is the device's question.
    let blob = "05000000010000000100000001000000000000000000000000400000000000000000200000000000";
    let bytes = hex(&(header("0c010000", "00000000") + blob + "0100000000000000"));
    let request = Request::decode(&bytes).expect("well formed");
    let Command::ResourceCreateBlob(blob) = request.command else { panic!("{request:?}") };
    assert_eq!((blob.resource_id, blob.mem, blob.size), (5, BlobMem::GUEST, 16384));
    assert_eq!(blob.flags, BlobFlags::MAPPABLE);
    assert_eq!(blob.entries.len(), 1);
    assert_eq!((blob.entries[0].addr.get(), blob.entries[0].length.get()), (0x20_0000, 1));

    let have = bytes.len() - 56 - 1;
    let command = CommandId::RESOURCE_CREATE_BLOB;
    assert_eq!(
        Request::decode(&bytes[..bytes.len() - 1]),
        Err(DecodeError::Tail { command, need: 16, have })
    );
    let mut many = bytes.clone();
    many[36..40].fill(0xff);
    let need = 0xffff_ffff * 16;
    assert_eq!(Request::decode(&many), Err(DecodeError::Tail { command, need, have: 16 }));
}

#[test]
fn errors_say_what_was_wrong() {
    let said = |bytes: &[u8]| Request::decode(bytes).expect_err("refused").to_string();
    assert_eq!(said(&[0; 23]), "23 bytes are no header, which has 24");
    assert_eq!(said(&hex(&header("ff0f0000", "00000000"))), "unknown command 0xfff");
    assert_eq!(
        said(&hex(&header("01010000", "00000000"))),
        "VIRTIO_GPU_CMD_RESOURCE_CREATE_2D is no command of a device without scanouts"
    );
    assert_eq!(
        said(&hex(&header("07020000", "01000000"))),
        "VIRTIO_GPU_CMD_SUBMIT_3D of 24 bytes, it has 32"
    );
    let mut submit =
        Request { header: fenced(Some(1), Some(0)), command: Command::Submit3d { bytes: &[1; 9] } }.encode();
    submit.pop();
    assert_eq!(said(&submit), "VIRTIO_GPU_CMD_SUBMIT_3D announces 9 more bytes, 8 are there");
    submit.extend([0; 2]);
    assert_eq!(said(&submit), "VIRTIO_GPU_CMD_SUBMIT_3D announces 9 more bytes, 10 are there");
    submit[20] = 64;
    assert_eq!(said(&submit), "ring 64 of 64");
    submit[4] = 0x83;
    assert_eq!(said(&submit), "unknown flags 0x80 in the header");
}

#[test]
fn padding_and_fields_that_are_not_valid_are_not_looked_at() {
    let mut bytes =
        Request { header: fenced(None, None), command: Command::CtxAttachResource { resource_id: 7 } }
            .encode();
    bytes[8..16].fill(0xff); // fence_id without FENCE
    bytes[20..24].fill(0xff); // ring_idx without INFO_RING_IDX, padding
    bytes[28..32].fill(0xff); // padding
    let request = Request::decode(&bytes).expect("well formed");
    assert_eq!(request.command, Command::CtxAttachResource { resource_id: 7 });
    assert_eq!((request.header.fence, request.header.ring), (None, None));
}

fn fenced(fence: Option<u64>, ring: Option<u8>) -> Header {
    Header { fence, ring, ctx_id: 3 }
}

#[test]
fn a_response_repeats_the_fence_of_its_request() {
    let header = Header { fence: Some(0x1_0000_0002), ring: Some(5), ctx_id: 9 };
    let bytes = Response::Failed(Failure::OutOfMemory).encode(&header.raw(CommandId::SUBMIT_3D));
    let mut expected = hex("01120000030000000200000001000000");
    expected.extend(hex("0900000005000000"));
    assert_eq!(bytes, expected);

    let unfenced = Header { fence: None, ..header };
    let mut expected = hex("00110000");
    expected.resize(24, 0);
    assert_eq!(Response::Ok.encode(&unfenced.raw(CommandId::SUBMIT_3D)), expected);
}

#[test]
fn responses_have_the_sizes_that_the_driver_reads() {
    let request = CtrlHdr::default();
    let info = Response::CapsetInfo { id: 8, max_version: 1, max_size: 24 }.encode(&request);
    let info = RespCapsetInfo::read_from_bytes(&info).expect("40 bytes");
    assert_eq!((info.capset_id.get(), info.capset_max_version.get(), info.capset_max_size.get()), (8, 1, 24));
    assert_eq!(Response::Capset(vec![7; 24]).encode(&request).len(), 48);
    let map = Response::MapInfo(MapCache::WC).encode(&request);
    assert_eq!(map[24..], [3, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn amds_library_passes_over_our_capset() {
    let ours = capset::Capset::new(0, 0);
    // Its wire format is 0 there, and its kind of context stands at 16 and has to be 1.
    assert_eq!(ours.magic.get(), 0x5644_464b);
    assert_eq!(core::mem::offset_of!(capset::Capset, reserved), 16);
    assert_eq!(ours.reserved.get(), 0);
}

prop_compose! {
    fn entry()(addr in any::<u64>(), length in any::<u32>()) -> MemEntry {
        MemEntry { addr: U64::new(addr), length: U32::new(length), padding: U32::ZERO }
    }
}

/// The parts of a request that it borrows, and a selector.
type Parts = (Vec<u8>, Vec<MemEntry>, usize, u32, u64, u64);

fn parts() -> impl Strategy<Value = Parts> {
    let bytes = prop::collection::vec(any::<u8>(), 0..100);
    let entries = prop::collection::vec(entry(), 0..20);
    (bytes, entries, 0_usize..11, any::<u32>(), any::<u64>(), any::<u64>())
}

fn command((bytes, entries, which, id, wide, size): &Parts) -> Command<'_> {
    let (id, wide) = (*id, *wide);
    let name = &bytes[..bytes.len().min(64)];
    [
        Command::ResourceUnref { resource_id: id },
        Command::GetCapsetInfo { index: id },
        Command::GetCapset { id, version: id ^ 1 },
        Command::ResourceCreateBlob(CreateBlob {
            resource_id: id,
            mem: BlobMem(1 + id % 3),
            flags: BlobFlags(id & 7),
            blob_id: wide,
            size: *size,
            entries,
        }),
        Command::CtxCreate(CreateContext { capset_id: id & 0xff, debug_name: name }),
        Command::CtxDestroy,
        Command::CtxAttachResource { resource_id: id },
        Command::CtxDetachResource { resource_id: id },
        Command::Submit3d { bytes },
        Command::ResourceMapBlob { resource_id: id, offset: wide },
        Command::ResourceUnmapBlob { resource_id: id },
    ][*which]
}

proptest! {
    #[test]
    fn every_request_survives_the_wire(
        parts in parts(),
        fence in any::<Option<u64>>(),
        ring in prop::option::of(0_u8..64),
        ctx_id in any::<u32>(),
    ) {
        let command = command(&parts);
        let request = Request { header: Header { fence, ring, ctx_id }, command };
        let bytes = request.encode();
        prop_assert_eq!(Request::decode(&bytes), Ok(request));
        // No prefix of it is another request.
        for len in 0..bytes.len() {
            prop_assert!(Request::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn a_changed_byte_gives_a_request_or_an_error(parts in parts(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let command = command(&parts);
        let header = Header { fence: Some(1), ring: Some(2), ctx_id: 3 };
        let mut bytes = Request { header, command }.encode();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(request) = Request::decode(&bytes) {
            // What was understood is said again with the same meaning.
            let again = request.encode();
            prop_assert_eq!(Request::decode(&again), Ok(request));
        }
    }

    #[test]
    fn random_bytes_give_a_request_or_an_error(
        id in prop::sample::select(CommandId::NAMES),
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Some(field) = bytes.get_mut(..4) {
            field.copy_from_slice(&u32::try_from(id.1).expect("32 bits").to_le_bytes());
        }
        if let Some(flags) = bytes.get_mut(4..8) {
            flags.copy_from_slice(&[1, 0, 0, 0]);
        }
        match Request::decode(&bytes) {
            Ok(request) => prop_assert!(request.encode().len() == bytes.len()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
