//! SDMA: the copy engines' packets (`packet`) and what they do (`exec`).

pub(super) mod exec;
pub(super) mod packet;
