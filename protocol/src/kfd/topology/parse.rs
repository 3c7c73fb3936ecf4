//! [`Tree`] to [`Topology`]: total, as tolerant as libhsakmt, and telling what was odd.
//!
//! The rules are libhsakmt's (`topology.c`) where it has one: unknown keys are ignored, missing keys
//! are zero, the first line that is not a key and a decimal ends a file, values out of range keep their low bits
//! (`sscanf` with `%llu`, then a narrower field), a file is read up to one page, a node whose `gpu_id` or `properties` answer `EPERM` does not exist for the reader, and
//! neither do links to it. Where the counts in `properties` and the directories disagree, the
//! directories win, so that nothing is read that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::records::Record;
use super::{Cache, IoLink, MAX_FILE, Node, Topology, Tree};

/// A topology and what was odd in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// What the files say.
    pub topology: Topology,
    /// What was tolerated.
    pub warnings: Vec<Warning>,
}

/// Something odd in a file that was tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file or directory, relative to the root of the tree.
    pub path: String,
    /// What was odd.
    pub kind: WarningKind,
}

/// The kinds of [`Warning`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A key that this version does not know: ignored.
    UnknownKey(String),
    /// A number that its field cannot hold: cut to what libhsakmt makes of it, which reads 64 bits (more are all ones, and
    /// what stands after a minus is taken from 0) and keeps the low ones.
    OutOfRange {
        /// The key; none in a file that holds one number.
        key: Option<String>,
        /// What the file says; the start of it if that is long.
        value: String,
        /// What is made of it.
        kept: u64,
    },
    /// A line (counted from 1) that is not a key and a decimal: the rest of the file is ignored.
    BadLine(usize),
    /// More than a page: the rest of the file is ignored.
    Truncated,
    /// `properties` promises another number of directories than there are: the directories win.
    Count {
        /// The key with the promise.
        key: &'static str,
        /// What it says.
        promised: u32,
        /// How many directories there are.
        found: usize,
    },
    /// A directory entry that is no number: ignored.
    NotNumbered,
    /// The numbers of the directories have a hole: the ones behind it are taken all the same.
    Hole,
    /// The node answers `EPERM`: left out.
    DeniedNode,
    /// The file of a memory bank, cache or link answers `EPERM`: left out.
    DeniedFile,
    /// A link to a node that is left out or does not exist: left out.
    LinkToNowhere(u32),
    /// The node has neither CPU cores nor a GPU: kept, and no agent.
    NoProcessor,
    /// A `sibling_map` with something else than 0 and 1, or twice: the rest of it is ignored.
    SiblingMap,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.kind {
            WarningKind::UnknownKey(key) => write!(f, "{path}: the key {key:?} is unknown and ignored"),
            WarningKind::OutOfRange { key, value, kept } => {
                let (key, space) = key.as_ref().map_or(("", ""), |key| (key, " "));
                write!(f, "{path}: {key}{space}{value} is out of range; taken as {kept}")
            }
            WarningKind::BadLine(line) => {
                write!(f, "{path}: line {line} is not a key and a decimal number; the rest is ignored")
            }
            WarningKind::Truncated => write!(f, "{path}: longer than a page; the rest is ignored"),
            WarningKind::Count { key, promised, found } => {
                write!(f, "{path}: {key} is {promised}, but there are {found} directories, which win")
            }
            WarningKind::NotNumbered => write!(f, "{path}: not a number; ignored"),
            WarningKind::Hole => write!(f, "{path}: a number before it is missing"),
            WarningKind::DeniedNode => write!(f, "{path}: access is denied; the node is left out"),
            WarningKind::DeniedFile => write!(f, "{path}: access is denied; left out"),
            WarningKind::LinkToNowhere(to) => {
                write!(f, "{path}: node {to} is not there; the link is left out")
            }
            WarningKind::NoProcessor => write!(f, "{path}: the node has neither CPU cores nor a GPU"),
            WarningKind::SiblingMap => write!(f, "{path}: the sibling map is cut short"),
        }
    }
}

/// A tree that is no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A file that every topology has is not there.
    #[error("topology file {0} is missing")]
    Missing(String),
    /// A file that every topology has is empty.
    #[error("topology file {0} is empty")]
    Empty(String),
    /// A file that should hold one number does not.
    #[error("topology file {0} does not hold a decimal number")]
    NotANumber(String),
    /// A file that every reader may read answers `EPERM`.
    #[error("topology file {0} must not be denied")]
    Denied(String),
    /// A link in the directory of a node that is not its start.
    #[error("topology file {path}: node_from is {from}, but the file belongs to node {owner}")]
    WrongOwner {
        /// The file.
        path: String,
        /// What it says.
        from: u32,
        /// The node whose directory it is in.
        owner: u32,
    },
}

impl Topology {
    /// Reads a tree.
    ///
    /// # Errors
    /// [`TopologyError`] where libhsakmt's snapshot fails too.
    pub fn parse(tree: &Tree) -> Result<Parsed, TopologyError> {
        let mut reader = Reader { tree, warnings: Vec::new() };
        let topology = reader.topology()?;
        Ok(Parsed { topology, warnings: reader.warnings })
    }
}

struct Reader<'a> {
    tree: &'a Tree,
    warnings: Vec<Warning>,
}

/// How a file answers.
enum File<'a> {
    Denied,
    Missing,
    Text(&'a [u8]),
}

impl<'a> Reader<'a> {
    fn topology(&mut self) -> Result<Topology, TopologyError> {
        let generation_id = self.number("generation_id")?;
        let system = self.required("system_properties")?;
        let mut nodes = Vec::new();
        for id in self.numbered("nodes", true)? {
            nodes.extend(self.node(id)?);
        }
        self.drop_links_to_nowhere(&mut nodes);
        Ok(Topology { generation_id, system, nodes })
    }

    fn node(&mut self, id: u32) -> Result<Option<Node>, TopologyError> {
        let dir = format!("nodes/{id}");
        let files = [format!("{dir}/gpu_id"), format!("{dir}/properties")];
        if files.iter().any(|file| self.tree.denied.contains(file)) {
            self.warn(&dir, WarningKind::DeniedNode);
            return Ok(None);
        }
        let mut node = Node {
            id,
            gpu_id: self.number(&files[0])?,
            name: self.name(&format!("{dir}/name")),
            properties: self.required(&files[1])?,
            mem_banks: self.records(&format!("{dir}/mem_banks"))?,
            caches: self.caches(&format!("{dir}/caches"))?,
            io_links: self.links(&format!("{dir}/io_links"), id)?,
            p2p_links: self.links(&format!("{dir}/p2p_links"), id)?,
        };
        self.check_counts(&files[1], &node);
        node.set_counts();
        if !node.is_cpu() && !node.is_gpu() {
            self.warn(&dir, WarningKind::NoProcessor);
        }
        Ok(Some(node))
    }

    fn check_counts(&mut self, path: &str, node: &Node) {
        let p = &node.properties;
        for (key, promised, found) in [
            ("mem_banks_count", p.mem_banks_count, node.mem_banks.len()),
            ("caches_count", p.caches_count, node.caches.len()),
            ("io_links_count", p.io_links_count, node.io_links.len()),
            ("p2p_links_count", p.p2p_links_count, node.p2p_links.len()),
        ] {
            if usize::try_from(promised) != Ok(found) {
                self.warn(path, WarningKind::Count { key, promised, found });
            }
        }
    }

    fn drop_links_to_nowhere(&mut self, nodes: &mut [Node]) {
        let present: BTreeSet<u32> = nodes.iter().map(|node| node.id).collect();
        for node in nodes {
            let owner = node.id;
            for (kind, links) in [("io_links", &mut node.io_links), ("p2p_links", &mut node.p2p_links)] {
                links.retain(|link| {
                    let there = present.contains(&link.node_to);
                    if !there {
                        let path = format!("nodes/{owner}/{kind}");
                        self.warnings.push(Warning { path, kind: WarningKind::LinkToNowhere(link.node_to) });
                    }
                    there
                });
            }
            node.set_counts();
        }
    }

    /// The records in the numbered directories of `dir`.
    fn records<R: Record>(&mut self, dir: &str) -> Result<Vec<R>, TopologyError> {
        self.each(dir, |reader, path| {
            let mut record = R::default();
            reader.fill(path, &mut record, |_, _, _| None)?;
            Ok(record)
        })
    }

    fn caches(&mut self, dir: &str) -> Result<Vec<Cache>, TopologyError> {
        self.each(dir, |reader, path| {
            let mut cache = Cache::default();
            let mut map = Vec::new();
            reader.fill(path, &mut cache.properties, |key, value, odd| {
                (key == "sibling_map").then(|| (map, *odd) = siblings(value))
            })?;
            cache.sibling_map = map;
            Ok(cache)
        })
    }

    fn links(&mut self, dir: &str, owner: u32) -> Result<Vec<IoLink>, TopologyError> {
        self.each(dir, |reader, path| {
            let mut link = IoLink::default();
            reader.fill(path, &mut link, |_, _, _| None)?;
            if link.node_from != owner {
                return Err(TopologyError::WrongOwner { path: path.to_owned(), from: link.node_from, owner });
            }
            Ok(link)
        })
    }

    fn each<R>(
        &mut self,
        dir: &str,
        mut read: impl FnMut(&mut Self, &str) -> Result<R, TopologyError>,
    ) -> Result<Vec<R>, TopologyError> {
        let mut all = Vec::new();
        for number in self.numbered(dir, false)? {
            let path = format!("{dir}/{number}/properties");
            if self.tree.denied.contains(&path) {
                self.warn(&path, WarningKind::DeniedFile);
            } else {
                all.push(read(self, &path)?);
            }
        }
        Ok(all)
    }

    /// The numbered entries of a directory, ascending. `strict`: a hole is an error of the first
    /// file that is missing, as libhsakmt counts the entries and opens 0, 1, 2.
    fn numbered(&mut self, dir: &str, strict: bool) -> Result<Vec<u32>, TopologyError> {
        let tree = self.tree;
        let prefix = format!("{dir}/");
        let names: BTreeSet<&str> = below(&tree.files, &prefix)
            .chain(
                tree.denied
                    .range(prefix.clone()..)
                    .map(String::as_str)
                    .map_while(|p| p.strip_prefix(&*prefix)),
            )
            .filter_map(|rest| rest.split('/').next())
            .collect();
        let mut numbers = BTreeSet::new();
        for name in names {
            match decimal(name.as_bytes()).and_then(|n| u32::try_from(n).ok()) {
                Some(number) if number.to_string() == name => {
                    numbers.insert(number);
                }
                _ => self.warn(&format!("{prefix}{name}"), WarningKind::NotNumbered),
            }
        }
        if let Some((expected, &found)) = (0..).zip(&numbers).find(|&(i, &number)| i != number) {
            if strict {
                return Err(TopologyError::Missing(format!("{prefix}{expected}/gpu_id")));
            }
            self.warn(&format!("{prefix}{found}"), WarningKind::Hole);
        }
        Ok(numbers.into_iter().collect())
    }

    fn required<R: Record>(&mut self, path: &str) -> Result<R, TopologyError> {
        let mut record = R::default();
        self.fill(path, &mut record, |_, _, _| None)?;
        Ok(record)
    }

    /// Reads the lines of a file into a record. `text` takes keys whose value is no number and may
    /// say that the value was odd.
    fn fill<R: Record>(
        &mut self,
        path: &str,
        record: &mut R,
        text: impl FnOnce(&str, &[u8], &mut bool) -> Option<()>,
    ) -> Result<(), TopologyError> {
        let bytes = self.page(path)?;
        if bytes.is_empty() {
            return Err(TopologyError::Empty(path.to_owned()));
        }
        let mut text = Some(text);
        for (i, line) in bytes.split(|&b| b == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let Some((key, value)) = key_value(line) else {
                self.warn(path, WarningKind::BadLine(i + 1));
                return Ok(());
            };
            if key == "sibling_map" {
                let mut odd = false;
                if text.take().and_then(|text| text(key, value, &mut odd)).is_none() || odd {
                    self.warn(path, WarningKind::SiblingMap);
                }
                continue;
            }
            let Some(number) = Number::parse(value) else {
                self.warn(path, WarningKind::BadLine(i + 1));
                return Ok(());
            };
            self.store(path, record, key, number);
        }
        Ok(())
    }

    /// Stores one value, or as much of it as the field holds.
    fn store<R: Record>(&mut self, path: &str, record: &mut R, key: &str, number: Number<'_>) {
        let Some(known) = R::KEYS.iter().find(|known| known.name == key) else {
            return self.warn(path, WarningKind::UnknownKey(key.to_owned()));
        };
        let (kept, odd) = number.cut(known.bits);
        // It fits now.
        record.set(key, kept);
        if odd {
            self.warn(path, number.out_of_range(Some(key), kept));
        }
    }

    fn number(&mut self, path: &str) -> Result<u32, TopologyError> {
        let text = self.page(path)?.trim_ascii();
        let number = Number::parse(text).ok_or_else(|| TopologyError::NotANumber(path.to_owned()))?;
        let (kept, odd) = number.cut(u32::BITS);
        if odd {
            self.warn(path, number.out_of_range(None, kept));
        }
        u32::try_from(kept).map_err(|_| TopologyError::NotANumber(path.to_owned()))
    }

    /// The name of a node: the first line; free text that nobody has to write.
    fn name(&mut self, path: &str) -> String {
        let Ok(bytes) = self.page(path) else { return String::new() };
        let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    }

    /// The first page of a file.
    fn page(&mut self, path: &str) -> Result<&'a [u8], TopologyError> {
        match self.file(path) {
            File::Denied => Err(TopologyError::Denied(path.to_owned())),
            File::Missing => Err(TopologyError::Missing(path.to_owned())),
            File::Text(bytes) => match bytes.get(..MAX_FILE) {
                Some(page) if bytes.len() > MAX_FILE => {
                    self.warn(path, WarningKind::Truncated);
                    Ok(page)
                }
                _ => Ok(bytes),
            },
        }
    }

    fn file(&self, path: &str) -> File<'a> {
        if self.tree.denied.contains(path) {
            return File::Denied;
        }
        self.tree.files.get(path).map_or(File::Missing, |bytes| File::Text(bytes))
    }

    fn warn(&mut self, path: &str, kind: WarningKind) {
        self.warnings.push(Warning { path: path.to_owned(), kind });
    }
}

/// What follows `prefix` in the paths of the files below it.
fn below<'a>(files: &'a BTreeMap<String, Vec<u8>>, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    files.range(prefix.to_owned()..).map_while(move |(path, _)| path.strip_prefix(prefix))
}

/// A line as key and value; `None` unless it has exactly two words.
fn key_value(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().position(u8::is_ascii_whitespace)?;
    let (key, value) = line.split_at_checked(at)?;
    let value = value.trim_ascii();
    if value.iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    Some((std::str::from_utf8(key).ok()?, value))
}

/// A number as C's `strtoull` reads it.
#[derive(Clone, Copy)]
struct Number<'a> {
    text: &'a [u8],
    value: u64,
    /// Whether `value` is what the text says.
    exact: bool,
}

impl<'a> Number<'a> {
    /// Decimal digits, with a sign or without.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = decimal(digits);
        // More than 64 bits are all ones, with a minus too.
        let value = number.map_or(u64::MAX, |number| if negative { number.wrapping_neg() } else { number });
        let exact = number.is_some_and(|number| !negative || number == 0);
        Some(Self { text, value, exact })
    }

    /// The low bits, and whether they are not all that the text says.
    fn cut(self, bits: u32) -> (u64, bool) {
        let kept = self.value & u64::MAX.checked_shr(u64::BITS.saturating_sub(bits)).unwrap_or(0);
        (kept, !self.exact || kept != self.value)
    }

    fn out_of_range(self, key: Option<&str>, kept: u64) -> WarningKind {
        // A file has thousands of digits at most; a message needs no more than these.
        const SHOWN: usize = 40;
        let mut value = String::from_utf8_lossy(self.text.get(..SHOWN).unwrap_or(self.text)).into_owned();
        if self.text.len() > SHOWN {
            value.push_str("...");
        }
        WarningKind::OutOfRange { key: key.map(str::to_owned), value, kept }
    }
}

/// Decimal digits as a number; `None` for anything else and for more than 64 bits.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte.wrapping_sub(b'0')))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// The entries of a `sibling_map`, and whether something was odd in it.
fn siblings(value: &[u8]) -> (Vec<bool>, bool) {
    let mut map = Vec::new();
    for entry in value.split(|&b| b == b',') {
        match entry {
            b"0" | b"1" => map.push(entry == b"1"),
            _ => return (map, true),
        }
    }
    (map, false)
}
