//! The declarations of the KFD interface against its numbers.

mod table;
mod uapi;

use std::collections::BTreeSet;

use protocol::kfd::constants;
use protocol::kfd::ioctl::{Direction, Family, Ioctl, Kernels, Struct};
use protocol::kfd::{args, types};
use table::{StructRow, lines, number, structs};

/// Every declared struct but the one for "no argument".
fn declared() -> impl Iterator<Item = &'static Struct> {
    args::STRUCTS.iter().chain(types::STRUCTS).filter(|declared| declared.size > 0)
}

/// `ErrorType` is `error_type` in Rust, `type` is `type_`.
fn rust_name(uapi: &str) -> String {
    match uapi {
        "type" => return "type_".to_owned(),
        "NotPresent" => return "not_present".to_owned(),
        _ => {}
    }
    let mut name = String::new();
    for (at, letter) in uapi.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[test]
fn every_struct_has_the_size_and_the_fields_of_the_uapi() {
    let rows = structs(uapi::STRUCTS);
    assert_eq!(rows.len(), 81);
    for row in &rows {
        let same = |declared: &&Struct| declared.name == row.name && declared.size as u64 == row.size;
        let declared = declared().find(same).unwrap_or_else(|| panic!("{} of {} bytes", row.name, row.size));
        compare_fields(row, declared);
    }
    for declared in declared() {
        let known = |row: &StructRow| row.name == declared.name && row.size == declared.size as u64;
        assert!(rows.iter().any(known), "{} is in no table", declared.name);
    }
}

/// The fields agree; what is declared beyond them is padding without a name in the uapi.
fn compare_fields(row: &StructRow, declared: &Struct) {
    let fields: Vec<_> = declared.fields.iter().filter(|field| !field.name.starts_with('_')).collect();
    assert_eq!(fields.len(), row.fields.len(), "{}", row.name);
    for (expected, field) in row.fields.iter().zip(fields) {
        let what = format!("{}.{}", row.name, expected.name);
        assert_eq!(field.name, rust_name(expected.name), "{what}");
        assert_eq!(field.offset as u64, expected.offset, "offset of {what}");
        assert_eq!(field.size as u64, expected.size, "size of {what}");
    }
    let covered: usize = declared.fields.iter().map(|field| field.size).sum();
    assert_eq!(covered, declared.size, "{} has bytes that no field covers", row.name);
}

#[test]
fn every_ioctl_has_its_number_direction_struct_and_request_code() {
    let mut seen = BTreeSet::new();
    for line in lines(uapi::IOCTLS) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [kernels, nr, name, direction, request, argument, size] = words[..] else {
            panic!("seven words: {line}");
        };
        let kernels = match kernels {
            "both" => Kernels::Both,
            "mainline" => Kernels::Mainline,
            _ => Kernels::Rocm,
        };
        let nr = u8::try_from(number(nr)).expect("a byte");
        let family = if kernels == Kernels::Rocm { Family::Rocm } else { Family::Mainline };
        let ioctl = Ioctl::from_nr(nr, family).unwrap_or_else(|| panic!("{line}"));
        let decl = ioctl.decl();
        assert_eq!(decl.kernels, kernels, "{line}");
        assert_eq!(decl.name, format!("AMDKFD_IOC_{name}"), "{line}");
        let direction = match direction {
            "none" => Direction::None,
            "read" => Direction::Read,
            "write" => Direction::Write,
            _ => Direction::ReadWrite,
        };
        assert_eq!(decl.direction, direction, "{line}");
        assert_eq!(u64::from(decl.request()), number(request), "{line}");
        assert_eq!(decl.args.size as u64, number(size), "{line}");
        if argument != "-" {
            assert_eq!(decl.args.name, argument, "{line}");
        }
        assert!(seen.insert(ioctl), "{line} is there twice");
    }
    assert_eq!(seen.len(), Ioctl::ALL.len());
}

#[test]
fn every_constant_has_its_value() {
    let declared: BTreeSet<(String, u64)> = constants::ALL
        .iter()
        .flat_map(|names| names.iter())
        .map(|(name, value)| (name.replace(' ', "_"), *value))
        .collect();
    let mut rows = BTreeSet::new();
    for line in lines(uapi::CONSTANTS) {
        let (name, value) = line.split_once(' ').expect("name and value");
        rows.insert((name.to_owned(), number(value)));
    }
    let missing: Vec<_> = rows.difference(&declared).collect();
    assert_eq!(missing, Vec::<&(String, u64)>::new(), "declared otherwise, or not at all");
    // Linux 6.12's minor version (its uapi header) and the endless time-out (kfd_events.h) are in no table.
    let beyond: Vec<_> = declared.difference(&rows).map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(beyond, [("KFD_EVENT_TIMEOUT_INFINITE", 0xffff_ffff), ("KFD_IOCTL_MINOR_VERSION", 17)]);
}
