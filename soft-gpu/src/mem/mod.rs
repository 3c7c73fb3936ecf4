//! Memory of the GPU: the arenas inside the backing files, host mappings, GPU page tables.
