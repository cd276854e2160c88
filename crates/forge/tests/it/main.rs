//! The program from outside: arguments in; exit code, standard output and standard
//! error out.

mod cli;
mod example;
mod exec;
mod isolation;
mod mcp;
mod support;
