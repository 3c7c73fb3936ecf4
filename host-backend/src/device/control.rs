//! The commands of the control queue.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use protocol::virtio_gpu::capset::{self, Capset};
use protocol::virtio_gpu::constants::{CAPSET_HSAKMT, WINDOW_BLOB};
use protocol::virtio_gpu::structs::CtrlHdr;
use protocol::virtio_gpu::{
    BlobFlags, BlobMem, Command, CreateBlob, CreateContext, Features, Header, Request, Response,
};
use protocol::wire;
use zerocopy::{FromBytes, IntoBytes};

use super::answers::{Answer, Answers, Line, Repeated, Terms};
use super::blob::{Blob, Ledger};
use super::chain::{ChainError, Room};
use super::context::{BlobUse, Context, ContextInfo, Contexts, Submission};
use super::hold::Hold;
use super::limits::{ENTRIES, Limits, SUBMISSION};
use super::memory::{Layout, PAGE};
use super::refused::Refused;
use super::throttle;
use super::window::Window;

/// Number of capsets that GET_CAPSET_INFO knows.
pub const CAPSETS: u32 = 1;

/// What a command comes to.
enum Outcome {
    /// Answered now.
    Now(Answer, Result<Response, Refused>),
    /// Answered when the work is done.
    Later,
}

/// Contexts and blobs, and the commands on them.
pub struct Control {
    answers: Arc<Answers>,
    contexts: Box<dyn Contexts>,
    limits: Limits,
    ledger: Arc<Ledger>,
    window: Option<Arc<Window>>,
    state: Mutex<State>,
}

/// What the guest has. Held while a request is executed.
#[derive(Default)]
pub struct State {
    layout: Layout,
    contexts: HashMap<u32, OpenContext>,
    blobs: HashMap<u32, OpenBlob>,
    /// Number of the last context.
    last: u64,
}

struct OpenContext {
    number: u64,
    context: Box<dyn Context>,
    attached: HashSet<u32>,
}

struct OpenBlob {
    blob: Arc<Blob>,
    hold: Hold,
    /// Its memory was taken from the guest.
    lost: bool,
    /// It is memory of the host.
    host: Option<HostBlob>,
}

/// What is known of a blob of the window.
struct HostBlob {
    /// Number of its context.
    context: u64,
    /// Where it is in the window, once it was mapped.
    place: Option<u64>,
}

impl Control {
    pub(super) fn new(answers: Arc<Answers>, contexts: Box<dyn Contexts>, limits: Limits) -> Control {
        Control { answers, contexts, limits, ledger: Arc::default(), window: None, state: Mutex::default() }
    }

    pub(super) fn set_window(&mut self, window: Window) {
        self.window = Some(Arc::new(window));
    }

    pub(super) fn window(&self) -> Option<&Window> {
        self.window.as_deref()
    }

    /// The VMM is asked nothing until the next request.
    pub(super) fn pause(&self) {
        // A request is executed wholly before or after.
        let _state = self.lock();
        if let Some(window) = &self.window {
            window.stop();
        }
    }

    /// The device features that these commands are.
    #[must_use]
    pub fn features() -> Features {
        Features::VIRGL | Features::RESOURCE_BLOB | Features::CONTEXT_INIT
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all blobs cost.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Executes one request and answers it, now or later. `Err` means that the queue cannot go on.
    pub(super) fn execute(
        &self,
        state: &mut State,
        room: Room,
        received: Result<(), ChainError>,
        bytes: &[u8],
    ) -> Result<(), Repeated> {
        if let Err(error) = received {
            throttle::warn(format_args!("{error}"));
            return self.answers.give_back(room.head);
        }
        if room.is_too_small() {
            throttle::warn(format_args!("{} bytes for a response are not enough for a header", room.len()));
            return self.answers.give_back(room.head);
        }
        let header =
            CtrlHdr::read_from_prefix(bytes).map_or_else(|_| CtrlHdr::default(), |(header, _)| header);
        let request = Request::decode(bytes);
        let terms = Terms {
            line: state.line(&header),
            may_fail_early: header.flags.get() & 1 != 0
                && matches!(request, Ok(Request { command: Command::Submit3d { .. }, .. })),
        };
        let answer = self.answers.open(room, header, terms)?;
        let outcome = match request {
            Err(error) => Outcome::Now(answer, Err(error.into())),
            Ok(request) => self.contain(state, request, answer),
        };
        if let Outcome::Now(answer, result) = outcome {
            answer.send(result.unwrap_or_else(|refused| {
                throttle::warn(format_args!("{refused}"));
                Response::Failed(refused.failure())
            }));
        }
        Ok(())
    }

    /// A bug of ours costs the request, and not the device.
    fn contain(&self, state: &mut State, request: Request<'_>, answer: Answer) -> Outcome {
        let id = request.command.id();
        catch_unwind(AssertUnwindSafe(|| self.dispatch(state, request, answer))).unwrap_or_else(|_| {
            // The answer was dropped on the way, which failed the request.
            log::error!("a bug: {id:?} panicked");
            Outcome::Later
        })
    }

    fn dispatch(&self, state: &mut State, request: Request<'_>, answer: Answer) -> Outcome {
        let Request { header, command } = request;
        let result = match command {
            Command::GetCapsetInfo { index } => capset_info(index),
            Command::GetCapset { id, version } => capset(id, version),
            Command::ResourceCreateBlob(blob) => self.create_blob(state, header.ctx_id, blob),
            Command::CtxCreate(context) => self.create_context(state, header.ctx_id, context),
            Command::CtxAttachResource { resource_id } => self.attach(state, header.ctx_id, resource_id),
            Command::CtxDetachResource { resource_id } => self.detach(state, header.ctx_id, resource_id),
            Command::ResourceMapBlob { resource_id, offset } => {
                return self.map_blob(state, resource_id, offset, answer);
            }
            Command::ResourceUnmapBlob { resource_id } => {
                return self.unmap_blob(state, resource_id, answer);
            }
            Command::ResourceUnref { resource_id } => return self.unref(state, resource_id, answer),
            Command::CtxDestroy => return self.destroy_context(state, header.ctx_id, answer),
            Command::Submit3d { bytes } => return submit(state, header, bytes, answer),
        };
        Outcome::Now(answer, result)
    }

    fn create_context(
        &self,
        state: &mut State,
        id: u32,
        args: CreateContext<'_>,
    ) -> Result<Response, Refused> {
        if id == 0 {
            return Err(Refused::ContextZero);
        }
        if state.contexts.contains_key(&id) {
            return Err(Refused::ContextExists(id));
        }
        if args.capset_id != CAPSET_HSAKMT {
            return Err(Refused::Capset(args.capset_id));
        }
        if state.contexts.len() >= self.limits.contexts {
            return Err(Refused::TooManyContexts(self.limits.contexts));
        }
        let name = args.debug_name.escape_ascii().to_string();
        let context = self
            .contexts
            .create(ContextInfo { id, name })
            .map_err(|failure| Refused::Context(id, failure))?;
        state.last += 1;
        let number = state.last;
        state.contexts.insert(id, OpenContext { number, context, attached: HashSet::new() });
        Ok(Response::Ok)
    }

    fn create_blob(&self, state: &mut State, ctx_id: u32, args: CreateBlob<'_>) -> Result<Response, Refused> {
        let id = args.resource_id;
        if id == 0 {
            return Err(Refused::BlobZero);
        }
        if state.blobs.contains_key(&id) {
            return Err(Refused::BlobExists(id));
        }
        let host = match (args.mem, self.window()) {
            (BlobMem::GUEST, _) => false,
            (BlobMem::HOST3D, Some(_)) => true,
            _ => return Err(Refused::NoHostMemory(args.mem)),
        };
        if args.flags.intersects(BlobFlags::CROSS_DEVICE) {
            return Err(Refused::CrossDevice);
        }
        if args.blob_id != if host { WINDOW_BLOB } else { 0 } {
            return Err(Refused::BlobId(args.blob_id));
        }
        if args.size == 0 || !args.size.is_multiple_of(PAGE) {
            return Err(Refused::BlobSize(args.size));
        }
        if args.entries.len() > ENTRIES {
            return Err(Refused::TooManyEntries(args.entries.len()));
        }
        let host = if host { Some(self.host_blob(state, ctx_id, &args)?) } else { None };
        let pieces =
            if host.is_some() { Vec::new() } else { state.layout.pieces(args.entries, args.size)? };
        let blob = self.ledger.blob(&self.limits, id, args.size, pieces).ok_or(Refused::TooManyBlobs)?;
        state.blobs.insert(id, OpenBlob { blob, hold: Hold::new(), lost: false, host });
        Ok(Response::Ok)
    }

    /// Memory of the window, which it gets when it is mapped.
    fn host_blob(&self, state: &State, ctx_id: u32, args: &CreateBlob<'_>) -> Result<HostBlob, Refused> {
        if !args.flags.contains(BlobFlags::MAPPABLE) {
            return Err(Refused::NotMappable);
        }
        if !args.entries.is_empty() {
            return Err(Refused::HostPages(args.entries.len()));
        }
        if args.size > self.window().map_or(0, Window::size) {
            return Err(Refused::WindowSize(args.size));
        }
        let context = state.contexts.get(&ctx_id).ok_or(Refused::NoContext(ctx_id))?;
        Ok(HostBlob { context: context.number, place: None })
    }

    /// Answered when the guest sees it.
    fn map_blob(&self, state: &mut State, resource_id: u32, offset: u64, answer: Answer) -> Outcome {
        match self.place_blob(state, resource_id, offset) {
            Ok(window) => window.show(offset, answer),
            Err(refused) => return Outcome::Now(answer, Err(refused)),
        }
        Outcome::Later
    }

    fn place_blob(&self, state: &mut State, resource_id: u32, offset: u64) -> Result<&Window, Refused> {
        let open = state.blobs.get_mut(&resource_id).ok_or(Refused::NoBlob(resource_id))?;
        let window = self.window().ok_or(Refused::NoWindow)?;
        let host = open.host.as_mut().ok_or(Refused::NotOfHost(resource_id))?;
        // Nobody has a blob that has no place.
        let blob = Arc::get_mut(&mut open.blob).filter(|_| host.place.is_none());
        let blob = blob.ok_or(Refused::MappedBefore(resource_id))?;
        blob.set_place(window.place(offset, blob.size())?);
        host.place = Some(offset);
        Ok(window)
    }

    /// Answered when the guest may use that part of the window for something else.
    fn unmap_blob(&self, state: &mut State, resource_id: u32, answer: Answer) -> Outcome {
        let place = state.blob(resource_id).and_then(|open| {
            let window = self.window().ok_or(Refused::NoWindow)?;
            Ok((window, open.place().ok_or(Refused::NotMapped(resource_id))?))
        });
        match place {
            Ok((window, offset)) => window.hide(offset, answer),
            Err(refused) => return Outcome::Now(answer, Err(refused)),
        }
        Outcome::Later
    }

    fn attach(&self, state: &mut State, ctx_id: u32, resource_id: u32) -> Result<Response, Refused> {
        let attached: usize = state.contexts.values().map(|context| context.attached.len()).sum();
        let context = state.contexts.get_mut(&ctx_id).ok_or(Refused::NoContext(ctx_id))?;
        let open = state.blobs.get(&resource_id).ok_or(Refused::NoBlob(resource_id))?;
        if open.lost {
            return Err(Refused::BlobLost(resource_id));
        }
        if context.attached.contains(&resource_id) {
            return Err(Refused::Attached { ctx_id, resource_id });
        }
        if attached >= self.limits.attachments {
            return Err(Refused::TooManyAttachments(self.limits.attachments));
        }
        if let Some(host) = &open.host {
            if host.context != context.number {
                return Err(Refused::OtherContext { ctx_id, resource_id });
            }
            // Drivers map before they attach.
            host.place.ok_or(Refused::NotMapped(resource_id))?;
        }
        let window = self.window().zip(open.place()).map(|(window, offset)| window.in_use(offset));
        let blob = BlobUse { blob: Arc::clone(&open.blob), _window: window, _hold: open.hold.clone() };
        context.context.attach(blob).map_err(|failure| Refused::Context(ctx_id, failure))?;
        context.attached.insert(resource_id);
        Ok(Response::Ok)
    }

    /// The guest has other memory. Blobs that are not in it any more are taken from their contexts; returns when
    /// nobody reaches them.
    pub(super) fn set_layout(&self, layout: Layout) {
        let mut state = self.lock();
        state.layout = layout;
        let gone: Vec<u32> = state
            .blobs
            .iter()
            .filter(|(_, open)| {
                let backed = || open.blob.pieces().iter().all(|piece| state.layout.backs(piece));
                !open.lost && open.host.is_none() && !backed()
            })
            .map(|(id, _)| *id)
            .collect();
        let released = Released::new();
        for id in gone {
            log::warn!("the memory of blob {id} was taken from the guest");
            self.take_from_contexts(&mut state, id);
            let Some(open) = state.blobs.get_mut(&id) else { continue };
            open.lost = true;
            // Those that still use it have clones of the old hold. The new one, which an UNREF waits for, is held
            // until they are gone.
            let used = std::mem::replace(&mut open.hold, Hold::new());
            released.after_both(&used, &open.hold);
        }
        drop(state);
        released.wait("memory that is taken away");
    }

    /// Ends all contexts and blobs, and returns when nobody reaches the guest's memory and every request is
    /// answered.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        if let Some(window) = &self.window {
            window.stop();
        }
        let released = Released::new();
        let State { contexts, blobs, .. } = &mut *state;
        for (_, open) in contexts.drain() {
            self.detached(blobs, &open.attached);
            open.context.destroy(released.hold());
        }
        for (_, open) in blobs.drain() {
            let place = self.window.clone().zip(open.place());
            released.after(&open.hold, move || {
                if let Some((window, offset)) = place {
                    window.release(offset, None);
                }
            });
        }
        drop(state);
        released.wait("contexts that end");
        self.answers.wait_until_idle();
    }
}

impl Control {
    fn take_from_contexts(&self, state: &mut State, resource_id: u32) {
        for open in state.contexts.values_mut() {
            if open.attached.remove(&resource_id) {
                self.detached(&state.blobs, &[resource_id].into());
                open.context.detach(resource_id);
            }
        }
    }

    /// What a context loses now, it does not lose by the death of its worker.
    fn detached(&self, blobs: &HashMap<u32, OpenBlob>, resources: &HashSet<u32>) {
        let Some(window) = self.window() else { return };
        let places = resources.iter().filter_map(|id| blobs.get(id)?.place());
        places.for_each(|offset| window.detached(offset));
    }

    fn detach(&self, state: &mut State, ctx_id: u32, resource_id: u32) -> Result<Response, Refused> {
        let open = state.contexts.get_mut(&ctx_id).ok_or(Refused::NoContext(ctx_id))?;
        if !open.attached.remove(&resource_id) {
            return Err(Refused::NotAttached { ctx_id, resource_id });
        }
        self.detached(&state.blobs, &[resource_id].into());
        open.context.detach(resource_id);
        Ok(Response::Ok)
    }

    /// Answered when no context reaches the memory any more: the guest then gives the pages to others.
    fn unref(&self, state: &mut State, resource_id: u32, answer: Answer) -> Outcome {
        self.take_from_contexts(state, resource_id);
        let Some(open) = state.blobs.remove(&resource_id) else {
            return Outcome::Now(answer, Err(Refused::NoBlob(resource_id)));
        };
        match self.window.clone().zip(open.place()) {
            None => open.hold.when_released(move || answer.complete(Ok(()))),
            Some((window, offset)) => {
                open.hold.when_released(move || window.release(offset, Some(answer)));
            }
        }
        Outcome::Later
    }

    /// Answered when the context has let go of everything.
    fn destroy_context(&self, state: &mut State, ctx_id: u32, answer: Answer) -> Outcome {
        let Some(open) = state.contexts.remove(&ctx_id) else {
            return Outcome::Now(answer, Err(Refused::NoContext(ctx_id)));
        };
        self.detached(&state.blobs, &open.attached);
        open.context.destroy(Hold::until(move || answer.complete(Ok(()))));
        Outcome::Later
    }
}

impl State {
    /// Where the fence of a request belongs. For a request that is refused too: its response signals as well.
    fn line(&self, raw: &CtrlHdr) -> Option<Line> {
        // Flags and rings that do not exist are no reason to leave the order.
        let fenced = raw.flags.get() & 1 != 0;
        let ringed = raw.flags.get() & 2 != 0;
        let line = match self.contexts.get(&raw.ctx_id.get()) {
            Some(open) if ringed => Line::Ring { context: open.number, ring: raw.ring_idx },
            _ => Line::Device,
        };
        fenced.then_some(line)
    }

    fn blob(&self, id: u32) -> Result<&OpenBlob, Refused> {
        self.blobs.get(&id).ok_or(Refused::NoBlob(id))
    }
}

impl OpenBlob {
    /// Where it is in the window.
    fn place(&self) -> Option<u64> {
        self.host.as_ref()?.place
    }
}

fn capset_info(index: u32) -> Result<Response, Refused> {
    if index >= CAPSETS {
        return Err(Refused::CapsetIndex(index));
    }
    let max_size = u32::try_from(size_of::<Capset>()).unwrap_or(u32::MAX);
    Ok(Response::CapsetInfo { id: CAPSET_HSAKMT, max_version: capset::VERSION, max_size })
}

fn capset(id: u32, version: u32) -> Result<Response, Refused> {
    if id != CAPSET_HSAKMT {
        return Err(Refused::Capset(id));
    }
    if version != capset::VERSION {
        return Err(Refused::CapsetVersion(version));
    }
    // No context commands yet.
    Ok(Response::Capset(Capset::new(wire::VERSION_MIN, wire::VERSION_MAX).as_bytes().to_vec()))
}

fn submit(state: &mut State, header: Header, bytes: &[u8], answer: Answer) -> Outcome {
    if bytes.len() > SUBMISSION {
        return Outcome::Now(answer, Err(Refused::SubmissionSize(bytes.len())));
    }
    let Some(open) = state.contexts.get_mut(&header.ctx_id) else {
        return Outcome::Now(answer, Err(Refused::NoContext(header.ctx_id)));
    };
    open.context.submit(Submission { ring: header.ring, bytes, answer });
    Outcome::Later
}

/// Waiting for several things to be released.
struct Released {
    hold: Hold,
    done: mpsc::Receiver<()>,
}

impl Released {
    fn new() -> Released {
        let (sender, done) = mpsc::channel::<()>();
        // The wait ends when the sender is gone.
        Released { hold: Hold::until(move || drop(sender)), done }
    }

    fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// The wait takes this one in, and what is done then.
    fn after(&self, other: &Hold, then: impl FnOnce() + Send + 'static) {
        let hold = self.hold();
        other.when_released(move || {
            then();
            drop(hold);
        });
    }

    /// The same, and `later` is held as long as `used`.
    fn after_both(&self, used: &Hold, later: &Hold) {
        let holds = (self.hold(), later.clone());
        used.when_released(move || drop(holds));
    }

    fn wait(self, what: &str) {
        drop(self.hold);
        while let Err(mpsc::RecvTimeoutError::Timeout) = self.done.recv_timeout(Duration::from_secs(5)) {
            log::warn!("still waiting for {what}");
        }
    }
}
