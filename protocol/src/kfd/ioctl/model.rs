//! What a declaration says: the types of the ioctl table.
//!
//! Everything here is `const` data and total functions on bytes. An argument struct is given as the bytes
//! that the program passed, which may be fewer or more than the kernel's struct has: bytes that are missing
//! read as zero, as in the kernel.

use super::Ioctl;
use crate::Errno;
use crate::kfd::structs::{Struct, UapiStruct};

/// The two lines of kernels, whose ioctl tables differ from number 0x27 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Linux as released by kernel.org, and distributions' kernels.
    Mainline,
    /// AMD's out-of-tree driver (`amdgpu-dkms`).
    Rocm,
}

/// Which kernels have an ioctl with this layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernels {
    /// Mainline and ROCm's.
    Both,
    /// Mainline only.
    Mainline,
    /// ROCm's only.
    Rocm,
}

impl Kernels {
    /// Whether a kernel of this family is among them.
    #[must_use]
    pub const fn includes(self, family: Family) -> bool {
        matches!(
            (self, family),
            (Kernels::Both, _) | (Kernels::Mainline, Family::Mainline) | (Kernels::Rocm, Family::Rocm)
        )
    }
}

/// Which way the argument struct is copied (`_IO`, `_IOR`, `_IOW`, `_IOWR`), seen from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No argument.
    None,
    /// The kernel fills the struct in; it starts as zeros.
    Read,
    /// The program passes the struct in; nothing comes back.
    Write,
    /// Both.
    ReadWrite,
}

impl Direction {
    /// Whether the struct is copied from the program.
    #[must_use]
    pub const fn copies_in(self) -> bool {
        matches!(self, Direction::Write | Direction::ReadWrite)
    }

    /// Whether the struct is copied back to the program, also when the call fails.
    #[must_use]
    pub const fn copies_out(self) -> bool {
        matches!(self, Direction::Read | Direction::ReadWrite)
    }

    /// The request code (`_IOC`) of a call in this direction: its type letter, its number, and the bytes of its argument
    /// struct, which are far below 2^14 in all that is declared here.
    #[must_use]
    pub const fn request_code(self, letter: u8, nr: u8, size: usize) -> u32 {
        // _IOC_WRITE is 1, _IOC_READ is 2.
        let bits = match self {
            Direction::None => 0,
            Direction::Write => 1,
            Direction::Read => 2,
            Direction::ReadWrite => 3,
        };
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let size = size as u32;
        (bits << 30) | (size << 16) | ((letter as u32) << 8) | nr as u32
    }
}

/// A field by place: offset from the start of the argument struct (or of an array's element).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef {
    /// The uapi's name of the field.
    pub name: &'static str,
    /// Byte offset.
    pub offset: usize,
    /// Size in bytes, 4 or 8.
    pub size: usize,
}

impl FieldRef {
    /// The field `name` of `T`. Refuses to compile if `T` has none, or if it is not 4 or 8 bytes long.
    pub(crate) const fn of<T: UapiStruct>(name: &str) -> FieldRef {
        Self::at::<T>(0, name)
    }

    /// The field `name` of a `T` that lies at offset `base`.
    pub(super) const fn at<T: UapiStruct>(base: usize, name: &str) -> FieldRef {
        let mut i = 0;
        while i < T::FIELDS.len() {
            let field = &T::FIELDS[i];
            if same(field.name.as_bytes(), name.as_bytes()) {
                assert!(field.size == 4 || field.size == 8, "only 32 and 64 bit fields can be named");
                return FieldRef { name: field.name, offset: base + field.offset, size: field.size };
            }
            i += 1;
        }
        panic!("no such field");
    }

    /// The value in `bytes`, zero-extended. Bytes that `bytes` does not have are zero.
    #[must_use]
    pub fn get(&self, bytes: &[u8]) -> u64 {
        let tail = bytes.get(self.offset..).unwrap_or_default();
        let mut value = [0; 8];
        for (to, from) in value.iter_mut().zip(tail.iter().take(self.size)) {
            *to = *from;
        }
        u64::from_le_bytes(value)
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Which way memory behind an embedded pointer, or a descriptor, goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The kernel reads it.
    In,
    /// The kernel writes it, or creates it.
    Out,
    /// The kernel reads it and writes it back.
    InOut,
}

impl Flow {
    /// Whether the kernel reads.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Flow::In | Flow::InOut)
    }

    /// Whether the kernel writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Flow::Out | Flow::InOut)
    }
}

/// How much memory stands behind an embedded pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This many bytes, whatever the arguments say.
    Fixed(u64),
    /// `count / per` elements.
    Array {
        /// Field that holds the count.
        count: FieldRef,
        /// How many of what `count` counts make one element (32 for a bit mask in words, else 1).
        per: u64,
        /// Distance between the elements.
        stride: Stride,
    },
    /// Only the device knows (the save area of a queue). The bound says how far it may reach.
    Device,
}

/// Distance in bytes between the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// Given by the struct of the elements.
    Bytes(u64),
    /// Chosen by the caller, so that it can know an older, shorter struct (snapshot calls).
    Field(FieldRef),
}

/// The most that a pointer may reach, so that nobody allocates what a caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Elements of an array; bytes for any other length.
    pub max: u64,
    /// What happens beyond.
    pub beyond: Beyond,
}

/// What a kernel does with a length above the [`Bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// It touches only what the bound allows.
    Clamped,
    /// It fails with this error before it touches the memory at all.
    Refused(Errno),
}

/// An embedded user pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Field that holds the address.
    pub addr: FieldRef,
    /// How much memory it points to.
    pub length: Length,
    /// Who reads and writes it.
    pub flow: Flow,
    /// The most that is touched.
    pub bound: Bound,
}

/// A range of the caller's address space. It need not be mapped, and may wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Pointer {
    /// What this pointer reaches in a call with these arguments.
    ///
    /// # Errors
    /// The error with which the kernel refuses a length above the bound; it does so before it touches the
    /// memory.
    pub fn extent(&self, args: &[u8]) -> Result<Extent, Errno> {
        let (wanted, stride) = match self.length {
            Length::Fixed(len) => (len, 1),
            Length::Device => (self.bound.max, 1),
            Length::Array { count, per, stride: Stride::Bytes(stride) } => {
                (count.get(args) / per.max(1), stride)
            }
            Length::Array { count, per, stride: Stride::Field(stride) } => {
                (count.get(args) / per.max(1), stride.get(args))
            }
        };
        let elements = match self.bound.beyond {
            Beyond::Refused(errno) if wanted > self.bound.max => return Err(errno),
            _ => wanted.min(self.bound.max),
        };
        Ok(Extent { addr: self.addr.get(args), len: elements.saturating_mul(stride) })
    }
}

/// A descriptor number in the arguments or in memory behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdField {
    /// Where it stands.
    pub place: FdPlace,
    /// `In`: the caller passes a descriptor; `Out`: the call creates one.
    pub flow: Flow,
}

/// Where a descriptor number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdPlace {
    /// In the argument struct.
    Args(FieldRef),
    /// In each element of the array behind a pointer.
    Element {
        /// Index into [`Reach::pointers`].
        pointer: usize,
        /// The field, its offset counted from the start of the element.
        field: FieldRef,
    },
}

/// Memory of the caller that stays reachable for the device after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// Field that holds the address.
    pub addr: FieldRef,
    /// Field that holds the length in bytes.
    pub len: FieldRef,
    /// When this is so.
    pub when: When,
}

impl SharedRange {
    /// The range in a call with these arguments, or `None` if this call shares nothing.
    #[must_use]
    pub fn extent(&self, args: &[u8]) -> Option<Extent> {
        let extent = Extent { addr: self.addr.get(args), len: self.len.get(args) };
        self.when.holds(args).then_some(extent)
    }
}

/// A field with an address of the GPU's address space, which KFD neither reads nor writes through in the call.
///
/// In ROCm such an address is the program's own as well. Whoever confines a program to a range of addresses (the host of a
/// VM) checks these fields beside [`Reach::shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressField {
    /// Field that holds the address.
    pub addr: FieldRef,
    /// Field that holds the length in bytes; `None` where the call does not tell it.
    pub len: Option<FieldRef>,
    /// Whether 0 stands for no address.
    pub optional: bool,
}

impl AddressField {
    /// The range in a call with these arguments, at least one byte long; `None` if the call names none.
    #[must_use]
    pub fn extent(&self, args: &[u8]) -> Option<Extent> {
        let addr = self.addr.get(args);
        let len = self.len.map_or(1, |len| len.get(args).max(1));
        (addr != 0 || !self.optional).then_some(Extent { addr, len })
    }
}

/// A condition on the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// All these bits are set.
    Bits(FieldRef, u64),
    /// The field has this value.
    Equals(FieldRef, u64),
}

impl When {
    /// Whether it holds for these arguments.
    #[must_use]
    pub fn holds(&self, args: &[u8]) -> bool {
        match self {
            When::Always => true,
            When::Bits(field, bits) => field.get(args) & bits == *bits,
            When::Equals(field, value) => field.get(args) == *value,
        }
    }
}

/// What a call touches besides its argument struct, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Embedded pointers.
    pub pointers: &'static [Pointer],
    /// Descriptors.
    pub fds: &'static [FdField],
    /// Memory that stays shared.
    pub shared: &'static [SharedRange],
    /// Addresses that are the GPU's.
    pub addresses: &'static [AddressField],
    /// It may sleep until somebody else does something.
    pub blocking: bool,
    /// It may wait for the hardware or move much memory, and then takes milliseconds.
    pub slow: bool,
}

impl Reach {
    /// Nothing, and at once.
    pub const NONE: Reach =
        Reach { pointers: &[], fds: &[], shared: &[], addresses: &[], blocking: false, slow: false };
}

/// An argument that selects an operation, each with a layout of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Field that holds the operation.
    pub selector: FieldRef,
    /// The operations.
    pub list: &'static [Op],
}

impl Ops {
    /// The operation that these arguments select, or `None` for a value that no kernel knows.
    #[must_use]
    pub fn select(&self, args: &[u8]) -> Option<&'static Op> {
        let value = self.selector.get(args);
        self.list.iter().find(|op| u64::from(op.value) == value)
    }
}

/// One operation of an ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Value of the selector.
    pub value: u32,
    /// The uapi's name of that value.
    pub name: &'static str,
    /// The operation's own struct and its offset in the arguments.
    pub body: Option<(usize, Struct)>,
    /// What this operation touches. Field offsets count from the start of the whole argument struct.
    pub reach: Reach,
    /// A further selector inside the body.
    pub ops: Option<&'static Ops>,
}

/// An array that follows the argument struct directly, inside the request's size (SVM attributes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Field that holds the number of elements.
    pub count: FieldRef,
    /// One element.
    pub element: Struct,
}

/// What is known of a call without its arguments, for those who pass it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It names no descriptor and does not sleep.
    Plain,
    /// It names no descriptor and may sleep.
    Sleeps,
    /// It may name descriptors, or its arguments decide.
    Special,
}

/// The declaration of an ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decl {
    /// Which one.
    pub ioctl: Ioctl,
    /// The uapi's name (`AMDKFD_IOC_GET_VERSION`).
    pub name: &'static str,
    /// Command number.
    pub nr: u8,
    /// Direction in the kernel's table.
    pub direction: Direction,
    /// Argument struct of the kernel. A [`Tail`] is not counted in its size.
    pub args: Struct,
    /// Kernels that have it.
    pub kernels: Kernels,
    /// Minor version of the interface (`KFD_IOCTL_MINOR_VERSION`) with which it appeared; 0 where the uapi
    /// header names none.
    pub since: u32,
    /// What every call touches.
    pub reach: Reach,
    /// Operations, where an argument selects one.
    pub ops: Option<&'static Ops>,
    /// Elements that follow the struct.
    pub tail: Option<Tail>,
}

impl Decl {
    /// The request code of the uapi header, for the plain argument struct.
    #[must_use]
    pub const fn request(&self) -> u32 {
        // An argument struct is at most 400 bytes long (asserted by a test).
        self.direction.request_code(b'K', self.nr, self.args.size)
    }

    /// What is known of all its calls.
    pub(super) const fn manner(&self) -> Manner {
        if self.ops.is_some() || !self.reach.fds.is_empty() {
            Manner::Special
        } else if self.reach.blocking {
            Manner::Sleeps
        } else {
            Manner::Plain
        }
    }

    /// Everything that a call with these arguments touches: what every call does, then what the selected
    /// operation adds.
    pub fn reaches<'a>(&self, args: &'a [u8]) -> Reaches<'a> {
        Reaches { base: Some(self.reach), ops: self.ops, args }
    }

    /// Bytes that the request must have: with a [`Tail`] the struct and all its elements, else 0, because the
    /// kernel takes missing bytes for zeros.
    ///
    /// A request that is shorter than this fails with `EINVAL` (`kfd_ioctl_svm_validate`).
    #[must_use]
    pub fn required_size(&self, args: &[u8]) -> u64 {
        let Some(tail) = &self.tail else { return 0 };
        let elements = tail.count.get(args).saturating_mul(tail.element.size as u64);
        elements.saturating_add(self.args.size as u64)
    }
}

/// Iterator over what a call touches.
#[derive(Clone, Debug)]
pub struct Reaches<'a> {
    base: Option<Reach>,
    ops: Option<&'static Ops>,
    args: &'a [u8],
}

impl<'a> Reaches<'a> {
    /// What every call touches, then what the operation adds that `args` select.
    #[must_use]
    pub fn new(base: Reach, ops: Option<&'static Ops>, args: &'a [u8]) -> Self {
        Reaches { base: Some(base), ops, args }
    }
}

impl Iterator for Reaches<'_> {
    type Item = Reach;

    fn next(&mut self) -> Option<Reach> {
        if let Some(base) = self.base.take() {
            return Some(base);
        }
        let op = self.ops.take()?.select(self.args)?;
        self.ops = op.ops;
        Some(op.reach)
    }
}
