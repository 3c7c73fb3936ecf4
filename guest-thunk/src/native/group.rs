//! Names of groups, for messages.

/// Most bytes of the file that are read. Names beyond are numbers in messages.
pub(super) const MAX_FILE: usize = 1 << 20;

/// Longest name that is shown (`LOGIN_NAME_MAX` is 256).
const MAX_NAME: usize = 255;

/// The name of a group in the text of a `group(5)` file: `NAME:PASSWORD:GID:MEMBERS` in each line.
///
/// The first line with that number wins, as for `getgrgid(3)`. Lines that are cut short or hold no number are
/// passed over, and so is a name that could not be shown as it is in a terminal. Directories of users
/// elsewhere (LDAP) are not asked.
pub(super) fn name_of(text: &[u8], gid: u32) -> Option<&str> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (decimal(number)? == gid).then_some(name).and_then(shown)
    })
}

fn decimal(text: &[u8]) -> Option<u32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

fn shown(name: &[u8]) -> Option<&str> {
    let plain = !name.is_empty() && name.len() <= MAX_NAME && name.iter().all(u8::is_ascii_graphic);
    plain.then(|| std::str::from_utf8(name).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEBIAN: &[u8] = b"root:x:0:\nvideo:x:44:alice,bob\nrender:x:109:alice\nnogroup:x:65534:\n";

    #[test]
    fn names_are_found_by_number() {
        assert_eq!(name_of(DEBIAN, 109), Some("render"));
        assert_eq!(name_of(DEBIAN, 0), Some("root"));
        assert_eq!(name_of(DEBIAN, 110), None);
        assert_eq!(name_of(b"", 0), None);
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let odd = b"\n:::\nshort:x\n+\nnis:x:+1:\nbig:x:99999999999:\nneg:x:-1:\nbell\x07:x:5:\nfine:x:5:\nlater:x:5:";
        assert_eq!(name_of(odd, 5), Some("fine"), "a name with control characters is not shown");
        assert_eq!(name_of(odd, 1), None);
        assert_eq!(name_of(odd, u32::MAX), None);
        assert_eq!(name_of(b"last:x:7", 7), Some("last"), "without members or line end");
    }

    proptest! {
        #[test]
        fn any_text_gives_a_name_that_can_be_shown_or_none(text: Vec<u8>, gid: u32) {
            let name = name_of(&text, gid);
            prop_assert!(name.is_none_or(|name| name.bytes().all(|byte| byte.is_ascii_graphic())));
        }

        #[test]
        fn a_line_is_found_wherever_it_stands(
            before in "([a-z]{1,8}:x:[0-9]{1,4}:\n){0,8}",
            name in "[a-z_][a-z0-9_-]{0,30}",
            gid in 10_000u32..,
            after in "(\n[ -~]{0,40}){0,8}",
        ) {
            let text = format!("{before}{name}:x:{gid}:{after}");
            prop_assert_eq!(name_of(text.as_bytes(), gid), Some(name.as_str()));
        }
    }
}
