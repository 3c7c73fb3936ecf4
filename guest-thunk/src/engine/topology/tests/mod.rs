//! Topologies of machines, real and odd, through the engine.

mod any;
mod calls;
mod machines;
mod profiles;
mod shown;
