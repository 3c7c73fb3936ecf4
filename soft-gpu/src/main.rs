//! Command line of the software GPU.

fn main() {}
