//! Calls that wait, and guests that sleep.

use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{SetEventArgs, WaitEventsArgs};
use protocol::kfd::constants::WaitResult;
use protocol::kfd::types::EventData;
use protocol::wire::area::{slot, state, word};
use protocol::wire::{Command, Request, Submission};
use softgpu::Profile;
use vhost_device_kfd::worker::kfd::Config;
use zerocopy::{FromZeros, IntoBytes};

use super::guest::{AREA, DEADLINE};
use super::program::Program;

const FOREVER: u32 = u32::MAX;

/// A wait that is under way.
struct Wait {
    slot: u32,
    args: WaitEventsArgs,
    _events: Box<[EventData; 1]>,
}

impl Wait {
    fn start(program: &Program, event: u32, timeout: u32) -> Wait {
        let mut events = Box::new([EventData::new_zeroed()]);
        events[0].event_id = event;
        let (args, bytes) = program.wait_request(&mut *events, timeout);
        let slot = program.guest.free_slot();
        program.guest.fill_slot(slot, Command::Ioctl.id(), &bytes);
        program.guest.queue(slot);
        Wait { slot, args, _events: events }
    }

    fn is_answered(&self, program: &Program) -> bool {
        program.guest.header(self.slot, slot::STATE) == state::DONE
    }

    /// The ioctl's result, and what it waited for.
    fn end(mut self, program: &Program) -> Result<(Result<i32, Errno>, WaitResult), Errno> {
        let answer = program.guest.answer(self.slot)?;
        let request = Ioctl::WaitEvents.request();
        let result = program.apply(request, self.args.as_mut_bytes(), &answer);
        Ok((result, WaitResult(self.args.wait_result)))
    }
}

fn set(program: &Program, event_id: u32) {
    assert_eq!(program.ioctl(Ioctl::SetEvent, &mut SetEventArgs { event_id, pad: 0 }), Ok(0));
}

const COMPLETE: Result<(Result<i32, Errno>, WaitResult), Errno> = Ok((Ok(0), WaitResult::COMPLETE));

#[test]
fn a_wait_ends_when_its_event_is_set_and_delays_nobody() {
    waits_end(&Program::running(Profile::Mi210));
}

pub fn waits_end(program: &Program) {
    let event = program.event();
    let wait = Wait::start(program, event, FOREVER);
    for _ in 0..20 {
        program.topology();
    }
    assert!(!wait.is_answered(program));
    set(program, event);
    assert_eq!(wait.end(program), COMPLETE);
    assert_eq!(Wait::start(program, event, 20).end(program), Ok((Ok(0), WaitResult::TIMEOUT)));
}

#[test]
fn a_wait_that_is_cancelled_can_be_made_again() {
    let program = Program::running(Profile::Mi210);
    let event = program.event();
    let wait = Wait::start(&program, event, FOREVER);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(program.guest.tell(&Request::Cancel { slot: wait.slot }), Ok(()));
    let (result, _) = wait.end(&program).expect("executed");
    assert_eq!(result, Err(Errno::ERESTARTSYS));
    assert_eq!(program.guest.tell(&Request::Cancel { slot: 77 }), Ok(()), "nothing is there");
    set(&program, event);
    assert_eq!(Wait::start(&program, event, FOREVER).end(&program), COMPLETE);
}

#[test]
fn two_hundred_calls_wait_at_a_time() {
    let program = Program::running(Profile::Mi210);
    let events: Vec<u32> = (0..200).map(|_| program.event()).collect();
    let waits: Vec<Wait> = events.iter().map(|&event| Wait::start(&program, event, FOREVER)).collect();
    program.topology();
    assert!(waits.iter().all(|wait| !wait.is_answered(&program)));
    for (&event, wait) in events.iter().zip(waits).rev() {
        set(&program, event);
        assert_eq!(wait.end(&program), COMPLETE);
    }
}

#[test]
fn no_more_calls_wait_than_were_agreed() {
    let program = Program::with(Profile::Mi210, Config { waits: 2, ..Config::default() }).run();
    let event = program.event();
    let waits: Vec<Wait> = (0..2).map(|_| Wait::start(&program, event, FOREVER)).collect();
    assert_eq!(Wait::start(&program, event, FOREVER).end(&program).err(), Some(Errno::EAGAIN));
    for wait in waits {
        set(&program, event);
        let deadline = Instant::now() + DEADLINE;
        while !wait.is_answered(&program) {
            assert!(Instant::now() < deadline);
            // The event is reset by the other one's end.
            set(&program, event);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(wait.end(&program), COMPLETE);
    }
}

#[test]
fn what_has_happened_already_needs_no_thread_that_waits() {
    let program = Program::with(Profile::Mi210, Config { waits: 0, ..Config::default() }).run();
    let event = program.event();
    set(&program, event);
    assert_eq!(Wait::start(&program, event, FOREVER).end(&program), COMPLETE);
    assert_eq!(Wait::start(&program, event, 0).end(&program), Ok((Ok(0), WaitResult::TIMEOUT)));
    assert_eq!(Wait::start(&program, event, 1).end(&program).err(), Some(Errno::EAGAIN));
    let unknown = Wait::start(&program, 4000, FOREVER).end(&program);
    assert_eq!(unknown.map(|(result, _)| result), Ok(Err(Errno::EINVAL)));
}

#[test]
fn a_guest_that_sleeps_is_woken_and_one_that_spins_is_not() {
    let program = Program::running(Profile::Mi210);
    let guest = &program.guest;
    let wakes = || guest.load(&guest.blob(AREA), word::WAKES as u64);
    let (event, seen) = (program.event(), wakes());
    let wake = guest.send_bytes(&Submission::Wake { seen }.encode());
    program.topology();
    assert_eq!((wakes(), guest.is_done(wake)), (seen, None), "answers for which nobody sleeps");
    let wait = Wait::start(&program, event, FOREVER);
    guest.set_header(wait.slot, slot::SLEEPS, 1);
    set(&program, event);
    assert!(guest.wait_done(wake));
    assert_eq!(wakes(), seen.wrapping_add(1));
    assert_eq!(wait.end(&program), COMPLETE);
    assert!(guest.wait_done(guest.send_bytes(&Submission::Wake { seen }.encode())), "another value");
    let held = guest.send_bytes(&Submission::Wake { seen: wakes() }.encode());
    let other = guest.send_bytes(&Submission::Wake { seen: wakes() }.encode());
    assert!(guest.wait_done(held), "the second takes its place");
    assert_eq!(guest.is_done(other), None);
}
