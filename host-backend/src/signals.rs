//! The end by a signal.

use std::io;

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// When a signal asks the process to end (SIGTERM, SIGINT, SIGQUIT), it does `last`, and ends as that signal has it.
///
/// # Errors
/// When the signals cannot be handled.
pub fn end_after(last: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(TERM_SIGNALS)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            last();
            if let Err(error) = emulate_default_handler(signal) {
                log::error!("cannot end by signal {signal}: {error}");
                std::process::abort();
            }
        }
    })?;
    Ok(())
}
