//! Matrix operations: none is executed yet, so that a kernel with one stops and says its name.

use super::Line;

pub(super) const MFMA: &[Line] = &[];
