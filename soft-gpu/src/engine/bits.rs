//! Fields of packet words.

/// `len` bits of `word`, from bit `at` on.
pub(super) const fn bits(word: u32, at: u32, len: u32) -> u32 {
    if len >= 32 { word >> at } else { (word >> at) & ((1 << len) - 1) }
}

/// Whether bit `at` of `word` is set.
pub(super) const fn bit(word: u32, at: u32) -> bool {
    (word >> at) & 1 == 1
}

/// The word at `index`; zero behind the end, so that decoding is total.
pub(super) fn word(words: &[u32], index: usize) -> u32 {
    words.get(index).copied().unwrap_or(0)
}

/// A 64-bit value from the words at `index` (low) and `index + 1` (high).
pub(super) fn pair(words: &[u32], index: usize) -> u64 {
    u64::from(word(words, index)) | u64::from(word(words, index + 1)) << 32
}

/// Words as lower-case hexadecimal, separated by blanks: how log lines show a packet.
pub(super) fn hex(words: &[u32]) -> String {
    let shown: Vec<String> = words.iter().take(16).map(|w| format!("{w:08x}")).collect();
    let more = if words.len() > 16 { format!(" (+{} words)", words.len() - 16) } else { String::new() };
    format!("{}{more}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_cut_out_and_words_behind_the_end_are_zero() {
        assert_eq!(bits(0xabcd_1234, 16, 8), 0xcd);
        assert_eq!(bits(0xabcd_1234, 0, 32), 0xabcd_1234);
        assert!(bit(0x8000_0000, 31));
        assert_eq!(pair(&[1, 2, 3], 1), 3 << 32 | 2);
        assert_eq!(pair(&[1, 2, 3], 2), 3);
    }

    #[test]
    fn long_packets_are_shortened_in_messages() {
        assert_eq!(hex(&[0xa, 0xb]), "0000000a 0000000b");
        assert!(hex(&[0; 20]).ends_with("(+4 words)"));
    }
}
