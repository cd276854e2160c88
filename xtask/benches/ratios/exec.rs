//! `forge exec -- true` from start to exit, beside bubblewrap called by hand with the same
//! namespaces: whole processes that take turns. The parts are those of a process that does what
//! `forge exec` does, one after the other, with the same crates.

use std::error::Error;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use forge_tools::audit::{AuditLog, LogOptions};
use os_sandbox::{Access, Directories, Plan, Policy, Requirement, Sandbox, Support};
use sandbox_config::{Sources, WithoutDirectories, load};

use crate::compare::{Measure, Outcome, median, medians};
use crate::{config, guards, spawn};

pub(crate) const FLAG: &str = "--exec-parts";

const ROUNDS: usize = 60;
const LARGE_ROUNDS: usize = 20;
const PROGRAM: &str = "true";

/// The bounds of `forge exec` over bubblewrap by hand, and of a large project over a small one.
const BUBBLEWRAP: f64 = 1.6;
const LANDLOCK: f64 = 1.2;
const LARGE_MS: f64 = 60.0;
/// The bounds of a command in an overlay, and of one with a preset, over the same without.
const REVIEW_MS: f64 = 1.0;
const PRESET: f64 = 1.5;

/// User and group `nobody`, for the rows of an ordinary user where root measures.
const NOBODY: u32 = 65534;

const ROOT: Rows = Rows {
    whole: [
        ("namespaces", "exec, namespaces", BUBBLEWRAP),
        ("bubblewrap", "exec, bubblewrap", BUBBLEWRAP),
        ("landlock", "exec, landlock", LANDLOCK),
    ],
    preset: "exec --preset claude, namespaces",
    large: [
        ("namespaces", "exec, namespaces, 100 000 files"),
        ("landlock", "exec, landlock, 100 000 files"),
    ],
};

const ORDINARY: Rows = Rows {
    whole: [
        ("namespaces", "exec as nobody, namespaces", BUBBLEWRAP),
        ("bubblewrap", "exec as nobody, bubblewrap", BUBBLEWRAP),
        ("landlock", "exec as nobody, landlock", LANDLOCK),
    ],
    preset: "exec --preset claude as nobody, namespaces",
    large: [
        ("namespaces", "exec as nobody, namespaces, 100 000 files"),
        ("landlock", "exec as nobody, landlock, 100 000 files"),
    ],
};

/// Parts in the order in which a process prints their times.
const PARTS: [&str; 7] = [
    "exec, part: configuration",
    "exec, part: detection",
    "exec, part: log",
    "exec, part: launch",
    "exec, part: run to its end",
    "exec, part: walk",
    "exec, part: sweep",
];

/// Mechanism, name of the row, and bound.
struct Rows {
    whole: [(&'static str, &'static str, f64); 3],
    preset: &'static str,
    large: [(&'static str, &'static str); 2],
}

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let Some(forge) = config::forge() else {
        let outcome = Outcome::NotHere("there is no packaged build of forge".to_owned());
        let name = ROOT.whole[0].1;
        return Ok(vec![Measure { name, outcome }]);
    };
    let own = Scene::plant(&forge, None)?;
    let mut measures = own.measures(&ROOT)?;
    measures.extend(own.parts()?);
    drop(own);
    if nix::unistd::geteuid().is_root() {
        measures.extend(Scene::plant(&forge, Some(NOBODY))?.measures(&ORDINARY)?);
    }
    Ok(measures)
}

/// What a command in an overlay costs more than one without.
pub(crate) fn review_measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let name = "exec --review";
    let Some(forge) = config::forge() else {
        let outcome = Outcome::NotHere("there is no packaged build of forge".to_owned());
        return Ok(vec![Measure { name, outcome }]);
    };
    let scene = Scene::plant(&forge, None)?;
    let reviewed = || scene.command(scene.at("forge"), "small", &["exec", "--review", PROGRAM]);
    let outcome = match scene
        .works("namespaces")
        .and_then(|()| run(&mut reviewed()))
    {
        Err(why) => Outcome::NotHere(why.to_string()),
        Ok(()) => {
            let reviewed = || run(&mut reviewed());
            let plain = || run(&mut scene.exec("namespaces", "small"));
            let [reviewed, plain] = medians(ROUNDS, 1, [Box::new(reviewed), Box::new(plain)])?;
            Outcome::Amount {
                got: (reviewed.as_secs_f64() - plain.as_secs_f64()) * 1e3,
                unit: "ms",
                of: "over exec without",
                target: REVIEW_MS,
            }
        }
    };
    Ok(vec![Measure { name, outcome }])
}

/// A small git project, a large one, and a home directory, all of one user.
struct Scene {
    dir: tempfile::TempDir,
    user: Option<u32>,
}

impl Scene {
    fn plant(forge: &Path, user: Option<u32>) -> Result<Scene, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        // The build directory may be closed to the user.
        fs::copy(forge, dir.path().join("forge"))?;
        let scene = Scene { dir, user };
        for name in ["home", "small", "large"] {
            fs::create_dir(scene.at(name))?;
        }
        guards::plant(&scene.at("large"))?;
        if let Some(user) = user {
            let mut chown = Command::new("chown");
            chown.args(["-R", &format!("{user}:{user}"), "home", "small", "large"]);
            run(chown.current_dir(scene.dir.path()))?;
        }
        for name in ["small", "large"] {
            run(&mut scene.command("git", name, &["init", "--quiet"]))?;
        }
        guards::settle();
        Ok(scene)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program in a project, with nothing of the caller's around it.
    fn command(&self, program: impl AsRef<Path>, project: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(arguments)
            .current_dir(self.at(project))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.at("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn exec(&self, mechanism: &str, project: &str) -> Command {
        let arguments = ["exec", "--mechanism", mechanism, "--", PROGRAM];
        self.command(self.at("forge"), project, &arguments)
    }

    /// bubblewrap by hand, with the small project at its own path.
    fn bare(&self) -> Command {
        let project = self.at("small");
        let project = project.to_string_lossy();
        let arguments = spawn::bare_arguments(&["--bind", &project, &project]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.command("bwrap", "small", &arguments)
    }

    fn measures(&self, rows: &Rows) -> Result<Vec<Measure>, Box<dyn Error>> {
        let mut measures = Vec::new();
        for (mechanism, name, target) in rows.whole {
            let outcome = match self.works(mechanism) {
                Err(why) => Outcome::NotHere(why.to_string()),
                Ok(()) => {
                    let exec = || run(&mut self.exec(mechanism, "small"));
                    let bare = || run(&mut self.bare());
                    let [ours, other] = medians(ROUNDS, 1, [Box::new(exec), Box::new(bare)])?;
                    Outcome::Ratio {
                        ours,
                        other,
                        other_name: "bwrap, same namespaces",
                        target: Some(target),
                    }
                }
            };
            measures.push(Measure { name, outcome });
        }
        measures.push(self.preset(rows)?);
        for (mechanism, name) in rows.large {
            let outcome = match self.works(mechanism) {
                Err(why) => Outcome::NotHere(why.to_string()),
                Ok(()) => {
                    let large = || run(&mut self.exec(mechanism, "large"));
                    let small = || run(&mut self.exec(mechanism, "small"));
                    let [large, small] =
                        medians(LARGE_ROUNDS, 1, [Box::new(large), Box::new(small)])?;
                    Outcome::Amount {
                        got: large.saturating_sub(small).as_secs_f64() * 1e3,
                        unit: "ms",
                        of: "over the small project",
                        target: LARGE_MS,
                    }
                }
            };
            measures.push(Measure { name, outcome });
        }
        Ok(measures)
    }

    fn preset(&self, rows: &Rows) -> Result<Measure, Box<dyn Error>> {
        let preset = || {
            let arguments = ["exec", "--preset", "claude", "--", PROGRAM];
            run(&mut self.command(self.at("forge"), "small", &arguments))
        };
        let outcome = match self.works("namespaces").and_then(|()| preset()) {
            Err(why) => Outcome::NotHere(why.to_string()),
            Ok(()) => {
                let plain = || run(&mut self.exec("namespaces", "small"));
                let [ours, other] = medians(ROUNDS, 1, [Box::new(preset), Box::new(plain)])?;
                Outcome::Ratio {
                    ours,
                    other,
                    other_name: "exec, namespaces",
                    target: Some(PRESET),
                }
            }
        };
        let name = rows.preset;
        Ok(Measure { name, outcome })
    }

    /// Also has forge look at this host, which it remembers.
    fn works(&self, mechanism: &str) -> Result<(), Box<dyn Error>> {
        run(&mut self.exec(mechanism, "small"))?;
        run(&mut self.bare())
    }

    /// The start, and the parts of a process of our own, beside the whole.
    fn parts(&self) -> Result<Vec<Measure>, Box<dyn Error>> {
        if let Err(why) = self.works("namespaces") {
            let outcome = Outcome::NotHere(why.to_string());
            let name = PARTS[0];
            return Ok(vec![Measure { name, outcome }]);
        }
        let whole = || run(&mut self.exec("namespaces", "small"));
        let start = || run(&mut self.command(self.at("forge"), "small", &["--version"]));
        let [whole, start] = medians(ROUNDS, 1, [Box::new(whole), Box::new(start)])?;
        let part = |name, time| Measure {
            name,
            outcome: Outcome::Ratio {
                ours: time,
                other: whole,
                other_name: "exec, namespaces",
                target: None,
            },
        };
        let mut times = PARTS.map(|_| Vec::new());
        let own = std::env::current_exe()?;
        for _ in 0..ROUNDS {
            let mut child = self.command(&own, "small", &[FLAG]);
            let output = child.stdout(Stdio::piped()).output()?;
            let text = String::from_utf8(output.stdout)?;
            let nanos: Vec<u64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
            if nanos.len() != PARTS.len() {
                return Err(format!("the process of the parts: {}", output.status).into());
            }
            for (times, nanos) in times.iter_mut().zip(nanos) {
                times.push(Duration::from_nanos(nanos));
            }
        }
        let parts = PARTS.into_iter().zip(times);
        let parts = parts.map(|(name, times)| part(name, median(times)));
        Ok([part("exec, part: start (forge --version)", start)]
            .into_iter()
            .chain(parts)
            .collect())
    }
}

/// What `forge exec` does in the directory of this process; prints how long each of [`PARTS`] took.
pub(crate) fn operate() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let mut sources = Sources::new(".");
    sources.without_directories = WithoutDirectories::WholeDirectory;
    sources.home = std::env::home_dir();
    let project = load(&sources)?;
    let grant = project.ceiling();
    let policy = grant.policy()?.at_host_paths()?;
    let configuration = begin.elapsed();

    let begin = Instant::now();
    let support = Support::detect_cached(&Directories::user());
    let detection = begin.elapsed();

    let begin = Instant::now();
    let dir = tempfile::tempdir_in(std::env::home_dir().ok_or("no home")?)?;
    let handle = cap_std::fs::Dir::open_ambient_dir(dir.path(), ambient_authority())?;
    let log = AuditLog::open(handle, LogOptions::default())?;
    log.seal("ended")?;
    drop(log);
    let log = begin.elapsed();

    let [guarded_start, guarded_end] = start_and_end(&policy, &support, grant.requirement())?;
    let open = Policy::builder()
        .mount(project.dir(), "/", Access::ALL)
        .env(policy.environment().clone())
        .limits(policy.limits().clone())
        .build()?;
    let [open_start, open_end] = start_and_end(&open, &support, grant.requirement())?;
    for time in [
        configuration,
        detection,
        log,
        open_start,
        open_end,
        guarded_start.saturating_sub(open_start),
        guarded_end.saturating_sub(open_end),
    ] {
        println!("{}", time.as_nanos());
    }
    Ok(())
}

fn start_and_end(
    policy: &Policy,
    support: &Support,
    requirement: Requirement,
) -> Result<[Duration; 2], Box<dyn Error>> {
    let plan = Plan::new(policy, support, requirement)?;
    let sandbox = Sandbox::open(plan, Directories::user());
    let begin = Instant::now();
    let mut child = os_sandbox::Command::new(&sandbox, PROGRAM)
        .stdin(os_sandbox::Stdio::Null)
        .stdout(os_sandbox::Stdio::Null)
        .stderr(os_sandbox::Stdio::Null)
        .spawn()?;
    let started = begin.elapsed();
    if !child.wait()?.success() {
        return Err(format!("{PROGRAM} failed").into());
    }
    Ok([started, begin.elapsed().saturating_sub(started)])
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", command.get_program().display()).into())
    }
}
