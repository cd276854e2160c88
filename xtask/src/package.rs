//! `cargo xtask package` tests the packages of a release, as far as that needs no hosting. It builds
//! dist's archive and Debian's package in a copy of the checkout, unpacks both, and runs forge's main
//! job with the program of each in a container with nothing but busybox.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout;
use crate::engine::{Engine, silent};
use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::steps::{Outcome, Steps};
use crate::tools::{self, CARGO_DEB, DIST};
use crate::workspace;

pub(crate) const ABOUT: &str = "build the archive and the Debian package of a release, unpack both, and run forge in a bare container (--pages TARGET: completions and manual pages alone)";

/// Links the C library into programs for Linux.
const STATIC: &str = "-C target-feature=+crt-static";

/// Each shell, and the name of its completions where the shell looks for them.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "forge.bash"),
    ("elvish", "forge.elv"),
    ("fish", "forge.fish"),
    ("powershell", "_forge.ps1"),
    ("zsh", "_forge"),
];

/// Files of an archive, beside the program.
const IN_ARCHIVE: [&str; 9] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "completions/forge.bash",
    "completions/forge.fish",
    "completions/_forge",
    "man/forge.1",
    "man/forge-exec.1",
];

/// The same files at Debian's paths. cargo-deb compresses manual pages.
const IN_DEB: [&str; 9] = [
    "usr/share/doc/forge/CHANGELOG.md",
    "usr/share/doc/forge/LICENSE-APACHE",
    "usr/share/doc/forge/LICENSE-MIT",
    "usr/share/doc/forge/README.md",
    "usr/share/bash-completion/completions/forge",
    "usr/share/fish/vendor_completions.d/forge.fish",
    "usr/share/zsh/vendor-completions/_forge",
    "usr/share/man/man1/forge.1.gz",
    "usr/share/man/man1/forge-exec.1.gz",
];

/// Commands of the main job, and what each says. `true` is busybox's.
const MAIN_JOB: [(&[&str], &str); 3] = [
    (&["exec", "--", "sh", "-c", "echo confined"], "confined"),
    (&["doctor"], "landlock"),
    (&["run", "--trust", "code-review"], "3 findings"),
];

const NO_ADDRESS: &str = "no public address (`repository` in Cargo.toml): no installers, and the workflow is not compared";

/// A container does one command; this is only against a hang.
const LIMIT_S: u64 = 300;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let [flag, target] = arguments
        && flag == "--pages"
    {
        return Build {
            checkout: workspace::root(),
            target_dir: workspace::target_dir(),
            triple: target.clone(),
        }
        .write_pages();
    }
    Failure::unless_empty(arguments)?;
    for tool in [DIST, CARGO_DEB] {
        if tools::find(&tool)?.is_none() {
            println!(
                "package: building {} into the cache (once, some minutes)",
                tool.package
            );
            tools::install(&tool)?;
        }
    }
    let dir = workspace::target_dir().join("release-trial");
    let build = Build {
        checkout: checkout::copy(&workspace::root(), &dir)?.into_checkout(),
        // Beside the copy, of which every run removes what git does not know.
        target_dir: dir.join("target"),
        triple: host_target()?,
    };
    let has_address = build.set_address()?;
    println!("package: into {}", build.made().display());
    let scratch = Scratch::new()?;
    let mut steps = Steps::default();
    steps.run("completions and manual pages", || build.write_pages());
    steps.run("dist's archive", || match build.archive(&scratch) {
        Ok(()) if !has_address => Outcome::Partly(NO_ADDRESS.to_owned()),
        made => made.into(),
    });
    steps.run("Debian's package", || build.debian(&scratch));
    let mut engine = None;
    steps.run("container engine", || match Engine::reach() {
        Ok(Ok(reached)) => {
            engine = Some(reached);
            Outcome::Passed
        }
        Ok(Err(why)) => Outcome::Skipped(why),
        Err(failure) => Outcome::Failed(failure.to_string()),
    });
    run_main_jobs(&mut steps, engine.as_ref(), &scratch);
    drop(engine);
    steps.close()
}

/// Does the main job with the program of the archive, then with that of the package.
fn run_main_jobs(steps: &mut Steps, engine: Option<&Engine>, scratch: &Scratch) {
    for (what, program) in [
        (
            "main job, from the archive",
            scratch.file(ARCHIVE).join("forge"),
        ),
        (
            "main job, from the package",
            scratch.file(DEBIAN).join("usr/bin/forge"),
        ),
    ] {
        steps.run(what, || match engine {
            Some(engine) if program.is_file() => main_job(engine, &program).into(),
            Some(_) => Outcome::Failed("the program was not built".to_owned()),
            None => Outcome::Skipped("no container engine".to_owned()),
        });
    }
}

/// Directories into which the archive and the package are unpacked.
const ARCHIVE: &str = "archive";
const DEBIAN: &str = "debian";

/// A checkout and its build directory.
struct Build {
    checkout: PathBuf,
    target_dir: PathBuf,
    triple: String,
}

impl Build {
    /// Fills the directories that archives and packages take completions and manual pages from. The
    /// program is the one that is packaged, so dist finds it built.
    fn write_pages(&self) -> Result<(), Failure> {
        let forge = |arguments: &[&str]| {
            let mut cargo = self.command(process::cargo());
            cargo.args([
                "run",
                "--quiet",
                "--profile",
                "dist",
                "--package",
                "forge",
                "--locked",
            ]);
            cargo.args(["--target", &self.triple, "--"]).args(arguments);
            process::output(&mut cargo)
        };
        let packaging = self.checkout.join("packaging");
        forge(&["man", &packaging.join("man").display().to_string()])?;
        for (shell, name) in COMPLETIONS {
            let path = packaging.join("completions").join(name);
            fs::write(&path, forge(&["completions", shell])?).context(path.display())?;
        }
        Ok(())
    }

    /// Writes the public address into the copy: that of Cargo.toml, or of the CI that runs this. Without
    /// one, takes out of dist's settings what needs one, and returns `false`.
    fn set_address(&self) -> Result<bool, Failure> {
        let (manifest, settings) = (
            self.checkout.join("Cargo.toml"),
            self.checkout.join("dist-workspace.toml"),
        );
        let text = fs::read_to_string(&manifest).context(manifest.display())?;
        let empty = ["repository = \"\"", "homepage = \"\""];
        if !text.contains(empty[0]) {
            return Ok(true);
        }
        if let (Ok(server), Ok(name)) =
            (env::var("GITHUB_SERVER_URL"), env::var("GITHUB_REPOSITORY"))
        {
            let mut text = text;
            for line in empty {
                text = text.replace(line, &line.replace("\"\"", &format!("\"{server}/{name}\"")));
            }
            fs::write(&manifest, text).context(manifest.display())?;
            return Ok(true);
        }
        let text = fs::read_to_string(&settings).context(settings.display())?;
        let needs_one = |line: &&str| {
            !["ci =", "hosting =", "installers =", "github-build-setup ="]
                .iter()
                .any(|key| line.starts_with(key))
        };
        let kept: Vec<&str> = text.lines().filter(needs_one).collect();
        fs::write(&settings, kept.join("\n")).context(settings.display())?;
        Ok(false)
    }

    /// Builds the archive, compares its checksum and unpacks it.
    fn archive(&self, scratch: &Scratch) -> Result<(), Failure> {
        let dist = tools::require(&DIST)?;
        let mut build = self.command(process::command(dist));
        build.args(["build", "--artifacts=all", "--target", &self.triple]);
        process::shown(&mut build)?;
        let name = format!("forge-{}", self.triple);
        let made = self.made();
        let file = format!("{name}.tar.xz");
        let mut sum = process::command("sha256sum");
        sum.args(["--check", &format!("{file}.sha256")]);
        process::quiet(sum.current_dir(&made))?;
        let to = scratch.file(ARCHIVE);
        fs::create_dir(&to).context(to.display())?;
        let mut tar = process::command("tar");
        // The directory in it is the one that `cargo binstall` is told.
        tar.arg("-xf").arg(made.join(&file)).arg("-C").arg(&to);
        process::quiet(tar.args(["--strip-components=1", &name]))?;
        has_all(&to, &IN_ARCHIVE)
    }

    /// Builds the package and unpacks it.
    fn debian(&self, scratch: &Scratch) -> Outcome {
        if process::find("dpkg-deb").is_none() {
            return Outcome::Skipped("there is no dpkg-deb".to_owned());
        }
        let build = || {
            let made = self.made();
            let mut deb = self.command(process::command(tools::require(&CARGO_DEB)?));
            deb.args([
                "--package",
                "forge",
                "--no-build",
                "--no-strip",
                "--target",
                &self.triple,
            ]);
            let said = process::output(deb.arg("--output").arg(&made))?;
            let file = said.trim();
            print!(
                "{}",
                process::output(process::command("dpkg-deb").arg("--info").arg(file))?
            );
            let to = scratch.file(DEBIAN);
            process::quiet(process::command("dpkg-deb").arg("-x").arg(file).arg(&to))?;
            has_all(&to, &IN_DEB)
        };
        build().into()
    }

    /// Returns the directory that dist writes into, wherever cargo builds.
    fn made(&self) -> PathBuf {
        self.checkout.join("target/distrib")
    }

    /// Has the command work on the checkout, and link statically where programs can be.
    fn command(&self, mut command: Command) -> Command {
        command
            .current_dir(&self.checkout)
            .env("CARGO_TARGET_DIR", &self.target_dir);
        if cfg!(target_os = "linux") {
            command.env("RUSTFLAGS", STATIC);
        }
        command
    }
}

fn has_all(dir: &Path, files: &[&str]) -> Result<(), Failure> {
    let missing: Vec<&str> = files
        .iter()
        .copied()
        .filter(|file| !dir.join(file).is_file())
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        missing => Err(Failure::new(format!("missing: {}", missing.join(", ")))),
    }
}

/// The main job in a container that is made of the program, busybox, and an example.
fn main_job(engine: &Engine, program: &Path) -> Result<(), Failure> {
    let scratch = Scratch::new()?;
    let root = scratch.file("root");
    for dir in ["bin", "tmp", "root", "project"] {
        let dir = root.join(dir);
        fs::create_dir_all(&dir).context(dir.display())?;
    }
    let copy = |from: &Path, to: &str| {
        let to = root.join(to);
        fs::copy(from, &to).map(drop).context(from.display())
    };
    copy(
        &tools::unpacked("busybox-static")?.join("bin/busybox"),
        "bin/busybox",
    )?;
    copy(program, "bin/forge")?;
    let shell = root.join("bin/sh");
    symlink("busybox", &shell).context(shell.display())?;
    let mut example = process::command("cp");
    example
        .arg("-R")
        .arg(workspace::root().join("examples/code-review"));
    process::quiet(example.arg(root.join("project")))?;
    let tar = scratch.file("root.tar");
    let mut pack = process::command("tar");
    process::quiet(pack.arg("-C").arg(&root).arg("-cf").arg(&tar).arg("."))?;
    let image = format!("forge-package:{}", std::process::id());
    process::quiet(engine.docker().arg("import").arg(&tar).arg(&image))?;
    let done = MAIN_JOB.iter().try_for_each(|(arguments, says)| {
        let mut docker = engine.docker();
        docker.args([
            "run",
            "--rm",
            "--network=none",
            "--workdir=/project",
            "--env=HOME=/root",
        ]);
        docker
            .args(["--env=PATH=/bin", &image, "/bin/forge"])
            .args(*arguments);
        let (code, said) = process::watched(&mut docker, LIMIT_S)?;
        println!("forge {}: exit {code:?}\n{said}", arguments.join(" "));
        match code {
            Some(0) if said.to_lowercase().contains(says) => Ok(()),
            _ => Err(Failure::new(format!(
                "forge {}: exit {code:?}, or not {says:?}",
                arguments.join(" ")
            ))),
        }
    });
    let _ = silent(engine.docker().args(["rmi", &image]));
    done
}

/// The triple of this machine.
fn host_target() -> Result<String, Failure> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = process::output(process::command(rustc).arg("-vV"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("rustc does not say its host"))
}
