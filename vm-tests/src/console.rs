//! The end of what a guest's console and QEMU itself have said.

use std::{
    collections::VecDeque,
    io::{PipeReader, Read},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

/// How much is kept, in bytes.
const KEPT: usize = 64 << 10;
/// How many lines an error shows.
const SHOWN: usize = 40;

/// A thread that reads a pipe to its end and keeps the last part.
#[derive(Debug)]
pub struct Console {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Console {
    /// Starts to read.
    pub fn read(mut pipe: PipeReader) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let shared = Arc::clone(&kept);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                let bytes = buffer.get(..length).unwrap_or_default();
                log::debug!(target: "console", "{}", String::from_utf8_lossy(bytes).trim_end());
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(bytes);
                let surplus = kept.len().saturating_sub(KEPT);
                kept.drain(..surplus);
            }
        });
        Self { kept, reader: Some(reader) }
    }

    /// The last lines.
    pub fn tail(&self) -> String {
        let bytes: Vec<u8> =
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        let lines: Vec<_> = text.lines().collect();
        let from = lines.len().saturating_sub(SHOWN);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Waits for the end of the pipe, which comes when the last process that holds it has ended.
    pub fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            // The thread cannot panic, and if it did there would be nothing more to read.
            let _ = reader.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_memory_stays_bounded() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut console = Console::read(reader);

        for line in 0..20_000 {
            writeln!(writer, "line {line}\r").unwrap();
        }
        drop(writer);
        console.finish();

        let tail = console.tail();
        assert_eq!(tail.lines().count(), SHOWN);
        assert!(tail.ends_with("line 19998\nline 19999"), "{tail}");
        assert!(console.kept.lock().unwrap().len() <= KEPT);
    }
}
