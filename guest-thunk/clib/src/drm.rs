//! libdrm_amdgpu: the device handles that `hsaKmtGetAMDGPUDeviceHandle` gives out, and the names of it that ROCr calls.
//!
//! ROCr 6 calls libdrm_amdgpu itself with the handle that it got from the thunk, and looks the names up in this library
//! first. Natively a handle is libdrm's own, so each of the names here is handed on to libdrm; where it is missing the
//! answer is `-ENOSYS`, with a line in the log. The library is loaded at the first use: programs that ask for no handle
//! do not need it.
//!
//! In a virtual machine the GPUs are the host's, of which libdrm knows nothing. Their handles are our own ([`own`]), told from libdrm's
//! by their values, and never go to libdrm.

mod own;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use hsakmt::Result;
use hsakmt::native::Paths;
use protocol::hsakmt::Status;
use protocol::kfd::Node;

use crate::fork_lock::ForkLock;
use crate::guard::Uncancelled;
use crate::library;

/// `amdgpu_device_handle`, as a number: it goes to C and comes back, and is never followed here.
pub type DeviceHandle = usize;

type Initialize = unsafe extern "C" fn(c_int, *mut u32, *mut u32, *mut DeviceHandle) -> c_int;
type Deinitialize = unsafe extern "C" fn(DeviceHandle) -> c_int;
type GetFd = unsafe extern "C" fn(DeviceHandle) -> c_int;

/// Held while libdrm is loaded and a device is opened, which takes locks of libdrm too, and while devices are looked up.
pub static OPENING: ForkLock = ForkLock::new();

/// The devices made so far, by path of their render node.
static DEVICES: Mutex<BTreeMap<PathBuf, DeviceHandle>> = Mutex::new(BTreeMap::new());

/// Opens a render node, for KFD and libdrm together.
///
/// libdrm keeps one device for each GPU of a process, with the descriptor of whoever came first; the address space of KFD
/// hangs on the descriptor too. So libdrm's is the one to use, where it tells which that is.
///
/// # Errors
/// Those of `open(2)`.
pub fn open_render_node(path: &Path) -> io::Result<OwnedFd> {
    let node = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)?;
    let _opening = OPENING.hold();
    match initialize(&node) {
        Some((handle, fd)) => {
            DEVICES.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), handle);
            Ok(fd.unwrap_or_else(|| node.into()))
        }
        None => Ok(node.into()),
    }
}

/// libdrm's device for an open render node, and its descriptor if libdrm tells it.
fn initialize(node: &File) -> Option<(DeviceHandle, Option<OwnedFd>)> {
    let initialize = symbol(c"amdgpu_device_initialize")?;
    // SAFETY: this is the type of the function of that name in <amdgpu.h>; the pointer is not NULL.
    let initialize: Initialize = unsafe { std::mem::transmute::<*mut c_void, Initialize>(initialize) };
    let (mut major, mut minor, mut handle) = (0, 0, 0);
    // SAFETY: an open descriptor, and three places to write to that outlive the call.
    let result = unsafe { initialize(node.as_raw_fd(), &raw mut major, &raw mut minor, &raw mut handle) };
    if result != 0 {
        log::debug!("amdgpu_device_initialize fails with {result}: the GPU has no libdrm handle");
        return None;
    }
    Some((handle, descriptor(handle)))
}

/// In a forked child: gives the parent's devices back, which libdrm would else hand out again for the same GPUs, with the
/// parent's descriptors. Nobody is waited for: after a bare fork system call, which runs no handlers, a lock that a thread of the
/// parent held is held for ever, and the devices stay as they are then.
pub fn abandon() {
    let Ok(mut devices) = DEVICES.try_lock() else { return };
    if devices.is_empty() {
        return;
    }
    let Some(deinitialize) = symbol(c"amdgpu_device_deinitialize") else { return };
    // SAFETY: this is the type of the function of that name in <amdgpu.h>; the pointer is not NULL.
    let deinitialize = unsafe { std::mem::transmute::<*mut c_void, Deinitialize>(deinitialize) };
    for (_, handle) in std::mem::take(&mut *devices) {
        // SAFETY: libdrm made this handle, and it is given back once.
        unsafe { deinitialize(handle) };
    }
}

/// A duplicate of the descriptor that libdrm uses for the device. Before libdrm 2.4.119 it could not be asked.
fn descriptor(handle: DeviceHandle) -> Option<OwnedFd> {
    let get_fd = symbol(c"amdgpu_device_get_fd")?;
    // SAFETY: this is the type of the function of that name in <amdgpu.h>; the pointer is not NULL.
    let get_fd: GetFd = unsafe { std::mem::transmute::<*mut c_void, GetFd>(get_fd) };
    // SAFETY: libdrm made this handle, and only a forked child gives its copy back (`abandon`).
    let fd = unsafe { get_fd(handle) };
    if fd < 0 {
        return None;
    }
    // SAFETY: libdrm keeps its descriptor open as long as the device, which is there until `abandon`.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    fd.try_clone_to_owned().ok()
}

/// The handle of the GPU with the render node of this minor (`hsaKmtGetAMDGPUDeviceHandle`).
///
/// # Errors
/// `INVALID_HANDLE` where libdrm made none.
pub fn device(minor: u32) -> Result<DeviceHandle> {
    if library::virtio().is_some() {
        return Ok(own::handle(minor));
    }
    let path = Paths::default().node(Node::Render(minor));
    let _opening = OPENING.hold();
    let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.get(&path).copied().ok_or_else(|| {
        log::debug!("{} has no libdrm device", path.display());
        Status::InvalidHandle
    })
}

/// A function of libdrm_amdgpu or of libdrm, which it loads.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    static LIBRARY: OnceLock<Option<usize>> = OnceLock::new();
    let library = *LIBRARY.get_or_init(|| {
        // SAFETY: a NUL-terminated name. The library's constructors do nothing but set up libdrm itself.
        let library =
            unsafe { libc::dlopen(c"libdrm_amdgpu.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        (!library.is_null()).then(|| library.expose_provenance())
    });
    let library = library?;
    // SAFETY: `dlopen` gave this handle, and it is never closed; the name ends with NUL.
    let symbol = unsafe { libc::dlsym(std::ptr::with_exposed_provenance_mut(library), name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

/// Calls libdrm's function of a name.
macro_rules! of_libdrm {
    ($name:ident($($arg:ident: $ty:ty),*)) => {{
        type Function = unsafe extern "C" fn($($ty),*) -> c_int;
        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("one NUL, at the end"),
        };
        let opening = OPENING.hold();
        let found = symbol(NAME);
        drop(opening);
        let Some(function) = found else {
            log::error!(concat!(stringify!($name), ": libdrm_amdgpu.so.1 is not there, or too old for this"));
            return -libc::ENOSYS;
        };
        // SAFETY: this is the type of the function of that name in libdrm's headers; the pointer is not NULL.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(function) };
        // SAFETY: the arguments are those that the caller promises to be right for that function.
        unsafe { function($($arg),*) }
    }};
}

/// Declares a function that calls libdrm's of the same name.
macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As libdrm's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            let _uncancelled = Uncancelled::new();
            of_libdrm!($name($($arg: $ty),*))
        }
    )*
        /// All names of libdrm that are here.
        pub(crate) const NAMES: &[&str] =
            &["amdgpu_query_gpu_info", "amdgpu_bo_import", $(stringify!($name)),*];
    };
}

// Buffers come from libdrm alone: none of them is ever ours.
forward! {
    /// `amdgpu_bo_export` of libdrm_amdgpu.
    fn amdgpu_bo_export(bo: *mut c_void, kind: u32, handle: *mut u32);
    /// `amdgpu_bo_free` of libdrm_amdgpu.
    fn amdgpu_bo_free(bo: *mut c_void);
    /// `amdgpu_bo_cpu_map` of libdrm_amdgpu.
    fn amdgpu_bo_cpu_map(bo: *mut c_void, address: *mut *mut c_void);
    /// `amdgpu_bo_va_op` of libdrm_amdgpu.
    fn amdgpu_bo_va_op(bo: *mut c_void, offset: u64, size: u64, address: u64, flags: u64, operation: u32);
    /// `drmCommandWriteRead` of libdrm.
    fn drmCommandWriteRead(fd: c_int, command: c_ulong, data: *mut c_void, size: c_ulong);
}

/// `amdgpu_query_gpu_info` of libdrm_amdgpu, or of a virtual machine's GPU.
///
/// # Safety
/// As libdrm's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_query_gpu_info(device: *mut c_void, info: *mut c_void) -> c_int {
    let _uncancelled = Uncancelled::new();
    match own::minor_of(device.expose_provenance()) {
        // SAFETY: the caller promises the pointer that libdrm's function takes.
        Some(minor) => unsafe { own_info(minor, info) },
        None => of_libdrm!(amdgpu_query_gpu_info(device: *mut c_void, info: *mut c_void)),
    }
}

/// `amdgpu_bo_import` of libdrm_amdgpu. A virtual machine's GPU takes no buffers of others.
///
/// # Safety
/// As libdrm's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_bo_import(
    device: *mut c_void,
    kind: u32,
    handle: u32,
    result: *mut c_void,
) -> c_int {
    let _uncancelled = Uncancelled::new();
    if own::minor_of(device.expose_provenance()).is_some() {
        log::warn!("amdgpu_bo_import: a virtual machine's GPU takes no buffers of other drivers");
        return -libc::EOPNOTSUPP;
    }
    of_libdrm!(amdgpu_bo_import(device: *mut c_void, kind: u32, handle: u32, result: *mut c_void))
}

/// `amdgpu_query_gpu_info` of a handle that must be a virtual machine's.
///
/// # Safety
/// `info` is NULL, or a `struct amdgpu_gpu_info` can be written there.
pub(crate) unsafe fn own_query(device: *mut c_void, info: *mut c_void) -> c_int {
    let Some(minor) = own::minor_of(device.expose_provenance()) else {
        log::debug!("vamdgpu_query_gpu_info: no handle of a virtual machine's GPU");
        return -libc::ENODEV;
    };
    // SAFETY: the caller promises so.
    unsafe { own_info(minor, info) }
}

/// # Safety
/// As [`own_query`].
unsafe fn own_info(minor: u32, info: *mut c_void) -> c_int {
    if info.is_null() {
        return -libc::EINVAL;
    }
    match own::query_gpu_info(minor) {
        Ok(found) => {
            // SAFETY: it is not NULL, and the caller promises the rest; it need not be aligned.
            unsafe { info.cast::<own::GpuInfo>().write_unaligned(found) };
            0
        }
        Err(errno) => {
            log::error!("amdgpu_query_gpu_info: the host's driver does not tell: {errno}");
            -errno.raw()
        }
    }
}
