//! The decoder and its text, against LLVM and against an encoder.

mod decoder;
mod encode;
mod exec;
mod generate;
mod llvm;
mod modes;
