//! Run a command confined by the kernel, and know exactly what was enforced.
