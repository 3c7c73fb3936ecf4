//! The executor of a worker, with a guest in the same process: it has memory, and plays the wire by hand.

mod calls;
mod grants;
mod guest;
mod hostile;
mod jailed;
mod life;
mod many;
mod program;
mod queues;
mod share;
mod waits;
mod window;
