//! Descriptor numbers in the arguments of a call.
//!
//! The numbers in a call's arguments mean what [`Call::descriptor`] says; the kernel needs its own. So each
//! number that a call passes in is exchanged for the time of the call, and each one that the call made
//! becomes the caller's by [`Call::install`].
//!
//! Numbers in memory behind a pointer (`CRIU_OP` only) are left as they are: they are read and written by the
//! kernel, and mean descriptors of this process.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::flat::Declared;
use protocol::kfd::ioctl::{FdPlace, FieldRef};
use protocol::kfd::{Call, FileId, PassedFd};

/// Descriptors in the arguments of one call at most, each way. A test compares this with the declarations.
pub(super) const MOST: usize = 1;

/// The descriptor fields of one call.
#[derive(Default)]
pub(super) struct Descriptors {
    passed: [Option<Passed>; MOST],
    made: [Option<FieldRef>; MOST],
}

/// One number that was exchanged.
struct Passed {
    field: FieldRef,
    /// The caller's number, to be put back.
    callers: u64,
    /// What the kernel's number stands for; keeps it good while the call runs.
    real: Real,
}

/// What the kernel's number stands for.
enum Real {
    File(Arc<OwnedFd>),
    Foreign(OwnedFd),
    Nothing,
}

impl Real {
    fn number(&self) -> i32 {
        match self {
            Real::File(fd) => fd.as_raw_fd(),
            Real::Foreign(fd) => fd.as_raw_fd(),
            Real::Nothing => -1,
        }
    }
}

impl Descriptors {
    /// Exchanges the numbers that the call passes in for the kernel's.
    ///
    /// A number that stands for nothing becomes -1, so that the kernel gives its own error at its own time.
    ///
    /// # Errors
    /// Those of [`Call::descriptor`] but `EBADF`, and what `file` answers for a file that is not open. The
    /// arguments are then as they were.
    pub(super) fn exchange(
        declared: impl Declared,
        args: &mut [u8],
        call: &dyn Call,
        file: impl Fn(FileId) -> Result<Arc<OwnedFd>, Errno>,
    ) -> Result<Self, Errno> {
        let mut descriptors = Self::find(declared, args);
        for passed in descriptors.passed.iter_mut().flatten() {
            let real = match call.descriptor(to_fd(passed.callers)) {
                Ok(PassedFd::File(id)) => Real::File(file(id)?),
                Ok(PassedFd::Foreign(fd)) => Real::Foreign(fd),
                Err(Errno::EBADF) => Real::Nothing,
                Err(errno) => return Err(errno),
            };
            passed.real = real;
        }
        for passed in descriptors.passed.iter().flatten() {
            put(args, passed.field, from_fd(passed.real.number()));
        }
        Ok(descriptors)
    }

    /// The fields of a call with these arguments. Fields that the arguments do not have read as 0 in the
    /// kernel; there is nowhere to put another number.
    fn find(declared: impl Declared, args: &[u8]) -> Self {
        let mut found = Self::default();
        let fields = declared.reaches(args).flat_map(|reach| reach.fds).filter_map(|fd| match fd.place {
            FdPlace::Args(field) if field.offset + field.size <= args.len() => Some((fd.flow, field)),
            FdPlace::Args(_) | FdPlace::Element { .. } => None,
        });
        let (mut passed, mut made) = (found.passed.iter_mut(), found.made.iter_mut());
        for (flow, field) in fields {
            if flow.reads()
                && let Some(slot) = passed.next()
            {
                *slot = Some(Passed { field, callers: field.get(args), real: Real::Nothing });
            }
            if flow.writes()
                && let Some(slot) = made.next()
            {
                *slot = Some(field);
            }
        }
        found
    }

    /// Puts the caller's numbers back.
    pub(super) fn restore(&self, args: &mut [u8]) {
        for passed in self.passed.iter().flatten() {
            put(args, passed.field, passed.callers);
        }
    }

    /// After a call that succeeded: gives the descriptors that it made to the caller.
    ///
    /// # Errors
    /// Those of [`Call::install`]; the descriptor is closed then.
    ///
    /// # Safety
    /// The kernel has just executed the call successfully with these arguments, so that the numbers in the
    /// fields are descriptors that nobody owns yet.
    pub(super) unsafe fn hand_out(&self, args: &mut [u8], call: &dyn Call) -> Result<(), Errno> {
        for &field in self.made.iter().flatten() {
            let number = to_fd(field.get(args));
            if number < 0 {
                continue;
            }
            // SAFETY: the number is not negative, and by the contract of this function it is a new descriptor
            // of which this is the one owner.
            let made = unsafe { OwnedFd::from_raw_fd(number) };
            put(args, field, from_fd(call.install(made)?));
        }
        Ok(())
    }
}

/// The low 32 bits, as the kernel takes them.
fn to_fd(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn from_fd(fd: i32) -> u64 {
    u64::from(u32::from_le_bytes(fd.to_le_bytes()))
}

fn put(args: &mut [u8], field: FieldRef, value: u64) {
    let at = args.get_mut(field.offset..).unwrap_or_default();
    for (to, from) in at.iter_mut().zip(value.to_le_bytes()).take(field.size) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use protocol::drm::DrmIoctl;
    use protocol::drm::args::PrimeHandle;
    use protocol::kfd::Ioctl;
    use protocol::kfd::args::{AcquireVmArgs, DbgTrapArgs, ExportDmabufArgs, ImportDmabufArgs};
    use protocol::kfd::ioctl::Ops;
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;
    use crate::testing::{TestCall, is_open};

    fn null() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn no_file(_: FileId) -> Result<Arc<OwnedFd>, Errno> {
        Err(Errno::EBADF)
    }

    fn fields<'a>(fds: impl Iterator<Item = &'a protocol::kfd::ioctl::FdField>) -> [usize; 2] {
        let mut count = [0, 0];
        for fd in fds.filter(|fd| matches!(fd.place, FdPlace::Args(_))) {
            count[0] += usize::from(fd.flow.reads());
            count[1] += usize::from(fd.flow.writes());
        }
        count
    }

    #[test]
    fn no_call_names_more_descriptors_than_there_is_room_for() {
        fn widest(ops: Option<&Ops>) -> [usize; 2] {
            ops.iter().flat_map(|ops| ops.list).fold([0, 0], |most, op| {
                let (own, inner) = (fields(op.reach.fds.iter()), widest(op.ops));
                [most[0].max(own[0] + inner[0]), most[1].max(own[1] + inner[1])]
            })
        }
        let kfd = Ioctl::ALL.iter().map(|ioctl| (ioctl.decl().reach, ioctl.decl().ops));
        let drm = DrmIoctl::ALL.iter().map(|ioctl| (ioctl.decl().reach, ioctl.decl().ops));
        for (reach, ops) in kfd.chain(drm) {
            let (base, op) = (fields(reach.fds.iter()), widest(ops));
            assert!(base[0] + op[0] <= MOST && base[1] + op[1] <= MOST, "{reach:?}");
        }
    }

    #[test]
    fn a_file_of_the_device_is_its_descriptor_during_the_call_only() {
        let real = Arc::new(null());
        let call = TestCall::default().with(3, PassedFd::File(FileId(7)));
        let mut args = AcquireVmArgs { drm_fd: 3, gpu_id: 9 };
        let file = |id| if id == FileId(7) { Ok(Arc::clone(&real)) } else { Err(Errno::EBADF) };
        let descriptors = Descriptors::exchange(Ioctl::AcquireVm, args.as_mut_bytes(), &call, file).unwrap();
        assert_eq!(i32::try_from(args.drm_fd).unwrap(), real.as_raw_fd());
        assert_eq!(Arc::strong_count(&real), 2, "held during the call");
        descriptors.restore(args.as_mut_bytes());
        assert_eq!((args.drm_fd, args.gpu_id), (3, 9));
        drop(descriptors);
        assert_eq!(Arc::strong_count(&real), 1);
    }

    #[test]
    fn a_foreign_descriptor_is_its_own_number_and_closed_after_the_call() {
        let foreign = null();
        let number = foreign.as_raw_fd();
        let call = TestCall::default().with(5, PassedFd::Foreign(foreign));
        let mut args = ImportDmabufArgs { dmabuf_fd: 5, ..Default::default() };
        let descriptors =
            Descriptors::exchange(Ioctl::ImportDmabuf, args.as_mut_bytes(), &call, no_file).unwrap();
        assert_eq!(i32::try_from(args.dmabuf_fd).unwrap(), number);
        assert!(is_open(number));
        descriptors.restore(args.as_mut_bytes());
        assert_eq!(args.dmabuf_fd, 5);
    }

    #[test]
    fn a_number_that_stands_for_nothing_is_minus_one_for_the_kernel() {
        let call = TestCall::default();
        let mut args = AcquireVmArgs { drm_fd: 77, gpu_id: 0 };
        let descriptors =
            Descriptors::exchange(Ioctl::AcquireVm, args.as_mut_bytes(), &call, no_file).unwrap();
        assert_eq!(args.drm_fd, u32::MAX);
        descriptors.restore(args.as_mut_bytes());
        assert_eq!(args.drm_fd, 77);
    }

    #[test]
    fn a_closed_file_is_ebadf_and_the_arguments_stay() {
        let call = TestCall::default().with(3, PassedFd::File(FileId(7)));
        let mut args = AcquireVmArgs { drm_fd: 3, gpu_id: 0 };
        let result = Descriptors::exchange(Ioctl::AcquireVm, args.as_mut_bytes(), &call, no_file);
        assert_eq!(result.err(), Some(Errno::EBADF));
        assert_eq!(args.drm_fd, 3);
    }

    #[test]
    fn a_descriptor_of_an_operation_is_found_by_its_selector() {
        // KFD_IOC_DBG_TRAP_ENABLE has a descriptor, KFD_IOC_DBG_TRAP_DISABLE none.
        for (op, fields) in [(0, 1), (1, 0)] {
            let args = DbgTrapArgs { op, ..Default::default() };
            let found = Descriptors::find(Ioctl::DbgTrap, args.as_bytes());
            assert_eq!(found.passed.iter().flatten().count(), fields, "operation {op}");
        }
    }

    #[test]
    fn a_field_that_the_arguments_do_not_have_is_not_touched() {
        let call = TestCall::default();
        let mut short = [0u8; 2];
        let descriptors = Descriptors::exchange(Ioctl::AcquireVm, &mut short, &call, no_file).unwrap();
        descriptors.restore(&mut short);
        assert_eq!(short, [0; 2]);
    }

    #[test]
    fn a_new_descriptor_becomes_the_callers() {
        let number = std::os::fd::IntoRawFd::into_raw_fd(null());
        let call = TestCall::default();
        let mut args = ExportDmabufArgs { dmabuf_fd: u32::try_from(number).unwrap(), ..Default::default() };
        let found = Descriptors::find(Ioctl::ExportDmabuf, args.as_bytes());
        // SAFETY: the number is a descriptor that was just given up by its owner.
        unsafe { found.hand_out(args.as_mut_bytes(), &call) }.unwrap();
        assert_eq!(args.dmabuf_fd, 1001, "the caller's number");
        assert_eq!(call.installed.lock().unwrap()[0].as_raw_fd(), number);
    }

    #[test]
    fn a_new_descriptor_that_cannot_be_installed_is_closed() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let call = TestCall { refuses: true, ..TestCall::default() };
        let mut args = PrimeHandle { fd: std::os::fd::IntoRawFd::into_raw_fd(read), ..Default::default() };
        let found = Descriptors::find(DrmIoctl::PrimeHandleToFd, args.as_bytes());
        // SAFETY: the number is a descriptor that was just given up by its owner.
        let result = unsafe { found.hand_out(args.as_mut_bytes(), &call) };
        assert_eq!(result, Err(Errno::EMFILE));
        // SIGPIPE is ignored in Rust programs.
        assert_eq!(rustix::io::write(&write, b"x"), Err(rustix::io::Errno::PIPE), "no reader is left");
    }

    proptest::proptest! {
        #[test]
        fn any_arguments_are_restored_to_the_bit(
            nr in 0u8..=255,
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..512),
        ) {
            use protocol::kfd::Family;
            let mut args = bytes.clone();
            for family in [Family::Mainline, Family::Rocm] {
                let Some(ioctl) = Ioctl::from_nr(nr, family) else { continue };
                let call = TestCall::default();
                let descriptors = Descriptors::exchange(ioctl, &mut args, &call, no_file).unwrap();
                descriptors.restore(&mut args);
                proptest::prop_assert_eq!(&args, &bytes);
            }
        }
    }

    #[test]
    fn numbers_convert_both_ways() {
        for fd in [0, 1, 77, i32::MAX, -1, i32::MIN] {
            assert_eq!(to_fd(from_fd(fd)), fd);
        }
        let args = PrimeHandle::read_from_bytes(&[0xff; 12]).unwrap();
        assert_eq!(args.fd, -1);
    }
}
