//! The uapi headers that are installed here (package linux-libc-dev), as the C compiler sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::table::{FieldRow, StructRow};

/// Runs the C compiler and returns what it prints.
fn cc(dir: &Path, options: &[&str], source: &str) -> String {
    let file = dir.join("uapi.c");
    std::fs::write(&file, source).expect("the temporary directory can be written");
    // Debian keeps drm.h in libdrm-dev; the KFD header only wants the types and macros that it includes.
    std::fs::create_dir_all(dir.join("drm")).expect("as above");
    std::fs::write(dir.join("drm/drm.h"), "#include <linux/types.h>\n#include <asm/ioctl.h>\n")
        .expect("as above");
    let output = Command::new("cc").current_dir(dir).args(options).arg("-I.").arg(&file).output();
    let output = output.unwrap_or_else(|error| panic!("no C compiler (install gcc): {error}"));
    assert!(
        output.status.success(),
        "cc failed; are the kernel's headers there (install linux-libc-dev)?\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the installed header knows.
pub struct Header {
    include: String,
    /// The members of each struct, by name.
    pub structs: BTreeMap<String, BTreeSet<String>>,
    /// Macros and enumerators.
    pub names: BTreeSet<String>,
}

impl Header {
    /// Reads a header; `prefix` begins the names of its structs.
    pub fn read(dir: &Path, header: &str, prefix: &str) -> Header {
        let include = format!("#include <stdio.h>\n#include <stddef.h>\n#include <{header}>\n");
        let text = cc(dir, &["-E", "-P"], &include);
        let macros = cc(dir, &["-E", "-dM"], &include);
        let mut names: BTreeSet<_> = words(&text).map(str::to_owned).collect();
        let defined =
            macros.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next());
        names.extend(defined.map(str::to_owned));
        Header { structs: members(&text, prefix), include, names }
    }

    /// The fields of this struct that the header has too; `None` if it does not know the struct.
    pub fn known<'a>(&self, row: &'a StructRow) -> Option<Vec<&'a FieldRow>> {
        let members = self.structs.get(row.name)?;
        Some(row.fields.iter().filter(|field| members.contains(field.name)).collect())
    }

    /// Compiles and runs a program of these statements, and returns its lines.
    pub fn run(&self, dir: &Path, statements: &str) -> BTreeSet<String> {
        let source = format!("{}int main(void) {{\n{statements}return 0;\n}}\n", self.include);
        cc(dir, &["-w", "-o", "uapi"], &source);
        let output = Command::new(dir.join("uapi")).output().expect("the compiled program runs");
        assert!(output.status.success(), "{:?}", output.status);
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Each `struct NAME { ... }` with the words in its braces: that is enough to know whether a member is there.
fn members(text: &str, prefix: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices(&format!("struct {prefix}")) {
        let rest = &text[at + "struct ".len()..];
        let Some((name, body)) = rest.split_once('{') else { continue };
        let name = name.trim();
        if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            continue;
        }
        let mut depth = 1;
        let end = body.find(|c| {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            depth == 0
        });
        let members = words(&body[..end.expect("balanced braces")]).map(str::to_owned).collect();
        found.insert(name.to_owned(), members);
    }
    found
}

/// Asserts that the program printed exactly what the tables say.
pub fn assert_printed(printed: &BTreeSet<String>, expected: &BTreeSet<String>, at_least: usize) {
    let differing: Vec<_> = printed.symmetric_difference(expected).collect();
    assert!(differing.is_empty(), "header and tables differ: {differing:#?}");
    assert!(expected.len() >= at_least, "only {} lines were compared", expected.len());
}
