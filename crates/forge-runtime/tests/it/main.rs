//! Worker trees on real directories, driven by playbooks.

mod delegation;
mod rules;
mod support;
