//! The names that the library exports: derived from the declarations of the entry points.

use std::fmt::Write;

use crate::{drm, entry};

/// Every exported name, in order.
#[must_use]
pub fn exported() -> Vec<&'static str> {
    let areas = entry::AREAS.iter().flat_map(|(_, names)| names.iter());
    let refused = entry::REFUSED.iter().flat_map(|(_, names)| names.iter());
    let mut names: Vec<&str> = areas.chain(refused).chain(drm::NAMES).copied().collect();
    names.sort_unstable();
    names
}

/// The linker's version script: each name has the version of AMD's library, and nothing else is visible.
#[must_use]
pub fn version_script() -> String {
    let mut script = "HSAKMT_1 {\nglobal:\n".to_owned();
    for name in exported() {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "    {name};");
    }
    script + "local:\n    *;\n};\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use protocol::hsakmt::api;

    use super::*;

    #[test]
    fn they_are_those_of_amds_headers_and_the_ones_of_libdrm_that_rocr_calls() {
        let tables = [api::PLAIN, api::CONTEXT, api::VIRTIO];
        let declared = tables.iter().flat_map(|table| table.iter().map(|function| function.name));
        let expected: BTreeSet<&str> = declared.chain(drm::NAMES.iter().copied()).collect();
        assert_eq!(exported().into_iter().collect::<BTreeSet<_>>(), expected);
    }

    #[test]
    fn no_name_stands_twice() {
        let names = exported();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn the_script_names_each_of_them_once() {
        let script = version_script();
        for name in exported() {
            assert_eq!(script.matches(&format!(" {name};\n")).count(), 1, "{name}");
        }
    }
}
