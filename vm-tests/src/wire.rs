//! What the host and the agent in a guest say to each other, declared once.
//!
//! A frame is two little-endian 32-bit lengths, then a JSON head of the first length (a [`Request`] or a
//! [`Reply`]), then a body of raw bytes of the second (the standard input of a program, its output, a file). The
//! agent speaks first, with [`Reply::Hello`]; from then on each request has exactly one reply.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Raised whenever a frame changes its meaning; the agent says it in its first frame.
pub const VERSION: u32 = 2;

/// The name of the virtio serial port, as the guest sees it in `/sys/class/virtio-ports/*/name`.
pub const PORT: &str = "kfdvirt.agent";

/// The longest head of a frame, in bytes.
pub const MAX_HEAD: u32 = 1 << 20;

/// The longest body of a frame, in bytes.
pub const MAX_BODY: u32 = 64 << 20;

/// The most output that the agent keeps of each of a program's two streams, in bytes; it drains and drops the rest.
pub const MAX_OUTPUT: usize = 16 << 20;

/// What the host asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Run a program and wait for its end. The body is its standard input.
    Exec(Exec),
    /// Write the body to a file, making the directories above it.
    Put {
        /// Where, in the guest.
        path: String,
        /// The permission bits.
        mode: u32,
    },
    /// Read a file; the reply carries it as its body.
    Get {
        /// Which, in the guest.
        path: String,
    },
    /// Load one kernel module file of the guest.
    LoadModule {
        /// The file, uncompressed.
        path: String,
        /// Parameters as `modprobe` would pass them.
        parameters: String,
    },
    /// Mount a file system, making the directory if it is missing.
    Mount {
        /// What to mount.
        source: Source,
        /// Where.
        target: String,
        /// The kernel's name of the file system.
        fstype: String,
        /// Whether it may not be written.
        read_only: bool,
        /// Options of the file system.
        options: String,
    },
    /// End all programs, as an init does before the guest is switched off or rebooted: asks them to, then kills them.
    EndPrograms,
    /// Switch the guest off. There is no reply: the channel closes.
    PowerOff,
    /// Reboot the guest. There is no reply: the next frame is the agent's first again.
    Reboot,
}

/// What a [`Request::Mount`] mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A file system without a device, under this name.
    Name(String),
    /// The virtio disk with this serial number.
    Disk(String),
}

/// A program to run in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// The program (looked up in `PATH` when it has no slash) and its arguments.
    pub argv: Vec<String>,
    /// Variables set on top of the agent's own environment.
    pub env: Vec<(String, String)>,
    /// The working directory, inside `root`; `/` if none.
    pub dir: Option<String>,
    /// The directory that becomes the program's root.
    pub root: Option<String>,
    /// The user and group id to run as; root if none.
    pub uid: Option<u32>,
    /// After so many milliseconds the program's process group is killed.
    pub timeout_ms: u64,
}

/// What the agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The first frame of the agent.
    Hello {
        /// [`VERSION`] of the agent.
        version: u32,
        /// The release of the guest's kernel.
        kernel: String,
    },
    /// The request was carried out; [`Request::Get`]'s file is the body.
    Done,
    /// A program has ended. The body is its standard output followed by its standard error.
    Ended {
        /// How.
        end: End,
        /// How much of the body is standard output.
        stdout_len: usize,
        /// Whether output was dropped because there was more than [`MAX_OUTPUT`].
        truncated: bool,
    },
    /// The request failed.
    Failed {
        /// Why, as a sentence.
        message: String,
    },
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It exited with this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was killed at its timeout.
    TimedOut,
}

/// Writes one frame.
///
/// # Errors
/// `InvalidInput` if the head or the body is longer than a frame may be; otherwise what the writer says.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, head: &T, body: &[u8]) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    let mut frame = Vec::with_capacity(8 + head.len() + body.len());
    for (length, limit) in [(head.len(), MAX_HEAD), (body.len(), MAX_BODY)] {
        let length = u32::try_from(length).ok().filter(|&length| length <= limit).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("A part of a frame has {length} bytes, the limit is {limit}"),
            )
        })?;
        frame.extend_from_slice(&length.to_le_bytes());
    }
    frame.extend_from_slice(&head);
    frame.extend_from_slice(body);
    writer.write_all(&frame)?;
    writer.flush()
}

/// Reads one frame.
///
/// # Errors
/// `InvalidData` if a length is over its limit or the head is not a `T`; `UnexpectedEof` if the channel closed;
/// otherwise what the reader says.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let head_len = read_length(reader, MAX_HEAD)?;
    let body_len = read_length(reader, MAX_BODY)?;
    let head = read_part(reader, head_len)?;
    let body = read_part(reader, body_len)?;
    Ok((serde_json::from_slice(&head)?, body))
}

fn read_length(reader: &mut impl Read, limit: u32) -> io::Result<u32> {
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes)?;
    let length = u32::from_le_bytes(bytes);
    if length > limit {
        let message = format!("A part of a frame claims {length} bytes, the limit is {limit}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(length)
}

/// Reads what arrives instead of allocating what was claimed.
fn read_part(reader: &mut impl Read, length: u32) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    reader.take(u64::from(length)).read_to_end(&mut part)?;
    if u32::try_from(part.len()) != Ok(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let request = Request::Exec(Exec { argv: vec!["cat".into()], timeout_ms: 5, ..Exec::default() });
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &request, b"\0input\xff").unwrap();

        let (head, body) = read_frame::<Request>(&mut bytes.as_slice()).unwrap();

        assert_eq!(head, request);
        assert_eq!(body, b"\0input\xff");
    }

    #[test]
    fn a_short_frame_is_an_early_end() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &Reply::Done, b"body").unwrap();

        for length in 0..bytes.len() {
            let error = read_frame::<Reply>(&mut &bytes[..length]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {length}");
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_the_part_is_read() {
        let bytes = [(MAX_HEAD + 1).to_le_bytes(), 0_u32.to_le_bytes()].concat();

        let error = read_frame::<Reply>(&mut bytes.as_slice()).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_head_of_another_kind_is_refused() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &Reply::Done, b"").unwrap();

        let error = read_frame::<Request>(&mut bytes.as_slice()).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
