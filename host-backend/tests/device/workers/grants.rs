//! Memory that contexts share: what one takes the others miss, until it is given back or its worker is gone.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use vhost_device_kfd::workers::Bounds;
use vhost_device_kfd::workers::supply::Limits;

use super::process;
use super::support::{Mode, Rig};
use crate::support::wait_for;

/// A GPU with id 5 and 1,000 bytes, another with id 6 and 100.
fn rig(limits: Limits) -> Rig {
    let gpus = Some(BTreeMap::from([(5, 1000), (6, 100)]));
    let bounds = Bounds { end: Duration::from_millis(500), ..Bounds::default() };
    let mut rig = Rig::sharing(process::program(Mode::Obeys), bounds, Limits { gpus, ..limits });
    rig.vm.create_context(1);
    rig.vm.create_context(2);
    rig
}

fn end(mut rig: Rig) {
    rig.destroy(1);
    rig.destroy(2);
    rig.assert_clean();
}

#[test]
fn two_contexts_share_one_gpus_memory() {
    let mut rig = rig(Limits { host: Some(50), ..Limits::default() });
    rig.submit_ok(1, b"take 5 600");
    rig.submit_ok(2, b"left 5 400");
    rig.submit_fails(2, b"take 5 401");
    rig.submit_ok(2, b"take 5 400");
    rig.submit_ok(1, b"left 5 0");
    rig.submit_fails(1, b"take 5 1");
    // Another GPU and system memory are others.
    rig.submit_ok(2, b"take 6 100");
    rig.submit_ok(1, b"host 0 50");
    rig.submit_fails(2, b"host 0 1");
    assert_eq!(rig.supply.granted(), (1100, 50));
    rig.submit_ok(1, b"give 5 250");
    rig.submit_ok(2, b"take 5 250");
    rig.submit_fails(2, b"take 5 1");
    // A context that ends leaves it to others.
    rig.destroy(1);
    rig.submit_ok(2, b"left 5 350");
    rig.vm.create_context(1);
    end(rig);
}

#[test]
fn what_a_killed_worker_had_comes_back() {
    let mut rig = rig(Limits::default());
    rig.submit_ok(1, b"take 5 1000");
    rig.submit_fails(2, b"take 5 1");
    let pid = Pid::from_raw(i32::try_from(rig.pid(1)).expect("a process id")).expect("not 0");
    kill_process(pid, Signal::KILL).expect("it runs");
    wait_for("the memory", || rig.supply.granted() == (0, 0));
    rig.submit_ok(2, b"take 5 1000");
    end(rig);
}

#[test]
fn limits_of_the_device_and_of_a_context() {
    let mut rig = rig(Limits { vram: Some(700), context_vram: Some(500), ..Limits::default() });
    rig.submit_ok(1, b"left 5 500");
    rig.submit_fails(1, b"take 5 501");
    rig.submit_ok(1, b"take 5 450");
    rig.submit_fails(1, b"take 6 51");
    rig.submit_ok(1, b"take 6 50");
    rig.submit_ok(2, b"left 5 200");
    rig.submit_fails(2, b"take 5 201");
    rig.submit_ok(2, b"take 5 200");
    end(rig);
}

#[test]
fn a_worker_cannot_give_back_what_it_does_not_have() {
    for wrong in ["give 5 601", "give 5 18446744073709551615", "give 6 1", "give 7 0"] {
        let mut rig = rig(Limits::default());
        rig.submit_ok(1, b"take 5 600");
        rig.submit_ok(2, b"take 5 300");
        // The submission may be done before the worker is found out.
        rig.submit(2, wrong.replace("601", "301").as_bytes());
        if wrong == "give 7 0" {
            // Nothing of nothing is no lie.
            rig.submit_ok(2, b"left 5 100");
        } else {
            wait_for("the end of a worker that lies", || rig.supply.granted() == (600, 0));
            rig.submit_ok(1, b"left 5 400");
            assert_eq!(rig.metrics.deaths.load(Ordering::Relaxed), 1, "{wrong}");
        }
        end(rig);
    }
}

#[test]
fn a_worker_that_asks_for_a_gpu_that_is_not_there_is_ended() {
    let mut rig = rig(Limits::default());
    rig.submit_fails(1, b"take 9 0");
    wait_for("its end", || rig.metrics.deaths.load(Ordering::Relaxed) == 1);
    rig.submit_ok(2, b"take 5 1000");
    end(rig);
}
