//! Every ioctl of `/dev/kfd`, mainline and ROCm's own, declared once.
//!
//! [`Ioctl`] names them, [`Decl`] says what each is: number, direction, argument struct, where its pointers
//! and descriptors are, how long the memory behind them is and who writes it. Whatever carries a call
//! elsewhere (a wire, the launcher, a trace) is derived from this table and knows no ioctl by name.
//!
//! # How the kernel dispatches (`kfd_ioctl`, Linux 6.12)
//!
//! 1. Only the **number** of the request selects. A number outside the table, and 0, is `ENOTTY`. The type
//!    letter, direction and size of the request are not compared with anything.
//! 2. A descriptor that another process opened is `EBADF`; CRIU_OP is also open to a ptrace parent.
//! 3. CRIU_OP without `CAP_CHECKPOINT_RESTORE` and without `CAP_SYS_ADMIN` is `EACCES`.
//! 4. The **directions** are those of the kernel's own table ([`Decl::direction`]), whatever the request says.
//!    The number of bytes copied, each way, is the **size of the request**, 0 to 16383. The kernel works on a
//!    buffer of the larger of that size and its own struct's. So bytes that a short request lacks read as
//!    zero, and are not written back; bytes beyond the kernel's struct are copied in, ignored and copied back
//!    as they were. If the table says that nothing is copied in, the buffer starts as zeros.
//! 5. Bad memory on the way in is `EFAULT`, before the call has any effect.
//! 6. SVM then compares the request's size with its own count of attributes
//!    ([`Decl::required_size`]): `EINVAL` if the request is shorter.
//! 7. The call runs, and the buffer is copied out **also when it failed**. Bad memory on the way out is
//!    `EFAULT`, whatever the call returned, and nothing is undone.

mod model;
mod ops;
mod table;

pub use model::{
    AddressField, Beyond, Bound, Decl, Direction, Extent, Family, FdField, FdPlace, FieldRef, Flow, Kernels,
    Length, Manner, Op, Ops, Pointer, Reach, Reaches, SharedRange, Stride, Tail, When,
};
pub use table::Ioctl;

pub use super::structs::Struct;

use super::request::request_nr;

impl Ioctl {
    /// The ioctl with this number on a kernel of this family, of any version.
    #[must_use]
    pub fn from_nr(nr: u8, family: Family) -> Option<Ioctl> {
        static MAINLINE: [Option<Ioctl>; 256] = by_number(Family::Mainline);
        static ROCM: [Option<Ioctl>; 256] = by_number(Family::Rocm);
        let table = match family {
            Family::Mainline => &MAINLINE,
            Family::Rocm => &ROCM,
        };
        table.get(usize::from(nr)).copied().flatten()
    }

    /// The ioctl that a request code selects: by its number alone, as the kernel does.
    #[must_use]
    pub fn from_request(request: u32, family: Family) -> Option<Ioctl> {
        Ioctl::from_nr(request_nr(request), family)
    }

    /// What is known of all calls that a request code can select, in any family, whatever their arguments.
    #[must_use]
    pub fn manner_of(request: u32) -> Manner {
        static MANNERS: [Manner; 256] = manners();
        MANNERS.get(usize::from(request_nr(request))).copied().unwrap_or(Manner::Plain)
    }

    /// The uapi's name (`AMDKFD_IOC_GET_VERSION`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.decl().name
    }

    /// Command number.
    #[must_use]
    pub const fn nr(self) -> u8 {
        self.decl().nr
    }

    /// Request code of the uapi header.
    #[must_use]
    pub const fn request(self) -> u32 {
        self.decl().request()
    }

    /// Whether a kernel of this family and interface version (`KFD_IOCTL_MINOR_VERSION`) has it.
    #[must_use]
    pub const fn exists_in(self, family: Family, minor: u32) -> bool {
        self.decl().kernels.includes(family) && self.decl().since <= minor
    }
}

const fn by_number(family: Family) -> [Option<Ioctl>; 256] {
    let mut table = [None; 256];
    let mut i = 0;
    while i < Ioctl::ALL.len() {
        let ioctl = Ioctl::ALL[i];
        if ioctl.decl().kernels.includes(family) {
            let nr = ioctl.nr() as usize;
            assert!(table[nr].is_none(), "two ioctls of one family have the same number");
            table[nr] = Some(ioctl);
        }
        i += 1;
    }
    table
}

const fn manners() -> [Manner; 256] {
    let mut table = [Manner::Plain; 256];
    let mut i = 0;
    while i < Ioctl::ALL.len() {
        let decl = Ioctl::ALL[i].decl();
        let nr = decl.nr as usize;
        table[nr] = match (table[nr], decl.manner()) {
            (Manner::Special, _) | (_, Manner::Special) => Manner::Special,
            (Manner::Sleeps, _) | (_, Manner::Sleeps) => Manner::Sleeps,
            (Manner::Plain, Manner::Plain) => Manner::Plain,
        };
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests;
