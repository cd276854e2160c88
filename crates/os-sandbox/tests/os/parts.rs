//! Parts of what is not shown as a whole: where they appear and what is around them, and paths whose
//! links were followed before, by somebody else, who is not to be outrun by one that comes later.

use crate::fixture::{Mechanism, World};
use crate::outcome::{ensure, say};
use crate::report::Report;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use os_sandbox::{Access, Command, Exit, Policy, Sandbox};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Starts in the race.
const STARTS: usize = 200;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    report.case("parts of an absent root mount", in_work(mechanism));
    report.case("parts of an absent named mount", named(mechanism));
    report.case("a link in the way of a part", link(mechanism));
    report.case("the way to a part swapped while starting", race(mechanism));
}

const READ: Access = Access::READ.union(Access::EXECUTE);

/// `src/lib/deep`, `src/own` and `docs` in a project, a file in each.
fn project(world: &World) -> Result<PathBuf, String> {
    let project = world.host("rw").canonicalize().map_err(say)?;
    for directory in ["src/lib", "src/lib/deep", "src/own", "docs", "lib"] {
        std::fs::create_dir_all(project.join(directory)).map_err(say)?;
        std::fs::write(project.join(directory).join("f"), directory).map_err(say)?;
    }
    Ok(project)
}

/// Runs a script, and compares what it said.
fn says(plan: &Sandbox, script: &str, want: &str) -> Result<(), String> {
    let output = Command::new(plan, "sh").args(["-c", script]).output();
    let output = output.map_err(say)?;
    ensure(output.stdout.text() == want, || {
        format!("{script}: {output:?}")
    })
}

/// What is around a part can be listed as far as it leads there, and not written.
fn around(plan: &Sandbox, ways: &[&str]) -> Result<(), String> {
    for way in ways {
        for attempt in [
            format!("echo x > {way}/new"),
            format!("mkdir {way}/new"),
            format!("mv {way} aside"),
            format!("for n in {way}/*; do mv $n {way}/moved && exit; done; false"),
            format!("ln -s /etc {way}/new"),
        ] {
            let output = Command::new(plan, "sh").args(["-c", &attempt]).output();
            let output = output.map_err(say)?;
            ensure(output.exit != Exit::Code(0), || {
                format!("{attempt}: {output:?}")
            })?;
        }
    }
    Ok(())
}

fn in_work(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = project(&world)?;
    let policy = Policy::builder()
        .mount_resolved(project.join("src/lib"), "/work/src/lib", Access::ALL)
        .mount(
            project.join("src/lib/deep"),
            "/work/src/lib/deep",
            Access::ALL,
        )
        .mount(project.join("lib"), "/work/lib", READ)
        .mount(world.host("ro"), "/data", READ)
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&policy);
    says(&plan, "ls; ls src", "data\nlib\nsrc\nlib\n")?;
    says(
        &plan,
        "cat src/lib/f; cat src/lib/deep/f; cat lib/f; cat data/file",
        "src/libsrc/lib/deeplibro content",
    )?;
    let outside = project.display();
    says(
        &plan,
        &format!(
            "cat src/own/f docs/f ../docs/f src/lib/../own/f {outside}/docs/f {outside}/src/own/f
             ls src/own docs; echo w > lib/new; echo w > data/new; echo w > src/lib/new; echo end"
        ),
        "end\n",
    )?;
    ensure(
        project.join("src/lib/new").exists() && !project.join("lib/new").exists(),
        || "what could be written".to_owned(),
    )?;
    around(&plan, &[".", "src"])?;
    // By the name that it has for whoever looks at the working directory as `/`.
    let at = |cwd: &str| Command::new(&plan, "cat").arg("f").cwd(cwd).output();
    for (cwd, want) in [
        ("/src/lib", "src/lib"),
        ("/work/src/lib", "src/lib"),
        ("src/lib/deep", "src/lib/deep"),
    ] {
        let output = at(cwd).map_err(say)?;
        ensure(output.stdout.text() == want, || {
            format!("{cwd}: {output:?}")
        })?;
    }
    // The system's own `/lib` is no part of ours.
    let system = Command::new(&plan, "/bin/true").cwd("/lib").output();
    ensure(system.is_ok(), || format!("{system:?}"))
}

fn named(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = project(&world)?;
    let policy = Policy::builder()
        .mount_resolved(project.join("src/lib"), "/data/src/lib", Access::ALL)
        .mount_resolved(project.join("docs"), "/data/docs", READ)
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&policy);
    says(
        &plan,
        "ls; ls data data/src",
        "data\ndata:\ndocs\nsrc\n\ndata/src:\nlib\n",
    )?;
    let outside = project.display();
    says(
        &plan,
        &format!(
            "cat data/src/lib/f; cat data/docs/f; echo w > data/src/lib/new; echo w > data/docs/new
             cat data/src/own/f data/lib/f {outside}/lib/f {outside}/src/own/f"
        ),
        "src/libdocs",
    )?;
    if mechanism.moves() {
        says(&plan, "cat /data/src/lib/f; ls /data", "src/libdocs\nsrc\n")?;
    }
    ensure(
        project.join("src/lib/new").exists() && !project.join("docs/new").exists(),
        || "what could be written".to_owned(),
    )?;
    around(&plan, &[".", "data", "data/src"])
}

fn link(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = project(&world)?;
    symlink("src", project.join("way")).map_err(say)?;
    symlink("lib", project.join("src/last")).map_err(say)?;
    for below in ["way/lib", "src/last"] {
        let builder = Policy::builder();
        let host = project.join(below);
        let followed = builder.clone().mount(&host, "/work/part", READ).build();
        let plan = mechanism.plan(&followed.map_err(say)?);
        says(&plan, "cat part/f", "src/lib")?;
        let resolved = builder.mount_resolved(&host, "/work/part", READ).build();
        let plan = mechanism.plan(&resolved.map_err(say)?);
        let error = Command::new(&plan, "true")
            .output()
            .err()
            .map(|e| e.to_string());
        ensure(
            error
                .as_ref()
                .is_some_and(|error| error.contains("runs through a link now")),
            || format!("{below}: {error:?}"),
        )?;
    }
    Ok(())
}

/// Somebody who may write around a part swaps the directory on the way to it for a link to a
/// directory that looks the same, outside, all the time. A start may fail, nothing else.
fn race(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let root = world.host("rw").canonicalize().map_err(say)?;
    let outside = tempfile::tempdir().map_err(say)?;
    for (place, text) in [
        (root.join("a"), "ours"),
        (outside.path().to_owned(), "theirs"),
    ] {
        std::fs::create_dir_all(place.join("part")).map_err(say)?;
        std::fs::write(place.join("part/f"), text).map_err(say)?;
    }
    symlink(outside.path(), root.join("b")).map_err(say)?;
    let policy = Policy::builder()
        .mount_resolved(root.join("a/part"), "/work/a/part", Access::ALL)
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&policy);
    let swap = || {
        let (a, b) = (root.join("a"), root.join("b"));
        renameat2(AT_FDCWD, &a, AT_FDCWD, &b, RenameFlags::RENAME_EXCHANGE)
    };
    let done = AtomicBool::new(false);
    let swaps = AtomicUsize::new(0);
    let (mut ran, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0u64;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                swaps.fetch_add(usize::from(swap().is_ok()), Ordering::Relaxed);
                // Sometimes as fast as it goes, sometimes rarely enough for a start to get through.
                if (round / 64).is_multiple_of(2) {
                    std::thread::sleep(Duration::from_micros(round % 64 * 100));
                }
            }
        });
        // On a machine where the swapper gets little of the processor, more starts are needed.
        let raced = |ran: usize, refused: usize| {
            swaps.load(Ordering::Relaxed) > 50 && ran > 0 && refused > 0
        };
        let mut result = Ok(());
        for round in 0..10 * STARTS {
            if result.is_err() || round >= STARTS && raced(ran, refused) {
                break;
            }
            let script = "cat a/part/f; echo x >> a/part/planted; ls a/part/..";
            match Command::new(&plan, "sh").args(["-c", script]).output() {
                Ok(output) => {
                    ran += usize::from(output.stdout.text().starts_with("ours"));
                    result = ensure(!output.stdout.text().contains("theirs"), || {
                        format!("start {round} read {:?}", output.stdout.text())
                    });
                }
                Err(_) => refused += 1,
            }
        }
        done.store(true, Ordering::Relaxed);
        result
    })?;
    let swaps = swaps.into_inner();
    ensure(swaps > 50 && ran > 0 && refused > 0, || {
        format!("no race: {swaps} swaps, {ran} ran, {refused} refused")
    })?;
    let names = |path: &Path| -> Result<usize, String> {
        Ok(std::fs::read_dir(path).map_err(say)?.count())
    };
    let text = std::fs::read_to_string(outside.path().join("part/f")).map_err(say)?;
    ensure(
        text == "theirs"
            && names(outside.path())? == 1
            && names(&outside.path().join("part"))? == 1,
        || "something was written outside".to_owned(),
    )
}
