//! The sandbox tests in a container without user namespaces, as most people run containers: no
//! bubblewrap, so os-sandbox falls back to Landlock and says so. And in one whose profile does not
//! know Landlock either: nothing is started there.
//!
//! No registry is asked. The image is a tar of empty directories, with the host's own `/usr` mounted
//! into it; the engine is the one for tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::engine::{Engine, silent};
use crate::failure::{Context, Failure};
use crate::process;
use crate::report::{self, Run, support};
use crate::scratch::Scratch;

/// Watchdog of one container.
const WATCHDOG_S: u64 = 3600;

/// What runs inside: everything that Landlock alone keeps, commands, ends, callers, watches.
const SETS: [&str; 5] = [
    "matrix::",
    "landlock::commands",
    "landlock::survivors",
    "landlock::callers",
    "landlock::watches",
];

/// The default profile of an engine that has not heard of Landlock, in what concerns us.
const OLD_PROFILE: &str = r#"{
  "defaultAction": "SCMP_ACT_ALLOW",
  "syscalls": [
    {"names": ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "clone3"],
     "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    {"names": ["unshare", "clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
     "args": [{"index": 0, "value": 268435456, "valueTwo": 268435456, "op": "SCMP_CMP_MASKED_EQ"}]}
  ]
}
"#;

/// The programs that are run inside, where the stage has them.
pub(crate) struct Programs<'a> {
    pub(crate) stage: &'a Path,
    pub(crate) tests: &'a Path,
    pub(crate) support: &'a Path,
    pub(crate) forge: Option<&'a Path>,
}

/// What was found: what the programs printed, runs for the matrix, and what was not as it should be.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) shown: String,
    pub(crate) runs: Vec<Run>,
    pub(crate) complaints: Vec<String>,
}

/// `Ok(Err(reason))`: there is no engine here.
pub(crate) fn run(programs: &Programs<'_>) -> Result<Result<Found, String>, Failure> {
    if !cfg!(target_os = "linux") {
        return Ok(Err(
            "the programs of this system do not run in one".to_owned()
        ));
    }
    if let Some(why) = too_little(programs)? {
        return Ok(Err(why));
    }
    let scratch = Scratch::new()?;
    // Ordinary users of the container pass through.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))
        .context(scratch.path().display())?;
    let engine = match Engine::reach()? {
        Ok(engine) => engine,
        Err(reason) => return Ok(Err(reason)),
    };
    let image = Image::import(&engine, &scratch)?;
    let found = all(programs, &scratch, &engine, &image);
    let _ = silent(engine.docker().args(["rmi", &image.name]));
    found.map(Ok)
}

/// A container has the kernel of its host: where Landlock alone does not suffice, there is nothing to
/// fall back to.
fn too_little(programs: &Programs<'_>) -> Result<Option<String>, Failure> {
    let table = process::output(&mut process::command(programs.support))?;
    let (_, support) = support(&table)?;
    Ok(match support.get("landlock") {
        Some(Some(why)) => Some(format!("no Landlock to fall back to: {why}")),
        Some(None) | None => None,
    })
}

fn all(
    programs: &Programs<'_>,
    scratch: &Scratch,
    engine: &Engine,
    image: &Image,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    for (user, ids) in [("root", "0:0"), ("ordinary user", "65534:65534")] {
        found.shown += &format!("\n-- in a container, as {user}\n");
        let place = Place::new(scratch, user)?;
        let inside = |program: &Path, arguments: &[&str], options: &[&str]| {
            image.command(engine, programs, &place, ids, program, arguments, options)
        };
        tests(programs, user, &place, &inside, &mut found)?;
        commands(programs, user, scratch, &inside, &mut found)?;
    }
    Ok(found)
}

type Inside<'a> = dyn Fn(&Path, &[&str], &[&str]) -> Command + 'a;

fn tests(
    programs: &Programs<'_>,
    user: &str,
    place: &Place,
    inside: &Inside<'_>,
    found: &mut Found,
) -> Result<(), Failure> {
    let table = process::output(&mut inside(programs.support, &[], &[]))?;
    let (text, support) = support(&table)?;
    found.shown += &format!("{text}\n");
    match support.get("bubblewrap") {
        Some(Some(why)) if why.contains("amespace") => {}
        other => found.complaints.push(format!(
            "in a container, {user}: bubblewrap should be missing for lack of namespaces: {other:?}"
        )),
    }
    if support.get("landlock") != Some(&None) {
        found.complaints.push(format!(
            "in a container, {user}: Landlock should work: {support:?}"
        ));
    }
    let (code, output) = process::watched(&mut inside(programs.tests, &SETS, &[]), WATCHDOG_S)?;
    found.shown += &output;
    if code != Some(0) {
        found.complaints.push(format!(
            "in a container, {user}: the tests ended with {code:?}"
        ));
    }
    let text = fs::read_to_string(place.path.join("report.jsonl"))
        .context("the sandbox tests in the container wrote no report")?;
    found.runs.push(Run {
        user: format!("{user}, in a container"),
        support,
        records: report::parse(&text).context("the sandbox tests' report")?,
    });
    Ok(())
}

/// `forge exec` there, and where Landlock is not known either.
fn commands(
    programs: &Programs<'_>,
    user: &str,
    scratch: &Scratch,
    inside: &Inside<'_>,
    found: &mut Found,
) -> Result<(), Failure> {
    let Some(forge) = programs.forge else {
        return Ok(());
    };
    let profile = scratch.file("old-profile.json");
    fs::write(&profile, OLD_PROFILE).context(profile.display())?;
    let old = format!("seccomp={}", profile.display());
    let script = "echo made > made && cat made && ! cat /etc/secret 2>/dev/null && echo kept";
    for (name, options, want, says) in [
        ("exec", &[][..], 0, &["made", "kept"][..]),
        (
            "exec, old profile",
            &["--security-opt", &old],
            125,
            &["landlock"],
        ),
    ] {
        let mut command = inside(forge, &["exec", "--", "sh", "-c", script], options);
        let (code, output) = process::watched(&mut command, WATCHDOG_S)?;
        found.shown += &format!("forge {name}: exit {code:?}\n{output}\n");
        let lower = output.to_lowercase();
        let told = says.iter().all(|text| lower.contains(text));
        if code != Some(want) || !told {
            found.complaints.push(format!(
                "in a container, {user}: forge {name}: exit {code:?} instead of {want}, or not {says:?}: {output}"
            ));
        }
    }
    Ok(())
}

/// Where a container may write.
struct Place {
    path: PathBuf,
}

impl Place {
    fn new(scratch: &Scratch, user: &str) -> Result<Self, Failure> {
        let path = scratch.file(&format!("out-{}", user.replace(' ', "-")));
        for dir in [path.clone(), path.join("home"), path.join("project")] {
            fs::create_dir(&dir).context(dir.display())?;
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).context(dir.display())?;
        }
        Ok(Place { path })
    }
}

/// Empty directories, the links of a merged `/usr`, and three users.
struct Image {
    name: String,
    mounts: Vec<String>,
}

impl Image {
    fn import(engine: &Engine, scratch: &Scratch) -> Result<Image, Failure> {
        let root = scratch.file("root");
        let mut mounts = vec![bind("/usr", "/usr")];
        for dir in [
            "usr", "proc", "sys", "dev", "tmp", "etc", "run", "root", "home", "stage", "out",
        ] {
            fs::create_dir_all(root.join(dir)).context("the image")?;
        }
        for dir in ["bin", "sbin", "lib", "lib64"] {
            let host = Path::new("/").join(dir);
            match fs::read_link(&host) {
                Ok(to) => symlink(to, root.join(dir)).context("the image")?,
                Err(_) if host.is_dir() => {
                    fs::create_dir(root.join(dir)).context("the image")?;
                    mounts.push(bind(&format!("/{dir}"), &format!("/{dir}")));
                }
                Err(_) => {}
            }
        }
        for path in [
            "/etc/alternatives",
            "/etc/ssl/certs",
            "/etc/ssl/openssl.cnf",
            "/etc/ld.so.cache",
            "/etc/locale.alias",
            "/etc/localtime",
        ] {
            if Path::new(path).exists() {
                mounts.push(bind(path, path));
            }
        }
        for (name, text) in [
            (
                "etc/passwd",
                "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
            ),
            ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
            ("etc/secret", "a secret\n"),
        ] {
            fs::write(root.join(name), text).context("the image")?;
        }
        let tar = scratch.file("root.tar");
        process::quiet(
            process::command("tar")
                .arg("-C")
                .arg(&root)
                .arg("-cf")
                .arg(&tar)
                .arg("."),
        )?;
        let name = format!("forge-test-os:{}", std::process::id());
        process::quiet(engine.docker().arg("import").arg(&tar).arg(&name))?;
        Ok(Image { name, mounts })
    }

    /// A program of the stage, inside, with `options` for the engine.
    #[expect(
        clippy::too_many_arguments,
        reason = "a container is all of these, in one place"
    )]
    fn command(
        &self,
        engine: &Engine,
        programs: &Programs<'_>,
        place: &Place,
        ids: &str,
        program: &Path,
        arguments: &[&str],
        options: &[&str],
    ) -> Command {
        let below = program.strip_prefix(programs.stage).unwrap_or(program);
        let mut docker = engine.docker();
        docker
            .args(["run", "--rm", "--network", "none", "--user", ids])
            .args(options);
        for mount in &self.mounts {
            docker.args(["--mount", mount]);
        }
        docker.args([
            "--mount",
            &bind(&programs.stage.display().to_string(), "/stage"),
        ]);
        let out = format!("type=bind,source={},target=/out", place.path.display());
        docker.args(["--mount", &out, "--workdir", "/out/project"]);
        for variable in [
            "TMPDIR=/out",
            "HOME=/out/home",
            "FORGE_TEST_OS_REPORT=/out/report.jsonl",
        ] {
            docker.args(["--env", variable]);
        }
        docker
            .arg(&self.name)
            .arg(Path::new("/stage").join(below))
            .args(arguments)
            .stdin(Stdio::null());
        docker
    }
}

fn bind(source: &str, target: &str) -> String {
    format!("type=bind,source={source},target={target},readonly")
}
