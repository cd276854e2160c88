//! Detection remembers for the next process which probes have passed. Believing that file, or one
//! that was forged, must never make a start weaker; distrusting it costs time only.

use crate::fixture::{Mechanism, open, probe_program};
use crate::hide;
use crate::report::Report;
use os_sandbox::{Backend, Command, Directories, Plan, Policy, Requirement, Support};
use std::path::PathBuf;
use std::process::ExitCode;

/// A version that no bubblewrap has: where it turns up, the file was believed.
const FORGED: &str = "77.7.forged";

pub(crate) fn all() -> usize {
    let mut report = Report::new(Mechanism::Bubblewrap);
    let world = World {
        dir: tempfile::tempdir().expect("a directory"),
    };
    report.case("remembered: what passed", world.what_passed());
    report.case("remembered: several at once", world.several_at_once());
    report.case("remembered: garbage", world.garbage());
    report.case("remembered: nowhere to write", world.nowhere());
    report.case("remembered: a strange umask", world.umask());
    report.case("remembered: no Landlock, forged", world.no_landlock());
    let support = Support::detect();
    for (backend, works) in [
        (Backend::Namespaces, support.namespaces()),
        (Backend::Bubblewrap, support.bubblewrap().is_some()),
    ] {
        let name = format!("remembered: no {backend}, forged");
        match works {
            true => report.case(&name, world.no_namespaces(backend)),
            false => report.skip(&name, &format!("{backend} does not work here")),
        }
    }
    report.failures()
}

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn file(&self) -> PathBuf {
        self.cache().join("os-sandbox/support")
    }

    /// A fresh process that detects, with these parts of the kernel hidden.
    fn detect(&self, hidden: &[&str]) -> Result<String, String> {
        said(self.command(hidden).arg("detect"))
    }

    fn command(&self, hidden: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(probe_program());
        command
            .args(["--remembered", &hidden.join(",")])
            .env("XDG_CACHE_HOME", self.cache());
        command
    }

    /// Makes the file say of this very kernel what it would say of a better one.
    fn forge(&self, hidden: &[&str], words: &str) -> Result<(), String> {
        // One honest run, for the key.
        let _ = std::fs::remove_file(self.file());
        self.detect(hidden)?;
        let text = std::fs::read_to_string(self.file()).map_err(|error| error.to_string())?;
        let entry = text.lines().nth(1).ok_or("an empty file")?;
        let key = entry.get(..64).ok_or("a short key")?;
        let header = text.lines().next().unwrap_or_default();
        std::fs::write(self.file(), format!("{header}\n{key}{words}\n"))
            .map_err(|error| error.to_string())
    }

    fn what_passed(&self) -> Result<(), String> {
        let first = self.detect(&[])?;
        if !self.file().exists() {
            return Err("nothing was kept".to_owned());
        }
        same(&first, &self.detect(&[])?)?;
        if !first.contains("bubblewrap  yes") || !first.contains("pins        yes") {
            return Ok(());
        }
        self.forge(&[], &format!(" landlock bubblewrap={FORGED} pins"))?;
        if !self.detect(&[])?.contains(FORGED) {
            return Err("the file was not read".to_owned());
        }
        // Looking afresh neither believes nor changes it; forgetting removes it.
        same(&first, &said(self.command(&[]).arg("fresh"))?)?;
        if !self.detect(&[])?.contains(FORGED) {
            return Err("a fresh look changed the file".to_owned());
        }
        said(self.command(&[]).arg("forget"))?;
        if self.file().exists() {
            return Err("the file was not forgotten".to_owned());
        }
        same(&first, &self.detect(&[])?)
    }

    fn several_at_once(&self) -> Result<(), String> {
        let _ = std::fs::remove_dir_all(self.cache());
        let mut children = Vec::new();
        for _ in 0..6 {
            let mut command = self.command(&[]);
            command.arg("detect").stdout(std::process::Stdio::piped());
            children.push(command.spawn().map_err(|error| error.to_string())?);
        }
        // Each is waited for before any is judged: what is left of one is a child of the next case.
        let all = children
            .into_iter()
            .map(std::process::Child::wait_with_output);
        let all: Vec<_> = all.collect();
        let mut first = None;
        for output in all {
            let output = output.map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            same(first.get_or_insert_with(|| said.clone()), &said)?;
        }
        let left = std::fs::read_dir(self.cache().join("os-sandbox"))
            .map_err(|error| error.to_string())?
            .count();
        if left == 1 {
            Ok(())
        } else {
            Err(format!("{left} files"))
        }
    }

    fn garbage(&self) -> Result<(), String> {
        let honest = self.detect(&[])?;
        for bytes in [
            &b""[..],
            b"\xff\0\n",
            b"os-sandbox support 2\n",
            &[b'a'; 9000],
        ] {
            std::fs::write(self.file(), bytes).map_err(|error| error.to_string())?;
            same(&honest, &self.detect(&[])?)?;
        }
        for words in [
            " bubblewrap=/tmp/evil",
            " landlock landlock",
            " namespaces namespaces",
            " seccomp",
        ] {
            self.forge(&[], words)?;
            same(&honest, &self.detect(&[])?)?;
        }
        Ok(())
    }

    fn nowhere(&self) -> Result<(), String> {
        let honest = self.detect(&[])?;
        let mut bare = self.command(&[]);
        bare.arg("detect")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("HOME");
        same(&honest, &said(&mut bare)?)?;
        for place in ["/proc", "/dev/null", "relative", "/no/such/place"] {
            let mut command = self.command(&[]);
            command.arg("detect").env("XDG_CACHE_HOME", place);
            same(&honest, &said(&mut command)?)?;
        }
        Ok(())
    }

    fn umask(&self) -> Result<(), String> {
        let _ = std::fs::remove_dir_all(self.cache());
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "umask 0777; exec \"$0\" \"$@\""])
            .arg(probe_program())
            .args(["--remembered", "", "detect"])
            .env("XDG_CACHE_HOME", self.cache());
        let honest = said(&mut command)?;
        same(&honest, &self.detect(&[])?)?;
        std::fs::read(self.file())
            .map(drop)
            .map_err(|error| format!("nothing can be read: {error}"))
    }

    /// The version is asked of the kernel, so a probe that is said to have passed means nothing.
    fn no_landlock(&self) -> Result<(), String> {
        let hidden = ["landlock"];
        let honest = self.detect(&hidden)?;
        if !honest.contains("landlock    no") {
            return Err(honest);
        }
        self.forge(&hidden, " landlock")?;
        same(&honest, &self.detect(&hidden)?)?;
        // Nor does what holds without the filter hold under it.
        let open = self.detect(&[])?;
        same(&honest, &self.detect(&hidden)?)?;
        same(&open, &self.detect(&[])?)
    }

    /// Believed, and every start fails; after the first one nobody believes it any more.
    fn no_namespaces(&self, backend: Backend) -> Result<(), String> {
        let hidden = ["userns"];
        let honest = self.detect(&hidden)?;
        for name in ["bubblewrap", "namespaces"] {
            if !honest.contains(&format!("{name}  no")) {
                return Err(honest);
            }
        }
        let words = honest.contains("landlock    yes").then_some(" landlock");
        let words = words.unwrap_or_default();
        let words = match backend {
            Backend::Namespaces => format!("{words} namespaces"),
            _ => format!("{words} bubblewrap={FORGED} pins"),
        };
        self.forge(&hidden, &words)?;
        let started = said(self.command(&hidden).arg("start").arg(backend.to_string()))?;
        if started != "Enforcement\n" {
            return Err(format!("it ran: {started}"));
        }
        if self.file().exists() {
            return Err("it is believed after it failed".to_owned());
        }
        same(&honest, &self.detect(&hidden)?)
    }
}

fn said(command: &mut std::process::Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{output:?}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn same(one: &str, other: &str) -> Result<(), String> {
    if one == other {
        Ok(())
    } else {
        Err(format!("different:\n{one}\n{other}"))
    }
}

/// The process that detects.
pub(crate) fn main(args: &[String]) -> ExitCode {
    for name in args[0].split(',').filter(|name| !name.is_empty()) {
        hide::linux::hide(name).expect("a filter");
    }
    match args[1].as_str() {
        "detect" => print!("{}", Support::detect_cached(&Directories::user())),
        "fresh" => print!("{}", Support::detect_fresh()),
        "forget" => Support::forget(&Directories::user()),
        "start" => println!("{}", start(&args[2])),
        other => panic!("{other}"),
    }
    ExitCode::SUCCESS
}

/// Starts something under a mechanism that is said to work.
fn start(mechanism: &str) -> String {
    let support = Support::detect_cached(&Directories::user());
    let backend = match mechanism {
        "namespaces" => Backend::Namespaces,
        _ => Backend::Bubblewrap,
    };
    let policy = Policy::builder().build().expect("a policy");
    let plan = match Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend) {
        Ok(plan) => open(plan),
        Err(refused) => return format!("not believed: {refused}"),
    };
    match Command::new(&plan, "echo").arg("ran").output() {
        Ok(output) => format!("{output:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}
