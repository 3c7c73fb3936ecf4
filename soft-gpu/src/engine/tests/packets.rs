//! Builders of packets, written from the headers that programs use (ROCr's `sdma_registers.h`, kfdtest's
//! packet structs), not from the decoders.

use super::rig::halves;

pub(super) mod sdma {
    use super::halves;

    pub(crate) fn copy(dst: u64, src: u64, len: u32) -> Vec<u32> {
        let ([s0, s1], [d0, d1]) = (halves(src), halves(dst));
        vec![1, len - 1, 0, s0, s1, d0, d1]
    }

    pub(crate) fn broadcast(dsts: [u64; 2], src: u64, len: u32) -> Vec<u32> {
        let mut words = copy(dsts[0], src, len);
        words[0] |= 1 << 27;
        words.extend(halves(dsts[1]));
        words
    }

    pub(crate) fn write(dst: u64, data: &[u32]) -> Vec<u32> {
        let [d0, d1] = halves(dst);
        let count = u32::try_from(data.len()).expect("small") - 1;
        [&[2, d0, d1, count], data].concat()
    }

    /// `unit` 0: bytes, 1: half words, 2: words.
    pub(crate) fn fill(dst: u64, value: u32, unit: u32, count: u32) -> Vec<u32> {
        let [d0, d1] = halves(dst);
        vec![11 | unit << 30, d0, d1, value, count]
    }

    pub(crate) fn fence(addr: u64, value: u32) -> Vec<u32> {
        let [a0, a1] = halves(addr);
        vec![5, a0, a1, value]
    }

    pub(crate) fn trap(context: u32) -> Vec<u32> {
        vec![6, context]
    }

    pub(crate) fn poll(addr: u64, function: u32, value: u32, retries: u32) -> Vec<u32> {
        let [a0, a1] = halves(addr);
        vec![8 | function << 28 | 1 << 31, a0, a1, value, u32::MAX, 4 | retries << 16]
    }

    pub(crate) fn atomic(op: u32, repeat: bool, addr: u64, src: u64, compare: u64) -> Vec<u32> {
        let ([a0, a1], [s0, s1], [c0, c1]) = (halves(addr), halves(src), halves(compare));
        vec![10 | u32::from(repeat) << 16 | op << 25, a0, a1, s0, s1, c0, c1, 0]
    }

    pub(crate) fn timestamp(sub: u32, addr: u64) -> Vec<u32> {
        let [a0, a1] = halves(addr);
        vec![13 | sub << 8, a0, a1]
    }

    pub(crate) fn indirect(base: u64, words: u32) -> Vec<u32> {
        let [b0, b1] = halves(base);
        vec![4, b0, b1, words, 0, 0]
    }

    pub(crate) fn cond_exe(addr: u64, reference: u32, words: u32) -> Vec<u32> {
        let [a0, a1] = halves(addr);
        vec![9, a0, a1, reference, words]
    }
}

pub(super) mod pm4 {
    use super::halves;

    pub(crate) fn packet(op: u32, body: &[u32]) -> Vec<u32> {
        let count = u32::try_from(body.len()).expect("small") - 1;
        [&[3 << 30 | count << 16 | op << 8 | 1 << 1], body].concat()
    }

    pub(crate) fn write_data(dst: u64, data: &[u32]) -> Vec<u32> {
        let [d0, d1] = halves(dst);
        packet(0x37, &[&[5 << 8 | 1 << 20, d0, d1], data].concat())
    }

    /// `data_sel`, `int_sel` as kfdtest's PM4MEC_RELEASE_MEM_AI names them.
    pub(crate) fn release_mem(addr: u64, value: u64, data_sel: u32, int_sel: u32, context: u32) -> Vec<u32> {
        let ([a0, a1], [v0, v1]) = (halves(addr), halves(value));
        packet(0x49, &[0x14 | 5 << 8, int_sel << 24 | data_sel << 29, a0, a1, v0, v1, context])
    }

    pub(crate) fn wait_mem(addr: u64, function: u32, reference: u32) -> Vec<u32> {
        let [a0, a1] = halves(addr);
        packet(0x3c, &[function | 1 << 4, a0, a1, reference, u32::MAX, 4])
    }

    pub(crate) fn indirect_buffer(base: u64, words: u32, chain: bool) -> Vec<u32> {
        let [b0, b1] = halves(base);
        packet(0x3f, &[b0, b1, words | u32::from(chain) << 20 | 1 << 23])
    }

    pub(crate) fn copy_data(sources: (u32, u64), destinations: (u32, u64), wide: bool) -> Vec<u32> {
        let ([s0, s1], [d0, d1]) = (halves(sources.1), halves(destinations.1));
        let control = sources.0 | destinations.0 << 8 | u32::from(wide) << 16 | 1 << 20;
        packet(0x40, &[control, s0, s1, d0, d1])
    }

    pub(crate) fn atomic_mem(op: u32, addr: u64, src: u64, compare: u64) -> Vec<u32> {
        let ([a0, a1], [s0, s1], [c0, c1]) = (halves(addr), halves(src), halves(compare));
        packet(0x1e, &[op, a0, a1, s0, s1, c0, c1, 0])
    }
}

pub(super) mod aql {
    use super::halves;

    pub(crate) const BARRIER_BIT: u32 = 1 << 8;

    fn packet(first: u32, fill: impl FnOnce(&mut [u32; 16]), completion: u64) -> [u32; 16] {
        let mut words = [0; 16];
        fill(&mut words);
        words[0] = first;
        [words[14], words[15]] = halves(completion);
        words
    }

    /// Type 3 is barrier-AND, 5 barrier-OR.
    pub(crate) fn barrier(kind: u32, dependencies: &[u64], completion: u64) -> [u32; 16] {
        let fill = |words: &mut [u32; 16]| {
            for (index, signal) in dependencies.iter().enumerate() {
                [words[2 + 2 * index], words[3 + 2 * index]] = halves(*signal);
            }
        };
        packet(kind | BARRIER_BIT, fill, completion)
    }

    pub(crate) fn barrier_value(
        signal: u64,
        value: u64,
        mask: u64,
        condition: u32,
        completion: u64,
    ) -> [u32; 16] {
        let fill = |words: &mut [u32; 16]| {
            [words[2], words[3]] = halves(signal);
            [words[4], words[5]] = halves(value);
            [words[6], words[7]] = halves(mask);
            words[8] = condition;
        };
        packet(2 << 16, fill, completion)
    }

    /// As ROCr's AqlQueue::ExecutePM4 makes it.
    pub(crate) fn pm4_ib(jump: &[u32], completion: u64) -> [u32; 16] {
        let fill = |words: &mut [u32; 16]| {
            words[1..5].copy_from_slice(jump);
            words[5] = 0xa;
        };
        packet(1 << 16, fill, completion)
    }

    pub(crate) fn kernel_dispatch(completion: u64) -> [u32; 16] {
        kernel([64, 1, 1], [64, 1, 1], 0, 0xc0de, completion)
    }

    /// Of as many dimensions as have more than one work-item, at least one.
    pub(crate) fn kernel(
        group: [u16; 3],
        grid: [u32; 3],
        lds: u32,
        object: u64,
        completion: u64,
    ) -> [u32; 16] {
        let [x, y, z] = group.map(u32::from);
        let dimensions = if grid[2] > 1 {
            3
        } else if grid[1] > 1 {
            2
        } else {
            1
        };
        let fill = |words: &mut [u32; 16]| {
            words[1..6].copy_from_slice(&[x | y << 16, z, grid[0], grid[1], grid[2]]);
            words[7] = lds;
            [words[8], words[9]] = halves(object);
        };
        packet(2 | dimensions << 16, fill, completion)
    }
}
