//! The namespace of a test: other hosts with their names and addresses, and forge beside them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;

use crate::support::{Ran, World, forge_program, ran};
use crate::terminal::pty::{Setup, Terminal, USUAL};

const SERVERS: &str = include_str!("servers.py");
/// Ends a forge that hangs.
const WATCHDOG_S: &str = "600";
/// Ends a command that hangs.
const COMMAND_WATCHDOG_S: &str = "300";

/// Servers that end when this is dropped.
pub(super) struct Servers {
    pub(super) world: World,
    /// `PATH` of forge.
    pub(super) path: String,
    child: Child,
    /// The id of a process in the network namespace of the other hosts.
    others: String,
    stdin: Option<ChildStdin>,
}

/// A command of `forge --json exec`.
pub(super) struct Outcome {
    /// `None` if a time limit or a signal ended it.
    pub(super) code: Option<i64>,
    /// Both streams.
    pub(super) output: String,
    contacts: Vec<Value>,
}

impl Servers {
    /// Starts the servers. Fails if this machine has no such namespaces, or commands get no namespaces in
    /// one.
    pub(super) fn start() -> Result<Servers, String> {
        let path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned();
        for program in ["unshare", "nsenter", "ip", "mount", "python3", "openssl"] {
            find_program(program, &path).ok_or(format!("{program} is not installed"))?;
        }
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
        for dir in ["own", "files"] {
            std::fs::create_dir(world.outside().join(dir)).unwrap();
        }
        let script = world.outside().join("servers.py");
        std::fs::write(&script, SERVERS).unwrap();
        let mut child = world
            .command(
                "unshare".as_ref(),
                &["-Urnm", "--propagation", "private", "python3"],
            )
            .arg(&script)
            .args([world.outside().join("own"), world.outside().join("files")])
            .arg(world.project().join("ca.crt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let stdin = child.stdin.take();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let mut servers = Servers {
            world,
            path,
            child,
            others: String::new(),
            stdin,
        };
        match line.trim().split_once(' ') {
            Some(("ready", others)) => {
                servers.others = others.to_owned();
                servers.with_namespaces()
            }
            _ => Err(servers.failure(line.trim())),
        }
    }

    fn failure(mut self, why: &str) -> String {
        self.stdin = None;
        let mut stderr = String::new();
        if let Some(mut stream) = self.child.stderr.take() {
            let _ = stream.read_to_string(&mut stderr);
        }
        format!("no servers in a namespace: {why} {}", stderr.trim())
    }

    fn with_namespaces(self) -> Result<Servers, String> {
        let doctor = self.forge(&["--json", "doctor"]);
        let found: Value = serde_json::from_str(&doctor.stdout)
            .map_err(|error| format!("{error}: {}{}", doctor.stdout, doctor.stderr))?;
        match found["sandbox"]["namespaces"] == false {
            true => Err(format!(
                "no namespaces in a namespace: {}",
                found["sandbox"]
            )),
            false => Ok(self),
        }
    }

    /// Returns the id of the process in whose namespaces forge runs.
    fn process(&self) -> String {
        self.child.id().to_string()
    }

    /// Returns the id of a process in the network namespace of the other hosts.
    pub(super) fn others(&self) -> &str {
        &self.others
    }

    /// Runs `forge ARGS` beside the servers, in the project.
    pub(super) fn forge(&self, args: &[&str]) -> Ran {
        self.forge_by(&[], args)
    }

    /// The same, started by another program.
    pub(super) fn forge_by(&self, starter: &[&str], args: &[&str]) -> Ran {
        let words = self.words(starter, args);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command: Command = self.world.command("timeout".as_ref(), &words);
        ran(command.env("PATH", &self.path).output().unwrap())
    }

    /// Runs `forge ARGS` beside the servers, with a terminal as its standard input and error.
    pub(super) fn terminal(&self, starter: &[&str], args: &[&str]) -> Terminal {
        self.terminal_with(starter, args, USUAL.piped)
    }

    /// Runs it with standard output on the terminal or in a pipe.
    pub(super) fn terminal_with(&self, starter: &[&str], args: &[&str], piped: bool) -> Terminal {
        let words = self.words(starter, args);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let env = [("TERM", "xterm-256color"), ("PATH", &*self.path)];
        let setup = Setup {
            env: &env,
            piped,
            ..USUAL
        };
        Terminal::start_program(&self.world, setup, "timeout".as_ref(), &words)
    }

    /// Runs `forge ARGS` with further variables.
    pub(super) fn forge_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Ran {
        let set = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = std::iter::once("env".to_owned()).chain(set).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.forge_by(&words, args)
    }

    /// The arguments of `timeout` for `forge ARGS`.
    fn words(&self, starter: &[&str], args: &[&str]) -> Vec<String> {
        let target = self.process();
        let project = self.world.project();
        let enter = [
            "nsenter",
            "--target",
            &target,
            "--user",
            "--net",
            "--mount",
            "--preserve-credentials",
            "sh",
            "-c",
            // The directory of the caller is in another mount namespace.
            "cd \"$0\" && exec \"$@\"",
            project.to_str().unwrap(),
            forge_program().to_str().unwrap(),
        ];
        let words = [&[WATCHDOG_S][..], starter, &enter, args].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    /// Returns the targets that the parent proxy was asked for, and whether the password was right.
    pub(super) fn parent_targets(&self) -> String {
        std::fs::read_to_string(self.world.outside().join("own/heads")).unwrap_or_default()
    }

    /// Runs a script of bash under `forge --json exec` with these hosts.
    pub(super) fn exec(&self, hosts: &[&str], settings: &[&str], script: &str) -> Outcome {
        self.exec_under("namespaces", hosts, settings, script)
    }

    /// Returns `true` if commands reach named hosts without a network namespace here.
    pub(super) fn connects_under_landlock(&self) -> bool {
        let args = ["exec", "--mechanism", "landlock", "--host", "one.example"];
        let ran = self.forge(&[&args[..], &["--", "true"]].concat());
        ran.code == 0
    }

    /// The same under a mechanism.
    pub(super) fn exec_under(
        &self,
        mechanism: &str,
        hosts: &[&str],
        settings: &[&str],
        script: &str,
    ) -> Outcome {
        let limit = ["--timeout", COMMAND_WATCHDOG_S];
        let mut args = vec!["--json", "exec", "--mechanism", mechanism];
        args.extend(limit);
        hosts.iter().for_each(|host| args.extend(["--host", host]));
        settings.iter().for_each(|one| args.extend(["-c", one]));
        args.extend(["--", "bash", "-c", script]);
        let ran = self.forge(&args);
        let report: Value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|_| panic!("{script}: {}{}", ran.stdout, ran.stderr));
        let text = |stream: &str| report[stream]["text"].as_str().unwrap().to_owned();
        let contacts = report["enforcement"]["contacts"].as_array();
        Outcome {
            code: match report["ended"] == "exit" {
                true => report["number"].as_i64(),
                false => None,
            },
            output: text("stdout") + &text("stderr"),
            contacts: contacts.cloned().unwrap_or_default(),
        }
    }

    /// Returns the datagrams that arrived at the servers, one a line.
    pub(super) fn datagrams(&self) -> String {
        std::fs::read_to_string(self.world.outside().join("own/datagrams")).unwrap_or_default()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// Returns the contacts in the order of their text, each once: programs try both families.
    pub(super) fn contacts(&self) -> Vec<String> {
        let mut contacts: Vec<String> = self.contacts.iter().map(contact).collect();
        contacts.sort();
        contacts.dedup();
        contacts
    }
}

/// Returns `OUTCOME HOST:PORT at ADDRESS by RULE (REASON)`.
fn contact(contact: &Value) -> String {
    let text = |key: &str| contact[key].as_str();
    let (sent, received) = (contact["sent"].as_u64(), contact["received"].as_u64());
    let has_bytes = sent > Some(0) && received > Some(0);
    assert_eq!(has_bytes, text("outcome") == Some("connected"), "{contact}");
    let mut line = format!(
        "{} {}:{}",
        text("outcome").unwrap(),
        text("host").unwrap(),
        contact["port"]
    );
    for (word, key) in [("at", "address"), ("by", "rule")] {
        if let Some(value) = text(key) {
            line = format!("{line} {word} {value}");
        }
    }
    match text("reason") {
        Some(reason) => format!("{line} ({reason})"),
        None => line,
    }
}

/// Returns the first program of this name in a `PATH`.
pub(super) fn find_program(name: &str, path: &str) -> Option<PathBuf> {
    let mut found = path.split(':').map(|dir| Path::new(dir).join(name));
    found.find(|program| program.is_file())
}
