//! Everything that the environment decides, read once at the first open.

use std::ffi::OsString;

use protocol::hsakmt::Status;
use protocol::kfd::topology::GfxVersion;

use super::Result;

/// A GPU whose instruction set version the environment overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfxOverride {
    /// The thunk's node id, or `None` for all GPUs.
    pub node: Option<u32>,
    /// What the GPU is said to be; `None` if the text is no version, and the topology then cannot be read, as with AMD's
    /// library: a program must not run for another GPU than the one that was meant.
    pub version: Option<GfxVersion>,
}

/// The switches of AMD's thunk, with its names and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `HSA_USE_SVM`: register memory through the SVM interface where the kernel has it. On unless `0`.
    pub svm: bool,
    /// `HSA_DISABLE_CACHE`: all memory uncached. Off unless set to something else than `0`.
    pub disable_cache: bool,
    /// `HSA_USERPTR_FOR_PAGED_MEM`: paged system memory is the process's own, registered as userptr. On unless `0`.
    pub userptr_for_paged_mem: bool,
    /// `HSA_CHECK_USERPTR`: memory is touched when it is registered. Off unless set to something else than `0`.
    pub check_userptr: bool,
    /// `HSA_SVM_GUARD_PAGES`: pages left free behind each buffer. 1.
    pub guard_pages: u32,
    /// `HSA_MAX_VA_ALIGN`: buffers are aligned to at most 2^this pages. 9 (2 MiB).
    pub max_va_align: u32,
    /// `HSA_ZFB`: VRAM is taken from system memory. Off unless a number other than 0.
    pub zero_frame_buffer: bool,
    /// `HSA_OVERRIDE_GFX_VERSION` and `HSA_OVERRIDE_GFX_VERSION_<node>`.
    pub gfx_overrides: Vec<GfxOverride>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            svm: true,
            disable_cache: false,
            userptr_for_paged_mem: true,
            check_userptr: false,
            guard_pages: 1,
            max_va_align: 9,
            zero_frame_buffer: false,
            gfx_overrides: Vec::new(),
        }
    }
}

/// More guard pages than this (64 MiB behind each buffer) is a mistake, not a wish.
const MAX_GUARD_PAGES: u32 = 1 << 14;
/// 2^18 pages are 1 GiB, the largest page of a GPU.
const MAX_VA_ALIGN: u32 = 18;

impl Options {
    /// What the variables of this process say. A number that cannot be is reported and ignored.
    #[must_use]
    pub fn from_env() -> Self {
        Self::parse(std::env::vars_os())
    }

    /// What these variables say.
    fn parse(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut options = Self::default();
        for (name, value) in variables {
            // A value that is no text is a value all the same: none of those that switch off, and no number.
            if let Some(name) = name.to_str() {
                options.set(name, &value.to_string_lossy());
            }
        }
        // One for a single node goes before one for all.
        options.gfx_overrides.sort_by_key(|one| (one.node.is_none(), one.node));
        options
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "HSA_USE_SVM" => self.svm = value != "0",
            "HSA_DISABLE_CACHE" => self.disable_cache = value != "0",
            "HSA_USERPTR_FOR_PAGED_MEM" => self.userptr_for_paged_mem = value != "0",
            "HSA_CHECK_USERPTR" => self.check_userptr = value != "0",
            "HSA_ZFB" => self.zero_frame_buffer = value.trim().parse::<i64>().is_ok_and(|number| number != 0),
            "HSA_SVM_GUARD_PAGES" => set_number(name, value, MAX_GUARD_PAGES, &mut self.guard_pages),
            "HSA_MAX_VA_ALIGN" => set_number(name, value, MAX_VA_ALIGN, &mut self.max_va_align),
            _ => self.set_gfx_override(name, value),
        }
    }

    fn set_gfx_override(&mut self, name: &str, value: &str) {
        let Some(rest) = name.strip_prefix("HSA_OVERRIDE_GFX_VERSION") else { return };
        let node = match rest.strip_prefix('_').map(str::parse) {
            None if rest.is_empty() => None,
            Some(Ok(node)) => Some(node),
            _ => return,
        };
        let version = parse_gfx(value);
        if version.is_none() {
            log::error!("{name}={} is not major.minor.stepping (63.255.255 at most)", shown(value));
        }
        self.gfx_overrides.push(GfxOverride { node, version });
    }

    /// The version that the environment gives to this node.
    ///
    /// # Errors
    /// `ERROR` if it gives one that is none.
    pub fn gfx_override(&self, node: u32) -> Result<Option<GfxVersion>> {
        let applies = |one: &&GfxOverride| one.node.is_none_or(|only| only == node);
        match self.gfx_overrides.iter().find(applies) {
            None => Ok(None),
            Some(one) => one.version.map(Some).ok_or(Status::Error),
        }
    }
}

fn set_number(name: &str, value: &str, max: u32, to: &mut u32) {
    match value.trim().parse::<u32>() {
        Ok(number) if number <= max => *to = number,
        _ => log::warn!("{name}={} is not a number up to {max}; {to} is used", shown(value)),
    }
}

/// For the log: on one line, and not all of a long one.
fn shown(value: &str) -> String {
    const MOST: usize = 64;
    let mut shown: String = value.chars().take(MOST).flat_map(char::escape_debug).collect();
    if value.chars().nth(MOST).is_some() {
        shown.push_str("...");
    }
    shown
}

/// `major.minor.stepping`, decimal.
fn parse_gfx(value: &str) -> Option<GfxVersion> {
    let mut parts = value.trim().split('.').map(str::parse::<u8>);
    let (major, minor, stepping) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    // HSA_ENGINE_ID has six bits for the major number.
    (parts.next().is_none() && major <= 63).then(|| GfxVersion::new(major, minor, stepping))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(variables: &[(&str, &str)]) -> Options {
        Options::parse(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(parsed(&[("PATH", "/bin")]), Options::default());
    }

    #[test]
    fn switches_follow_amds_rules() {
        let off =
            parsed(&[("HSA_USE_SVM", "0"), ("HSA_USERPTR_FOR_PAGED_MEM", "0"), ("HSA_DISABLE_CACHE", "0")]);
        assert!(!off.svm && !off.userptr_for_paged_mem && !off.disable_cache);
        let on = parsed(&[("HSA_USE_SVM", ""), ("HSA_CHECK_USERPTR", "yes"), ("HSA_DISABLE_CACHE", "1")]);
        assert!(on.svm && on.check_userptr && on.disable_cache);
    }

    #[test]
    fn values_that_are_no_text_count() {
        use std::os::unix::ffi::OsStringExt as _;
        let bytes = || OsString::from_vec(vec![0xff, 0xfe]);
        let names =
            ["HSA_DISABLE_CACHE", "HSA_CHECK_USERPTR", "HSA_SVM_GUARD_PAGES", "HSA_OVERRIDE_GFX_VERSION"];
        let options = Options::parse(names.iter().map(|name| ((*name).into(), bytes())));
        assert!(options.disable_cache && options.check_userptr);
        assert_eq!(options.guard_pages, 1);
        assert_eq!(options.gfx_override(1), Err(Status::Error));
    }

    #[test]
    fn what_is_logged_of_a_value_is_short_and_on_one_line() {
        assert_eq!(shown("a\nb\x1b"), "a\\nb\\u{1b}");
        assert_eq!(shown(&"x".repeat(100_000)), format!("{}...", "x".repeat(64)));
    }

    #[test]
    fn numbers_that_cannot_be_are_ignored() {
        let wrong = parsed(&[("HSA_SVM_GUARD_PAGES", "-1"), ("HSA_MAX_VA_ALIGN", "99999999999")]);
        assert_eq!(wrong, Options::default());
        let right = parsed(&[("HSA_SVM_GUARD_PAGES", "3"), ("HSA_MAX_VA_ALIGN", "0")]);
        assert_eq!((right.guard_pages, right.max_va_align), (3, 0));
    }

    #[test]
    fn a_gfx_version_for_one_node_goes_before_one_for_all() {
        let options =
            parsed(&[("HSA_OVERRIDE_GFX_VERSION", "10.3.0"), ("HSA_OVERRIDE_GFX_VERSION_2", "9.0.10")]);
        assert_eq!(options.gfx_override(1), Ok(Some(GfxVersion::new(10, 3, 0))));
        assert_eq!(options.gfx_override(2), Ok(Some(GfxVersion::new(9, 0, 10))));
        for wrong in ["", "10", "10.3", "10.3.0.1", "64.0.0", "9.256.0", "a.b.c", "-1.0.0"] {
            assert_eq!(
                parsed(&[("HSA_OVERRIDE_GFX_VERSION", wrong)]).gfx_override(1),
                Err(Status::Error),
                "{wrong}"
            );
        }
    }
}
