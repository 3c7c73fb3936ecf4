//! The one error type of the harness.

use std::{io, path::PathBuf, time::Duration};

/// What can go wrong on the host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be used.
    #[error("Failed to {what} {}: {source}", .path.display())]
    File {
        /// The verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("Failed to start `{command}`: {source} (scripts/setup installs what is needed)")]
    Start {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// A program ended badly.
    #[error("`{command}` ended with {status}:\n{output}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status or signal.
        status: std::process::ExitStatus,
        /// The end of what it printed.
        output: String,
    },
    /// A program did not end in time and was killed.
    #[error("`{command}` did not end within {timeout:?}:\n{output}")]
    CommandTimeout {
        /// The command line.
        command: String,
        /// The time it was given.
        timeout: Duration,
        /// The end of what it printed.
        output: String,
    },
    /// The packages that are needed cannot be found.
    #[error("{0}")]
    Package(String),
    /// A kernel module is not part of the kernel package.
    #[error("The kernel {release} has no module `{module}`")]
    NoModule {
        /// The kernel.
        release: String,
        /// The module.
        module: String,
    },
    /// The environment asks for something unknown.
    #[error("{variable}={value} is not understood: {expected}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A guest did not do what it should.
    #[error("{what}; the end of the guest's console:\n{console}")]
    Guest {
        /// The sentence that says what happened.
        what: String,
        /// The end of the console and of QEMU's own messages.
        console: String,
    },
    /// The agent in the guest refused a request.
    #[error("The guest's agent answered: {0}")]
    Agent(String),
    /// A program in a guest ended badly.
    #[error("In the guest `{command}` ended with {end:?}:\n{output}")]
    Program {
        /// The command line.
        command: String,
        /// Its end.
        end: crate::wire::End,
        /// What it printed, on both streams.
        output: String,
    },
    /// The host refused something that no file or program names.
    #[error("Failed to {what}: {source}")]
    System {
        /// The verb and its object.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// The result of the harness.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Names the file in an I/O error, for `map_err`.
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }

    /// Names the action in a system error, for `map_err`.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
