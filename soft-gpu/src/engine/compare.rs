//! Comparisons of the polling packets: `WAIT_REG_MEM_FUNCTION` of PM4, `func` of SDMA's POLL_REGMEM.

/// `(value & mask) function reference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    function: Function,
    reference: u32,
    mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Always,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

impl Test {
    /// `None` for the reserved function 7.
    pub(super) const fn new(function: u32, reference: u32, mask: u32) -> Option<Self> {
        let function = match function {
            0 => Function::Always,
            1 => Function::Less,
            2 => Function::LessOrEqual,
            3 => Function::Equal,
            4 => Function::NotEqual,
            5 => Function::GreaterOrEqual,
            6 => Function::Greater,
            _ => return None,
        };
        Some(Self { function, reference, mask })
    }

    /// Whether it holds whatever the value is.
    pub(super) const fn always(self) -> bool {
        matches!(self.function, Function::Always)
    }

    /// Whether `value` passes.
    pub(super) const fn holds(self, value: u32) -> bool {
        let value = value & self.mask;
        match self.function {
            Function::Always => true,
            Function::Less => value < self.reference,
            Function::LessOrEqual => value <= self.reference,
            Function::Equal => value == self.reference,
            Function::NotEqual => value != self.reference,
            Function::GreaterOrEqual => value >= self.reference,
            Function::Greater => value > self.reference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_numbered_as_in_the_kernels_headers() {
        // soc15d.h, WAIT_REG_MEM_FUNCTION: 0 always, 1 <, 2 <=, 3 ==, 4 !=, 5 >=, 6 >.
        let passes = |function, value| Test::new(function, 5, 0xff).map(|t| t.holds(value));
        let expected = [
            (0, [true; 3]),
            (1, [true, false, false]),
            (2, [true, true, false]),
            (3, [false, true, false]),
            (4, [true, false, true]),
            (5, [false, true, true]),
            (6, [false, false, true]),
        ];
        for (function, results) in expected {
            for (value, result) in [4, 5, 6].into_iter().zip(results) {
                assert_eq!(passes(function, value), Some(result), "function {function}, value {value}");
                assert_eq!(passes(function, value | 0x100), Some(result), "the mask cuts off bit 8");
            }
        }
        assert_eq!(Test::new(7, 0, 0), None);
    }
}
