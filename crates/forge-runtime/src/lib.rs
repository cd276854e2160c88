//! Workers: load, delegate, and run them with a model in the loop.
