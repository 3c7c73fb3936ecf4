//! The launcher with a device that needs no GPU.

mod support;

use std::time::Duration;

use support::{finish, launch, program, supervise_if_asked};

const LIMIT: Duration = Duration::from_secs(20);

/// No test of its own: the supervisor process of the other tests.
#[test]
fn supervisor_process() {
    supervise_if_asked();
}

#[test]
fn static_program_with_raw_system_calls_gets_the_version_from_a_character_device() {
    let outcome = finish(launch(&[program("version").to_str().unwrap()]), LIMIT);
    assert!(outcome.stdout.contains("result 0 version 1.17 char 1 major 511"), "{outcome:?}");
    assert_eq!(outcome.status.code(), Some(0), "{outcome:?}");
}
