//! The window under requests in any order, and under messages that are damaged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::virtio_gpu::{Command, CreateBlob, Header, Request, ResponseId};

use crate::support::contexts::Probe;
use crate::support::shmem::{Asked, Shmem};
use crate::support::{Vm, context, response_id};
use crate::window::{BLOB, WINDOW, map, peek, poke, start};

const PAGE: u64 = 0x1000;

/// What a guest may send, in any order.
#[derive(Clone, Copy, Debug)]
enum Op {
    Context {
        ctx: u32,
    },
    End {
        ctx: u32,
    },
    Create {
        ctx: u32,
        id: u32,
        pages: u64,
        blob_id: u64,
    },
    Map {
        id: u32,
        at: u64,
    },
    Unmap {
        id: u32,
    },
    Attach {
        ctx: u32,
        id: u32,
    },
    Detach {
        ctx: u32,
        id: u32,
    },
    Unref {
        id: u32,
    },
    /// The guest's kernel writes into the window, wherever it likes.
    Write {
        page: u64,
    },
}

/// Places: some that overlap, the end of the window, and some that are none.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0..8_u64).prop_map(|page| page * PAGE),
        1 => (0..4_u64).prop_map(|page| WINDOW - page * PAGE),
        1 => any::<u64>(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    // Of three contexts one is not there mostly; most requests concern what is there.
    let (ctx, id) = (|| prop_oneof![5 => 1..3_u32, 1 => Just(3)], || 1..5_u32);
    prop_oneof![
        4 => ctx().prop_map(|ctx| Op::Context { ctx }),
        1 => ctx().prop_map(|ctx| Op::End { ctx }),
        12 => (ctx(), id(), 0..5_u64, prop_oneof![9 => Just(BLOB.blob_id), 1 => any::<u64>()])
            .prop_map(|(ctx, id, pages, blob_id)| Op::Create { ctx, id, pages, blob_id }),
        16 => (id(), place()).prop_map(|(id, at)| Op::Map { id, at }),
        3 => id().prop_map(|id| Op::Unmap { id }),
        6 => (ctx(), id()).prop_map(|(ctx, id)| Op::Attach { ctx, id }),
        2 => (ctx(), id()).prop_map(|(ctx, id)| Op::Detach { ctx, id }),
        3 => id().prop_map(|id| Op::Unref { id }),
        4 => (0..12_u64).prop_map(|page| Op::Write { page }),
    ]
}

impl Op {
    fn request(self) -> Option<(u32, Command<'static>)> {
        Some(match self {
            Op::Context { ctx } => (ctx, context()),
            Op::End { ctx } => (ctx, Command::CtxDestroy),
            Op::Create { ctx, id, pages, blob_id } => {
                let blob = CreateBlob { resource_id: id, size: pages * PAGE, blob_id, ..BLOB };
                (ctx, Command::ResourceCreateBlob(blob))
            }
            Op::Map { id, at } => (0, map(id, at)),
            Op::Unmap { id } => (0, Command::ResourceUnmapBlob { resource_id: id }),
            Op::Attach { ctx, id } => (ctx, Command::CtxAttachResource { resource_id: id }),
            Op::Detach { ctx, id } => (ctx, Command::CtxDetachResource { resource_id: id }),
            Op::Unref { id } => (0, Command::ResourceUnref { resource_id: id }),
            Op::Write { .. } => return None,
        })
    }
}

/// What the answers say of the window.
#[derive(Default)]
struct Model {
    sizes: BTreeMap<u32, u64>,
    /// First byte of each blob that has a place.
    places: BTreeMap<u32, u64>,
}

impl Model {
    fn learn(&mut self, op: Op, answer: ResponseId, shmem: &Shmem) -> Result<(), TestCaseError> {
        let ok = answer == ResponseId::OK_NODATA;
        match op {
            Op::Create { id, pages, .. } if ok => {
                prop_assert!(pages > 0 && self.sizes.insert(id, pages * PAGE).is_none(), "{:?}", op);
            }
            Op::Map { id, at } if answer == ResponseId::OK_MAP_INFO => {
                let size = self.sizes.get(&id).copied().unwrap_or(0);
                prop_assert!(size > 0 && at.is_multiple_of(PAGE) && at <= WINDOW - size, "{:?}", op);
                // Mapped again it is where it was; else where nothing is, and what was there is not seen.
                match self.places.insert(id, at) {
                    Some(before) => prop_assert_eq!(before, at),
                    None => {
                        let others = self.places.iter().filter(|(other, _)| **other != id);
                        for (other, start) in others {
                            prop_assert!(*start >= at + size || start + self.sizes[other] <= at, "{:?}", op);
                        }
                        for page in (at..at + size).step_by(PAGE as usize) {
                            prop_assert_eq!(peek(shmem, page), [0; 4]);
                        }
                    }
                }
            }
            Op::Unref { id } if ok => {
                prop_assert!(self.sizes.remove(&id).is_some());
                self.places.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }

    fn taken(&self) -> (usize, u64) {
        (self.places.len(), self.places.keys().map(|id| self.sizes[id]).sum())
    }
}

fn taken(vm: &Vm) -> (usize, u64) {
    vm.device.window().expect("a window").taken()
}

/// The VMM was asked to map what was not mapped, and to unmap what was.
fn in_turns(shmem: &Shmem) -> bool {
    let seen = shmem.seen();
    seen.asked.iter().zip([Asked::Map, Asked::Unmap].iter().cycle()).all(|(asked, turn)| asked == turn)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_requests_is_answered_and_no_two_blobs_share_a_place(ops in prop::collection::vec(op(), 1..150)) {
        let (mut vm, shmem) = start(&Probe::default());
        vm.create_context(2);
        let mut model = Model::default();
        for op in ops {
            if let Some((ctx, command)) = op.request() {
                let answer = response_id(&vm.request(ctx, command));
                model.learn(op, answer, &shmem)?;
                prop_assert_eq!(taken(&vm), model.taken(), "after {:?}", op);
            } else if let Op::Write { page } = op
                && shmem.seen().arena.is_some()
            {
                poke(&shmem, page * PAGE, b"left");
            }
        }
        prop_assert!(in_turns(&shmem));
        vm.assert_alive();
        for id in model.sizes.into_keys() {
            vm.ok(0, Command::ResourceUnref { resource_id: id });
        }
        prop_assert_eq!((vm.device.ledger().in_use(), taken(&vm)), ((0, 0), (0, 0)));
        prop_assert!(in_turns(&shmem));
        let asked = shmem.seen().asked.len();
        prop_assert!(asked.is_multiple_of(2), "nothing is mapped at the end");
    }

    /// Nothing is known of what such messages do, but that each is answered, and that the device goes on.
    #[test]
    fn damaged_messages_are_answered(
        ops in prop::collection::vec((op(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..60),
    ) {
        let (mut vm, shmem) = start(&Probe::default());
        for (op, at, byte, cut) in ops {
            let Some((ctx_id, command)) = op.request() else { continue };
            let mut bytes = Request { header: Header { ctx_id, ..Header::default() }, command }.encode();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at.max(1)) } else { bytes[at] = byte }
            let answer = response_id(&vm.raw(&bytes));
            prop_assert!((0x1100..0x1300).contains(&answer.0), "{:?} to {:x?}", answer, bytes);
        }
        vm.assert_alive();
        prop_assert!(in_turns(&shmem));
    }
}
