//! A hostile guest: whatever it puts into the queue, the device answers or gives the chain back, and goes on.

use crate::support::contexts::{NoWorkers, Probe};
use crate::support::queue::{INDIRECT, NEXT, WRITE};
use crate::support::{BLOBS, LONG, RAM, Setup, Vm, context, entry, guest_blob, hex, response_id, wait_for};
use protocol::virtio_gpu::structs::MemEntry;
use protocol::virtio_gpu::{Command, CommandId, Header, Request, ResponseId};
use vhost::VhostBackend;
use vhost_device_kfd::device::REQUEST;

fn vm() -> Vm {
    Setup::new(Probe::default()).start()
}

/// A header of 24 bytes with this command and context.
fn header(command: &str, ctx_id: &str) -> String {
    format!("{command}{}{ctx_id}00000000", "00".repeat(12))
}

/// Offers what stands at `head`, and waits until it comes back with nothing written.
fn comes_back(vm: &mut Vm, head: u16, what: &str) {
    vm.control.offer(head);
    assert!(vm.control.wait(head).is_empty(), "{what}");
    vm.assert_alive();
}

#[test]
fn malformed_chains_come_back_with_nothing_written() {
    // Case H05.
    let mut vm = vm();
    let head = vm.control.head();
    let (request, response) = vm.control.buffers(head);
    let good = Request { header: Header::default(), command: Command::GetCapsetInfo { index: 0 } }.encode();
    vm.poke(request, &good);
    let len = u32::try_from(good.len()).expect("short");
    let q = |vm: &Vm, index: u16, addr, len, flags, next| vm.control.describe(index, addr, len, flags, next);

    q(&vm, head, request, len, 0, 0);
    comes_back(&mut vm, head, "no writable part");
    let head = vm.control.head();
    q(&vm, head, request, len, NEXT, head);
    comes_back(&mut vm, head, "a descriptor that is its own successor");
    let head = vm.control.head();
    q(&vm, head, request, len, NEXT, 65535);
    comes_back(&mut vm, head, "a successor that does not exist");
    let head = vm.control.head();
    q(&vm, head, request, len, NEXT, head + 1);
    q(&vm, head + 1, response, 64, WRITE | NEXT, 65535);
    comes_back(&mut vm, head, "a good request with a successor that does not exist");
    for addr in [RAM, u64::MAX, u64::MAX - 8, RAM - 8, 1 << 63] {
        let head = vm.control.head();
        q(&vm, head, addr, len, NEXT, head + 1);
        q(&vm, head + 1, response, 64, WRITE, 0);
        comes_back(&mut vm, head, "a request outside memory");
        let head = vm.control.head();
        q(&vm, head, request, len, NEXT, head + 1);
        q(&vm, head + 1, addr, 64, WRITE, 0);
        comes_back(&mut vm, head, "a response outside memory");
    }
    for room in [0, 1, 23] {
        let head = vm.control.head();
        q(&vm, head, request, len, NEXT, head + 1);
        q(&vm, head + 1, response, room, WRITE, 0);
        comes_back(&mut vm, head, "no room for a header");
    }
    let head = vm.control.head();
    q(&vm, head, response, 64, WRITE | NEXT, head + 1);
    q(&vm, head + 1, request, len, 0, 0);
    comes_back(&mut vm, head, "the request after the response");
    let head = vm.control.head();
    q(&vm, head, request, u32::MAX, NEXT, head + 1);
    q(&vm, head + 1, response, 64, WRITE, 0);
    comes_back(&mut vm, head, "4 GiB");
}

#[test]
fn malformed_indirect_tables_come_back_with_nothing_written() {
    // Case H05.
    let mut vm = vm();
    let table = LONG;
    for (len, what) in
        [(0, "no entries"), (8, "half an entry"), (1 << 20, "65536 entries"), (!15, "a table of 4 GiB")]
    {
        let head = vm.control.head();
        vm.control.describe(head, table, len, INDIRECT, 0);
        comes_back(&mut vm, head, what);
    }
    // A table in a table.
    let head = vm.control.head();
    vm.control.describe_at(table, 0, table, 16, INDIRECT, 0);
    vm.control.describe(head, table, 16, INDIRECT, 0);
    comes_back(&mut vm, head, "nested tables");
    let head = vm.control.head();
    vm.control.describe(head, RAM + 4096, 32, INDIRECT, 0);
    comes_back(&mut vm, head, "a table outside memory");
    // The longest loop that a table can have.
    let head = vm.control.head();
    vm.control.describe_at(table, 0, table, 16, NEXT, 0);
    vm.control.describe(head, table, 65535 * 16, INDIRECT, 0);
    comes_back(&mut vm, head, "a loop in a table");
}

#[test]
fn a_response_is_split_and_cut_as_the_guest_has_room() {
    let mut vm = vm();
    // Case X01: a capset does not fit into 24 bytes.
    let request = Request { header: Header::default(), command: Command::GetCapset { id: 8, version: 1 } };
    let head = vm.control.send(&request.encode(), 24);
    let response = vm.control.wait(head);
    assert_eq!((response_id(&response), response.len()), (ResponseId::ERR_INVALID_PARAMETER, 24));
    // In pieces of 7 bytes it does.
    let head = vm.control.head();
    let (at, response) = vm.control.buffers(head);
    let bytes = request.encode();
    vm.poke(at, &bytes);
    vm.control.describe(head, LONG, 16 * 9, INDIRECT, 0);
    vm.control.describe_at(LONG, 0, at, u32::try_from(bytes.len()).expect("short"), NEXT, 1);
    for part in 1..9_u16 {
        let flags = if part == 8 { WRITE } else { WRITE | NEXT };
        vm.control.describe_at(LONG, part, response + u64::from(part - 1) * 7, 7, flags, part + 1);
    }
    vm.control.offer(head);
    let data = vm.control.wait(head);
    assert_eq!((response_id(&data), data.len()), (ResponseId::OK_CAPSET, 48));
    assert_eq!(&data[24..28], b"KFDV");
}

#[test]
fn requests_of_reported_faults_are_refused() {
    let mut vm = vm();
    let mut refused = |bytes: &str, expected| {
        let response = vm.raw(&hex(bytes));
        assert_eq!((response_id(&response), response.len()), (expected, 24), "{bytes}");
        assert_eq!(response[4..], [0; 20], "nothing else is told");
    };
    // Case X01, CVE-2021-3546.
    refused(&(header("09010000", "00000000") + "ffffffff00000000"), ResponseId::ERR_INVALID_PARAMETER);
    refused(&(header("09010000", "00000000") + "08000000ffffffff"), ResponseId::ERR_INVALID_PARAMETER);
    // Case X02, CVE-2021-3545.
    for _ in 0..1000 {
        refused(&(header("08010000", "00000000") + "ffffffff00000000"), ResponseId::ERR_INVALID_PARAMETER);
    }
    // Case X06, qemu-project/qemu work item 4112.
    let short = "0500000001000000010000000100000000000000000000000040000000000000\
                 00002000000000000100000000000000";
    refused(&(header("0c010000", "00000000") + short), ResponseId::ERR_INVALID_PARAMETER);
    // Case X09, CVE-2022-0135 and others: a create that fails leaves nothing.
    let nothing = "0700000002000000010000000000000001000000000000000000000000000000";
    refused(&(header("0c010000", "01000000") + nothing), ResponseId::ERR_INVALID_PARAMETER);
    let map = header("08020000", "00000000") + "07000000000000000000000000000000";
    refused(&map, ResponseId::ERR_INVALID_RESOURCE_ID);
    // Case X10, Droid-VM/DroidVM#49.
    let detach = header("03020000", "4d000000") + "0100000000000000";
    refused(&detach, ResponseId::ERR_INVALID_CONTEXT_ID);
    vm.create_context(1);
    vm.expect(1, Command::CtxAttachResource { resource_id: 7 }, ResponseId::ERR_INVALID_RESOURCE_ID);
    vm.assert_alive();
}

#[test]
fn commands_that_do_not_exist_here_are_refused() {
    let mut vm = vm();
    let header = |command| Header::default().raw(CommandId(command));
    for id in (0..0x400).chain([0x1100, 0x1200, 0x7fff_ffff, 0xffff_ffff]) {
        let response = vm.raw(zerocopy::IntoBytes::as_bytes(&header(id)));
        let expected = match id {
            // Commands that there are, without their arguments; a context that is not there.
            0x102 | 0x108 | 0x109 | 0x10c | 0x200 | 0x202 | 0x203 | 0x207..=0x209 => {
                ResponseId::ERR_INVALID_PARAMETER
            }
            0x201 => ResponseId::ERR_INVALID_CONTEXT_ID,
            _ => ResponseId::ERR_UNSPEC,
        };
        assert_eq!(response_id(&response), expected, "command {id:#x}");
    }
    // Shorter than a header, and nothing at all.
    for len in [0, 1, 23] {
        assert_eq!(response_id(&vm.raw(&vec![0; len])), ResponseId::ERR_INVALID_PARAMETER, "{len} bytes");
    }
}

#[test]
fn a_blob_of_100_000_entries_works_and_absurd_ones_do_not() {
    let mut vm = Setup::new(NoWorkers).start();
    let pages = (RAM - BLOBS) / 0x1000;
    // Backwards, so that nothing can be joined; pages are named several times.
    let entries: Vec<MemEntry> =
        (0..100_000_u64).map(|index| entry(RAM - (index % pages + 1) * 0x1000, 0x1000)).collect();
    let size = 100_000 * 0x1000;
    let blob = |id, entries: &[MemEntry]| {
        Request { header: Header::default(), command: guest_blob(id, size, entries) }.encode()
    };
    assert_eq!(vm.long(&blob(1, &entries)), ResponseId::OK_NODATA);
    assert_eq!(vm.device.ledger().in_use(), (1, 100_000));
    let mut bad = entries.clone();
    bad[99_999] = entry(RAM, 0x1000);
    assert_eq!(vm.long(&blob(2, &bad)), ResponseId::ERR_INVALID_PARAMETER);
    assert_eq!(vm.long(&blob(2, &entries[1..])), ResponseId::ERR_INVALID_PARAMETER);
    // A count that the request does not have.
    let mut lying = blob(2, &entries[..2]);
    lying[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(vm.long(&lying), ResponseId::ERR_INVALID_PARAMETER);
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    assert_eq!(vm.device.ledger().in_use(), (0, 0));

    // More than the longest request.
    let head = vm.control.head();
    let (_, response) = vm.control.buffers(head);
    vm.control.describe(head, LONG, u32::try_from(REQUEST + 1).expect("32 bits"), NEXT, head + 1);
    vm.control.describe(head + 1, response, 64, WRITE, 0);
    comes_back(&mut vm, head, "too long");
    let long =
        Request { header: Header::default(), command: Command::Submit3d { bytes: &vec![0; (1 << 20) + 1] } };
    assert_eq!(vm.long(&long.encode()), ResponseId::ERR_INVALID_PARAMETER);
}

#[test]
fn floods_of_contexts_and_blobs_end_at_the_limits() {
    // Case X05.
    let mut vm = vm();
    let limits = vhost_device_kfd::device::Limits::default();
    for id in 1..2000_u32 {
        let expected = match usize::try_from(id) {
            Ok(id) if id <= limits.contexts => ResponseId::OK_NODATA,
            _ => ResponseId::ERR_OUT_OF_MEMORY,
        };
        vm.expect(id, context(), expected);
    }
    vm.expect(1, context(), ResponseId::ERR_INVALID_CONTEXT_ID);
    for id in 1..5000 {
        vm.create_blob(id, BLOBS, 0x1000);
    }
    vm.expect(1, guest_blob(1, 0x1000, &[entry(BLOBS, 0x1000)]), ResponseId::ERR_INVALID_RESOURCE_ID);
    vm.assert_alive();
}

/// The queue is dead until it is set up again; the other one lives.
fn assert_only_control_is_dead(vm: &mut Vm) {
    vm.control.kick.write(1).expect("a kick");
    let head = vm.cursor.send(&[0; 56], 24);
    vm.cursor.wait(head);
    vm.control.poll();
    let before = vm.control.order.len();
    std::thread::sleep(std::time::Duration::from_millis(20));
    vm.control.poll();
    assert_eq!(vm.control.order.len(), before);
    vm.stop_queue(0);
    vm.stop_queue(1);
    vm.start_queues();
    vm.assert_alive();
}

#[test]
fn an_available_index_that_jumps_breaks_the_queue_alone() {
    // Case H04.
    for jump in [257_u16, 32768, u16::MAX] {
        let mut vm = vm();
        vm.assert_alive();
        vm.control.publish(vm.control.made.wrapping_add(jump));
        assert_only_control_is_dead(&mut vm);
    }
}

#[test]
fn a_chain_that_is_offered_twice_breaks_the_queue_alone() {
    let probe = Probe::deferring();
    let mut vm = Setup::new(probe.clone()).start();
    vm.create_context(1);
    let head = vm.submit(1, 0, 1, b"a");
    wait_for("the submission", || probe.log().submitted.len() == 1);
    vm.control.offer(head);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(probe.log().submitted.len(), 1, "it is not executed again");
    assert_only_control_is_dead(&mut vm);
}

#[test]
fn heads_that_do_not_exist_do_no_harm() {
    let mut vm = vm();
    for head in [256_u16, 1000, 65535] {
        vm.control.offer(head);
    }
    vm.assert_alive();
}

#[test]
fn a_kick_that_is_gone_when_it_is_read_does_no_harm() {
    let mut vm = vm();
    for _ in 0..20_000 {
        vm.control.kick.write(1).expect("a kick");
        // The device may have seen it, and not have read it yet. It may also have been faster.
        drop(vm.control.kick.read());
    }
    vm.assert_alive();
}

#[test]
fn a_queue_that_the_guest_places_wrongly_is_not_served_and_no_more() {
    // A VMM passes on what the guest writes into the registers of the queue.
    let mut vm = vm();
    for off in [[8, 0, 0], [0, 1, 0], [0, 0, 2], [2 * RAM, 0, 0], [0, 2 * RAM, 0], [0, 0, 2 * RAM]] {
        vm.stop_queue(0);
        vm.start_queue_off(0, off);
        let head = vm.control.send(&[0; 24], 64);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!vm.control.is_back(head));
        vm.stop_queue(0);
        vm.start_queue(0);
        vm.assert_alive();
    }
    // Without a stop before.
    vm.start_queue_off(0, [2 * RAM, 0, 0]);
    let head = vm.control.send(&[0; 24], 64);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!vm.control.is_back(head));
    for size in [0, 3, 2048] {
        vm.stop_queue(0);
        vm.frontend.set_vring_num(0, size).expect_err("no size of a queue");
        vm.start_queue(0);
        vm.assert_alive();
    }
}

/// A small generator: the test is the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

#[test]
fn random_descriptors_and_requests_leave_the_device_alive() {
    let mut vm = vm();
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    for round in 0..200 {
        // Half of the table is noise with a bias to what is almost right, and so are the requests.
        for index in 0..64_u16 {
            let place = match random.below(4) {
                0 => random.next(),
                1 => RAM - random.below(64),
                _ => LONG + random.below(64) * 0x100,
            };
            let len = match random.below(4) {
                0 => random.next() as u32,
                _ => random.below(128) as u32,
            };
            vm.control.describe(index, place, len, random.below(8) as u16, random.below(80) as u16);
        }
        for request in 0..64 {
            let id = match random.below(3) {
                0 => random.next() as u32,
                1 => 0x100 + random.below(0xe) as u32,
                _ => 0x200 + random.below(0xa) as u32,
            };
            let mut bytes: Vec<u8> = (0..100).map(|_| (random.below(3)) as u8).collect();
            bytes[..4].copy_from_slice(&id.to_le_bytes());
            vm.poke(LONG + request * 0x100, &bytes);
        }
        for _ in 0..32 {
            vm.control.offer(random.below(66) as u16);
        }
        // Stopping takes what was executed so far as it is: some chains may not even have been looked at.
        std::thread::sleep(std::time::Duration::from_millis(2));
        vm.stop_queue(0);
        vm.stop_queue(1);
        vm.start_queues();
        vm.assert_alive();
        assert_eq!(vm.device.open_requests(), 0, "round {round}");
    }
}
