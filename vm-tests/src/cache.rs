//! A cache of what is slow to make, in `${XDG_CACHE_HOME:-~/.cache}/kfdvirt`.
//!
//! An entry is a directory. Its key is the text of its recipe, which names the resolved versions of the packages in
//! it: when the archive moves on, the key changes and the entry is made again. Entries are made under a temporary
//! name and renamed, under a lock, so several processes can use one cache, and one that was killed leaves nothing
//! that looks like an entry. Nothing is deleted on its own: remove the directory to get the space back.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};

use crate::{Error, Result};

/// The file in each entry that holds its recipe.
const RECIPE: &str = "recipe";

/// A directory of entries.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// The user's cache.
    ///
    /// # Errors
    /// If there is neither `XDG_CACHE_HOME` nor `HOME`, or the directory cannot be made.
    pub fn open() -> Result<Self> {
        let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let base = base.ok_or(Error::Environment {
            variable: "HOME",
            value: String::new(),
            expected: "the cache needs an absolute HOME or XDG_CACHE_HOME",
        })?;
        Self::at(base.join("kfdvirt"))
    }

    /// A cache in a directory of the caller's.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn at(dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir).map_err(Error::file("make the directory", &dir))?;
        Ok(Self { dir })
    }

    /// The directory of the entry `name` made by `recipe`; made now if it is not there.
    ///
    /// `build` fills the empty directory that it is given.
    ///
    /// # Errors
    /// What `build` says, or that a file of the cache cannot be used.
    pub fn entry(
        &self,
        name: &str,
        recipe: &str,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let key = format!("{name}-{}", digest(recipe));
        let _lock = self.lock(&key)?;
        let (entry, unfinished) = (self.dir.join(&key), self.dir.join(format!("{key}.unfinished")));
        if is_made_by(&entry, recipe)? {
            return Ok(entry);
        }
        log::info!("making {}", entry.display());
        remove(&unfinished)?;
        fs::create_dir(&unfinished).map_err(Error::file("make the directory", &unfinished))?;
        if let Err(error) = build(&unfinished) {
            remove(&unfinished)?;
            return Err(error);
        }
        let file = unfinished.join(RECIPE);
        fs::write(&file, recipe).map_err(Error::file("write", &file))?;
        fs::rename(&unfinished, &entry).map_err(Error::file("rename", &unfinished))?;
        Ok(entry)
    }

    /// A directory that is refreshed in place by `update` when it is older than `age`.
    ///
    /// If `update` fails and there is an older state, that one is used: a machine without network keeps what it has.
    ///
    /// # Errors
    /// What `update` says when there is no older state.
    pub fn refreshed(
        &self,
        name: &str,
        age: Duration,
        update: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let _lock = self.lock(name)?;
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).map_err(Error::file("make the directory", &dir))?;
        let stamp = dir.join("stamp");
        let known = fs::metadata(&stamp).and_then(|metadata| metadata.modified()).ok();
        let is_fresh = |then| SystemTime::now().duration_since(then).is_ok_and(|passed| passed < age);
        if known.is_some_and(is_fresh) {
            return Ok(dir);
        }
        match update(&dir) {
            Ok(()) => fs::write(&stamp, "").map_err(Error::file("write", &stamp))?,
            Err(error) if known.is_some() => log::warn!("{} stays as it is: {error}", dir.display()),
            Err(error) => return Err(error),
        }
        Ok(dir)
    }

    /// Waits for and takes the lock of an entry; it ends with the file.
    fn lock(&self, key: &str) -> Result<fs::File> {
        let path = self.dir.join(format!("{key}.lock"));
        let file = fs::File::create(&path).map_err(Error::file("open", &path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| Error::file("lock", &path)(error.into()))?;
        Ok(file)
    }
}

/// A short name for a long text.
pub(crate) fn digest(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether the entry exists. Two recipes with one hash would be a wrong entry, so the recipe is compared too.
fn is_made_by(entry: &Path, recipe: &str) -> Result<bool> {
    let file = entry.join(RECIPE);
    match fs::read_to_string(&file) {
        Ok(text) if text == recipe => Ok(true),
        Ok(_) => Err(Error::Package(format!("{} was made by another recipe; remove it", entry.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::file("read", file)(error)),
    }
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file("remove", dir)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        (dir, cache)
    }

    #[test]
    fn an_entry_is_made_once_even_by_many_at_the_same_time() {
        let (_dir, cache) = cache();
        let made = AtomicUsize::new(0);

        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let entry = cache.entry("thing", "recipe 1", |dir| {
                        made.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(30));
                        fs::write(dir.join("file"), "made").map_err(Error::file("write", dir))
                    });
                    assert_eq!(fs::read_to_string(entry.unwrap().join("file")).unwrap(), "made");
                });
            }
        });

        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn another_recipe_is_another_entry() {
        let (_dir, cache) = cache();

        let first = cache.entry("thing", "recipe 1", |_| Ok(())).unwrap();
        let second = cache.entry("thing", "recipe 2", |_| Ok(())).unwrap();

        assert_ne!(first, second);
        assert!(first.is_dir() && second.is_dir());
    }

    #[test]
    fn a_failed_or_killed_build_leaves_no_entry() {
        let (dir, cache) = cache();

        let error = cache.entry("thing", "recipe", |dir| {
            fs::write(dir.join("half"), "").map_err(Error::file("write", dir))?;
            Err(Error::Package("no such package".into()))
        });

        assert_eq!(error.unwrap_err().to_string(), "no such package");
        let names = fs::read_dir(dir.path().join("cache")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| !name.to_string_lossy().ends_with(".lock")).collect();
        assert!(left.is_empty(), "{left:?}");
        let entry = cache.entry("thing", "recipe", |dir| {
            assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
            Ok(())
        });
        assert!(entry.unwrap().is_dir());
    }

    #[test]
    fn a_refresh_that_fails_keeps_the_older_state() {
        let (_dir, cache) = cache();
        let broken = |_: &Path| Err(Error::Package("no network".into()));

        assert!(cache.refreshed("lists", Duration::ZERO, broken).is_err());
        cache.refreshed("lists", Duration::ZERO, |_| Ok(())).unwrap();
        assert!(cache.refreshed("lists", Duration::ZERO, broken).is_ok());
        let unused = |_: &Path| panic!("a fresh state is not refreshed");
        assert!(cache.refreshed("lists", Duration::from_secs(3600), unused).is_ok());
    }
}
