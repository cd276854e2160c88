//! Memory, descriptors and bytes: each operation in a process of its own, which is this program
//! again, so that nothing else counts.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use file_sandbox::{
    FileSandbox, ListOptions, ReadOptions, SandboxPath, SearchOptions, WalkOptions,
};

use crate::compare::{Measure, Outcome};
use crate::trees;

pub(crate) const FLAG: &str = "--operate";

const PEAK_MB: f64 = 32.0;
const DESCRIPTORS: f64 = 64.0;
const MIB: f64 = 1024.0 * 1024.0;

/// What is looked at, and how the tree's operations are called.
const OPERATIONS: [(&str, &str); 7] = [
    ("peak memory, read 64 MiB", "read"),
    ("peak memory, glob 10 000 files", "glob"),
    ("peak memory, search 10 000 files", "search"),
    ("peak memory, search 64 MiB", "search-large"),
    ("peak memory, list 10 000 names", "list"),
    ("peak memory, walk 70 000 files in one", "walk-wide"),
    ("peak memory, walk 70 000 directories in one", "walk-dirs"),
];
const WALKS: [(&str, &str); 3] = [
    ("descriptors, walk 10 000 files", "walk"),
    ("descriptors, search 10 000 files", "search"),
    ("descriptors, walk 400 directories deep", "walk-deep"),
];

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    plant(dir.path())?;
    let mut measures = Vec::new();
    for (name, operation) in OPERATIONS {
        let outcome = match (
            again("nothing", dir.path(), None)?,
            again(operation, dir.path(), None)?,
        ) {
            (Some(base), Some(peak)) => Outcome::Amount {
                got: (peak - base) / 1024.0,
                unit: "MB",
                of: "resident, above a process that does nothing",
                target: PEAK_MB,
            },
            _ => Outcome::NotHere("no VmHWM in /proc/self/status".to_owned()),
        };
        measures.push(Measure { name, outcome });
    }
    measures.push(Measure {
        name: "bytes read, last 20 lines of 10 MiB",
        outcome: match again("tail", dir.path(), None)? {
            Some(bytes) => Outcome::Amount {
                got: bytes / MIB,
                unit: "MiB",
                of: "what the process read while it did it",
                target: 1.0,
            },
            None => Outcome::NotHere("no /proc/self/io".to_owned()),
        },
    });
    for (name, operation) in WALKS {
        // With one descriptor too few the operation fails, and so does this.
        let mut limit = DESCRIPTORS as u32;
        again(operation, dir.path(), Some(limit))?;
        while limit > 4 && again(operation, dir.path(), Some(limit - 1)).is_ok() {
            limit -= 1;
        }
        measures.push(Measure {
            name,
            outcome: Outcome::Amount {
                got: f64::from(limit),
                unit: "open",
                of: "the lowest limit it works under, with those of the process",
                target: DESCRIPTORS,
            },
        });
    }
    Ok(measures)
}

/// The tree of the other measures, a large file, a wide directory and a deep one.
fn plant(dir: &Path) -> Result<(), Box<dyn Error>> {
    trees::plant(&dir.join("tree"))?;
    fs::create_dir(dir.join("large"))?;
    fs::write(
        dir.join("large/lines.txt"),
        "hay hay hay hay hay hay hay hay\n".repeat(2 << 20),
    )?;
    let lines = (1..=327_680).map(|line| format!("{line:>20} line {line}\n"));
    fs::write(dir.join("log.txt"), lines.collect::<String>())?;
    fs::create_dir(dir.join("wide"))?;
    fs::create_dir(dir.join("wider"))?;
    fs::create_dir(dir.join("dirs"))?;
    for number in 0..10_000 {
        fs::write(dir.join(format!("wide/{number}")), "")?;
    }
    for number in 0..70_000 {
        fs::write(
            dir.join(format!("wider/a-name-of-some-length-{number}")),
            "",
        )?;
        fs::create_dir(dir.join(format!("dirs/a-name-of-some-length-{number}")))?;
    }
    fs::create_dir_all(dir.join(format!("deep/{}", "d/".repeat(400))))?;
    Ok(())
}

/// Runs one operation in a process of its own, and returns the number that it prints: mostly the
/// most memory it had, in KiB.
fn again(
    operation: &str,
    dir: &Path,
    descriptors: Option<u32>,
) -> Result<Option<f64>, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut command = match descriptors {
        None => Command::new(program),
        Some(limit) => {
            let mut command = Command::new("sh");
            command
                .arg("-c")
                .arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\""));
            command.arg(program);
            command
        }
    };
    let output = command.args([FLAG, operation]).arg(dir).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse().ok())
}

/// The other side: does it, and prints the most memory this process had.
pub(crate) fn operate(operation: &str, dir: &Path) -> Result<(), Box<dyn Error>> {
    let files = trees::sandbox(dir)?;
    let at = |text: &str| SandboxPath::parse(text);
    match operation {
        "nothing" => {}
        "read" => expect(
            files
                .read(&at("/data/large/lines.txt")?, ReadOptions::new())?
                .truncated,
        )?,
        "glob" => glob(&files)?,
        "list" => {
            let options = ListOptions::new().max_entries(10_000);
            let listing = files.list(&at("/data/wide")?, options)?;
            expect(listing.entries.len() == 10_000 && !listing.more)?;
        }
        "search" => {
            let found = files.search(&at("/data/tree")?, "needle", SearchOptions::new())?;
            expect(found.hits.len() == 400 && found.skipped.is_empty())?;
        }
        "search-large" => {
            let found = files.search(&at("/data/large")?, "needle", SearchOptions::new())?;
            expect(found.bytes == 64 << 20 && found.skipped.is_empty())?;
        }
        "tail" => {
            let before = bytes_read();
            let options = ReadOptions::new().tail(20);
            let text = files.read(&at("/data/log.txt")?, options)?.content;
            expect(text.lines().count() == 20 && text.contains("line 327680\n"))?;
            if let (Some(before), Some(after)) = (before, bytes_read()) {
                println!("{}", after - before);
            }
            return Ok(());
        }
        "walk" => {
            let options = WalkOptions::new().max_entries(20_000);
            let all = files.walk(&at("/data/tree")?, options)?;
            expect(all.entries.len() > 10_000 && all.skipped.is_empty())?;
        }
        "walk-wide" | "walk-dirs" => {
            let place = if operation == "walk-wide" {
                "/data/wider"
            } else {
                "/data/dirs"
            };
            let all = files.walk(&at(place)?, WalkOptions::new())?;
            expect(all.entries.len() == 10_000 && all.more)?;
        }
        "walk-deep" => {
            let options = WalkOptions::new().max_depth(1_000);
            let all = files.walk(&at("/data/deep")?, options)?;
            expect(all.entries.len() == 400 && all.skipped.is_empty())?;
        }
        other => return Err(format!("there is no operation {other}").into()),
    }
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        println!(
            "{}",
            peak.unwrap_or_default().trim().trim_end_matches(" kB")
        );
    }
    Ok(())
}

/// By this process so far, those of asking included.
fn bytes_read() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "))?;
    line.parse().ok()
}

fn glob(files: &FileSandbox) -> Result<(), Box<dyn Error>> {
    let path = SandboxPath::parse("/data/tree")?;
    let found = files.glob(&path, "**/*.rs", WalkOptions::new())?;
    expect(found.entries.len() == 5_000 && found.skipped.is_empty())
}

fn expect(holds: bool) -> Result<(), Box<dyn Error>> {
    if holds {
        Ok(())
    } else {
        Err("not the answer that was expected".into())
    }
}
