//! Values that a program prints, compared with a file in which each has its source.

use std::{collections::BTreeMap, fs};

use crate::programs;

/// Where a line of the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Where there is a GPU.
    Gpu,
    /// Everywhere.
    Nothing,
}

/// A line of the file: `id | gpu or any | value | source`.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The name of the value, as the program prints it.
    pub id: &'a str,
    /// Where it holds.
    pub needs: Needs,
    /// The right value.
    pub value: &'a str,
    /// Who says so.
    pub source: &'a str,
}

/// A line of a file of deviations: `id | when | value | why`.
#[derive(Clone, Copy, Debug)]
pub struct Deviation<'a> {
    /// The name of the value.
    pub id: &'a str,
    /// In which cases it holds: a word of the file's own.
    pub when: &'a str,
    /// What is printed instead; `nothing` where the program does not come to print it.
    pub value: &'a str,
    /// Who is right, and why.
    pub why: &'a str,
}

/// A file of `c/thunk_checks`.
///
/// # Panics
/// If it cannot be read.
pub fn file(name: &str) -> String {
    let path = programs::crate_dir().join("c/thunk_checks").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The expected values of a file.
///
/// # Panics
/// At a line that is none.
pub fn expected(file: &str) -> Vec<Expected<'_>> {
    let parse = |line| {
        let [id, needs, value, source] = fields(line)?;
        let needs = match needs {
            "gpu" => Needs::Gpu,
            "any" => Needs::Nothing,
            _ => return None,
        };
        Some(Expected { id, needs, value, source })
    };
    let parse = |line| parse(line).unwrap_or_else(|| panic!("not `id | needs | value | source`: {line}"));
    lines(file).map(parse).collect()
}

/// The deviations of a file.
///
/// # Panics
/// At a line that is none.
pub fn deviations(file: &str) -> Vec<Deviation<'_>> {
    let parse = |line| {
        let [id, when, value, why] =
            fields(line).unwrap_or_else(|| panic!("not `id | when | value | why`: {line}"));
        Deviation { id, when, value, why }
    };
    lines(file).map(parse).collect()
}

/// The expected lines with the values of the deviations that hold.
///
/// # Panics
/// If one of them, holding or not, has no line to deviate from, or does not deviate.
pub fn deviating<'a>(
    lines: &[Expected<'a>],
    deviations: &[Deviation<'a>],
    holds: impl Fn(&Deviation<'a>) -> bool,
) -> Vec<Expected<'a>> {
    let mut changed = lines.to_vec();
    for deviation in deviations {
        let &Deviation { id, value, why, .. } = deviation;
        let found = changed.iter_mut().find(|line| line.id == id);
        let found = found.unwrap_or_else(|| panic!("nothing to deviate from: {deviation:?}"));
        assert_ne!(found.value, value, "no deviation, or twice the same: {deviation:?}");
        if holds(deviation) {
            *found = Expected { value, source: why, ..*found };
        }
    }
    changed
}

/// Where what a program printed, a line `id value` for each, is not what the file says: a sentence each.
pub fn differences(expected: &[Expected<'_>], output: &str) -> Vec<String> {
    let mut printed = BTreeMap::new();
    let mut differences = Vec::new();
    for (id, value) in output.lines().filter_map(|line| line.split_once(' ')) {
        if printed.insert(id, value).is_some() {
            differences.push(format!("{id}: printed twice"));
        }
    }
    differences.extend(expected.iter().filter_map(|line| {
        let value = printed.remove(line.id).unwrap_or("nothing");
        let Expected { id, value: right, source, .. } = line;
        (value != *right).then(|| format!("{id}: {value}, but {right} by {source}"))
    }));
    differences.extend(printed.iter().map(|(id, value)| format!("{id}: {value}, but no line expects it")));
    differences
}

fn lines(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| !line.starts_with('#'))
}

fn fields(line: &str) -> Option<[&str; 4]> {
    let mut fields = line.splitn(4, " | ");
    let four = [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
    (!four[3].is_empty()).then_some(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# a comment\na | any | 1 | somebody\nb | gpu | 2 | somebody else\n";

    #[test]
    fn wrong_missing_doubled_and_unknown_values_are_differences() {
        let lines = expected(FILE);

        assert_eq!(differences(&lines, "a 1\nb 2\n"), Vec::<String>::new());
        assert_eq!(differences(&lines, "a 1\n"), ["b: nothing, but 2 by somebody else"]);
        assert_eq!(differences(&lines, "a 3\nb 2\nc 4\n").len(), 2);
        assert_eq!(differences(&lines, "a 1\na 1\nb 2\n"), ["a: printed twice"]);
    }

    #[test]
    fn a_deviation_that_holds_replaces_the_value() {
        let lines = expected(FILE);
        let table = deviations("b | always | nothing | because\na | never | 7 | because\n");

        let changed = deviating(&lines, &table, |deviation| deviation.when == "always");

        assert_eq!(differences(&changed, "a 1\n"), Vec::<String>::new());
        assert_eq!(changed[1].source, "because");
    }

    #[test]
    #[should_panic(expected = "no deviation")]
    fn a_deviation_must_deviate() {
        deviating(&expected(FILE), &deviations("a | always | 1 | because\n"), |_| true);
    }
}
