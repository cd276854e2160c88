//! Everything that runs a command. Commands are confined on Linux only, so far, so
//! these tests are for Linux: elsewhere each command would be refused.

mod absent;
mod allowed_paths;
mod authorities;
mod calls;
mod crash;
mod denials;
mod doctor_mcp;
mod durable;
mod early_keys;
mod everyday;
mod example;
mod exec;
mod fronts;
mod git_config;
mod git_dirs;
mod git_leads;
mod git_pointers;
mod hard_links;
mod hidden_links;
mod host_programs;
mod hosts;
mod isolation;
mod kept_homes;
mod keys;
mod limits;
mod logins;
mod mcp;
mod noise;
mod outside_keys;
mod own_path;
mod parts;
pub(crate) mod patterns;
mod personal_git;
mod preset_battery;
mod presets;
mod programs;
mod project_presets;
mod protected_writes;
mod published_names;
mod published_ports;
mod quarantine;
mod records;
mod replaced;
mod reviewed;
mod running_project;
mod shared_state;
mod shortage;
mod side_by_side;
mod snapshots;
mod sockets;
mod staged;
mod stopping;
mod stress;
mod terminal;
mod tool_settings;
mod tracked;
mod unchanged;
mod users;

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Ran, World, forge_program, ran};

impl World {
    /// Runs `forge ARGS` where `what` is hidden from it (see the `hide` example of
    /// os-sandbox).
    fn forge_without(&self, what: &[&str], args: &[&str]) -> Ran {
        let mut all: Vec<&str> = what.to_vec();
        let program = forge_program();
        all.extend(["--", program.to_str().unwrap()]);
        all.extend(args);
        ran(self.command(&hide_program(), &all).output().unwrap())
    }

    /// Every record that runs left in the state directory, as one text.
    fn audit(&self) -> String {
        let mut text = String::new();
        let runs = self.outside().join("state/runs");
        for run in std::fs::read_dir(runs).into_iter().flatten() {
            let file = run.unwrap().path().join("audit.jsonl");
            text.push_str(&std::fs::read_to_string(file).unwrap_or_default());
        }
        text
    }
}

/// The `hide` example of os-sandbox. `cargo test --workspace` has built it; a test of
/// this crate alone builds it now.
fn hide_program() -> PathBuf {
    let profile = forge_program().parent().unwrap();
    let program = profile.join("examples/hide");
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "os-sandbox", "--example", "hide"])
            .env("CARGO_TARGET_DIR", profile.parent().unwrap())
            .status()
            .unwrap();
        assert!(built.success());
    }
    program
}
