//! An apply that is killed at any moment: each path is old or new, and the next command finishes or
//! takes back what was begun.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forge_review::{OpenReview, ReviewDir};

use crate::scene::{DIR, RUN, Scene, all, apply, lay, lines, white_out};

/// Files of each kind. Those that are changed come last: their names do.
const FILES: usize = 12;

/// Beginning of the name of the directory that an apply prepares its files in.
const AREA: &str = ".forge-review-";

/// A project with changed, added and deleted files and directories, and its review.
fn scene() -> Scene {
    let scene = Scene::new();
    for n in 0..FILES {
        let lower = [
            format!("text-{n}=old {n}"),
            format!("gone-{n}/f=old"),
            format!("kind-{n}=old"),
        ];
        lay(&scene.lower(), &lower.each_ref().map(String::as_str));
    }
    let dir = scene.create();
    for n in 0..FILES {
        let upper = [
            format!("text-{n}=new {n}"),
            format!("new-{n}/d/f=new"),
            format!("kind-{n}/f=new"),
        ];
        lay(&scene.upper(), &upper.each_ref().map(String::as_str));
        white_out(&scene.upper(), &[&format!("gone-{n}")]);
    }
    drop(scene.record(dir));
    scene
}

/// Counts paths with their old and new state; any other state is a failure.
fn count(lower: &Path, round: u32) -> [usize; 2] {
    let mut counts = [0, 0];
    let mut count = |old: bool, new: bool, path: &str| {
        assert!(old != new, "round {round}: {path} is neither old nor new");
        counts[usize::from(new)] += 1;
    };
    let read = |path: &str| fs::read_to_string(lower.join(path)).ok();
    for n in 0..FILES {
        let path = format!("text-{n}");
        let text = read(&path);
        count(
            text == Some(format!("old {n}")),
            text == Some(format!("new {n}")),
            &path,
        );
        let path = format!("gone-{n}");
        count(
            read(&format!("{path}/f")).as_deref() == Some("old"),
            !lower.join(&path).exists(),
            &path,
        );
        let path = format!("kind-{n}");
        count(
            read(&path).as_deref() == Some("old"),
            lower.join(&path).is_dir(),
            &path,
        );
        // Two directories and a file, each a path of its own.
        let path = format!("new-{n}");
        count(
            !lower.join(&path).exists(),
            lower.join(&path).is_dir(),
            &path,
        );
        let path = format!("new-{n}/d/f");
        count(
            !lower.join(&path).exists(),
            read(&path).as_deref() == Some("new"),
            &path,
        );
    }
    counts
}

/// Waits until the apply has prepared the new object with this number.
fn until_prepared(scene: &Scene, number: usize, end: Instant) {
    let area = || {
        let mut names = fs::read_dir(scene.lower()).unwrap();
        names.find_map(|name| {
            let name = name.unwrap();
            let is_area = name.file_name().to_string_lossy().starts_with(AREA);
            is_area.then(|| name.path())
        })
    };
    let mut prepared = None;
    while Instant::now() < end {
        prepared = prepared.or_else(|| Some(area()?.join(format!("new-{number}"))));
        if prepared.as_ref().is_some_and(|path| path.exists()) {
            return;
        }
        thread::yield_now();
    }
}

/// Waits until the apply has moved something to its place.
fn until_moved(scene: &Scene, round: u32, end: Instant) {
    let n = round as usize / 2 % FILES;
    let [gone, kind] = ["gone", "kind"].map(|name| scene.lower().join(format!("{name}-{n}")));
    let is_moved = || {
        if round % 4 == 1 {
            !gone.exists()
        } else {
            kind.is_dir()
        }
    };
    while !is_moved() && Instant::now() < end {
        thread::yield_now();
    }
}

/// Writes a file that the apply has not reached yet.
fn edited_by_the_person(scene: &Scene) -> Option<String> {
    let paths = (0..FILES).map(|n| (n, format!("text-{n}")));
    let is_old = |(n, path): &(usize, String)| {
        fs::read_to_string(scene.lower().join(path)).unwrap() == format!("old {n}")
    };
    let (_, path) = paths.into_iter().find(is_old)?;
    fs::write(scene.lower().join(&path), "edited").unwrap();
    Some(path)
}

fn started(scene: &Scene) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "kills::applies_until_killed",
        "--ignored",
        "--nocapture",
    ]);
    command.env(DIR, scene.dir()).stdin(Stdio::null());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let go = lines.map_while(Result::ok).any(|line| line.ends_with("go"));
    assert!(go, "the child did not begin");
    child
}

#[test]
fn every_path_is_old_or_new_after_a_kill() {
    let begun = Instant::now();
    let mut child = started(&scene());
    child.wait().unwrap();
    let takes = begun.elapsed();
    let mut phases = [0; 4];
    let mut edits = 0;
    for round in 0..test_sample::count("apply: kills", 60, 200_u32) {
        let scene = scene();
        let mut child = started(&scene);
        let journal = scene.reviews().join(RUN).join("journal");
        // The progress of the apply says how far it is, on a disk as in memory.
        let end = Instant::now() + 20 * takes;
        match round % 4 {
            // Spread over the whole apply; the last ones hit its end.
            0 => thread::sleep(takes * (round % 50) / 40),
            // A file that replaces one.
            2 => until_prepared(&scene, 2 * FILES + round as usize % FILES, end),
            _ => until_moved(&scene, round, end),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let [_, new] = count(&scene.lower(), round);
        let phase = fs::read_to_string(&journal).unwrap_or_default();
        phases[match (new, phase.contains("\"committing\"")) {
            (0, false) => 0,
            (0, true) => 1,
            (_, true) => 2,
            (_, false) => 3,
        }] += 1;
        if round % 4 == 1
            && phase.contains("\"committing\"")
            && let Some(path) = edited_by_the_person(&scene)
        {
            edits += 1;
            let review = scene.open();
            let text = fs::read_to_string(scene.lower().join(&path)).unwrap();
            assert_eq!(text, "edited", "round {round}");
            // Everything else is new, and this path is left.
            assert_eq!(lines(review.review()), [format!("modified {path}")]);
            assert!(!journal.exists(), "round {round}");
            continue;
        }
        let dir = ReviewDir::open(scene.reviews_fd().as_fd(), OsStr::new(RUN)).unwrap();
        let (mut review, recovered) = OpenReview::new(dir, scene.lowers()).unwrap();
        let [old, new] = count(&scene.lower(), round);
        assert!(old == 0 || new == 0, "round {round}: recovered in part");
        assert!(!journal.exists(), "round {round}");
        assert_eq!(
            recovered.is_some(),
            phase.contains("\"committing\""),
            "round {round}"
        );
        if old > 0 {
            apply(&mut review, &all()).unwrap();
        }
        assert_eq!(count(&scene.lower(), round)[0], 0, "round {round}");
        assert_eq!(lines(review.review()), [""; 0], "round {round}");
        assert_eq!(review.review().applied.len(), 1, "round {round}");
        let names = fs::read_dir(scene.lower()).unwrap();
        let ours = names.filter(|name| {
            let name = name.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with(AREA)
        });
        assert_eq!(ours.count(), 0, "round {round}");
    }
    eprintln!(
        "killed while preparing {}, before the first rename {}, between renames {}, at the end {}",
        phases[0], phases[1], phases[2], phases[3]
    );
    eprintln!("edited between kill and recovery: {edits}");
    assert!(
        phases[0] > 0 && phases[2] > 0 && edits > 0,
        "no kill came in the middle: {phases:?}"
    );
}

/// Changes what an apply has prepared, as a command that runs after a kill can: the directory is in the
/// project. `other` is where a command has files of its own.
fn tamper(prepared: &Path, number: usize, other: &Path) {
    let (own, linked) = (other.join("own"), other.join(number.to_string()));
    if prepared.is_dir() {
        return fs::write(prepared.join("evil"), "evil").unwrap();
    }
    match number % 3 {
        0 => {
            fs::write(&own, "evil").unwrap();
            fs::rename(&own, prepared).unwrap();
        }
        1 => {
            let meta = fs::metadata(prepared).unwrap();
            let length = usize::try_from(meta.len()).unwrap();
            fs::write(prepared, "e".repeat(length)).unwrap();
            let file = fs::File::options().write(true).open(prepared).unwrap();
            file.set_modified(meta.modified().unwrap()).unwrap();
        }
        _ => fs::hard_link(prepared, linked).unwrap(),
    }
}

#[test]
fn what_a_command_does_to_prepared_files_after_a_kill_is_not_applied() {
    let takes = {
        let begun = Instant::now();
        started(&scene()).wait().unwrap();
        begun.elapsed()
    };
    let mut tampered = 0;
    for round in 0..20_u32 {
        let scene = scene();
        let mut child = started(&scene);
        until_moved(&scene, 2 * round + 1, Instant::now() + 20 * takes);
        child.kill().unwrap();
        child.wait().unwrap();
        let other = tempfile::tempdir_in(scene.dir()).unwrap();
        let areas = fs::read_dir(scene.lower()).unwrap().flatten();
        let areas = areas.filter(|one| one.file_name().to_string_lossy().starts_with(AREA));
        for area in areas {
            for prepared in fs::read_dir(area.path()).unwrap().flatten() {
                let name = prepared.file_name().into_string().unwrap();
                if let Some(number) = name.strip_prefix("new-") {
                    tamper(&prepared.path(), number.parse().unwrap(), other.path());
                    tampered += 1;
                }
            }
        }
        drop(scene.open());
        for linked in fs::read_dir(other.path()).unwrap().flatten() {
            fs::write(linked.path(), "evil").unwrap();
        }
        count(&scene.lower(), round);
        let mut queue = vec![scene.lower()];
        while let Some(dir) = queue.pop() {
            assert!(!dir.join("evil").exists(), "round {round}: {dir:?}");
            let inner = fs::read_dir(dir).unwrap().flatten();
            queue.extend(inner.map(|one| one.path()).filter(|path| path.is_dir()));
        }
    }
    assert!(tampered > 0, "no kill came in the middle");
}

#[test]
#[ignore = "run and killed by another test"]
fn applies_until_killed() {
    let mut review = Scene::given().open();
    println!("\ngo");
    apply(&mut review, &all()).unwrap();
    // The parent ends this process in any case.
    thread::sleep(Duration::from_millis(1));
}
