//! The program from outside: arguments in; exit code, standard output and standard
//! error out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
#[cfg(target_os = "linux")]
mod confined;
mod init;
mod schema;
mod settings;
mod support;
