//! The thread of a context's calls: takes them, executes what is short, and gives the rest to other threads.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::kfd::flat::Declared as _;
use protocol::kfd::{Caller, FileId, Interrupt, Kfd, Node, Pages, ProcessId};
use protocol::virtio_gpu::constants::WINDOW_BLOB;
use protocol::wire::area::QUEUE_LEN;
use protocol::wire::structs::{HelloAnswer, Range};
use protocol::wire::{
    Answer, DecodeError, IoctlAnswer, IoctlCall, Request, VERSION_MAX, VERSION_MIN, feature, tree,
};
use protocol::{Declaration, Errno};

use super::area::Area;
use super::blob::Blobs;
use super::config::Config;
use super::grants::Grants;
use super::ioctl::{Client, Outcome};
use super::mapping::{self, Mappings, PAGE};
use super::policy::Policy;
use super::pool::Pool;
use super::range;
use super::relay::Relay;
use super::session::{Call, Message, Session};
use super::space::{AddressRange, GuestMem, SpaceLimits};
use super::topology::{Sight, for_guest};
use crate::worker::allowance::Allowance;

/// Threads for calls that take long but do not wait for others.
const SLOW_THREADS: usize = 2;

/// Bytes of a TOPOLOGY's answer before the part.
const TOPOLOGY_HEAD: usize = size_of::<protocol::wire::structs::TopologyAnswer>();

/// What the thread works with.
pub(super) struct Server {
    // Dropped in this order: first the threads end, which use the client.
    waits: Pool,
    slow: Pool,
    context: Option<Arc<Context>>,
    /// Bytes of requests in the pools.
    waiting: Arc<AtomicUsize>,
    session: Arc<Session>,
    blobs: Arc<Blobs>,
    config: Config,
    pid: u32,
    kfd: Arc<dyn Kfd>,
    mappings: Arc<Mappings>,
    allowance: Arc<Allowance>,
}

/// A context after HELLO.
struct Context {
    client: Client,
    kfd: Arc<dyn Kfd>,
    /// The topology as it was when the guest began to ask for it.
    tree: Mutex<Vec<u8>>,
    sight: Sight,
    /// Render nodes of the GPUs that the guest sees.
    minors: Vec<u32>,
    mappings: Arc<Mappings>,
}

/// Where a call is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// By this thread.
    Here,
    /// By a thread of those for slow calls.
    Slow,
    /// By a thread of its own.
    Waits,
}

impl Server {
    pub(super) fn new(
        session: Arc<Session>,
        blobs: Arc<Blobs>,
        config: Config,
        pid: u32,
        kfd: Arc<dyn Kfd>,
        mappings: Arc<Mappings>,
        allowance: Arc<Allowance>,
    ) -> Server {
        let waits = Pool::new("kfd-wait", config.waits as usize);
        let slow = Pool::new("kfd-slow", SLOW_THREADS);
        let waiting = Arc::default();
        Server { waits, slow, context: None, waiting, session, blobs, config, pid, kfd, mappings, allowance }
    }

    /// Takes calls until the session ends. When this returns, everything of the context is gone.
    pub(super) fn serve(mut self) {
        let mut taken = 0_u32;
        while !self.session.has_ended() {
            match self.session.area().submitted().wrapping_sub(taken) {
                0 => self.session.wait_for_more(taken, self.config.spin),
                1..=QUEUE_LEN => {
                    let number = self.session.area().queued(taken);
                    taken = taken.wrapping_add(1);
                    self.session.area().set_taken(taken);
                    if let Some((call, message)) = self.session.take(number, &self.blobs) {
                        self.execute(call, message);
                    }
                }
                jump => {
                    log::error!("the guest says that it submitted {jump} calls at a time: its context ends");
                    self.session.end();
                }
            }
        }
    }

    fn execute(&mut self, call: Call, message: Message) {
        let request = match Request::decode(message.command, &message.request) {
            Ok(request) => request,
            Err(DecodeError::Unknown(command)) => {
                log::debug!("unknown command {command}");
                return call.finish(Err(Errno::EOPNOTSUPP));
            }
            Err(error) => {
                log::debug!("a request that is none: {error}");
                return call.finish(Err(Errno::EPROTO));
            }
        };
        let Some(context) = self.context.clone() else { return self.first(call, &request) };
        match &request {
            Request::Ioctl(ioctl) if lane(ioctl) == Lane::Waits => context.client.relay.look(),
            _ => context.client.relay.heat(),
        }
        match request {
            Request::Hello { .. } => call.finish(Err(Errno::EPROTO)),
            Request::Ioctl(ioctl) => match lane(&ioctl) {
                Lane::Here => context.ioctl(call, &ioctl, &Interrupt::new()),
                Lane::Waits => match context.client.try_wait(&ioctl) {
                    Ok(None) => self.elsewhere(Lane::Waits, context, call, message),
                    Ok(Some(outcome)) => call.finish(Ok(&outcome.answer())),
                    Err(errno) => call.finish(Err(errno)),
                },
                Lane::Slow => self.elsewhere(Lane::Slow, context, call, message),
            },
            Request::Alias { resource, offset, addresses } => {
                let done = self.alias(&context, resource, offset, &addresses);
                call.finish(done.map(|()| &Answer::Nothing));
            }
            Request::AddSlots { resource } => {
                let area = self.blobs.wait_for(resource).and_then(Area::further);
                let done = area.and_then(|area| self.session.add_area(area));
                call.finish(done.map(|()| &Answer::Nothing));
            }
            Request::Doorbells { file, place, resource } => {
                let done = self.doorbells(&context, file, &place, resource);
                call.finish(done.map(|()| &Answer::Nothing));
            }
            Request::Place { file, place, resource } => {
                let done = self.place(&context, file, &place, resource);
                call.finish(done.map(|()| &Answer::Nothing));
            }
            Request::Cancel { slot } => {
                self.session.cancel(slot);
                call.finish(Ok(&Answer::Nothing));
            }
            request => context.execute(call, &request),
        }
    }

    /// The first command is HELLO.
    fn first(&mut self, call: Call, request: &Request<'_>) {
        let Request::Hello { versions, features, page_size, ranges } = *request else {
            return call.finish(Err(Errno::EPROTO));
        };
        let said = self.hello(versions, features, page_size, ranges);
        let said = said.map(|(context, answer)| {
            self.context = Some(Arc::new(context));
            Answer::Hello(answer)
        });
        call.finish(said.as_ref().map_err(|errno| *errno));
    }

    fn hello(
        &self,
        (lowest, highest): (u32, u32),
        features: u64,
        page_size: u32,
        ranges: &[Range],
    ) -> Result<(Context, HelloAnswer), Errno> {
        let version = highest.min(VERSION_MAX);
        if version < lowest.max(VERSION_MIN) {
            log::warn!("the guest speaks versions {lowest} to {highest} of the wire, not {VERSION_MAX}");
            return Err(Errno::EOPNOTSUPP);
        }
        if u64::from(page_size) != PAGE {
            log::warn!("the guest has pages of {page_size} bytes, not {PAGE}");
            return Err(Errno::EINVAL);
        }
        let window = self.config.window && features & feature::WINDOW != 0;
        let Config { permissions, gpus, identity, .. } = self.config;
        let sight = Sight { debug: permissions.debug, window, gpus, identity };
        let (topology, _) = for_guest(&self.kfd.topology()?, sight)?;
        let common = range::of_all_gpus(&topology)?;
        let limits = SpaceLimits { bytes: self.config.memory, aliases: self.config.aliases as usize };
        let space = Arc::new(range::choose(ranges, common, limits, &self.mappings)?);
        let pid = self.pid;
        let caller = Caller {
            id: ProcessId(pid.into()),
            pid,
            privileged: false,
            mem: Some(Arc::new(GuestMem(Arc::clone(&space)))),
        };
        let process = self.kfd.attach(caller)?;
        let range = space.range();
        log::debug!("the context has {:#x} bytes from {:#x} on", range.len, range.base);
        let answer = HelloAnswer {
            version: version.into(),
            addresses: Range { base: range.base.into(), len: range.len.into() },
            memory_limit: self.config.memory.min(range.len).into(),
            alias_limit: self.config.aliases.into(),
            wait_limit: self.config.waits.into(),
            features: if window { feature::WINDOW } else { 0 }.into(),
            window_blob: if window { WINDOW_BLOB } else { 0 }.into(),
            ..HelloAnswer::default()
        };
        let gpus = topology.gpus().map(|gpu| gpu.gpu_id).collect();
        let policy = Policy::new(range, permissions, window, gpus);
        let grants = Grants { allowance: Arc::clone(&self.allowance), queues: self.config.queues };
        let context = Context {
            client: Client::new(process, space, Relay::new(!self.config.spin.is_zero()), policy, grants),
            kfd: Arc::clone(&self.kfd),
            tree: Mutex::default(),
            sight,
            minors: topology.gpus().map(|gpu| gpu.properties.drm_render_minor).collect(),
            mappings: Arc::clone(&self.mappings),
        };
        Ok((context, answer))
    }

    fn alias(&self, context: &Context, resource: u32, offset: u64, at: &Range) -> Result<(), Errno> {
        let at = addresses(at)?;
        let blob = self.blobs.wait_for(resource)?;
        context.client.space.alias(at, blob, offset)
    }

    /// The window's memory becomes the device's, as long as the device has it.
    fn place(&self, context: &Context, file: FileId, place: &Range, resource: u32) -> Result<(), Errno> {
        if !context.sight.window {
            return Err(Errno::EOPNOTSUPP);
        }
        let place = addresses(place)?;
        let blob = self.blobs.wait_for(resource)?;
        let pieces = blob.part(0, place.len).filter(|_| blob.size() == place.len).ok_or(Errno::EINVAL)?;
        let [piece] = &pieces[..] else { return Err(Errno::EINVAL) };
        // What is mapped over a file's mapping splits it; and the view that it is copied through.
        let taken = context.mappings.take(3)?;
        let keep = Box::new((Arc::clone(&blob), taken));
        let pages = Pages { fd: piece.file.as_fd(), offset: piece.offset, keep };
        context.client.process.place(file, place.base, place.len, pages)
    }

    fn doorbells(&self, context: &Context, file: FileId, place: &Range, resource: u32) -> Result<(), Errno> {
        if context.sight.window {
            return Err(Errno::EOPNOTSUPP);
        }
        let place = addresses(place)?;
        let blob = self.blobs.wait_for(resource)?;
        let mapping = context.client.process.mmap(file, place.base, place.len)?;
        if mapping.len != place.len || !mapping.writable {
            return Err(Errno::EINVAL);
        }
        let device = mapping::file(&mapping.fd, mapping.offset, mapping.len, &context.mappings)?;
        context.client.relay.set_pages(place, blob, device)
    }

    /// Gives a call to a thread that may take long.
    fn elsewhere(&mut self, lane: Lane, context: Arc<Context>, call: Call, message: Message) {
        let bytes = message.request.len();
        let waiting = self.waiting.load(Ordering::Relaxed);
        let pool = if lane == Lane::Waits { &mut self.waits } else { &mut self.slow };
        // What waits for others must have a thread, or it may wait for a call behind it.
        let full = lane == Lane::Waits && !pool.has_room();
        if full || waiting.saturating_add(bytes) > self.config.waiting_bytes {
            return call.finish(Err(Errno::EAGAIN));
        }
        // Registered before another call can cancel it.
        let interrupt = call.interrupt();
        let held = Held::new(&self.waiting, bytes);
        let started = pool.run(move || {
            if let Ok(Request::Ioctl(ioctl)) = Request::decode(message.command, &message.request) {
                context.ioctl(call, &ioctl, &interrupt);
            }
            // The context goes before the pool may think that the job is done.
            drop((context, held));
        });
        if let Err(error) = started {
            log::error!("a call of the guest is not executed: {error}");
        }
    }
}

/// Bytes that are counted as long as this lives.
struct Held {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl Held {
    fn new(sum: &Arc<AtomicUsize>, bytes: usize) -> Held {
        sum.fetch_add(bytes, Ordering::Relaxed);
        Held { sum: Arc::clone(sum), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn lane(ioctl: &IoctlCall<'_>) -> Lane {
    let (mut blocking, mut slow) = (false, false);
    for reach in Declaration::of(ioctl.request).reaches(ioctl.args) {
        blocking |= reach.blocking;
        slow |= reach.slow;
    }
    match (blocking, slow) {
        (true, _) => Lane::Waits,
        (false, true) => Lane::Slow,
        (false, false) => Lane::Here,
    }
}

fn addresses(range: &Range) -> Result<AddressRange, Errno> {
    AddressRange::new(range.base.get(), range.len.get()).ok_or(Errno::EINVAL)
}

impl Outcome {
    fn answer(&self) -> Answer<'_> {
        Answer::Ioctl(IoctlAnswer { result: self.result, args: &self.args, writes: &self.writes })
    }
}

impl Context {
    /// Commands that are short and concern the KFD alone.
    fn execute(&self, call: Call, request: &Request<'_>) {
        let process = &self.client.process;
        match *request {
            Request::Topology { offset } => self.topology(call, offset),
            Request::Open(node) => {
                let shown = !matches!(node, Node::Render(minor) if !self.minors.contains(&minor));
                let opened = if shown { process.open(node) } else { Err(Errno::ENOENT) };
                let opened = opened.map(Answer::Open);
                call.finish(opened.as_ref().map_err(|errno| *errno));
            }
            Request::Close(file) => {
                process.close(file);
                call.finish(Ok(&Answer::Nothing));
            }
            Request::Transfer { file, request } => {
                let transfer = process.transfer(file, request).map(Answer::Transfer);
                call.finish(transfer.as_ref().map_err(|errno| *errno));
            }
            Request::Unalias { addresses: at } => {
                let done = addresses(&at).and_then(|at| self.client.space.unalias(at));
                call.finish(done.map(|()| &Answer::Nothing));
            }
            // The server's.
            _ => call.finish(Err(Errno::EPROTO)),
        }
    }

    fn topology(&self, call: Call, offset: u64) {
        let mut bytes = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            let read = self.kfd.topology().and_then(|tree| for_guest(&tree, self.sight));
            match read {
                Ok((_, files)) => *bytes = tree::encode(&files),
                Err(errno) => return call.finish(Err(errno)),
            }
        }
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let room = call.room().saturating_sub(TOPOLOGY_HEAD);
        let part = rest.get(..room.min(rest.len())).unwrap_or_default();
        call.finish(Ok(&Answer::Topology { total: bytes.len() as u64, part }));
    }

    fn ioctl(&self, call: Call, ioctl: &IoctlCall<'_>, interrupt: &Interrupt) {
        match self.client.ioctl(ioctl, interrupt) {
            Ok(outcome) => call.finish(Ok(&outcome.answer())),
            Err(errno) => call.finish(Err(errno)),
        }
    }
}
