//! The seccomp filter: which system calls of the program the supervisor gets to see.
//!
//! A filter sees numbers only, never what a pointer or a descriptor stands for, so it picks by call
//! and argument and the supervisor lets everything foreign continue. Notified are, for x86-64 and for
//! i386 (`int 0x80`):
//! - `ioctl` with a request of type `K` (KFD) or `d` (DRM);
//! - the `stat` family, because the files behind the nodes must look like character devices;
//! - `mmap` of a file, shared: what a device refuses must fail, and what is not at the same offset of
//!   the file behind the node needs help. Not where no access is asked for, as thunks do for debuggers at each allocation:
//!   nothing is reached by it, and what lies elsewhere (KFD's own offsets) is told by its high bits;
//! - `execve` and `execveat`: the end of an address space as KFD sees it;
//! - `open` and its kin, where they may truncate the file behind a node, which a device ignores, and everywhere where the
//!   device refuses every process: the file behind the node would open;
//! - `truncate`, `ftruncate` and `fallocate`, which a device refuses.

use libc::sock_filter;

/// An instruction set's system call table, as `seccomp_data.arch` names it (`linux/audit.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86, also what `int 0x80` of a 64-bit program means.
    I386,
}

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const AUDIT_ARCH_I386: u32 = 0x4000_0003;
/// Bit that marks x32 calls; they are left alone.
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

impl Arch {
    /// From `seccomp_data.arch`.
    #[must_use]
    pub const fn from_audit(arch: u32) -> Option<Self> {
        match arch {
            AUDIT_ARCH_X86_64 => Some(Self::X86_64),
            AUDIT_ARCH_I386 => Some(Self::I386),
            _ => None,
        }
    }
}

/// A system call that the filter notifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syscall {
    /// `ioctl(fd, request, argument)`.
    Ioctl,
    /// `mmap(addr, len, prot, flags, fd, offset)`, the offset in units of [`Syscall::offset_unit`].
    Mmap,
    /// `stat(path, buf)`.
    Stat,
    /// `lstat(path, buf)`.
    Lstat,
    /// `fstat(fd, buf)`.
    Fstat,
    /// `newfstatat(dirfd, path, buf, flags)`.
    Fstatat,
    /// `statx(dirfd, path, flags, mask, buf)`.
    Statx,
    /// `execve`, `execveat`.
    Exec,
    /// `open(path, flags, mode)`.
    Open,
    /// `creat(path, mode)`.
    Creat,
    /// `openat(dirfd, path, flags, mode)`.
    Openat,
    /// `openat2(dirfd, path, how, size)`.
    Openat2,
    /// `truncate(path, length)`.
    Truncate,
    /// `ftruncate(fd, length)`.
    Ftruncate,
    /// `fallocate(fd, mode, offset, length)`.
    Fallocate,
}

/// Numbers of `arch/x86/entry/syscalls/syscall_64.tbl`.
const X86_64_CALLS: &[(u32, Syscall)] = &[
    (16, Syscall::Ioctl),
    (9, Syscall::Mmap),
    (4, Syscall::Stat),
    (6, Syscall::Lstat),
    (5, Syscall::Fstat),
    (262, Syscall::Fstatat),
    (332, Syscall::Statx),
    (59, Syscall::Exec),
    (322, Syscall::Exec),
    (2, Syscall::Open),
    (85, Syscall::Creat),
    (257, Syscall::Openat),
    (437, Syscall::Openat2),
    (76, Syscall::Truncate),
    (77, Syscall::Ftruncate),
    (285, Syscall::Fallocate),
];

/// Numbers of `arch/x86/entry/syscalls/syscall_32.tbl`; the `stat64` generation, which every C library
/// of this century uses.
const I386_CALLS: &[(u32, Syscall)] = &[
    (54, Syscall::Ioctl),
    (192, Syscall::Mmap),
    (195, Syscall::Stat),
    (196, Syscall::Lstat),
    (197, Syscall::Fstat),
    (300, Syscall::Fstatat),
    (383, Syscall::Statx),
    (11, Syscall::Exec),
    (358, Syscall::Exec),
    (5, Syscall::Open),
    (8, Syscall::Creat),
    (295, Syscall::Openat),
    (437, Syscall::Openat2),
    (92, Syscall::Truncate),
    (193, Syscall::Truncate),
    (93, Syscall::Ftruncate),
    (194, Syscall::Ftruncate),
    (324, Syscall::Fallocate),
];

impl Syscall {
    /// The call with number `nr` in the table of `arch`, if it is one that is notified.
    #[must_use]
    pub fn from_number(arch: Arch, nr: u32) -> Option<Self> {
        calls(arch).iter().find(|(number, _)| *number == nr).map(|&(_, call)| call)
    }

    /// Whether it opens a file by its path.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Creat | Self::Openat | Self::Openat2)
    }

    /// What one unit of `mmap`'s offset argument is in bytes (`mmap2` on i386 counts pages).
    #[must_use]
    pub const fn offset_unit(arch: Arch) -> u64 {
        match arch {
            Arch::X86_64 => 1,
            Arch::I386 => 4096,
        }
    }
}

const fn calls(arch: Arch) -> &'static [(u32, Syscall)] {
    match arch {
        Arch::X86_64 => X86_64_CALLS,
        Arch::I386 => I386_CALLS,
    }
}

// Offsets in `struct seccomp_data`; the low halves of 64-bit arguments, little endian.
const DATA_NR: u32 = 0;
const DATA_ARCH: u32 = 4;
/// In the high half of `mmap`'s offset: where KFD's offsets have their kind and the GPU's id (`KFD_MMAP_GPU_ID_SHIFT` is 46).
const KFD_OFFSETS_HIGH: u32 = 0xffff_c000;
const fn data_arg(index: u32) -> u32 {
    16 + 8 * index
}

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const JUMP_EQ: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_GE: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const JUMP_SET: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// The filter program; with `opens`, calls that open files are notified too.
#[must_use]
pub fn program(opens: bool) -> Vec<sock_filter> {
    let mut out = vec![load(DATA_ARCH)];
    for (audit, arch) in [(AUDIT_ARCH_X86_64, Arch::X86_64), (AUDIT_ARCH_I386, Arch::I386)] {
        let block = arch_block(arch, opens);
        // Blocks end in a return, so a mismatch jumps over the whole block; they are far below the
        // 255 instructions that a jump reaches (asserted in the tests).
        out.push(jump(JUMP_EQ, audit, 0, reach(block.len())));
        out.extend(block);
    }
    out.push(allow());
    out
}

fn arch_block(arch: Arch, opens: bool) -> Vec<sock_filter> {
    let mut out = vec![load(DATA_NR)];
    if arch == Arch::X86_64 {
        out.extend([jump(JUMP_GE, X32_SYSCALL_BIT, 0, 1), allow()]);
    }
    for &(nr, call) in calls(arch) {
        let body = match call {
            Syscall::Ioctl => ioctl_body(),
            Syscall::Mmap => mmap_body(),
            Syscall::Open if !opens => truncating_open_body(1),
            Syscall::Openat if !opens => truncating_open_body(2),
            // The flags of `creat` are known, and those of `openat2`, which hardly anybody calls, cannot be seen here.
            _ => vec![notify()],
        };
        out.push(jump(JUMP_EQ, nr, 0, reach(body.len())));
        out.extend(body);
    }
    out.push(allow());
    out
}

fn ioctl_body() -> Vec<sock_filter> {
    vec![
        load(data_arg(1)),
        and(0xff00),
        jump(JUMP_EQ, u32::from(b'K') << 8, 1, 0),
        jump(JUMP_EQ, u32::from(b'd') << 8, 0, 1),
        notify(),
        allow(),
    ]
}

fn mmap_body() -> Vec<sock_filter> {
    vec![
        load(data_arg(3)),
        jump(JUMP_SET, 0x20, 6, 0), // MAP_ANONYMOUS
        and(0x0f),                  // MAP_TYPE
        jump(JUMP_EQ, 0x02, 4, 0),  // MAP_PRIVATE: loading libraries stays fast
        load(data_arg(2)),
        jump(JUMP_EQ, libc::PROT_NONE.unsigned_abs(), 0, 3),
        load(data_arg(5) + 4),
        jump(JUMP_SET, KFD_OFFSETS_HIGH, 1, 0),
        allow(),
        notify(),
    ]
}

/// Opens are hot calls: only those that truncate are notified.
fn truncating_open_body(flags: u32) -> Vec<sock_filter> {
    const O_TRUNC: u32 = libc::O_TRUNC.unsigned_abs();
    vec![load(data_arg(flags)), jump(JUMP_SET, O_TRUNC, 0, 1), notify(), allow()]
}

fn reach(instructions: usize) -> u8 {
    u8::try_from(instructions).unwrap_or(u8::MAX)
}

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn load(offset: u32) -> sock_filter {
    statement(LOAD, offset)
}

const fn and(mask: u32) -> sock_filter {
    statement(AND, mask)
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn allow() -> sock_filter {
    statement(RETURN, libc::SECCOMP_RET_ALLOW)
}

const fn notify() -> sock_filter {
    statement(RETURN, libc::SECCOMP_RET_USER_NOTIF)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel would; anything outside these opcodes is a failure.
    fn verdict(arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        verdict_of(&program(false), arch, nr, args)
    }

    fn verdict_of(program: &[sock_filter], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(nr.to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        args.iter().for_each(|arg| data.extend(arg.to_le_bytes()));

        let (mut pc, mut a) = (0usize, 0u32);
        loop {
            let op = program[pc];
            pc += 1;
            let taken = match op.code {
                LOAD => {
                    let at = op.k as usize;
                    a = u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
                    continue;
                }
                AND => {
                    a &= op.k;
                    continue;
                }
                RETURN => return op.k,
                JUMP_EQ => a == op.k,
                JUMP_GE => a >= op.k,
                JUMP_SET => a & op.k != 0,
                other => panic!("opcode {other:#x}"),
            };
            pc += usize::from(if taken { op.jt } else { op.jf });
        }
    }

    const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    fn ioctl(request: u64) -> [u64; 6] {
        [3, request, 0x7000, 0, 0, 0]
    }

    fn mmap(flags: i32) -> [u64; 6] {
        [0, 4096, 3, u64::from(flags.unsigned_abs()), 3, 0]
    }

    #[test]
    fn ioctls_of_type_k_and_d_are_notified_and_others_are_not() {
        // AMDKFD_IOC_GET_VERSION, DRM_IOCTL_VERSION, TCGETS, FIONREAD.
        assert_eq!(verdict(AUDIT_ARCH_X86_64, 16, ioctl(0x8008_4b01)), NOTIFY);
        assert_eq!(verdict(AUDIT_ARCH_X86_64, 16, ioctl(0xc040_6400)), NOTIFY);
        assert_eq!(verdict(AUDIT_ARCH_X86_64, 16, ioctl(0x5401)), ALLOW);
        assert_eq!(verdict(AUDIT_ARCH_X86_64, 16, ioctl(0x541b)), ALLOW);
        assert_eq!(verdict(AUDIT_ARCH_I386, 54, ioctl(0x8008_4b01)), NOTIFY);
        assert_eq!(verdict(AUDIT_ARCH_I386, 54, ioctl(0x5401)), ALLOW);
    }

    #[test]
    fn only_shared_file_mappings_are_notified() {
        for (arch, nr) in [(AUDIT_ARCH_X86_64, 9), (AUDIT_ARCH_I386, 192)] {
            assert_eq!(verdict(arch, nr, mmap(libc::MAP_SHARED)), NOTIFY);
            assert_eq!(verdict(arch, nr, mmap(libc::MAP_SHARED | libc::MAP_FIXED)), NOTIFY);
            assert_eq!(verdict(arch, nr, mmap(libc::MAP_SHARED_VALIDATE)), NOTIFY);
            assert_eq!(verdict(arch, nr, mmap(libc::MAP_PRIVATE)), ALLOW);
            assert_eq!(verdict(arch, nr, mmap(libc::MAP_SHARED | libc::MAP_ANONYMOUS)), ALLOW);
            assert_eq!(verdict(arch, nr, mmap(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)), ALLOW);
        }
    }

    #[test]
    fn shared_mappings_without_access_are_notified_at_offsets_of_kfd_only() {
        let at = |prot, offset| {
            let [address, len, _, flags, file, _] = mmap(libc::MAP_SHARED | libc::MAP_FIXED);
            verdict(AUDIT_ARCH_X86_64, 9, [address, len, prot, flags, file, offset])
        };
        assert_eq!(at(0, 0x2000), ALLOW);
        assert_eq!(at(0, (1 << 46) - 4096), ALLOW);
        assert_eq!(at(1, 0x2000), NOTIFY);
        // Kinds 0 to 3: MMIO, reserved memory, events, doorbells.
        for kind in 0..4u64 {
            assert_eq!(at(0, kind << 62 | 0x8001 << 46), NOTIFY);
            assert_eq!(at(0, kind << 62 | 1 << 46), NOTIFY);
        }
    }

    #[test]
    fn every_listed_call_is_notified_and_the_hot_calls_are_not() {
        for (audit, arch) in [(AUDIT_ARCH_X86_64, Arch::X86_64), (AUDIT_ARCH_I386, Arch::I386)] {
            for &(nr, call) in calls(arch) {
                assert_eq!(Syscall::from_number(arch, nr), Some(call));
                if !matches!(call, Syscall::Ioctl | Syscall::Mmap) {
                    let hot = matches!(call, Syscall::Open | Syscall::Openat);
                    let expected = if hot { ALLOW } else { NOTIFY };
                    assert_eq!(verdict(audit, nr, [0; 6]), expected, "{call:?}");
                    assert_eq!(verdict_of(&program(true), audit, nr, [0; 6]), NOTIFY, "{call:?}");
                }
            }
        }
        for nr in [0, 1, 3, 257, 202] {
            assert_eq!(verdict(AUDIT_ARCH_X86_64, nr, [0; 6]), ALLOW, "call {nr}");
        }
    }

    #[test]
    fn opens_that_truncate_are_notified() {
        const O_TRUNC: u64 = 0x200;
        const O_CREAT: u64 = 0x40;
        for (audit, open, openat) in [(AUDIT_ARCH_X86_64, 2, 257), (AUDIT_ARCH_I386, 5, 295)] {
            assert_eq!(verdict(audit, open, [0, O_TRUNC | O_CREAT, 0, 0, 0, 0]), NOTIFY);
            assert_eq!(verdict(audit, open, [0, O_CREAT, O_TRUNC, 0, 0, 0]), ALLOW);
            assert_eq!(verdict(audit, openat, [0, 0, O_TRUNC, 0, 0, 0]), NOTIFY);
            assert_eq!(verdict(audit, openat, [0, O_TRUNC, O_CREAT, 0, 0, 0]), ALLOW);
        }
    }

    #[test]
    fn x32_calls_and_other_machines_are_left_alone() {
        assert_eq!(verdict(AUDIT_ARCH_X86_64, X32_SYSCALL_BIT | 514, ioctl(0x8008_4b01)), ALLOW);
        assert_eq!(verdict(0xc000_00b7, 29, ioctl(0x8008_4b01)), ALLOW);
    }

    #[test]
    fn blocks_are_within_the_reach_of_a_jump() {
        assert!(arch_block(Arch::X86_64, true).len() < 255);
        assert!(arch_block(Arch::I386, true).len() < 255);
        assert!(program(true).len() < 4096, "BPF_MAXINSNS");
    }
}
