//! The declarations of the thunk's types against the header's numbers.

mod thunk;

use std::collections::{BTreeMap, BTreeSet};

use protocol::hsakmt::{
    self, CacheProperties, GraphicsResourceInfo, HsaStruct, IoLinkProperties, Layout, NodeProperties, Placed,
    QueueInfo, QueueResource, Status, Struct,
};

/// The lines of a table, split into words.
fn lines(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|words| !words.is_empty())
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// `name@offset+size` or `name:shift+width`.
fn split(word: &'static str, at: char) -> (&'static str, usize, usize) {
    let parts = word.split_once(at).and_then(|(name, rest)| Some((name, rest.split_once('+')?)));
    let (name, (first, second)) = parts.unwrap_or_else(|| panic!("{word:?}"));
    (name, number(first), number(second))
}

fn structs() -> impl Iterator<Item = &'static Struct> {
    hsakmt::STRUCTS.iter().flat_map(|module| module.iter())
}

/// Each declared field is at its place, and each field of the header is covered by one: the members of a union
/// by its biggest.
fn compare(what: &str, rows: &[&'static str], declared: &[(&str, usize, usize)]) {
    let rows: Vec<_> = rows.iter().map(|word| split(word, '@')).collect();
    for field in declared {
        assert!(rows.contains(field), "{what}: {field:?} is not in the table");
    }
    for (name, offset, size) in rows {
        let covers = |field: &&(&str, usize, usize)| field.1 == offset && field.2 >= size;
        assert!(declared.iter().any(|field| covers(&field)), "{what}.{name}");
    }
}

#[test]
fn every_struct_has_the_size_and_the_fields_of_the_newest_header() {
    let mut seen = BTreeSet::new();
    for words in lines(thunk::STRUCTS).filter(|words| ["all", "396"].contains(&words[0])) {
        let (name, size) = (words[1], number::<usize>(words[2]));
        let declared = structs().find(|declared| declared.c_name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(declared.size, size, "{name}");
        assert!(declared.align <= 4, "{name} is not packed");
        let fields: Vec<_> = declared.fields.iter().map(|f| (f.c_name, f.offset, f.size)).collect();
        compare(name, &words[3..], &fields);
        assert_eq!(fields.iter().map(|field| field.2).sum::<usize>(), size, "{name} has holes");
        assert!(seen.insert(name), "{name} is there twice");
    }
    assert_eq!(seen.len(), 42);
    assert_eq!(structs().map(|declared| declared.c_name).collect::<BTreeSet<_>>(), seen);
}

/// Compares `T` in the old layouts with their lines.
fn compare_layouts<T: HsaStruct>() {
    for layout in Layout::ALL {
        let line = lines(thunk::STRUCTS)
            .find(|words| words[0] == layout.to_string() && words[1] == T::C_NAME)
            .unwrap_or_else(|| panic!("{} {layout}", T::C_NAME));
        assert_eq!(layout.size_of::<T>(), number::<usize>(line[2]), "{} {layout}", T::C_NAME);
        let fields: Vec<_> =
            layout.fields::<T>().map(|Placed { field, offset }| (field.c_name, offset, field.size)).collect();
        compare(&format!("{} {layout}", T::C_NAME), &line[3..], &fields);
    }
}

#[test]
fn every_layout_has_the_sizes_and_offsets_of_its_header() {
    compare_layouts::<NodeProperties>();
    compare_layouts::<IoLinkProperties>();
    compare_layouts::<CacheProperties>();
    compare_layouts::<QueueInfo>();
    compare_layouts::<QueueResource>();
    compare_layouts::<GraphicsResourceInfo>();
}

/// A struct that some layout has in another form must be among those that are compared.
#[test]
fn only_the_compared_structs_have_changed() {
    let changed: BTreeSet<_> =
        lines(thunk::STRUCTS).filter(|words| words[0] != "all").map(|words| words[1]).collect();
    let compared = [
        NodeProperties::C_NAME,
        IoLinkProperties::C_NAME,
        CacheProperties::C_NAME,
        QueueInfo::C_NAME,
        QueueResource::C_NAME,
        GraphicsResourceInfo::C_NAME,
    ];
    assert_eq!(changed, compared.into());
    let newer = structs().filter(|declared| declared.fields.iter().any(|f| f.since > Layout::V356));
    assert_eq!(newer.map(|declared| declared.c_name).collect::<BTreeSet<_>>(), compared.into());
}

#[test]
fn every_word_has_the_bits_of_the_header_and_they_do_not_overlap() {
    let mut seen = BTreeSet::new();
    for line in lines(thunk::WORDS) {
        let mut words = hsakmt::WORDS.iter().flat_map(|module| module.iter());
        let (_, size, fields) = words.find(|word| word.0 == line[0]).unwrap_or_else(|| panic!("{}", line[0]));
        assert_eq!(*size, number::<usize>(line[1]), "{}", line[0]);
        let expected: BTreeSet<_> = line[2..].iter().map(|word| split(word, ':')).collect();
        let declared: BTreeSet<_> =
            fields.iter().map(|f| (f.c_name, f.shift as usize, f.width as usize)).collect();
        assert_eq!(declared, expected, "{}", line[0]);
        let mut used = 0_u128;
        for field in *fields {
            let mask = ((1 << field.width) - 1) << field.shift;
            assert_eq!(used & mask, 0, "{}.{} overlaps", line[0], field.c_name);
            used |= mask;
        }
        assert_eq!(used >> (size * 8), 0, "{} has more bits than the word", line[0]);
        seen.insert(line[0]);
    }
    assert_eq!(hsakmt::WORDS.iter().map(|module| module.len()).sum::<usize>(), seen.len());
}

#[test]
fn every_enum_has_the_values_of_the_header_and_each_number_once() {
    let mut enums: BTreeMap<_, _> = hsakmt::ENUMS
        .iter()
        .flat_map(|module| module.iter())
        .map(|(name, size, values)| (*name, (*size, *values)))
        .collect();
    for line in lines(thunk::ENUMS).filter(|line| line[0] != "HSAKMT_STATUS") {
        let (size, values) = enums.remove(line[0]).unwrap_or_else(|| panic!("{}", line[0]));
        assert_eq!(size, number::<usize>(line[1]), "{}", line[0]);
        let pair = |word: &&'static str| {
            let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{word:?}"));
            (name, number::<i64>(value))
        };
        let expected: BTreeSet<_> = line[2..].iter().map(pair).collect();
        assert_eq!(values.iter().copied().collect::<BTreeSet<_>>(), expected, "{}", line[0]);
        let numbers: BTreeSet<_> = values.iter().map(|(_, value)| *value).collect();
        assert_eq!(numbers.len(), values.len(), "{} has a number twice", line[0]);
    }
    assert_eq!(enums.keys().copied().collect::<Vec<_>>(), [""; 0], "in no table");
}

#[test]
fn statuses_are_those_of_the_header() {
    let line = lines(thunk::ENUMS).find(|line| line[0] == "HSAKMT_STATUS").expect("in the table");
    let declared: BTreeSet<_> = Status::ALL
        .iter()
        .map(|(status, name)| format!("{name}={}", status.code()))
        .chain([format!("HSAKMT_STATUS_SUCCESS={}", Status::SUCCESS)])
        .collect();
    assert_eq!(declared, line[2..].iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>());
}

#[test]
fn names_of_counter_blocks_are_unique() {
    let names: BTreeSet<_> = hsakmt::PROFILE_BLOCKS.iter().map(|(name, _)| *name).collect();
    let ids: BTreeSet<_> = hsakmt::PROFILE_BLOCKS.iter().map(|(_, id)| format!("{id:?}")).collect();
    assert_eq!((names.len(), ids.len()), (25, 25));
}
