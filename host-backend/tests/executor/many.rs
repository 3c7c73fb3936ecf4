//! As many blobs as a program with many signals and queues has, and the biggest of them: what they cost, and that the GPU
//! writes into each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::kfd::constants::AllocFlags;
use protocol::wire::Submission;
use softgpu::Profile;

use super::guest::{Blob, Guest, PAGE};
use super::program::Program;
use super::queues::Sdma;

const BLOBS: u64 = 10_000;
/// The context save area of a compute queue on MI210, rounded up.
const SAVE_AREA: u64 = 61 << 20;
const SHARED: AllocFlags = AllocFlags::USERPTR.union(AllocFlags::WRITABLE);
/// Packets that a ring of one page takes at a time, and a few less.
const BATCH: u64 = 100;

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("a file").lines().count()
}

/// The longest time that a submission on another ring took until `done`, and how many there were.
fn longest_fence(guest: &Guest, done: &AtomicBool) -> (Duration, u32) {
    let (mut longest, mut count) = (Duration::ZERO, 0);
    while !done.load(Ordering::Relaxed) {
        let start = Instant::now();
        // The guest has seen something else than what is there: the fence signals at once.
        assert_eq!(guest.submit(Submission::Wake { seen: u32::MAX }), Some(true));
        longest = longest.max(start.elapsed());
        count += 1;
        std::thread::sleep(Duration::from_micros(500));
    }
    (longest, count)
}

fn register(program: &Program, address: u64, size: u64) {
    let handle = program.alloc(address, size, SHARED).expect("registered");
    program.map(handle).expect("mapped");
}

#[test]
fn the_gpu_writes_into_ten_thousand_blobs_and_a_save_area() {
    let mut program = Program::running(Profile::Mi210);
    let before = mappings();
    let done = AtomicBool::new(false);
    let (base, big_base) = (program.addresses(BLOBS * PAGE), program.addresses(SAVE_AREA));
    let (blobs, save_area) = std::thread::scope(|scope| {
        let fences = scope.spawn(|| longest_fence(&program.guest, &done));
        let start = Instant::now();
        let alias = |index: u64| {
            let blob = program.guest.attach(program.next_id(), PAGE, 1);
            program.alias(&blob, base + index * PAGE).expect("aliased");
            blob
        };
        let blobs: Vec<Blob> = (0..BLOBS).map(alias).collect();
        let small = start.elapsed();
        let start = Instant::now();
        let save_area = program.guest.attach(program.next_id(), SAVE_AREA, 61);
        program.alias(&save_area, big_base).expect("aliased");
        let big = start.elapsed();
        let count = mappings().saturating_sub(before);
        // Other tests in this process may have had some that went.
        assert!(count >= BLOBS as usize * 9 / 10, "{count} mappings: each blob is at its address");
        for start in (0..BLOBS).step_by(BATCH as usize) {
            register(&program, base + start * PAGE, BATCH * PAGE);
        }
        register(&program, big_base, SAVE_AREA);
        done.store(true, Ordering::Relaxed);
        let (longest, fences) = fences.join().expect("no panic");
        println!(
            "{:.0} blobs a second are aliased, {count} mappings; {big:.1?} for 61 MiB in 61 pieces; the longest of {fences} fences \
             meanwhile took {longest:.1?}",
            BLOBS as f64 / small.as_secs_f64(),
        );
        (blobs, save_area)
    });

    // A word for each, at a place of its own.
    let words = program.buffer((BLOBS * 8).next_multiple_of(PAGE));
    let place = |index: u64| index % (PAGE / 8) * 8;
    for index in 0..BLOBS {
        program.guest.store64(&words.blob, index * 8, !index);
    }
    let mut queue = Sdma::new(&program);
    for index in 0..BLOBS {
        queue.copy(&program, words.address + index * 8, base + index * PAGE + place(index), 8);
        if index % BATCH == BATCH - 1 {
            queue.ring(&program);
            queue.wait(&program);
        }
    }
    for (blob, index) in blobs.iter().zip(0..) {
        let at = place(index);
        assert_eq!(program.guest.load64(blob, at), !index, "blob {index}");
        let next = (at + 8) % PAGE;
        assert_eq!(program.guest.load64(blob, next), 0, "blob {index} beside it");
    }
    // Every page of the big one.
    for page in 0..SAVE_AREA / PAGE {
        queue.copy(&program, words.address + page % BLOBS * 8, big_base + page * PAGE, 8);
        if page % BATCH == BATCH - 1 {
            queue.ring(&program);
            queue.wait(&program);
        }
    }
    queue.ring(&program);
    queue.wait(&program);
    for page in 0..SAVE_AREA / PAGE {
        assert_eq!(program.guest.load64(&save_area, page * PAGE), !(page % BLOBS), "page {page}");
    }
    // At the end nothing of them is left.
    program.guest.end();
    let left = mappings();
    assert!(left < before + BLOBS as usize / 2, "{left} mappings, {before} before");
}

/// The worker is what writes: when it was reaped the pages are their next owner's.
#[test]
fn pages_of_a_worker_that_was_killed_while_the_gpu_writes_are_never_altered() {
    const SIZE: u64 = 8 << 20;
    const PATTERN: u8 = 0x5a;
    let mut program = Program::of_a_process(Profile::Mi210).run();
    let (from, to) = (program.buffer(SIZE), program.buffer(SIZE));
    program.guest.fill(&from.blob, 0xff);
    let mut queue = Sdma::new(&program);
    // So much that the queue is at work when it ends.
    for _ in 0..BATCH {
        queue.copy(&program, from.address, to.address, SIZE as u32 / 4);
        queue.copy(&program, from.address, to.address + SIZE / 2, SIZE as u32 / 4);
        queue.ring(&program);
        if program.guest.load64(&to.blob, 0) == u64::MAX {
            break;
        }
    }
    program.guest.kill_worker();
    program.guest.fill(&to.blob, PATTERN);
    std::thread::sleep(Duration::from_millis(50));
    for page in 0..SIZE / PAGE {
        let bytes = program.guest.read(&to.blob, page * PAGE, PAGE as usize);
        assert!(bytes.iter().all(|byte| *byte == PATTERN), "page {page} was written");
    }
}
