//! Copies and fills in pieces, so that a long one holds up neither other queues nor their removal.

use super::GpuFault;
use super::context::{Cx, Step};

/// Most bytes of one piece.
const PIECE: u64 = 1 << 20;

/// A copy or fill under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Copy { src: u64, dst: u64, dst2: Option<u64>, left: u64 },
    Fill { dst: u64, value: u32, left: u64 },
}

impl Transfer {
    /// Moves one piece. `None` when nothing is left.
    pub(super) fn step(&mut self, cx: Cx<'_>) -> Result<Option<Step>, GpuFault> {
        let moved = match self {
            Transfer::Copy { src, dst, dst2, left } => {
                let piece = (*left).min(PIECE);
                cx.vm.copy(*dst, *src, piece)?;
                if let Some(dst2) = dst2 {
                    cx.vm.copy(*dst2, *src, piece)?;
                    *dst2 = dst2.wrapping_add(piece);
                }
                *src = src.wrapping_add(piece);
                *dst = dst.wrapping_add(piece);
                *left -= piece;
                piece
            }
            Transfer::Fill { dst, value, left } => {
                let piece = (*left).min(PIECE);
                cx.vm.fill(*dst, *value, piece)?;
                *dst = dst.wrapping_add(piece);
                *left -= piece;
                piece
            }
        };
        Ok((moved != 0).then_some(Step::Progress { cost: cost(moved) }))
    }
}

/// About the nanoseconds that copying `bytes` takes.
pub(super) fn cost(bytes: u64) -> u32 {
    100 + u32::try_from(bytes / 8).unwrap_or(u32::MAX / 2)
}
