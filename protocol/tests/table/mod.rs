//! Tables of numbers as text: a struct a line (name, size, then `field@offset+size`), a constant a line.

/// The lines of a table.
pub fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.trim().is_empty())
}

/// A number in decimal or, after `0x`, in hexadecimal.
pub fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct FieldRow {
    pub name: &'static str,
    pub offset: u64,
    pub size: u64,
}

/// A line of a table of structs.
#[derive(Clone, Debug)]
pub struct StructRow {
    pub name: &'static str,
    pub size: u64,
    pub fields: Vec<FieldRow>,
}

/// A table of structs, taken apart.
pub fn structs(table: &'static str) -> Vec<StructRow> {
    lines(table)
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().expect("name");
            let size = number(words.next().expect("size"));
            let fields = words.map(|word| {
                let (name, place) = word.split_once('@').expect("field@offset+size");
                let (offset, size) = place.split_once('+').expect("field@offset+size");
                FieldRow { name, offset: number(offset), size: number(size) }
            });
            StructRow { name, size, fields: fields.collect() }
        })
        .collect()
}
