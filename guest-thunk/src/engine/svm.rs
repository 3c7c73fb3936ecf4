//! Shared virtual memory attributes and XNACK.
