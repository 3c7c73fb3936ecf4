//! Calls without a subject of their own.

use protocol::Errno;
use protocol::kfd::args::GetVersionArgs;

use super::dispatch::Cx;

/// `kfd_ioctl_get_version`.
pub(super) fn get_version(cx: &Cx<'_>, args: &mut GetVersionArgs) -> Result<(), Errno> {
    (args.major_version, args.minor_version) = cx.process.device.kernel.kfd_version();
    Ok(())
}
