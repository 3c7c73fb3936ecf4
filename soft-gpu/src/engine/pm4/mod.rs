//! PM4: the command processor's packets (`packet`), its registers and what the packets do (`exec`).

pub(super) mod exec;
pub(super) mod packet;
