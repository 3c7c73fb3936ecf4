//! The topology's files as bytes.
//!
//! For each file, by path: `u32` bytes of its path, `u32` bytes of its contents ([`DENIED`] for one that cannot be read), path,
//! contents.

use std::collections::{BTreeMap, BTreeSet};

use crate::kfd::topology::{MAX_FILE, Tree};

/// In place of a length: the file is there and answers `EPERM`.
pub const DENIED: u32 = u32::MAX;
/// Longest path, in bytes.
pub const MAX_PATH: usize = 256;
/// Files at most.
pub const MAX_FILES: usize = 65_536;

/// Why bytes are no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// They end in the middle.
    #[error("the tree ends within a file")]
    Truncated,
    /// A path that is no path below the directory.
    #[error("the path of file {0} of the tree is not a relative path of plain names")]
    Path(usize),
    /// A file that is longer than sysfs shows.
    #[error("file {0} of the tree has {1} bytes, at most {MAX_FILE} are possible")]
    Long(usize, u32),
    /// Files that are not in order, or twice.
    #[error("file {0} of the tree does not come after the one before")]
    Order(usize),
    /// Too many.
    #[error("more than {MAX_FILES} files in the tree")]
    Many,
}

/// As bytes. Files that [`decode`] would refuse are left out: sysfs has none.
#[must_use]
pub fn encode(tree: &Tree) -> Vec<u8> {
    let denied = tree.denied.iter().map(|path| (path, None));
    let readable = tree.files.iter().map(|(path, content)| (path, Some(content)));
    // A path that is in both counts as denied.
    let all: BTreeMap<&String, Option<&Vec<u8>>> = readable.chain(denied).collect();
    let fits = |path: &str, content: Option<&Vec<u8>>| {
        is_path(path.as_bytes()) && content.is_none_or(|content| content.len() <= MAX_FILE)
    };
    let mut out = Vec::new();
    for (path, content) in all.into_iter().filter(|(path, content)| fits(path, *content)).take(MAX_FILES) {
        out.extend((path.len() as u32).to_le_bytes());
        out.extend(content.map_or(DENIED, |content| content.len() as u32).to_le_bytes());
        out.extend(path.as_bytes());
        out.extend(content.map(Vec::as_slice).unwrap_or_default());
    }
    out
}

/// From bytes.
///
/// # Errors
/// On anything that [`encode`] does not make. No allocation is larger than the input warrants.
pub fn decode(bytes: &[u8]) -> Result<Tree, TreeError> {
    let mut rest = bytes;
    let mut last: Option<String> = None;
    let (mut files, mut denied) = (BTreeMap::new(), BTreeSet::new());
    for index in 0.. {
        if rest.is_empty() {
            break;
        }
        if index == MAX_FILES {
            return Err(TreeError::Many);
        }
        let path_len = word(&mut rest)?;
        let content_len = word(&mut rest)?;
        let path = take(&mut rest, path_len)?;
        if !is_path(path) {
            return Err(TreeError::Path(index));
        }
        // `is_path` takes ASCII alone.
        let path = String::from_utf8_lossy(path).into_owned();
        if last.as_ref().is_some_and(|last| *last >= path) {
            return Err(TreeError::Order(index));
        }
        if content_len == DENIED {
            denied.insert(path.clone());
        } else if content_len as usize > MAX_FILE {
            return Err(TreeError::Long(index, content_len));
        } else {
            files.insert(path.clone(), take(&mut rest, content_len)?.to_vec());
        }
        last = Some(path);
    }
    Ok(Tree { files, denied })
}

fn word(rest: &mut &[u8]) -> Result<u32, TreeError> {
    let (word, after) = rest.split_first_chunk().ok_or(TreeError::Truncated)?;
    *rest = after;
    Ok(u32::from_le_bytes(*word))
}

fn take<'a>(rest: &mut &'a [u8], len: u32) -> Result<&'a [u8], TreeError> {
    let (head, after) = rest.split_at_checked(len as usize).ok_or(TreeError::Truncated)?;
    *rest = after;
    Ok(head)
}

/// Names of letters, digits, `_` and `-`, with slashes between them.
fn is_path(path: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let name = |name: &[u8]| !name.is_empty() && name.iter().all(plain);
    path.len() <= MAX_PATH && path.split(|byte| *byte == b'/').all(name)
}
