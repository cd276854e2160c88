//! The new files, as text.

use std::fmt::Write as _;

use sandbox_config::Mode;

use crate::commands::project::init::detect::{DetectedProject, GIT, Toolchain};

/// The files of a first project.
#[derive(Debug)]
pub(super) struct InitPlan {
    pub(super) config: String,
    pub(super) worker: String,
}

/// A directory with a name.
#[derive(Debug)]
pub(super) struct InitZone {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) mode: Mode,
}

const HEAD: &str = "\
# What workers may do here at most; `forge check` shows what it comes to.
";

impl InitPlan {
    /// Existing files are worked on as a whole, so that their tools find them, whatever kind they
    /// are of. Directories of material alone are zones.
    pub(super) fn proposed(found: &DetectedProject) -> InitPlan {
        if found.languages.is_empty() && !found.others {
            let mut zones: Vec<InitZone> = found
                .directories
                .iter()
                .map(|(name, only_read)| InitZone {
                    name: (*name).to_owned(),
                    path: format!("./{name}"),
                    mode: if *only_read {
                        Mode::ReadOnly
                    } else {
                        Mode::ReadWrite
                    },
                })
                .collect();
            if zones.is_empty() {
                return InitPlan::minimal(found);
            }
            zones.push(workspace("./workspace"));
            return InitPlan::of_zones(found, zones);
        }
        // Commands of no tool chain need none.
        let programs = match found.programs.is_empty() || found.languages.is_empty() {
            true => String::new(),
            false => format!(
                "  # Programs of yours that commands may read and run, beside the system's.\n  \
                 programs: [{}]\n",
                found.programs.list()
            ),
        };
        let sandbox = format!(
            "\
# The whole project; what git, editors and forge itself run or read is never written.
sandbox:
  root: .
{programs}approval:
  # Every change is asked about. Remove this to let workers write.
  require_user_permission_by_risk: {{ writes_workspace: true }}
"
        );
        InitPlan::new(found, &sandbox, true)
    }

    /// One empty directory to work in, and no commands.
    pub(super) fn minimal(found: &DetectedProject) -> InitPlan {
        let sandbox = "\
# One directory to work in: ./workspace, which workers see as /workspace.
sandbox:
  mode: direct
  zones:
    workspace: { path: ./workspace }
";
        InitPlan::new(found, sandbox, false)
    }

    /// These directories.
    pub(super) fn of_zones(found: &DetectedProject, zones: Vec<InitZone>) -> InitPlan {
        let mut sandbox = "\
# Directories that workers see as /NAME. Writing and deleting are asked about.
sandbox:
  mode: direct
  zones:
"
        .to_owned();
        for zone in zones {
            // JSON's strings are YAML's.
            let name = serde_json::Value::from(zone.name);
            let path = serde_json::Value::from(zone.path);
            let _ = writeln!(
                sandbox,
                "    {name}: {{ path: {path}, mode: {} }}",
                zone.mode
            );
        }
        InitPlan::new(found, &sandbox, true)
    }

    fn new(found: &DetectedProject, sandbox: &str, with_shell: bool) -> InitPlan {
        let git = found.git.then_some(&GIT[0]);
        let kinds: Vec<&Toolchain> = found.languages.iter().copied().chain(git).collect();
        let shell = if with_shell {
            shell(&kinds)
        } else {
            String::new()
        };
        let config = format!("{HEAD}{sandbox}{shell}");
        InitPlan {
            worker: worker(!shell.is_empty()),
            config,
        }
    }
}

fn workspace(path: &str) -> InitZone {
    InitZone {
        name: "workspace".to_owned(),
        path: path.to_owned(),
        mode: Mode::ReadWrite,
    }
}

/// Nothing runs unasked: that would need a yes, which is the reader's to give.
fn shell(kinds: &[&Toolchain]) -> String {
    if kinds.is_empty() {
        return String::new();
    }
    let mut text = "\
# Which commands may run. Nothing else does; `default: ask` would ask.
shell:
  rules:
"
    .to_owned();
    for rule in kinds.iter().flat_map(|kind| kind.rules) {
        let _ = writeln!(text, "    - pattern: \"{}\"", rule.pattern);
        let _ = match rule.blocked {
            None => writeln!(text, "      approval: ask"),
            Some(why) => writeln!(text, "      approval: blocked\n      why: {why}"),
        };
        let _ = writeln!(
            text,
            "      examples: {{ match: [\"{}\"], no_match: [\"{}\"] }}",
            rule.matches, rule.differs
        );
    }
    text
}

fn worker(with_shell: bool) -> String {
    let shell = if with_shell { "shell: {}\n" } else { "" };
    format!(
        "\
---
name: main
description: Works on what the project gives it
# All directories of the project. A worker that others call lists what it needs.
sandbox: inherit
# Hosts are named apart: `network: {{ allow: [example.com] }}`, of those that the project names.
{shell}---
Look at what is there before you change anything. Say what you did, and what is left to do.
"
    )
}
