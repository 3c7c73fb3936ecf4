//! The topology as programs in the guest see it: the GPUs are the host's, the processors and their memory the guest's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::topology::Tree;
use protocol::wire::{Answer, Request, tree};

use super::calls::Calls;
use super::guest::Guest;

/// Bytes of a tree at most. Eight GPUs of MI300X, with the caches of all, are about a megabyte.
const TREE_MAX: u64 = 64 << 20;

/// Reads the tree from the worker, and puts this guest's processors into it.
///
/// # Errors
/// Those of the calls; `EPROTO` for a tree that is none.
pub(super) fn read(calls: &Arc<Calls>, guest: Guest) -> Result<Tree, Errno> {
    let bytes = fetch(calls)?;
    let mut tree = tree::decode(&bytes).map_err(|error| {
        log::error!("the host's worker sends no topology: {error}");
        Errno::EPROTO
    })?;
    put_guest(&mut tree, guest);
    Ok(tree)
}

/// All parts. One that changes its length meanwhile is hostile or broken.
fn fetch(calls: &Arc<Calls>) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let total = calls.call(&Request::Topology { offset }, |answer| match answer {
            Answer::Topology { total, part } => {
                bytes.extend_from_slice(part);
                Ok(total)
            }
            _ => Err(Errno::EPROTO),
        })?;
        let have = bytes.len() as u64;
        match have.cmp(&total) {
            std::cmp::Ordering::Equal => return Ok(bytes),
            std::cmp::Ordering::Less if have > offset && total <= TREE_MAX => {}
            _ => {
                log::error!("the host's worker sends {have} bytes of a topology of {total}");
                return Err(Errno::EPROTO);
            }
        }
    }
}

/// The processors of the host's node 0 become the guest's.
fn put_guest(tree: &mut Tree, guest: Guest) {
    const NODE: &str = "nodes/0/";
    let properties = format!("{NODE}properties");
    let is_cpu = tree.files.get(&properties).is_some_and(|text| value(text, "cpu_cores_count") > 0);
    if !is_cpu {
        log::warn!("node 0 of the host's topology has no processors: the topology shows none of the guest's");
        return;
    }
    let below = |path: &str, part: &str| path.strip_prefix(NODE).is_some_and(|rest| rest.starts_with(part));
    // Caches are the guest kernel's to tell, and the library reads them there.
    tree.files.retain(|path, _| !below(path, "caches/"));
    let banks = tree.files.keys().filter(|path| below(path, "mem_banks/")).cloned();
    let mut banks: Vec<String> = banks.filter(|path| path.ends_with("/properties")).collect();
    banks.sort_unstable();
    let (first, others) = match banks.split_first() {
        Some((first, others)) => (Some(first.clone()), others.to_vec()),
        None => (None, Vec::new()),
    };
    for other in &others {
        tree.files.remove(other);
    }
    let mut set = |path: &str, key: &str, value: u64| set_value(&mut tree.files, path, key, value);
    if let Some(bank) = &first {
        set(bank, "size_in_bytes", guest.memory);
    }
    set(&properties, "cpu_cores_count", guest.processors.into());
    set(&properties, "cpu_core_id_base", 0);
    set(&properties, "caches_count", 0);
    set(&properties, "mem_banks_count", u64::from(first.is_some()));
}

/// The number behind a key; 0 if there is none.
fn value(text: &[u8], key: &str) -> u64 {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Puts another number behind a key that is there.
fn set_value(files: &mut BTreeMap<String, Vec<u8>>, path: &str, key: &str, value: u64) {
    let Some(text) = files.get_mut(path) else { return };
    let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(' '));
    let old = String::from_utf8_lossy(text).into_owned();
    let lines =
        old.lines().map(|line| if is_key(line) { format!("{key} {value}\n") } else { format!("{line}\n") });
    *text = lines.collect::<String>().into_bytes();
}

#[cfg(test)]
mod tests {
    use protocol::kfd::topology::Topology;
    use softgpu::Profile;

    use super::*;
    use crate::engine::rig;

    #[test]
    fn the_processors_and_their_memory_are_the_guests() {
        let mut tree = rig::device(Profile::Mi210).topology().unwrap();
        let host = Topology::parse(&tree).unwrap().topology;
        put_guest(&mut tree, Guest { processors: 3, memory: 5 << 30 });
        let parsed = Topology::parse(&tree).unwrap();
        assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
        let seen = parsed.topology;
        assert_eq!(seen.nodes[0].properties.cpu_cores_count, 3);
        assert_eq!(seen.nodes[0].memory_size(), 5 << 30);
        assert_eq!(seen.nodes[0].mem_banks.len(), 1);
        assert!(seen.nodes[0].caches.is_empty());
        assert_eq!(seen.nodes[0].io_links, host.nodes[0].io_links);
        assert_eq!(seen.nodes[1..], host.nodes[1..], "GPUs stay as they are");
    }

    #[test]
    fn a_tree_without_processors_stays_as_it_is() {
        let files = [("nodes/0/properties".to_owned(), b"cpu_cores_count 0\n".to_vec())].into();
        let mut tree = Tree { files, ..Tree::default() };
        let before = tree.clone();
        put_guest(&mut tree, Guest { processors: 3, memory: 1 });
        assert_eq!(tree, before);
    }

    #[test]
    fn only_the_key_itself_is_changed() {
        let mut files: BTreeMap<_, _> = [("p".to_owned(), b"size 1\nsize_in_bytes 2\nx 3".to_vec())].into();
        set_value(&mut files, "p", "size", 9);
        assert_eq!(files["p"], b"size 9\nsize_in_bytes 2\nx 3\n");
        assert_eq!(value(&files["p"], "size_in_bytes"), 2);
        assert_eq!(value(&files["p"], "y"), 0);
    }
}
