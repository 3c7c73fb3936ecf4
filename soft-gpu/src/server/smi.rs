//! SMI_EVENTS: a descriptor on which a program reads what happens to a GPU (`kfd_smi_events.c`).
//!
//! The descriptor is one end of a socket pair. The program chooses events by writing a mask of 8 bytes; the
//! device looks at it when something happens, so the order of masks and events is kept and no thread is needed.
//! Reads without events answer `EAGAIN` at once, as the kernel's do. Unlike there, a write of another length
//! than 8 is not refused at once: bytes are taken in groups of 8.

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use protocol::Errno;
use protocol::kfd::args::SmiEventsArgs;
use protocol::kfd::constants::SmiEvent;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::dispatch::Cx;

/// Bytes that wait for a reader, about; events that do not fit are lost. The kernel has room for 1024
/// (`MAX_KFIFO_SIZE`), a socket rounds that up.
const FIFO: usize = 1024;

/// Readers of one GPU at most.
const MOST_CLIENTS: usize = 1024;

/// The readers of one GPU's events.
#[derive(Debug, Default)]
pub(crate) struct SmiClients {
    clients: Mutex<Vec<SmiClient>>,
}

/// One reader (`struct kfd_smi_client`).
#[derive(Debug)]
struct SmiClient {
    socket: OwnedFd,
    pid: u32,
    /// May see the events of other processes.
    privileged: bool,
    /// Chosen events: bit `n - 1` is event `n`.
    mask: u64,
    /// Start of a mask that came in pieces.
    partial: Vec<u8>,
}

/// `KFD_SMI_EVENT_MASK_FROM_INDEX`.
fn mask_of(event: SmiEvent) -> u64 {
    event.0.checked_sub(1).and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0)
}

/// `kfd_ioctl_smi_events`.
pub(super) fn smi_events(cx: &Cx<'_>, args: &mut SmiEventsArgs) -> Result<(), Errno> {
    let gpu = cx.process.device.gpu(args.gpuid).ok_or(Errno::EINVAL)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|_| Errno::EMFILE)?;
    set_socket_send_buffer_size(&socket, FIFO).map_err(|_| Errno::ENOMEM)?;
    let mut clients = gpu.smi.clients.lock().unwrap_or_else(PoisonError::into_inner);
    clients.retain_mut(|client| client.read_masks());
    if clients.len() >= MOST_CLIENTS {
        return Err(Errno::ENOMEM);
    }
    let fd = cx.call.install(theirs)?;
    args.anon_fd = u32::try_from(fd).map_err(|_| Errno::EBADF)?;
    let caller = &cx.process.caller;
    clients.push(SmiClient {
        socket,
        pid: caller.pid,
        privileged: caller.privileged,
        mask: 0,
        partial: Vec::new(),
    });
    Ok(())
}

impl SmiClients {
    /// `kfd_smi_event_add`: tells every reader that chose the event. `pid` is the process that it is about, 0
    /// for none in particular.
    pub(crate) fn add(&self, pid: u32, event: SmiEvent, text: &str) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.is_empty() {
            return;
        }
        let message = format!("{:x} {text}\n", event.0);
        clients.retain_mut(|client| {
            let alive = client.read_masks();
            if alive && client.wants(pid, event) {
                client.send(message.as_bytes());
            }
            alive
        });
    }

    /// Takes the readers out that have closed their descriptor.
    pub(crate) fn prune(&self) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain_mut(SmiClient::read_masks);
    }
}

impl SmiClient {
    /// `kfd_smi_ev_enabled`.
    fn wants(&self, pid: u32, event: SmiEvent) -> bool {
        let all = self.privileged && self.mask & mask_of(SmiEvent::ALL_PROCESS) != 0;
        (pid == 0 || pid == self.pid || all) && self.mask & mask_of(event) != 0
    }

    /// Takes in what the reader wrote, up to a bound. False when it is gone.
    fn read_masks(&mut self) -> bool {
        let mut bytes = [0; 512];
        for _ in 0..64 {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((len, _)) => self.partial.extend_from_slice(bytes.get(..len).unwrap_or_default()),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                Err(_) => return false,
            }
            let (masks, rest) = self.partial.as_chunks::<8>();
            if let Some(mask) = masks.last() {
                self.mask = u64::from_le_bytes(*mask);
            }
            self.partial = rest.to_vec();
        }
        true
    }

    fn send(&self, message: &[u8]) {
        // Small enough for one buffer, so it goes as a whole or not at all.
        if let Err(error) = send(&self.socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            log::debug!("an SMI event is lost: {error}");
        }
    }
}

/// The messages, as the kernel writes them (`KFD_EVENT_FMT_*`).
impl SmiClients {
    /// `kfd_smi_event_update_vmfault`.
    pub(crate) fn vm_fault(&self, pid: u32) {
        self.add(pid, SmiEvent::VMFAULT, &format!("{pid:x}:{}", command_name(pid)));
    }
}

/// The command name of a process, as the kernel knows it; empty if it cannot be read.
fn command_name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map(|name| name.trim_end().to_owned())
        .unwrap_or_default()
}
