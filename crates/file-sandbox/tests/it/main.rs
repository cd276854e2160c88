//! The crate from outside: what it does on a real file system, and what it refuses.

mod escapes;
mod operations;
mod restrict;
mod scene;
mod texts;
mod ui;
