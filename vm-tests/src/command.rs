//! Programs of the host, run with a deadline.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::File,
    io::{Read, Seek},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Error, Result};

/// What a program of the host left: its status, and both its streams.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status or signal.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// How much of a program's output an error shows, in bytes.
const SHOWN: usize = 4096;

/// Runs a program to its end, whatever that is. Its standard input is empty unless the command says otherwise.
///
/// # Errors
/// [`Error::Start`], or [`Error::CommandTimeout`] after the program was killed.
pub fn finish(command: &mut Command, timeout: Duration) -> Result<Finished> {
    // Files, not pipes: a grandchild that keeps a pipe open would make us wait for it.
    let mut stdout = tempfile::tempfile().map_err(Error::system("make a temporary file"))?;
    let mut stderr = tempfile::tempfile().map_err(Error::system("make a temporary file"))?;
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().map_err(Error::system("duplicate a descriptor"))?);
    command.stderr(stderr.try_clone().map_err(Error::system("duplicate a descriptor"))?);
    let shown = line(command);
    log::debug!("running {shown}");
    let mut child = command.spawn().map_err(|source| Error::Start { command: shown.clone(), source })?;
    let status = wait(&mut child, timeout)?;
    let (stdout, stderr) = (contents(&mut stdout)?, contents(&mut stderr)?);
    match status {
        Some(status) => Ok(Finished { status, stdout, stderr }),
        None => Err(Error::CommandTimeout { command: shown, timeout, output: tail(&stdout, &stderr) }),
    }
}

/// Runs a program that must succeed and returns its standard output.
///
/// # Errors
/// Those of [`finish`], and [`Error::Command`] if the program's status is not 0.
pub fn succeed(command: &mut Command, timeout: Duration) -> Result<String> {
    let finished = finish(command, timeout)?;
    if !finished.status.success() {
        let output = tail(&finished.stdout, &finished.stderr);
        return Err(Error::Command { command: line(command), status: finished.status, output });
    }
    Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
}

/// Waits for a child until the time is over; then kills it and returns `None`.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().map_err(Error::system("wait for a program"))? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            // It may have ended just now: then there is nothing to kill, and that is as good.
            let _ = child.kill();
            child.wait().map_err(Error::system("wait for a killed program"))?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind().map_err(Error::system("rewind a temporary file"))?;
    file.read_to_end(&mut bytes).map_err(Error::system("read a temporary file"))?;
    Ok(bytes)
}

/// The last part of both streams, as text.
fn tail(stdout: &[u8], stderr: &[u8]) -> String {
    let last = |bytes: &[u8]| {
        let from = bytes.len().saturating_sub(SHOWN);
        String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned()
    };
    last(stdout) + &last(stderr)
}

/// The command line, for messages.
pub(crate) fn line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args().map(OsStr::to_string_lossy) {
        // Writing to a String cannot fail.
        let _ = write!(line, " {argument}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_an_error_with_its_messages() {
        let error = succeed(
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]),
            Duration::from_secs(20),
        );

        let text = error.unwrap_err().to_string();

        assert!(text.contains("exit status: 3"), "{text}");
        assert!(text.contains("out\nerr"), "{text}");
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_its_deadline() {
        let start = Instant::now();

        let error =
            finish(Command::new("sh").args(["-c", "echo here; exec sleep 60"]), Duration::from_millis(300));

        let text = error.unwrap_err().to_string();
        assert!(text.contains("did not end within") && text.contains("here"), "{text}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = finish(&mut Command::new("/nonexistent/program"), Duration::from_secs(1)).unwrap_err();

        assert!(error.to_string().contains("Failed to start `/nonexistent/program`"), "{error}");
    }
}
