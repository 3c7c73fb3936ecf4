//! Boots real virtual machines and Debian roots, and runs programs in them.
