//! RUNTIME_ENABLE: the ROCm runtime says that it is there.

use protocol::Errno;
use protocol::kfd::args::RuntimeEnableArgs;
use protocol::kfd::constants::{ExceptionCode, RuntimeMode, RuntimeState};

use crate::server::dispatch::Cx;

/// `kfd_ioctl_runtime_enable`. With a debugger attached it waits for the debugger's answer.
pub(in crate::server) fn runtime_enable(cx: &Cx<'_>, args: &mut RuntimeEnableArgs) -> Result<(), Errno> {
    let has_queues = cx.process.has_queues();
    let mut state = cx.process.debug.lock();
    let retry = state.runtime_retry;
    if args.mode_mask & RuntimeMode::ENABLE.0 != 0 {
        if !retry {
            if state.runtime.runtime_state != RuntimeState::DISABLED.0 {
                return Err(Errno::EBUSY);
            }
            if has_queues {
                return Err(Errno::EEXIST);
            }
            state.runtime.runtime_state = RuntimeState::ENABLED.0;
            state.runtime.r_debug = args.r_debug;
            state.runtime.ttmp_setup = u32::from(args.mode_mask & RuntimeMode::TTMP_SAVE.0 != 0);
        }
    } else {
        state.runtime.runtime_state = RuntimeState::DISABLED.0;
        state.runtime.r_debug = 0;
    }
    if state.attached.is_some() {
        if !retry {
            state.raise_process(ExceptionCode::PROCESS_RUNTIME.mask().unwrap_or(0));
        }
        drop(state);
        let answered = cx.process.debug.runtime_answer.down(cx.call);
        state = cx.process.debug.lock();
        state.runtime_retry = answered.is_err();
        answered?;
    }
    if args.mode_mask & RuntimeMode::ENABLE.0 == 0 {
        state.runtime.ttmp_setup = 0;
    }
    Ok(())
}
