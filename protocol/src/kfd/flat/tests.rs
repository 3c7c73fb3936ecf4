use std::sync::Mutex;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Errno;
use crate::kfd::ioctl::{Family, Op};
use crate::kfd::user_mem::Shared;

/// A program's memory: one range, whose first `read_only` bytes cannot be written.
struct Program {
    base: u64,
    bytes: Mutex<Vec<u8>>,
    read_only: u64,
}

impl Program {
    fn new(base: u64, bytes: Vec<u8>) -> Program {
        Program { base, bytes: Mutex::new(bytes), read_only: 0 }
    }

    fn slice(&self, addr: u64, len: usize) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(addr.checked_sub(self.base)?).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.bytes.lock().unwrap().len()).then_some(start..end)
    }
}

impl UserMem for Program {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let slice = self.slice(addr, buf.len()).ok_or(Fault { addr, len: buf.len() as u64 })?;
        buf.copy_from_slice(&self.bytes.lock().unwrap()[slice]);
        Ok(())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        let fault = Fault { addr, len: buf.len() as u64 };
        let slice = self.slice(addr, buf.len()).ok_or(fault)?;
        if addr < self.base + self.read_only {
            return Err(fault);
        }
        self.bytes.lock().unwrap()[slice].copy_from_slice(buf);
        Ok(())
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// WAIT_EVENTS' arguments: address and number of the events.
fn wait_events(addr: u64, count: u32) -> Vec<u8> {
    let mut args = vec![0; 24];
    args[..8].copy_from_slice(&addr.to_le_bytes());
    args[8..12].copy_from_slice(&count.to_le_bytes());
    args
}

/// Over the wire and back.
fn travelled(call: &FlatCall) -> FlatCall {
    FlatCall::decode(&call.encode()).expect("what was encoded can be decoded")
}

#[test]
fn the_device_reads_what_the_program_passes() {
    let program = Program::new(0x1000, (0..=255).cycle().take(4096).collect());
    let call = travelled(&FlatCall::collect(Ioctl::WaitEvents, &wait_events(0x1010, 2), &program));
    let mem = FlatMem::new(call);
    let mut buf = [0; 48];
    mem.read(0x1010 + 48, &mut buf).unwrap();
    assert_eq!(buf[0], 0x10 + 48);
    // One byte before, one byte behind, and all of it with one byte more.
    assert!(mem.read(0x100f, &mut buf).is_err());
    assert!(mem.read(0x1011 + 48, &mut buf).is_err());
    assert!(mem.read(0x1010, &mut [0; 97]).is_err());
    assert!(mem.read(0x1010, &mut []).is_ok());
}

#[test]
fn what_the_device_writes_arrives_and_nothing_else_changes() {
    let program = Program::new(0x1000, vec![0xee; 4096]);
    let call = FlatCall::collect(Ioctl::WaitEvents, &wait_events(0x1010, 2), &program);
    let mem = FlatMem::new(travelled(&call));
    mem.write(0x1010, &[1, 2, 3]).unwrap();
    mem.write(0x1013, &[4]).unwrap();
    mem.write(0x1010 + 95, &[5]).unwrap();
    assert!(mem.write(0x1010 + 95, &[5, 6]).is_err());
    // It reads back what it wrote.
    let mut buf = [0; 5];
    mem.read(0x1010, &mut buf).unwrap();
    assert_eq!(buf, [1, 2, 3, 4, 0xee]);

    let writes = FlatWrites::decode(&mem.into_writes().encode()).unwrap();
    assert_eq!(writes.list.len(), 2, "neighbours are one write");
    call.apply(&writes, &program).unwrap();
    let bytes = program.bytes.lock().unwrap();
    assert_eq!(bytes[0x0f..0x15], [0xee, 1, 2, 3, 4, 0xee]);
    assert_eq!(bytes[0x10 + 94..0x10 + 97], [0xee, 5, 0xee]);
}

#[test]
fn unreadable_memory_faults_when_it_is_touched_and_not_before() {
    // Two pages of memory; an event straddles their end.
    let program = Program::new(0x1000, vec![7; 8192]);
    let addr = 0x3000 - 100;
    let call = FlatCall::collect(Ioctl::WaitEvents, &wait_events(addr, 1000), &program);
    let mem = FlatMem::new(travelled(&call));
    assert!(mem.read(addr, &mut [0; 48]).is_ok());
    assert!(mem.read(addr + 48, &mut [0; 48]).is_ok());
    assert_eq!(mem.read(addr + 96, &mut [0; 48]), Err(Fault { addr: addr + 96, len: 48 }));
    assert!(mem.into_writes().is_empty());

    let null = FlatCall::collect(Ioctl::WaitEvents, &wait_events(0, 1), &program);
    assert!(FlatMem::new(travelled(&null)).read(0, &mut [0; 48]).is_err());
    let wraps = FlatCall::collect(Ioctl::WaitEvents, &wait_events(u64::MAX - 10, 3), &program);
    assert!(FlatMem::new(travelled(&wraps)).read(u64::MAX - 10, &mut [0; 48]).is_err());
}

#[test]
fn a_count_above_the_kernels_limit_gathers_nothing() {
    let program = Program::new(0x1000, vec![0; 4096]);
    let call = FlatCall::collect(Ioctl::WaitEvents, &wait_events(0x1000, u32::MAX), &program);
    assert_eq!(call, FlatCall::default());
}

#[test]
fn read_only_memory_faults_when_the_writes_are_applied() {
    let mut program = Program::new(0x1000, vec![0; 8192]);
    program.read_only = 4096;
    let call = FlatCall::collect(Ioctl::WaitEvents, &wait_events(0x1100, 1), &program);
    let mem = FlatMem::new(call.clone());
    mem.write(0x1100, &[1]).unwrap();
    let fault = Fault { addr: 0x1100, len: 1 };
    assert_eq!(call.apply(&mem.into_writes(), &program), Err(ApplyError::Fault(fault)));
}

#[test]
fn a_device_cannot_write_where_the_call_declares_nothing() {
    let program = Program::new(0x1000, vec![0; 4096]);
    // MAP_MEMORY_TO_GPU reads its array and writes nothing.
    let mut args = vec![0; 24];
    args[8..16].copy_from_slice(&0x1000_u64.to_le_bytes());
    args[16] = 2;
    let call = FlatCall::collect(Ioctl::MapMemoryToGpu, &args, &program);
    assert!(FlatMem::new(call.clone()).write(0x1000, &[1]).is_err());
    let hostile = FlatWrites { list: vec![(0x1000, vec![1])] };
    assert_eq!(call.apply(&hostile, &program), Err(ApplyError::Undeclared { addr: 0x1000, len: 1 }));
    // Out of an output range by one byte.
    let call = FlatCall::collect(Ioctl::WaitEvents, &wait_events(0x1000, 1), &program);
    let hostile = FlatWrites { list: vec![(0x1000, vec![1; 49])] };
    assert_eq!(call.apply(&hostile, &program), Err(ApplyError::Undeclared { addr: 0x1000, len: 49 }));
    assert_eq!(*program.bytes.lock().unwrap(), vec![0; 4096]);
}

#[test]
fn writes_to_neighbouring_ranges_stay_apart() {
    let program = Program::new(0x1000, vec![0; 4096]);
    // CRIU checkpoint: one device bucket at 0x1000, one buffer bucket right behind it, private data elsewhere.
    let mut args = vec![0; 56];
    args[..8].copy_from_slice(&0x1000_u64.to_le_bytes());
    args[8..16].copy_from_slice(&0x1010_u64.to_le_bytes());
    args[32] = 1;
    args[36] = 1;
    args[48] = 1;
    let call = FlatCall::collect(Ioctl::CriuOp, &args, &program);
    let mem = FlatMem::new(call.clone());
    mem.write(0x1000, &[1; 16]).unwrap();
    mem.write(0x1010, &[2; 48]).unwrap();
    let writes = mem.into_writes();
    assert_eq!(writes.list.len(), 2);
    assert_eq!(call.apply(&writes, &program), Ok(()));
    assert_eq!(program.bytes.lock().unwrap()[15..17], [1, 2]);
}

#[test]
fn output_memory_is_not_gathered_and_cannot_be_read() {
    let program = Program::new(0x1000, vec![9; 4096]);
    let mut args = vec![0; 16];
    args[..8].copy_from_slice(&0x1000_u64.to_le_bytes());
    args[8] = 3;
    let call = FlatCall::collect(Ioctl::GetProcessAperturesNew, &args, &program);
    assert_eq!(call.encode().len(), 4 + 25);
    let mem = FlatMem::new(travelled(&call));
    assert!(mem.read(0x1000, &mut [0; 8]).is_err());
    assert!(mem.write(0x1000 + 2 * 56, &[0; 56]).is_ok());
    assert!(mem.write(0x1000 + 3 * 56, &[0]).is_err());
}

#[test]
fn descriptors_are_found_in_arguments_and_in_arrays() {
    let program = Program::new(0x1000, [1, 2, 30, 0, 4, 5, 60, 0_u32].map(u32::to_le_bytes).concat());
    let acquire = [40_u32.to_le_bytes(), [0; 4]].concat();
    let call = FlatCall::collect(Ioctl::AcquireVm, &acquire, &program);
    assert_eq!(call.descriptors(Ioctl::AcquireVm, &acquire), [40]);
    // CRIU restore: two device buckets of 16 bytes, the descriptor at 8.
    let mut args = vec![0; 56];
    args[..8].copy_from_slice(&0x1000_u64.to_le_bytes());
    args[32] = 2;
    args[48] = 3;
    let call = FlatCall::collect(Ioctl::CriuOp, &args, &program);
    assert_eq!(call.descriptors(Ioctl::CriuOp, &args), [30, 60]);
    assert_eq!(call.descriptors(Ioctl::GetVersion, &[]), []);
}

#[test]
fn no_call_has_more_ranges_than_the_format_allows() {
    fn most(ops: &[Op]) -> usize {
        let of = |op: &Op| op.reach.pointers.len() + op.ops.map_or(0, |ops| most(ops.list));
        ops.iter().map(of).max().unwrap_or(0)
    }
    for ioctl in Ioctl::ALL {
        let decl = ioctl.decl();
        let pointers = decl.reach.pointers.len() + decl.ops.map_or(0, |ops| most(ops.list));
        assert!(pointers <= MAX_RANGES, "{ioctl:?}");
    }
}

#[test]
fn malformed_messages_say_what_is_wrong() {
    assert_eq!(FlatCall::decode(&[]), Err(DecodeError::Truncated { have: 0, need: 4 }));
    assert_eq!(FlatCall::decode(&[0, 0, 0, 0, 1]), Err(DecodeError::Trailing(1)));
    assert_eq!(FlatCall::decode(&[9, 0, 0, 0]), Err(DecodeError::TooManyRanges(9)));
    let mut range = vec![1, 0, 0, 0];
    range.extend([0; 16]);
    range.push(7);
    assert_eq!(FlatCall::decode(&range), Err(DecodeError::BadFlow(7)));
    range[20] = 0;
    range.extend(1_u64.to_le_bytes());
    assert_eq!(FlatCall::decode(&range), Err(DecodeError::TooMuchData { got: 1, room: 0 }));
    assert_eq!(FlatWrites::decode(&[0; 16]), Err(DecodeError::EmptyWrite));
    let huge = [[0; 8], u64::MAX.to_le_bytes()].concat();
    assert_eq!(FlatWrites::decode(&huge), Err(DecodeError::Truncated { have: 0, need: u64::MAX }));
}

fn any_ioctl() -> impl Strategy<Value = Ioctl> {
    proptest::sample::select(Ioctl::ALL)
}

/// Argument bytes with small words, so that counts and operations are often plausible and addresses often hit.
fn any_args() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![0..20_u32, 0x1000..0x3000_u32, any::<u32>()];
    vec(word, 0..24).prop_map(|words| words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Bytes on the heap that a decoded call keeps.
fn heap(call: &FlatCall) -> usize {
    let data: usize = call.ranges.iter().map(|range| range.data.capacity()).sum();
    data + call.ranges.capacity() * size_of::<Range>()
}

proptest! {
    #[test]
    fn any_call_survives_the_wire(ioctl in any_ioctl(), args in any_args(), memory in vec(any::<u8>(), 0..9000)) {
        let program = Program::new(0x1000, memory);
        let call = FlatCall::collect(ioctl, &args, &program);
        prop_assert_eq!(travelled(&call), call.clone());
        // Nothing is gathered that the program's memory does not have.
        let room = program.bytes.lock().unwrap().len();
        prop_assert!(call.ranges.iter().all(|range| range.data.len() <= room));
        let _ = call.descriptors(ioctl, &args);
        prop_assert!(ioctl.decl().kernels.includes(Family::Mainline) || ioctl.decl().kernels.includes(Family::Rocm));
    }

    #[test]
    fn random_bytes_never_panic_nor_cost_more_than_they_weigh(bytes in vec(any::<u8>(), 0..400)) {
        if let Ok(call) = FlatCall::decode(&bytes) {
            prop_assert_eq!(call.encode(), bytes.clone());
            prop_assert!(heap(&call) <= 4 * bytes.len() + 4 * size_of::<Range>());
        }
        if let Ok(writes) = FlatWrites::decode(&bytes) {
            prop_assert_eq!(writes.encode(), bytes);
        }
    }

    #[test]
    fn a_flipped_byte_is_refused_or_another_valid_call(
        args in any_args(), ioctl in any_ioctl(), at in any::<proptest::sample::Index>(), to in any::<u8>(),
    ) {
        let program = Program::new(0x1000, vec![0x11; 8192]);
        let mut bytes = FlatCall::collect(ioctl, &args, &program).encode();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(call) = FlatCall::decode(&bytes) {
            prop_assert!(heap(&call) <= 4 * bytes.len() + 4 * size_of::<Range>());
            prop_assert_eq!(call.encode(), bytes);
        }
    }

    #[test]
    fn accesses_of_any_kind_never_panic(
        args in any_args(), ioctl in any_ioctl(), accesses in vec((any::<bool>(), any::<u64>(), 0..200_usize), 0..20),
    ) {
        let program = Program::new(0x1000, vec![0x11; 8192]);
        let call = FlatCall::collect(ioctl, &args, &program);
        let mem = FlatMem::new(call.clone());
        for (write, addr, len) in accesses {
            let addr = if addr % 2 == 0 { addr } else { 0x1000 + addr % 0x2000 };
            let mut buf = vec![0; len];
            let _ = if write { mem.write(addr, &buf) } else { mem.read(addr, &mut buf) };
        }
        // What the device was allowed to write is what the program's side allows.
        let applied = call.apply(&mem.into_writes(), &program);
        let declared = !matches!(applied, Err(ApplyError::Undeclared { .. }));
        prop_assert!(declared);
    }
}
