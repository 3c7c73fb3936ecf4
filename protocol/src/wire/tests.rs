use proptest::collection::vec;
use proptest::prelude::*;

use super::command::{MAX_DESCRIPTORS, MAX_RANGES};
use super::structs::{Descriptor, HelloAnswer, Range};
use super::*;
use crate::kfd::topology::Tree;
use crate::kfd::{FileId, Node, Transfer};

fn range(base: u64, len: u64) -> Range {
    Range { base: base.into(), len: len.into() }
}

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(&mut out);
    out
}

fn answered(answer: &Answer<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    answer.encode(&mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One of each, with bytes that were written by hand from the layout in `structs.rs`.
#[test]
fn golden_bytes() {
    let ranges = [range(1 << 42, 1 << 40)];
    let descriptors = [Descriptor { number: (-1).into(), file: 9.into(), ..Default::default() }];
    let call = IoctlCall {
        file: FileId(2),
        request: 0x8008_4b01,
        args: &[0xaa; 3],
        memory: &[0xbb; 2],
        descriptors: &descriptors,
    };
    let table: &[(Request<'_>, &str)] = &[
        (
            Request::Hello { versions: (1, 2), features: 3, page_size: 4096, ranges: &ranges },
            "01000000020000000300000000000000001000000100000000000000000000000000000000040000\
             0000000000010000",
        ),
        (Request::Topology { offset: 0x1234 }, "3412000000000000"),
        (Request::Open(Node::Kfd), "0000000000000000"),
        (Request::Open(Node::Render(128)), "0100000080000000"),
        (Request::Close(FileId(7)), "0700000000000000"),
        (Request::Transfer { file: FileId(2), request: 0x8008_4b01 }, "0200000000000000014b088000000000"),
        (
            Request::Ioctl(call),
            "0200000000000000014b0880030000000200000001000000aaaaaabbbbffffffff000000000900000000000000",
        ),
        (
            Request::Alias { resource: 5, offset: 0x2000, addresses: range(0x4000_0000, 0x1000) },
            "050000000000000000200000000000000000004000000000 0010000000000000",
        ),
        (Request::Unalias { addresses: range(0x4000_0000, 0x1000) }, "00000040000000000010000000000000"),
        (
            Request::Doorbells { file: FileId(2), place: range(1 << 62, 0x2000), resource: 6 },
            "0200000000000000000000000000004000200000000000000600000000000000",
        ),
        (Request::Cancel { slot: 258 }, "0201000000000000"),
        (Request::AddSlots { resource: 8 }, "0800000000000000"),
        (
            Request::Place { file: FileId(3), place: range(0x5000, 0x2000), resource: 9 },
            "0300000000000000005000000000000000200000000000000900000000000000",
        ),
    ];
    for (request, bytes) in table {
        assert_eq!(hex(&encoded(request)), bytes.replace(' ', ""), "{}", request.command().name());
    }
    assert!(
        Command::ALL.iter().all(|command| table.iter().any(|(request, _)| request.command() == *command))
    );
}

#[test]
fn golden_bytes_of_answers_and_submissions() {
    let hello = HelloAnswer {
        version: 1.into(),
        addresses: range(1 << 42, 1 << 40),
        memory_limit: 0x1_0000.into(),
        alias_limit: 2.into(),
        wait_limit: 3.into(),
        features: feature::WINDOW.into(),
        window_blob: 4.into(),
        ..Default::default()
    };
    let table: &[(Answer<'_>, &str)] = &[
        (Answer::Nothing, ""),
        (
            Answer::Hello(hello),
            "010000000000000001000000000000000000000000040000000000000001000000000100000000000200000003000000\
             0400000000000000",
        ),
        (Answer::Topology { total: 300, part: b"ab" }, "2c010000000000006162"),
        (Answer::Open(FileId(1)), "0100000000000000"),
        (Answer::Transfer(Transfer { size: 16, from_user: false, to_user: true }), "1000000002000000"),
        (
            Answer::Ioctl(IoctlAnswer { result: -22, args: &[1], writes: &[2, 3] }),
            "eaffffff010000000200000000000000010203",
        ),
    ];
    for (answer, bytes) in table {
        assert_eq!(hex(&answered(answer)), bytes.replace(' ', ""), "{answer:?}");
    }
    assert_eq!(hex(&Submission::Setup { resource: 3 }.encode()), "0100000003000000");
    assert_eq!(hex(&Submission::Kick.encode()), "0200000000000000");
    assert_eq!(hex(&Submission::Wake { seen: u32::MAX }.encode()), "03000000ffffffff");
}

#[test]
fn numbers_and_names_of_commands_are_unique() {
    for (index, command) in Command::ALL.iter().enumerate() {
        assert_eq!(command.id() as usize, index + 1, "numbers are given in order, and never again");
        assert_eq!(Command::from_id(command.id()), Some(*command));
        assert!(Command::ALL.iter().all(|other| other == command || other.name() != command.name()));
    }
    assert_eq!(Command::from_id(0), None);
    assert_eq!(Request::decode(999, &[]), Err(DecodeError::Unknown(999)));
}

#[test]
fn what_is_reserved_must_be_zero() {
    for command in Command::ALL {
        let [(_, len), _] = command.structs();
        let ones = vec![0xff; len];
        let decoded = Request::decode(command.id(), &ones);
        let free = matches!(command, Command::Topology | Command::Close | Command::Unalias);
        assert_eq!(decoded.is_ok(), free, "{}: {decoded:?}", command.name());
    }
    assert_eq!(Submission::decode(&[2, 0, 0, 0, 1, 0, 0, 0]), Err(DecodeError::Reserved("EXECBUFFER")));
    assert!(Submission::decode(&[4, 0, 0, 0, 0, 0, 0, 0]).is_err());
    assert!(Submission::decode(&[1, 0, 0, 0, 0, 0, 0]).is_err());
}

#[test]
fn counts_are_limited() {
    let hello = |ranges: u32| {
        let many = vec![range(0, 0); ranges as usize];
        encoded(&Request::Hello { versions: (1, 1), features: 0, page_size: 4096, ranges: &many })
    };
    assert!(Request::decode(1, &hello(MAX_RANGES)).is_ok());
    assert!(Request::decode(1, &hello(MAX_RANGES + 1)).is_err());
    let ioctl = |count: u32| {
        let descriptors = vec![Descriptor::default(); count as usize];
        let call =
            IoctlCall { file: FileId(0), request: 0, args: &[], memory: &[], descriptors: &descriptors };
        encoded(&Request::Ioctl(call))
    };
    assert!(Request::decode(6, &ioctl(MAX_DESCRIPTORS)).is_ok());
    assert!(Request::decode(6, &ioctl(MAX_DESCRIPTORS + 1)).is_err());
}

#[test]
fn slots_do_not_overlap_and_lie_in_their_areas() {
    assert_eq!(area::slot_place(0), Some((0, area::QUEUE_END)));
    assert_eq!(area::slot_place(area::SLOTS - 1), Some((0, area::AREA_BYTES - area::SLOT_BYTES)));
    assert_eq!(area::slot_place(area::SLOTS), Some((1, 0)));
    assert_eq!(area::slot_place(area::QUEUE_LEN), None);
    assert_eq!(area::slot_place(u32::MAX), None);
    assert_eq!(area::queue_place(u32::MAX), area::QUEUE_END - 4);
    assert_eq!(area::queue_place(0), area::WORDS_BYTES);
}

fn tree() -> impl Strategy<Value = Tree> {
    let path = "[a-z0-9_]{1,8}(/[a-z0-9_]{1,8}){0,3}";
    let files = proptest::collection::btree_map(path, vec(any::<u8>(), 0..50), 0..10);
    let denied = proptest::collection::btree_set(path, 0..3);
    (files, denied).prop_map(|(files, denied)| {
        let files = files.into_iter().filter(|(path, _)| !denied.contains(path)).collect();
        Tree { files, denied }
    })
}

#[test]
fn paths_of_a_tree_stay_below_it() {
    for bad in ["", "/a", "a/", "a//b", "../a", "a/./b", "a b", &"a".repeat(300)] {
        let mut bytes = (bad.len() as u32).to_le_bytes().to_vec();
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(bad.as_bytes());
        assert_eq!(tree::decode(&bytes), Err(tree::TreeError::Path(0)), "{bad:?}");
        let tree = Tree { files: [(bad.to_owned(), vec![1])].into(), ..Tree::default() };
        assert_eq!(tree::encode(&tree), [], "{bad:?}");
    }
}

proptest! {
    #[test]
    fn decoding_is_total_and_the_inverse_of_encoding(id in 0_u32..14, bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(request) = Request::decode(id, &bytes) {
            prop_assert_eq!(encoded(&request), bytes.clone());
            prop_assert_eq!(request.command().id(), id);
        }
        if let Some(command) = Command::from_id(id)
            && let Ok(answer) = Answer::decode(command, &bytes)
        {
            prop_assert_eq!(answered(&answer), bytes.clone());
        }
        if let Ok(submission) = Submission::decode(&bytes) {
            let again = submission.encode();
            prop_assert_eq!(again.as_slice(), bytes.as_slice());
        }
        if let Ok(tree) = tree::decode(&bytes) {
            prop_assert_eq!(tree::encode(&tree), bytes);
        }
    }

    #[test]
    fn an_ioctl_survives_the_way(
        file: u64,
        request: u32,
        args in vec(any::<u8>(), 0..100),
        memory in vec(any::<u8>(), 0..100),
        files in vec(any::<(i32, u64)>(), 0..5),
    ) {
        let of = |(number, file): (i32, u64)| {
            Descriptor { number: number.into(), file: file.into(), ..Default::default() }
        };
        let descriptors: Vec<_> = files.into_iter().map(of).collect();
        let call = IoctlCall {
            file: FileId(file),
            request,
            args: &args,
            memory: &memory,
            descriptors: &descriptors,
        };
        let bytes = encoded(&Request::Ioctl(call));
        prop_assert_eq!(Request::decode(Command::Ioctl.id(), &bytes), Ok(Request::Ioctl(call)));
        for short in 0..bytes.len() {
            prop_assert!(Request::decode(Command::Ioctl.id(), &bytes[..short]).is_err());
        }
    }

    #[test]
    fn a_tree_survives_the_way(tree in tree()) {
        prop_assert_eq!(tree::decode(&tree::encode(&tree)), Ok(tree));
    }
}
