//! What workers print goes to the log, line by line, with the name of their context.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use log::Level;

use crate::device::throttle::Throttle;

/// Bytes of a line at most; what is longer becomes several.
const LINE: usize = 1024;

/// Bytes that are read at a time: other workers have their turn then.
const CHUNK: usize = 16 << 10;

/// The end of a worker's output that is read.
pub(super) struct Output {
    pipe: OwnedFd,
    line: Line,
    throttle: Throttle,
}

/// The beginning of a line.
#[derive(Default)]
struct Line(Vec<u8>);

impl Output {
    /// Of a pipe that does not block.
    pub(super) fn new(pipe: OwnedFd) -> Output {
        Output { pipe, line: Line::default(), throttle: Throttle::new() }
    }

    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Logs what there is. `false` when nothing can follow.
    pub(super) fn relay(&mut self, name: &str) -> bool {
        let mut chunk = [0; CHUNK];
        let (read, open) = match rustix::io::read(&self.pipe, &mut chunk) {
            Ok(len) => (len, len > 0),
            Err(errno) => (0, matches!(errno, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)),
        };
        let mut print = |line: &[u8]| print(&self.throttle, name, line);
        self.line.take(&chunk[..read], &mut print);
        if !open {
            self.line.finish(&mut print);
        }
        open
    }
}

impl Line {
    /// Goes on with these bytes, and prints the lines that they complete.
    fn take(&mut self, bytes: &[u8], print: &mut dyn FnMut(&[u8])) {
        for &byte in bytes {
            if byte != b'\n' {
                self.0.push(byte);
            }
            if byte == b'\n' || self.0.len() == LINE {
                self.finish(print);
            }
        }
    }

    fn finish(&mut self, print: &mut dyn FnMut(&[u8])) {
        if !self.0.is_empty() {
            print(&self.0);
            self.0.clear();
        }
    }
}

/// A worker may print anything, and as much as it likes.
fn print(throttle: &Throttle, name: &str, line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    let (level, text) = level_of(&line);
    throttle.log(level, format_args!("{name}: {}", text.escape_debug()));
}

/// The level of a line that a worker's own log has (it begins with it), or that of what was not meant for a log.
fn level_of(line: &str) -> (Level, &str) {
    let known = line.split_once(' ').and_then(|(level, text)| Some((level.parse().ok()?, text)));
    known.unwrap_or((Level::Warn, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_log_keeps_its_level() {
        assert_eq!(level_of("DEBUG a b"), (Level::Debug, "a b"));
        assert_eq!(level_of("thread panicked"), (Level::Warn, "thread panicked"));
    }

    #[test]
    fn lines_are_put_together_and_long_ones_cut() {
        let mut output = Line::default();
        let mut lines = Vec::new();
        let mut keep = |line: &[u8]| lines.push(line.to_vec());
        output.take(b"one\ntw", &mut keep);
        output.take(b"o\n\n", &mut keep);
        output.take(&[b'x'; LINE + 1], &mut keep);
        output.finish(&mut keep);
        output.finish(&mut keep);
        assert_eq!(lines, [b"one".to_vec(), b"two".to_vec(), vec![b'x'; LINE], b"x".to_vec()]);
    }
}
