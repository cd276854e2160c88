//! Bad input: what makes no sense, or is not there, is a typed error that says what to do, and
//! nothing is started. Odd input that does make sense works.

use crate::fixture::{Mechanism, World, open};
use crate::outcome::{ensure, say};
use crate::report::Report;
use nix::sys::stat::Mode;
use os_sandbox::{
    Access, Backend, Command, Error, ErrorKind, Exit, HostSpec, Plan, Policy, PolicyBuilder,
    Requirement, Support,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    for (name, outcome) in refused(&world) {
        report.case(&format!("input: {name}"), outcome);
    }
    report.case("input: paths that are no text", bytes(&world));
    report.case(
        "input: arguments and variables that are no text",
        arguments(&world),
    );
    report.case("input: links as mounts", links(&world));
    report.case("input: a file as a mount", file(&world));
    report.case("input: overlapping mounts", overlapping(&world));
    report.case("input: as many mounts as can be", many(&world));
    report.case("input: more than the host has", more(&world));
}

/// Starts `touch` under a policy, which must not happen.
fn start(world: &World, policy: PolicyBuilder) -> Result<(), Error> {
    let policy = policy.build()?;
    let support = Support::detect();
    let backend = world.mechanism.backend();
    let plan = open(Plan::with_mechanism(
        &policy,
        &support,
        Requirement::BestEffort,
        backend,
    )?);
    Command::new(&plan, "sh")
        .args(["-c", "echo > $HOME/x"])
        .output()
        .map(drop)
}

/// Each with the kind of its error and a word of its hint, or of its text where nothing can be advised.
fn refused(world: &World) -> Vec<(&'static str, Result<(), String>)> {
    let host = |name: &str| world.host("rw").join(name);
    nix::unistd::mkfifo(&host("fifo"), Mode::S_IRWXU).expect("a fifo");
    let _listener = std::os::unix::net::UnixListener::bind(host("socket")).expect("a socket");
    for (name, to) in [
        ("dangling", "nowhere"),
        ("loop", "loop"),
        ("to-proc", "/proc/self"),
        ("to-root", "/"),
        ("to-null", "/dev/null"),
        ("to-fifo", "fifo"),
    ] {
        symlink(to, host(name)).expect("a link");
    }
    let mount = |path: PathBuf| Policy::builder().mount(path, "/data", Access::READ);
    let long = PathBuf::from(format!("/{}", "x".repeat(300)));
    let thousand = (0..1000).fold(Policy::builder(), |policy, at| {
        policy.mount(format!("/m{at}"), format!("/m{at}"), Access::READ)
    });
    let patterns = (0..1000).fold(Policy::builder(), |policy, at| {
        policy.protect(format!("p{at}"))
    });
    let twice = |b: PathBuf, name: &str| mount(host("")).mount(b, name, Access::ALL);
    let rows: Vec<(&'static str, PolicyBuilder, ErrorKind, &str)> = vec![
        (
            "a relative path",
            mount("data".into()),
            ErrorKind::Invalid,
            "absolute",
        ),
        (
            "a path that climbs",
            mount("/data/../etc".into()),
            ErrorKind::Invalid,
            "..",
        ),
        (
            "a path with a NUL",
            mount("/a\0b".into()),
            ErrorKind::Invalid,
            "NUL",
        ),
        (
            "everything",
            mount("/".into()),
            ErrorKind::Invalid,
            "name the directories",
        ),
        (
            "the kernel's files",
            mount("/proc/self".into()),
            ErrorKind::Invalid,
            "kernel",
        ),
        (
            "a missing directory",
            mount(host("missing")),
            ErrorKind::Io,
            "create",
        ),
        (
            "a file as a directory",
            mount(host("file/x")),
            ErrorKind::Io,
            "reached",
        ),
        ("a name far too long", mount(long), ErrorKind::Io, "reached"),
        ("a fifo", mount(host("fifo")), ErrorKind::Invalid, "neither"),
        (
            "a socket",
            mount(host("socket")),
            ErrorKind::Invalid,
            "neither",
        ),
        (
            "a device",
            mount("/dev/null".into()),
            ErrorKind::Invalid,
            "kernel",
        ),
        (
            "a dangling link",
            mount(host("dangling")),
            ErrorKind::Io,
            "create",
        ),
        (
            "a link in a circle",
            mount(host("loop")),
            ErrorKind::Io,
            "reached",
        ),
        (
            "a link to the kernel's files",
            mount(host("to-proc")),
            ErrorKind::Invalid,
            "kernel",
        ),
        (
            "a link to everything",
            mount(host("to-root")),
            ErrorKind::Invalid,
            "name the directories",
        ),
        (
            "a link to a device",
            mount(host("to-null")),
            ErrorKind::Invalid,
            "kernel",
        ),
        (
            "a link to a fifo",
            mount(host("to-fifo")),
            ErrorKind::Invalid,
            "neither",
        ),
        (
            "a directory shown twice",
            twice(host("."), "/other"),
            ErrorKind::Invalid,
            "once",
        ),
        (
            "two at one name",
            twice(world.host("ro"), "/data/"),
            ErrorKind::Invalid,
            "two mounts",
        ),
        (
            "a thousand mounts",
            thousand,
            ErrorKind::Limit,
            "at most 256",
        ),
        ("a thousand patterns", patterns, ErrorKind::Limit, "256"),
    ];
    rows.into_iter()
        .map(|(name, policy, kind, word)| {
            let outcome = match start(world, policy) {
                Ok(()) => Err("it was started".to_owned()),
                Err(error) => {
                    let text = format!("{error}\n{}", error.hint().unwrap_or_default());
                    ensure(error.kind() == kind && text.contains(word), || {
                        format!(
                            "{:?} instead of {kind:?}, or no {word:?}: {text}",
                            error.kind()
                        )
                    })
                }
            };
            (name, outcome)
        })
        .collect()
}

/// Names are bytes: what is no text on the host can be shown under a name that is.
fn bytes(world: &World) -> Result<(), String> {
    for name in [&b"caf\xe9"[..], b"\xff\xfe", b"a\nb\xc3", b" -\"',$(x)\\"] {
        let host = world.host("outside").join(OsStr::from_bytes(name));
        std::fs::create_dir(&host).map_err(say)?;
        std::fs::write(host.join(OsStr::from_bytes(b"f\xe9")), "x").map_err(say)?;
        let policy = Policy::builder()
            .mount(&host, "/data", Access::ALL)
            .mount(
                host.join(OsStr::from_bytes(b"f\xe9")),
                "/file",
                Access::READ | Access::EXECUTE,
            )
            .build()
            .map_err(say)?;
        let support = Support::detect();
        let backend = world.mechanism.backend();
        // A file in a mount that allows more: Landlock alone would refuse the narrower part.
        let plan = Plan::with_mechanism(&policy, &support, Requirement::BestEffort, backend)
            .map(open)
            .map_err(say)?;
        let output = Command::new(&plan, "sh")
            .args(["-c", "echo made > data/made && ls data | wc -l && cat file"])
            .output()
            .map_err(say)?;
        let made = std::fs::read_to_string(host.join("made")).unwrap_or_default();
        ensure(output.stdout.text() == "2\nx" && made == "made\n", || {
            format!("{name:?}: {output:?}")
        })?;
    }
    Ok(())
}

fn arguments(world: &World) -> Result<(), String> {
    let odd = OsString::from_vec(b"\xff\xfe \n'\"$(x)".to_vec());
    let output = Command::new(&world.plan(), "sh")
        .args(["-c", "printf %s \"$1$ODD\"", "sh"])
        .arg(&odd)
        .env("ODD", &odd)
        .output()
        .map_err(say)?;
    let want = [odd.as_bytes(), odd.as_bytes()].concat();
    ensure(
        output.exit == Exit::Code(0) && *output.stdout.bytes() == *want,
        || format!("{output:?}"),
    )?;
    match Command::new(&world.plan(), OsString::from_vec(b"\xff".to_vec())).spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// A link is followed once, by the broker: what it leads to then is the mount.
fn links(world: &World) -> Result<(), String> {
    let link = world.host("link");
    symlink("rw", &link).map_err(say)?;
    let policy = Policy::builder()
        .mount(&link, "/data", Access::ALL)
        .build()
        .map_err(say)?;
    let plan = world.mechanism.plan(&policy);
    let run = |script: &str| {
        Command::new(&plan, "sh")
            .args(["-c", script])
            .output()
            .map_err(say)
    };
    let output = run("echo made > data/through && cat data/file")?;
    let made = world.host("rw").join("through").exists();
    ensure(made && output.stdout.text() == "rw content", || {
        format!("{output:?}")
    })?;
    // Turned while the plan is alive: the next start sees the new directory, and only that.
    std::fs::remove_file(&link).map_err(say)?;
    symlink("ro", &link).map_err(say)?;
    let output = run("cat data/file")?;
    ensure(output.stdout.text() == "ro content", || {
        format!("{output:?}")
    })?;
    std::fs::remove_file(&link).map_err(say)
}

fn file(world: &World) -> Result<(), String> {
    let policy = Policy::builder()
        .mount(world.host("rw").join("file"), "/data", Access::ALL)
        .build()
        .map_err(say)?;
    let output = Command::new(&world.mechanism.plan(&policy), "sh")
        .args(["-c", "cat data && echo more >> data && ls"])
        .output()
        .map_err(say)?;
    ensure(output.stdout.text() == "rw contentdata\n", || {
        format!("{output:?}")
    })
}

/// A directory in another mount's directory under a name of its own: it has its own access under
/// both names, or there is no plan.
fn overlapping(world: &World) -> Result<(), String> {
    let inner = world.host("rw").join("inner");
    std::fs::create_dir_all(&inner).map_err(say)?;
    std::fs::write(inner.join("x"), "kept").map_err(say)?;
    let run = Access::READ | Access::EXECUTE;
    let policy = Policy::builder()
        .mount(world.host("rw"), "/outer", Access::ALL)
        .mount(&inner, "/inner", run)
        .build()
        .map_err(say)?;
    let support = Support::detect();
    if !world.mechanism.has_mount_layer() {
        let plan = Plan::with_mechanism(&policy, &support, Requirement::Enforce, Backend::Landlock);
        return ensure(plan.is_err(), || "planned".to_owned());
    }
    let script = "cat inner/x outer/inner/x; echo no > outer/inner/x; echo no > inner/x; \
                  rm -f outer/inner/x; mv outer/inner outer/aside; echo yes > outer/y && echo end";
    let output = Command::new(&world.mechanism.plan(&policy), "sh")
        .args(["-c", script])
        .output()
        .map_err(say)?;
    let kept = std::fs::read_to_string(inner.join("x")).unwrap_or_default();
    ensure(
        kept == "kept" && output.stdout.text() == "keptkeptend\n",
        || format!("{output:?}"),
    )
}

fn many(world: &World) -> Result<(), String> {
    let mut policy = Policy::builder();
    for at in 0..256 {
        let host = world.host("outside").join(format!("many{at}"));
        std::fs::create_dir(&host).map_err(say)?;
        policy = policy.mount(&host, format!("/m{at}"), Access::ALL);
    }
    let plan = world.mechanism.plan(&policy.build().map_err(say)?);
    let output = Command::new(&plan, "sh")
        .args([
            "-c",
            "for m in *; do echo x > $m/x || exit 1; done; ls | wc -l",
        ])
        .output()
        .map_err(say)?;
    let made = world.host("outside").join("many255/x").exists();
    ensure(made && output.stdout.text() == "256\n", || {
        format!("{output:?}")
    })
}

/// The error names the promise, why it cannot be kept and what would help; as an [`Error`] it has
/// the code of a command that was not started.
fn more(world: &World) -> Result<(), String> {
    let policy = world.policy().build().map_err(say)?;
    let bare = Support::assume(HostSpec::default());
    let Err(refused) = Plan::new(&policy, &bare, Requirement::Enforce) else {
        return Err("planned".to_owned());
    };
    let hint = refused.hint();
    let error = Error::from(refused);
    let good = error.kind() == ErrorKind::Unsupported
        && error.exit_code() == 125
        && error.to_string().contains("read outside")
        && hint.contains("landlock")
        && !error.gaps().is_empty();
    ensure(good, || format!("{error:?}"))
}
