//! The forge command line.
fn main() {}
