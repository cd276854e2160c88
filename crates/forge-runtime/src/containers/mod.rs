//! Forge inside of containers: the program that is in there, and images that hold it.

mod elf;
pub mod image;
mod program;

pub use program::{INSIDE, ProgramBundle, ProgramError, ProgramFile};
