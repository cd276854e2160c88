//! Text for people and programs: tables, differences, escapes, findings, standard error, questions.

pub(crate) mod byte_count;
pub(crate) mod describe;
pub(crate) mod describe_git;
pub(crate) mod diff_rows;
pub(crate) mod escape;
pub(crate) mod findings;
pub(crate) mod local_time;
pub(crate) mod prompt;
pub(crate) mod prompt_terminal;
pub(crate) mod stderr;
pub(crate) mod stdout;
