//! Memory over the software GPU.

mod alloc;
mod kit;
mod map;
mod register;
mod scale;
mod shapes;
mod share;
