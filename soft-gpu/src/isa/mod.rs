//! The instruction set of GFX9 compute parts, wave64: gfx90a (MI200) and gfx942 (MI300).
//!
//! Pure: nothing here knows of queues, drivers or devices. [`decode`] turns bytes into an [`Inst`] or a typed
//! error; its `Display` is the text that LLVM's disassembler prints. [`table`] has one file per encoding family
//! and one line per opcode: number, name, operand types and what it computes.

mod decode;
mod disasm;
pub mod exec;
mod inst;
mod op;
pub(crate) mod table;

pub use decode::{DecodeError, decode};
pub use inst::{Dpp, Inst, Mods, Sdwa, Src};
pub use op::{Arch, Family, On, Op, Ty};

#[cfg(test)]
mod tests;
