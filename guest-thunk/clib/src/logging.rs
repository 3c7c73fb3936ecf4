//! Where the library's messages go: standard error, or a file.
//!
//! | variable | |
//! |---|---|
//! | `KFDVIRT_LOG` | `off`, `error`, `warn`, `info`, `debug`, `trace`, or filters with commas between, as in `warn,hsakmt::engine::fmm=debug` |
//! | `KFDVIRT_LOG_FILE` | a file to append to, instead of standard error |
//! | `HSAKMT_DEBUG_LEVEL` | AMD's: 3 error, 4 warning, 6 info, 7 debug; `KFDVIRT_LOG` goes before it |
//!
//! Unset, errors are shown: they say why a device cannot be opened.
//!
//! A fork waits until no other thread writes a message: the child would find the log locked for ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use env_logger::{Builder, Logger, Target};
use log::{LevelFilter, Log, Metadata, Record};

use crate::fork_lock::ForkLock;

/// Held while the log is set up.
pub static SETTING_UP: ForkLock = ForkLock::new();

/// Sets the log up at the first call; later ones do nothing.
pub fn set_up() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Not a `Once`: a child forked meanwhile would wait for a thread that it does not have.
    if DONE.load(Ordering::Acquire) {
        return;
    }
    let _held = SETTING_UP.hold();
    if !DONE.load(Ordering::Acquire) {
        set_up_now();
        DONE.store(true, Ordering::Release);
    }
}

fn set_up_now() {
    let mut builder = Builder::new();
    let level = std::env::var("HSAKMT_DEBUG_LEVEL").ok();
    builder.filter_level(level_of_amd(level.as_deref()));
    let filter = std::env::var_os("KFDVIRT_LOG").map(|value| value.to_string_lossy().into_owned());
    let (understood, odd) = understood(filter.as_deref().unwrap_or_default());
    builder.parse_filters(&understood);
    let unwritable = match log_file() {
        Some(Ok(file)) => {
            builder.target(Target::Pipe(Box::new(file)));
            None
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    let logger = builder.build();
    let level = logger.filter();
    // Fails where there is a logger already, which is then the one to use.
    if log::set_boxed_logger(Box::new(OneAtATime(logger))).is_ok() {
        log::set_max_level(level);
    }
    for word in odd {
        log::error!(
            "KFDVIRT_LOG: `{word}` is no level (off, error, warn, info, debug, trace), and no module of this library with one \
             (hsakmt=debug)"
        );
    }
    if let Some(error) = unwritable {
        log::error!("KFDVIRT_LOG_FILE cannot be written: {error}; messages go to standard error");
    }
}

/// A logger whose lock nobody but the forking thread holds during a fork.
struct OneAtATime(Logger);

impl Log for OneAtATime {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.0.matches(record) {
            let _writing = WRITING.hold();
            self.0.log(record);
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Held while a message is written.
pub static WRITING: ForkLock = ForkLock::new();

/// The parts of a filter that say something here, joined again, and the others.
///
/// `env_logger` takes any other word for a module, whose messages it then shows alone: none.
fn understood(filter: &str) -> (String, Vec<&str>) {
    let (directives, pattern) = match filter.split_once('/') {
        Some((directives, pattern)) => (directives, Some(pattern)),
        None => (filter, None),
    };
    let words = directives.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (good, odd): (Vec<_>, Vec<_>) = words.partition(|word| match word.split_once('=') {
        Some((module, level)) => is_ours(module) && (level.is_empty() || is_level(level)),
        None => is_level(word) || is_ours(word),
    });
    let pattern = pattern.map_or_else(String::new, |pattern| format!("/{pattern}"));
    (good.join(",") + &pattern, odd)
}

fn is_level(word: &str) -> bool {
    word.trim().parse::<LevelFilter>().is_ok()
}

/// A module of what this library is made of.
fn is_ours(module: &str) -> bool {
    let package = module.trim().split("::").next().unwrap_or_default();
    ["hsakmt", "hsakmt_c", "protocol"].contains(&package)
}

/// The level for AMD's number; errors only where it says nothing.
fn level_of_amd(number: Option<&str>) -> LevelFilter {
    match number.map(str::trim).map(str::parse) {
        Some(Ok(4 | 5)) => LevelFilter::Warn,
        Some(Ok(6)) => LevelFilter::Info,
        Some(Ok(7)) => LevelFilter::Debug,
        Some(Ok(_) | Err::<i32, _>(_)) | None => LevelFilter::Error,
    }
}

/// A program with more rights than its user (set-user-id) writes no file that the user's environment names.
fn log_file() -> Option<io::Result<File>> {
    let path = std::env::var_os("KFDVIRT_LOG_FILE")?;
    // SAFETY: getauxval only reads the process's auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // A pipe that nobody reads is an error then, and no wait.
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    Some(OpenOptions::new().append(true).create(true).custom_flags(flags).open(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_select_nothing_are_told() {
        let all = |filter| understood(filter).0 == filter && understood(filter).1.is_empty();
        assert!(
            ["", "debug", "OFF", "hsakmt=debug", "warn,hsakmt::engine::fmm=debug", "hsakmt_c"].map(all)
                == [true; 6]
        );
        assert!(all("info/memory of .* bytes, a,b"), "a pattern may be any text");
        assert_eq!(understood("loud"), (String::new(), vec!["loud"]));
        assert_eq!(
            understood("warn, rocr=debug,hsakmt=loud,5"),
            ("warn".to_owned(), vec!["rocr=debug", "hsakmt=loud", "5"])
        );
        assert_eq!(understood("1/a/b"), ("/a/b".to_owned(), vec!["1"]));
    }

    #[test]
    fn amds_numbers_are_levels() {
        assert_eq!(level_of_amd(None), LevelFilter::Error);
        assert_eq!(level_of_amd(Some("3")), LevelFilter::Error);
        assert_eq!(level_of_amd(Some("4")), LevelFilter::Warn);
        assert_eq!(level_of_amd(Some(" 6 ")), LevelFilter::Info);
        assert_eq!(level_of_amd(Some("7")), LevelFilter::Debug);
        assert_eq!(level_of_amd(Some("loud")), LevelFilter::Error);
    }
}
