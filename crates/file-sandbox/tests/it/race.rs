//! A thread exchanges a directory for a link out and a file for a link out, over and over, while
//! operations go through those names. Each attempt works on what is inside or is refused; none
//! comes out. `cargo xtask race` runs many more attempts than a test can afford.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cap_std::fs::Dir;
use file_sandbox::{
    Error, ErrorKind, FileSandbox, ListOptions, MoveOptions, Replacement, SandboxPath,
    SearchOptions, WalkOptions,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::again::{self, Openat2};
use crate::scene::{Scene, path};

/// Set by `cargo xtask race`.
const ATTEMPTS: &str = "FILE_SANDBOX_RACE_ATTEMPTS";
/// On a busy machine one side may run long before the other one does.
const PATIENCE: u64 = 200;

#[derive(Clone, Copy, Debug)]
enum Do {
    Read,
    Copy,
    Write,
    Append,
    Edit,
    List,
    Walk,
    Search,
    Rename,
    Delete,
    DeleteAll,
}

const EVERY: &[Do] = &[
    Do::Read,
    Do::Copy,
    Do::Write,
    Do::Append,
    Do::Edit,
    Do::List,
    Do::Walk,
    Do::Search,
    Do::Rename,
    Do::Delete,
    Do::DeleteAll,
];

fn few_attempts() -> u64 {
    test_sample::count("race: attempts of each operation", 300, 1_000)
}

#[test]
fn nothing_comes_out_on_any_resolver() {
    if let Some(cell) = again::entered() {
        println!();
        race(&Scene::new(), &cell.to_string());
        if cell.openat2 == Openat2::Shown {
            race(&Scene::with_nested_root(), "the walk alone");
        }
        return;
    }
    let (cells, _) = again::cells();
    let user = cells[0].user;
    // Here for the note: the processes below take as many.
    few_attempts();
    for cell in cells.into_iter().filter(|cell| cell.user == user) {
        let output = again::run("race::nothing_comes_out_on_any_resolver", cell);
        let lines: Vec<&str> = output.lines().filter(|l| l.starts_with("race\t")).collect();
        assert!(lines.len() >= EVERY.len(), "{output}");
        println!("{}", lines.join("\n"));
    }
}

fn race(scene: &Scene, resolver: &str) {
    let attempts =
        std::env::var(ATTEMPTS).map_or_else(|_| few_attempts(), |text| text.parse().unwrap());
    let arena = Arena::new(scene);
    for what in EVERY {
        arena.reset();
        let before = arena.outside();
        let (counts, exchanges) = arena.run(*what, attempts);
        assert!(
            arena.outside() == before,
            "{what:?} changed what is outside"
        );
        // Otherwise nothing raced.
        assert!(
            counts.worked > 0 && counts.refused > 0 && exchanges > 0,
            "{what:?} {counts:?}"
        );
        println!(
            "race\t{resolver}\t{what:?}\t{}\t{}\t{exchanges}",
            counts.worked + counts.refused,
            counts.worked,
        );
    }
}

#[derive(Debug, Default)]
struct Counts {
    worked: u64,
    refused: u64,
}

struct Arena<'s> {
    scene: &'s Scene,
    /// The directory that is exchanged, wherever it is.
    inside: Dir,
}

const INSIDE: &str = "inside";
const SECRET: &str = "secret";
const OTHER: &str = "also in here";

impl<'s> Arena<'s> {
    fn new(scene: &'s Scene) -> Self {
        fs::create_dir_all(scene.at("data/swap/deep")).unwrap();
        fs::write(scene.at("data/leaf"), INSIDE).unwrap();
        for (name, text) in [("data/swap", INSIDE), ("outside", SECRET)] {
            fs::create_dir_all(scene.at(name).join("deep")).unwrap();
            for file in ["f.txt", "victim.txt", "deep/g.txt"] {
                fs::write(scene.at(name).join(file), text).unwrap();
            }
        }
        symlink("../outside", scene.at("data/link")).unwrap();
        relink(&scene.at("data/leaf_link"));
        let authority = cap_std::ambient_authority();
        let inside = Dir::open_ambient_dir(scene.at("data/swap"), authority).unwrap();
        Self { scene, inside }
    }

    fn run(&self, what: Do, attempts: u64) -> (Counts, u64) {
        let stop = AtomicBool::new(false);
        let exchanges = AtomicU64::new(0);
        let counts = thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    self.exchange();
                    exchanges.fetch_add(1, Ordering::Relaxed);
                }
            });
            let counts = scope.spawn(|| self.attempts(what, attempts)).join();
            stop.store(true, Ordering::Relaxed);
            counts
        });
        (counts.unwrap(), exchanges.into_inner())
    }

    fn exchange(&self) {
        let at = |name: &str| self.scene.at(name);
        let swap = |a: &Path, b: &Path| renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
        swap(&at("data/swap"), &at("data/link")).unwrap();
        // An attempt may replace, move or delete the link itself: its name is inside.
        let (leaf, link) = (at("data/leaf"), at("data/leaf_link"));
        if swap(&leaf, &link).is_err() {
            let _ = fs::write(&leaf, INSIDE);
        }
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        if !is_link(&leaf) && !is_link(&link) {
            relink(&link);
        }
    }

    fn attempts(&self, what: Do, attempts: u64) -> Counts {
        let mut counts = Counts::default();
        for i in 0..attempts * PATIENCE {
            if i >= attempts && counts.worked > 0 && counts.refused > 0 {
                break;
            }
            match self.attempt(what, i % 2 == 0) {
                Ok(()) => counts.worked += 1,
                Err(error) => {
                    assert!(!error.to_string().contains(SECRET), "{error}");
                    counts.refused += 1;
                }
            }
        }
        counts
    }

    /// Through the directory, or at the name of the file itself.
    fn attempt(&self, what: Do, through: bool) -> Result<(), Error> {
        let files = &self.scene.files;
        let file = path(if through {
            "/data/swap/f.txt"
        } else {
            "/data/leaf"
        });
        match what {
            Do::Read => {
                let text = files.read(&file, Default::default())?;
                assert_eq!(text.content, INSIDE);
            }
            Do::Copy => {
                let copy = path("/data/copy");
                files.copy(&file, &copy, MoveOptions::new().overwrite(true))?;
                assert_eq!(self.scene.host_text("data/copy"), INSIDE);
            }
            Do::Write => drop(files.write(&file, INSIDE, Default::default())?),
            Do::Append => {
                let log = if through {
                    "/data/swap/log"
                } else {
                    "/data/leaf"
                };
                drop(files.append(&path(log), b"\ninside")?);
            }
            Do::Edit => {
                // To and fro.
                let edit = |old: &str, new: &str| {
                    let once = [Replacement::new(old, new)];
                    files.edit(&file, &once, Default::default())
                };
                let edited = match edit(INSIDE, OTHER) {
                    Err(error) if error.kind() == ErrorKind::NoMatch => edit(OTHER, INSIDE)?,
                    edited => edited?,
                };
                assert!(!edited.diff.contains(SECRET));
            }
            Do::List => self.list(files)?,
            Do::Walk => {
                let all = files.walk(&path("/data/swap"), WalkOptions::new())?;
                none_of_outside(all.entries.iter().map(|entry| entry.name.as_str()));
            }
            Do::Search => {
                let place = if through { path("/data/swap") } else { file };
                let found = files.search(&place, "inside|secret", SearchOptions::new())?;
                assert!(found.hits.iter().all(|hit| hit.text == INSIDE), "{found:?}");
            }
            Do::Rename => {
                let (from, to) = if through {
                    (path("/data/swap/victim.txt"), path("/data/swap/deep/moved"))
                } else {
                    (path("/data/leaf"), path("/data/moved"))
                };
                files.rename(&from, &to, MoveOptions::new())?;
                let _ = self.inside.remove_file("deep/moved");
                let _ = fs::remove_file(self.scene.at("data/moved"));
                self.restore();
            }
            Do::Delete => {
                let victim = if through {
                    "/data/swap/victim.txt"
                } else {
                    "/data/leaf"
                };
                files.delete(&path(victim))?;
                self.restore();
            }
            Do::DeleteAll => {
                files.delete_all(&path("/data/swap/deep"))?;
                self.restore();
            }
        }
        Ok(())
    }

    fn list(&self, files: &FileSandbox) -> Result<(), Error> {
        let swap: SandboxPath = path("/data/swap");
        for options in [ListOptions::new(), ListOptions::new().pattern("**/*")] {
            let listing = files.list(&swap, options)?;
            none_of_outside(listing.entries.iter().map(|entry| entry.name.as_str()));
        }
        Ok(())
    }

    /// Between two operations, while nothing is exchanged.
    fn reset(&self) {
        self.restore();
        self.inside.write("log", INSIDE).unwrap();
        for leaf in ["data/leaf", "data/leaf_link"] {
            let leaf = self.scene.at(leaf);
            if !leaf.is_symlink() {
                fs::write(leaf, INSIDE).unwrap();
            }
        }
    }

    /// Makes again what an attempt took away.
    fn restore(&self) {
        self.inside.create_dir_all("deep").unwrap();
        for file in ["f.txt", "victim.txt", "deep/g.txt"] {
            self.inside.write(file, INSIDE).unwrap();
        }
    }

    fn outside(&self) -> Vec<(std::path::PathBuf, crate::scene::Seen)> {
        let outside = self.scene.at("outside");
        let picture = self.scene.picture().into_iter();
        picture
            .filter(|(path, _)| path.starts_with(&outside))
            .collect()
    }
}

fn none_of_outside<'n>(mut names: impl Iterator<Item = &'n str>) {
    let found = names.find(|name| name.contains(SECRET) || name.contains("hard"));
    assert_eq!(found, None);
}

fn relink(link: &Path) {
    let _ = fs::remove_file(link);
    let _ = symlink("../outside/f.txt", link);
}
