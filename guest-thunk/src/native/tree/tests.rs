use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use protocol::kfd::Kfd;
use protocol::kfd::topology::Topology;
use softgpu::profile::load::write_dir;
use softgpu::{Kernel, Profile};

use super::*;
use crate::engine::testing::faults;

fn tree_of(profile: Profile) -> Tree {
    profile.machine(Kernel::Linux6_12).tree()
}

/// A tree in memory, with errors where a test wants them.
#[derive(Default)]
struct Fake {
    tree: Tree,
    /// Errors of files and directories.
    errors: BTreeMap<String, Errno>,
    /// Changes the generation at each of this many reads of it.
    restless: RefCell<u32>,
    reads: RefCell<usize>,
}

impl Fake {
    fn new(tree: Tree) -> Self {
        Self { tree, ..Self::default() }
    }

    fn failing(mut self, path: &str, errno: Errno) -> Self {
        self.errors.insert(path.to_owned(), errno);
        self
    }
}

impl Source for Fake {
    fn numbered(&self, dir: &str, max: usize) -> Result<Vec<u32>, Errno> {
        if let Some(&errno) = self.errors.get(dir) {
            return Err(errno);
        }
        let prefix = format!("{dir}/");
        let files = self.tree.files.range(prefix.clone()..).map(|(path, _)| path);
        let denied = self.tree.denied.range(prefix.clone()..);
        // Ascending, so that those of this directory come first in each.
        let below = files
            .map_while(|path| path.strip_prefix(&prefix))
            .chain(denied.map_while(|path| path.strip_prefix(&prefix)));
        let mut numbers: Vec<u32> =
            below.filter_map(|rest| number(rest.split('/').next()?.as_bytes())).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() > max { Err(Errno::E2BIG) } else { Ok(numbers) }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        *self.reads.borrow_mut() += 1;
        if path == GENERATION && *self.restless.borrow() > 0 {
            *self.restless.borrow_mut() -= 1;
            return Ok(self.restless.borrow().to_string().into());
        }
        if let Some(&errno) = self.errors.get(path) {
            return Err(errno);
        }
        if self.tree.denied.contains(path) {
            return Err(Errno::EPERM);
        }
        self.tree.files.get(path).cloned().ok_or(Errno::ENOENT)
    }
}

#[test]
fn every_profiles_tree_is_read_from_a_directory_as_it_was_written() {
    for profile in Profile::ALL {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree_of(profile);
        write_dir(&tree, dir.path(), false).unwrap();
        assert_eq!(read_dir(dir.path()).unwrap(), tree, "{}", profile.name());
    }
}

/// Reads with the reservation of memory number `at` failing. Gives the answer, and whether there are so many.
fn without_memory<T>(at: u32, read: impl Fn() -> T) -> (T, bool) {
    faults::fail_at(at, Errno::ENOMEM);
    let answer = read();
    let failed = faults::stop();
    assert!(matches!(failed, None | Some(faults::Operation::Reserve)), "{failed:?}");
    (answer, failed.is_some())
}

#[test]
fn each_reservation_of_memory_fails_once_and_the_next_read_works() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree_of(Profile::Mi210);
    write_dir(&tree, dir.path(), false).unwrap();
    let device = crate::native::Native::new(crate::native::Paths {
        topology: dir.path().to_owned(),
        ..crate::native::Paths::default()
    });
    let (mut reservations, mut gone_on) = (0, 0);
    for at in 0.. {
        let (read, failed) = without_memory(at, || device.topology());
        assert!(device.topology().as_ref() == Ok(&tree), "after reservation {at}");
        if !failed {
            assert!(read == Ok(tree));
            break;
        }
        // Whether the tree has changed is not known then: it is read again.
        if read.as_ref() == Ok(&tree) {
            gone_on += 1;
        } else {
            assert!(read == Err(Errno::ENOMEM), "reservation {at}");
        }
        reservations += 1;
    }
    assert_eq!(gone_on, 1, "the last look at the generation");
    // One for each file, and one for each numbered directory at least.
    let directories = tree_of(Profile::Mi210).directories().len();
    assert!(reservations > tree_of(Profile::Mi210).files.len() + directories / 2, "{reservations}");

    let path = dir.path().join("generation_id");
    let read = || read_start(&path, 16);
    assert_eq!(without_memory(0, read), (Err(Errno::ENOMEM), true));
    assert_eq!(without_memory(1, read), (read(), false));
    assert!(read().is_ok());
}

#[test]
fn a_missing_root_is_enoent_and_a_file_is_no_root() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_dir(&dir.path().join("topology")), Err(Errno::ENOENT));
    fs::write(dir.path().join("topology"), "x").unwrap();
    assert!(read_dir(&dir.path().join("topology")).is_err());
    assert_eq!(read_dir(dir.path()), Ok(Tree::default()), "an empty directory is an empty tree");
}

#[test]
fn the_root_itself_may_be_a_link_as_it_is_in_sysfs() {
    let dir = tempfile::tempdir().unwrap();
    write_dir(&tree_of(Profile::CpuOnly), &dir.path().join("real"), false).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    assert_eq!(read_dir(&dir.path().join("link")).unwrap(), tree_of(Profile::CpuOnly));
}

#[test]
fn links_pipes_and_other_names_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let tree = tree_of(Profile::Mi210);
    write_dir(&tree, dir.path(), false).unwrap();
    symlink(dir.path(), at("nodes/7")).unwrap();
    symlink("/dev/zero", at("nodes/1/mem_banks/endless")).unwrap();
    fs::create_dir_all(at("nodes/1/mem_banks/9")).unwrap();
    symlink("/dev/zero", at("nodes/1/mem_banks/9/properties")).unwrap();
    fs::create_dir_all(at("nodes/1/caches/90000/properties")).unwrap();
    for name in ["007", "+1", "-1", "1x", "99999999999", "power"] {
        fs::create_dir_all(at("nodes").join(name)).unwrap();
        fs::write(at("nodes").join(name).join("gpu_id"), "5\n").unwrap();
    }
    fs::write(at("nodes/12"), "a file, no directory").unwrap();
    assert_eq!(read_dir(dir.path()).unwrap(), tree);
}

#[test]
fn a_pipe_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    write_dir(&tree_of(Profile::CpuOnly), dir.path(), false).unwrap();
    let path = dir.path().join("nodes/0/name");
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(CWD, &path, Mode::RWXU).unwrap();
    let tree = read_dir(dir.path()).unwrap();
    assert_eq!(tree.files.get("nodes/0/name").map(Vec::len), Some(0));
    // With a writer there is nothing yet.
    let _writer = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(read_dir(dir.path()).unwrap().files.get("nodes/0/name"), None);
}

#[test]
fn a_long_file_is_read_up_to_a_page_and_a_byte() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("system_properties"), vec![b'1'; 1 << 20]).unwrap();
    assert_eq!(read_dir(dir.path()).unwrap().files["system_properties"].len(), MAX_FILE + 1);
}

// Case T10: a device cgroup denies the files of a GPU.
#[test]
fn denied_nodes_are_kept_as_denied_and_the_rest_of_them_is_not_read() {
    let mut tree = tree_of(Profile::TwoGpu);
    let nodes = Topology::parse(&tree).unwrap().topology.nodes;
    let hidden = nodes.iter().rfind(|node| node.is_gpu()).unwrap().id;
    let prefix = format!("nodes/{hidden}/");
    let files: Vec<String> = tree.files.keys().filter(|path| path.starts_with(&prefix)).cloned().collect();
    for path in files {
        tree.files.remove(&path);
        tree.denied.insert(path);
    }
    let read = read_stable(&Fake::new(tree.clone())).unwrap();
    assert_eq!(read.files, tree.files);
    assert_eq!(Vec::from_iter(&read.denied), [&format!("{prefix}gpu_id")]);
    let parsed = Topology::parse(&read).unwrap().topology;
    assert_eq!(parsed.nodes.len(), nodes.len() - 1);
    assert_eq!(parsed, Topology::parse(&tree).unwrap().topology, "as if all of it had been read");
}

// Case T10: a file that the user may not read is something else, and fails the snapshot.
#[test]
fn a_file_without_permission_fails_the_tree() {
    let denied = Fake::new(tree_of(Profile::Mi210)).failing("nodes/1/gpu_id", Errno::EACCES);
    assert_eq!(read_stable(&denied), Err(Errno::EACCES));
    let dir = Fake::new(tree_of(Profile::Mi210)).failing("nodes/1/caches", Errno::EACCES);
    assert_eq!(read_stable(&dir), Err(Errno::EACCES));
}

#[test]
fn what_vanishes_while_it_is_read_is_left_out() {
    for errno in [Errno::ENOENT, Errno::ENODEV] {
        let tree = tree_of(Profile::Mi210);
        let gone = Fake::new(tree.clone())
            .failing("nodes/1/caches/0/properties", errno)
            .failing("nodes/1/io_links", errno)
            .failing("nodes/0/name", errno);
        let read = read_stable(&gone).unwrap();
        let mut expected = tree;
        expected.files.retain(|path, _| {
            path != "nodes/0/name"
                && path != "nodes/1/caches/0/properties"
                && !path.starts_with("nodes/1/io_links/")
        });
        assert_eq!(read, expected);
    }
}

#[test]
fn a_tree_that_changes_while_it_is_read_is_read_again() {
    let fake = Fake::new(tree_of(Profile::CpuOnly));
    let calm = {
        read_stable(&fake).unwrap();
        fake.reads.replace(0)
    };
    *fake.restless.borrow_mut() = 3;
    assert_eq!(read_stable(&fake).unwrap(), tree_of(Profile::CpuOnly));
    assert_eq!(*fake.reads.borrow(), 3 * calm, "two passes saw a change");
}

#[test]
fn a_tree_that_never_rests_is_given_up_after_some_rounds() {
    let fake = Fake::new(tree_of(Profile::CpuOnly));
    *fake.restless.borrow_mut() = u32::MAX;
    assert!(read_stable(&fake).is_ok());
    assert_eq!(u32::MAX - *fake.restless.borrow(), 2 * u32::try_from(ROUNDS).unwrap());
}

#[test]
fn a_tree_beyond_all_bounds_is_refused() {
    let mut many = Tree::default();
    for node in 0..u32::try_from(MAX_ENTRIES / 4).unwrap() {
        many.files.insert(format!("nodes/{node}/gpu_id"), b"0\n".to_vec());
    }
    assert_eq!(read_stable(&Fake::new(many)), Err(Errno::E2BIG));
    let mut big = Tree::default();
    for cache in 0..=MAX_BYTES / MAX_FILE {
        big.files.insert(format!("nodes/0/caches/{cache}/properties"), vec![b'x'; MAX_FILE]);
    }
    assert_eq!(read_stable(&Fake::new(big)), Err(Errno::E2BIG));
}

#[test]
fn a_directory_beyond_all_bounds_is_refused_while_it_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    for entry in 0..20 {
        fs::write(dir.path().join(format!("x{entry}")), "").unwrap();
    }
    let root = openat(CWD, dir.path(), OFlags::PATH, Mode::empty()).unwrap();
    let directory = Directory { root };
    assert_eq!(directory.numbered(".", 10), Err(Errno::E2BIG), "other names count too");
    assert_eq!(directory.numbered(".", 100), Ok(Vec::new()));
}

/// Paths of a topology and others.
fn any_path() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("generation_id".to_owned()),
        Just("system_properties".to_owned()),
        (0u32..4, prop::sample::select(&NODE_FILES)).prop_map(|(node, file)| format!("nodes/{node}/{file}")),
        (0u32..4, prop::sample::select(&NODE_DIRS), 0u32..4)
            .prop_map(|(node, dir, entry)| format!("nodes/{node}/{dir}/{entry}/properties")),
        "(nodes|perf|..|[0-9a-z]{1,3})(/[0-9a-z_.]{1,4}){0,4}",
    ]
}

fn any_errno() -> impl Strategy<Value = Errno> {
    (1i32..=40).prop_map(|raw| Errno::from_raw(raw).unwrap())
}

proptest! {
    #[test]
    fn any_source_gives_what_it_holds_or_its_error(
        files in prop::collection::btree_map(any_path(), prop::collection::vec(any::<u8>(), 0..40), 0..30),
        denied in prop::collection::btree_set(any_path(), 0..4),
        errors in prop::collection::btree_map(any_path(), any_errno(), 0..3),
        dir_errors in prop::collection::btree_map("nodes(/[0-3](/(caches|io_links))?)?", any_errno(), 0..2),
    ) {
        let fake = Fake { tree: Tree { files, denied }, errors, ..Fake::default() };
        let fake = dir_errors.into_iter().fold(fake, |fake, (path, errno)| fake.failing(&path, errno));
        match read_stable(&fake) {
            Ok(read) => {
                for (path, bytes) in &read.files {
                    prop_assert_eq!(fake.tree.files.get(path), Some(bytes));
                    prop_assert!(!fake.errors.contains_key(path) && !fake.tree.denied.contains(path));
                }
                for path in &read.denied {
                    prop_assert_eq!(fake.read(path), Err(Errno::EPERM));
                }
            }
            Err(errno) => {
                prop_assert!(!is_gone(errno));
                prop_assert!(fake.errors.values().any(|error| *error == errno), "an error from nowhere");
            }
        }
    }

    #[test]
    fn only_plain_decimals_are_numbers(name: Vec<u8>, value: u32) {
        if let Some(number) = number(&name) {
            prop_assert_eq!(number.to_string().into_bytes(), name);
        }
        prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
    }
}
