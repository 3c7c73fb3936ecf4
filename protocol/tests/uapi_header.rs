//! The declarations against the uapi header that is installed here (`linux/kfd_ioctl.h`, package
//! linux-libc-dev), as the C compiler sees it.
//!
//! The header may be older than the tables: what it does not know is left out, and a struct that has grown
//! since is compared field by field.

mod uapi;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use uapi::{StructRow, lines, number, structs};

const INCLUDE: &str = "#include <stdio.h>\n#include <stddef.h>\n#include <linux/kfd_ioctl.h>\n";

/// These differ from one header to the next by their nature.
const OF_A_VERSION: &[&str] = &["KFD_IOCTL_MINOR_VERSION", "AMDKFD_COMMAND_END"];

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
        "cc failed; is the header linux/kfd_ioctl.h there (install linux-libc-dev)?\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the installed header knows.
struct Header {
    /// The members of each struct, by name.
    structs: BTreeMap<String, BTreeSet<String>>,
    /// Macros and enumerators.
    names: BTreeSet<String>,
}

impl Header {
    fn read(dir: &Path) -> Header {
        let text = cc(dir, &["-E", "-P"], INCLUDE);
        let macros = cc(dir, &["-E", "-dM"], INCLUDE);
        let mut names: BTreeSet<_> = words(&text).map(str::to_owned).collect();
        let defined =
            macros.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next());
        names.extend(defined.map(str::to_owned));
        Header { structs: members(&text), names }
    }

    /// The fields of this struct that the header has too; `None` if it does not know the struct.
    fn known<'a>(&self, row: &'a StructRow) -> Option<Vec<&'a uapi::FieldRow>> {
        let members = self.structs.get(row.name)?;
        Some(row.fields.iter().filter(|field| members.contains(field.name)).collect())
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Each `struct NAME { ... }` with the words in its braces: that is enough to know whether a member is there.
fn members(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("struct kfd_") {
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

/// A member as C names it: the save area's first four are in a struct of their own.
fn path(row: &StructRow, field: &str) -> String {
    let nested = row.name == "kfd_context_save_area_header"
        && (field.starts_with("control_stack") || field.starts_with("wave_state"));
    if nested { format!("wave_state.{field}") } else { field.to_owned() }
}

/// Compiles and runs a program of these statements, and returns its lines.
fn run(dir: &Path, statements: &str) -> BTreeSet<String> {
    let source = format!("{INCLUDE}int main(void) {{\n{statements}return 0;\n}}\n");
    cc(dir, &["-w", "-o", "uapi"], &source);
    let output = Command::new(dir.join("uapi")).output().expect("the compiled program runs");
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Asserts that the program printed exactly what the tables say.
fn assert_printed(printed: &BTreeSet<String>, expected: &BTreeSet<String>, at_least: usize) {
    let differing: Vec<_> = printed.symmetric_difference(expected).collect();
    assert!(differing.is_empty(), "header and tables differ: {differing:#?}");
    assert!(expected.len() >= at_least, "only {} lines were compared", expected.len());
}

#[test]
fn structs_are_laid_out_as_in_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = Header::read(dir.path());
    let mut statements = String::new();
    let mut expected = BTreeSet::new();
    for row in structs() {
        let Some(known) = header.known(&row) else { continue };
        for field in &known {
            let (name, path) = (row.name, path(&row, field.name));
            writeln!(
                statements,
                r#"printf("{name}.{path} %zu %zu\n", offsetof(struct {name}, {path}), sizeof(((struct {name} *)0)->{path}));"#
            )
            .expect("a string can be written");
            expected.insert(format!("{name}.{path} {} {}", field.offset, field.size));
        }
        let bodies = row.fields.iter().any(|field| field.name == "body");
        if known.len() == row.fields.len() || bodies {
            let name = row.name;
            writeln!(statements, r#"printf("{name} %zu\n", sizeof(struct {name}));"#).expect("as above");
            expected.insert(format!("{name} {}", row.size));
        }
    }
    // Interface 1.11 (Debian 12) is the oldest header that was tried.
    assert_printed(&run(dir.path(), &statements), &expected, 200);
}

#[test]
fn requests_have_the_codes_of_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = Header::read(dir.path());
    let grown: BTreeSet<_> = structs()
        .iter()
        .filter(|row| header.known(row).is_none_or(|known| known.len() < row.fields.len()))
        .filter(|row| !row.fields.iter().any(|field| field.name == "body"))
        .map(|row| row.name)
        .collect();
    let mut statements = String::new();
    let mut expected = BTreeSet::new();
    for line in lines(uapi::IOCTLS).filter(|line| !line.starts_with("rocm")) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (name, request, argument) = (format!("AMDKFD_IOC_{}", words[2]), number(words[4]), words[5]);
        if !header.names.contains(&name) {
            continue;
        }
        // The size of a struct that has grown is the header's own affair; number and direction are not.
        let mask = if grown.contains(argument) { 0xc000_ffff } else { 0xffff_ffff_u64 };
        writeln!(statements, r#"printf("{name} %#lx\n", (unsigned long){name} & {mask:#x});"#)
            .expect("as above");
        expected.insert(format!("{name} {:#x}", request & mask));
    }
    // Interface 1.11 ends with AVAILABLE_MEMORY.
    assert_printed(&run(dir.path(), &statements), &expected, 35);
}

#[test]
fn constants_have_the_values_of_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = Header::read(dir.path());
    let mut values: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in lines(uapi::CONSTANTS) {
        let (name, value) = line.split_once(' ').expect("name and value");
        if header.names.contains(name) && !OF_A_VERSION.contains(&name) {
            values.entry(name).or_default().push(number(value));
        }
    }
    let mut statements = String::new();
    for name in values.keys() {
        writeln!(statements, r#"printf("{name} %llu\n", sizeof({name}) == 4 ? (unsigned)({name}) : (unsigned long long)({name}));"#).expect("as above");
    }
    let printed = run(dir.path(), &statements);
    assert_eq!(printed.len(), values.len());
    assert!(values.len() >= 80, "only {} constants were compared", values.len());
    for line in printed {
        let (name, value) = line.split_once(' ').expect("name and value");
        assert!(
            values[name].contains(&number(value)),
            "{name} is {value} in the header, {:?} here",
            values[name]
        );
    }
}
