//! `--trace`: every call to the device as a line of JSON.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::describe::{Value, describe};
use protocol::kfd::ioctl::{Family, Ioctl};
use protocol::kfd::{Node, request_nr};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

/// The file that the lines go to.
///
/// Each line is written by one `write` when the call ends, so that a run which is killed leaves a file of
/// whole lines. Calls that block appear when they end.
#[derive(Debug)]
pub struct TraceFile {
    file: File,
    family: Family,
    start: Instant,
}

/// A call that ended.
pub struct Record<'a> {
    /// Which call to the device it is, of all processes; the first is 1.
    pub number: u64,
    /// Process that made it.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// The device node.
    pub node: Node,
    /// What was called.
    pub what: What<'a>,
    /// What it returned; nothing of an open that was left to the kernel.
    pub result: Option<Result<i64, Errno>>,
    /// When it arrived.
    pub since: Instant,
}

/// A call and its arguments.
pub enum What<'a> {
    /// `open` and its like.
    Open {
        /// Its `O_*`.
        flags: u32,
    },
    /// `ioctl`.
    Ioctl {
        /// Request code.
        request: u32,
        /// Argument struct before the call.
        before: &'a [u8],
        /// Argument struct after the call.
        after: &'a [u8],
    },
    /// `mmap`.
    Mmap {
        /// Offset in the file.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    /// What `--fail` calls it.
    number: u64,
    /// Seconds since the start of the run, when the call arrived.
    time: f64,
    pid: u32,
    tid: u32,
    node: String,
    call: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(rename = "in")]
    input: Json,
    #[serde(rename = "out", skip_serializing_if = "Json::is_null")]
    output: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<String>,
    duration_us: u64,
}

impl TraceFile {
    /// Makes the file, or empties it. `family` says how ioctl numbers are read.
    ///
    /// # Errors
    /// Those of `open`, with the file's name.
    pub fn create(path: &Path, family: Family) -> io::Result<Self> {
        let file = File::create(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(Self { file, family, start: Instant::now() })
    }

    /// Writes the line of a call. A full disk costs the line, not the run.
    pub fn write(&self, record: &Record<'_>) {
        let line = serde_json::to_vec(&self.line(record)).map(|mut line| {
            line.push(b'\n');
            line
        });
        let written = line.map_err(io::Error::from).and_then(|line| (&self.file).write_all(&line));
        if let Err(error) = written {
            log::warn!("a call is missing from the trace: {error}");
        }
    }

    fn line(&self, record: &Record<'_>) -> Line<'static> {
        let (call, request, input, output) = match record.what {
            What::Open { flags } => (Cow::Borrowed("open"), None, json!({"flags": flags}), Json::Null),
            What::Mmap { offset, len } => {
                (Cow::Borrowed("mmap"), None, json!({"offset": offset, "len": len}), Json::Null)
            }
            What::Ioctl { request, before, after } => {
                let ioctl =
                    (record.node == Node::Kfd).then(|| Ioctl::from_request(request, self.family)).flatten();
                let text = format!("{request:#010x}");
                (name(record.node, ioctl, request), Some(text), fields(ioctl, before), fields(ioctl, after))
            }
        };
        Line {
            number: record.number,
            time: record.since.saturating_duration_since(self.start).as_secs_f64(),
            pid: record.pid,
            tid: record.tid,
            node: match record.node {
                Node::Kfd => "kfd".to_owned(),
                Node::Render(minor) => format!("renderD{minor}"),
            },
            call,
            request,
            input,
            output,
            result: record.result.map(|result| result.unwrap_or(-1)),
            errno: record.result.and_then(Result::err).map(|errno| errno.to_string()),
            duration_us: micros(record.since.elapsed()),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn name(node: Node, ioctl: Option<Ioctl>, request: u32) -> Cow<'static, str> {
    match (node, ioctl) {
        (_, Some(ioctl)) => Cow::Borrowed(ioctl.name()),
        (Node::Kfd, None) => Cow::Owned(format!("AMDKFD_IOC {:#04x}", request_nr(request))),
        (Node::Render(_), None) => match drm_name(request_nr(request)) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("DRM_IOCTL {:#04x}", request_nr(request))),
        },
    }
}

/// The uapi's names (`drm.h`, `amdgpu_drm.h`) of what ROCm's libraries call.
fn drm_name(nr: u8) -> Option<&'static str> {
    Some(match nr {
        0x00 => "DRM_IOCTL_VERSION",
        0x05 => "DRM_IOCTL_GET_CLIENT",
        0x09 => "DRM_IOCTL_GEM_CLOSE",
        0x0c => "DRM_IOCTL_GET_CAP",
        0x2d => "DRM_IOCTL_PRIME_HANDLE_TO_FD",
        0x2e => "DRM_IOCTL_PRIME_FD_TO_HANDLE",
        0x40 => "DRM_IOCTL_AMDGPU_GEM_CREATE",
        0x41 => "DRM_IOCTL_AMDGPU_GEM_MMAP",
        0x42 => "DRM_IOCTL_AMDGPU_CTX",
        0x45 => "DRM_IOCTL_AMDGPU_INFO",
        0x46 => "DRM_IOCTL_AMDGPU_GEM_METADATA",
        0x48 => "DRM_IOCTL_AMDGPU_GEM_VA",
        0x50 => "DRM_IOCTL_AMDGPU_GEM_OP",
        _ => return None,
    })
}

/// The argument struct by name and value; what is not declared as hexadecimal bytes.
fn fields(ioctl: Option<Ioctl>, args: &[u8]) -> Json {
    let Some(ioctl) = ioctl else {
        return if args.is_empty() { json!({}) } else { json!({"bytes": hex(args)}) };
    };
    let mut fields = Map::new();
    for item in describe(ioctl, args) {
        let value = match item.value {
            Value::Unsigned(value) => json!(value),
            Value::Signed(value) => json!(value),
            Value::Bytes(bytes) => json!(hex(&bytes)),
        };
        if let Some(meaning) = item.meaning {
            fields.insert(format!("{}.means", item.name), json!(meaning));
        }
        fields.insert(item.name.into_owned(), value);
    }
    Json::Object(fields)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(node: Node, what: What<'_>, result: Option<Result<i64, Errno>>) -> Json {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let trace = TraceFile::create(&path, Family::Mainline).unwrap();
        trace.write(&Record { number: 9, pid: 7, tid: 8, node, what, result, since: Instant::now() });
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1);
        serde_json::from_str(&text).unwrap()
    }

    fn ioctl(node: Node, request: u32, before: &[u8], after: &[u8], result: Result<i64, Errno>) -> Json {
        line(node, What::Ioctl { request, before, after }, Some(result))
    }

    #[test]
    fn an_open_that_the_kernel_answers_has_no_result() {
        let open = line(Node::Render(128), What::Open { flags: 2 }, None);
        assert_eq!(
            (&open["number"], &open["call"], &open["in"]),
            (&json!(9), &json!("open"), &json!({"flags": 2}))
        );
        assert_eq!((open.get("result"), open.get("errno"), open.get("out")), (None, None, None));
    }

    #[test]
    fn a_kfd_call_is_decoded_field_by_field() {
        let after = [1, 0, 0, 0, 17, 0, 0, 0];
        let line = ioctl(Node::Kfd, 0x8008_4b01, &[0; 8], &after, Ok(0));
        assert_eq!(line["call"], "AMDKFD_IOC_GET_VERSION");
        assert_eq!((&line["pid"], &line["tid"], &line["node"]), (&json!(7), &json!(8), &json!("kfd")));
        assert_eq!(line["out"], json!({"major_version": 1, "minor_version": 17}));
        assert_eq!(line["result"], 0);
        assert_eq!(line["errno"], Json::Null);
    }

    #[test]
    fn unknown_and_drm_calls_show_their_bytes_and_errors_their_names() {
        let unknown = ioctl(Node::Kfd, 0xc004_4bfe, &[1, 2, 3, 0xff], &[], Err(Errno::ENOTTY));
        assert_eq!(unknown["in"], json!({"bytes": "010203ff"}));
        assert_eq!((&unknown["result"], &unknown["errno"]), (&json!(-1), &json!("ENOTTY")));
        let drm = ioctl(Node::Render(129), 0xc040_6400, &[0; 2], &[0; 2], Ok(0));
        assert_eq!((&drm["call"], &drm["node"]), (&json!("DRM_IOCTL_VERSION"), &json!("renderD129")));
    }
}
