//! Single files through `FileSandbox`, beside std and the same system calls by hand.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;

use cap_std::ambient_authority;
use file_sandbox::{FileSandbox, Mode, Mount, ReadOptions, SandboxPath, WriteOptions};

use crate::compare::{Measure, Outcome, medians};

const ROUNDS: usize = 60;
const BATCH: u32 = 500;
/// A write takes a hundred times as long as a read.
const WRITE_BATCH: u32 = 20;

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mount = Mount::open_ambient(
        SandboxPath::parse("/data")?,
        dir.path(),
        Mode::ReadWrite,
        ambient_authority(),
    )?;
    let files = FileSandbox::new(vec![mount])?;
    Ok(vec![
        open("FileSandbox::open, one name", "byte", dir.path(), &files)?,
        open(
            "FileSandbox::open, four names",
            "d/e/f/byte",
            dir.path(),
            &files,
        )?,
        read(dir.path(), &files)?,
        stat_one(dir.path(), &files)?,
        stat_deep(dir.path(), &files)?,
        write(dir.path(), &files)?,
    ])
}

fn read(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    let host = dir.join("a.txt");
    fs::write(&host, "0123456789abcde\n".repeat(64))?;
    let path = SandboxPath::parse("/data/a.txt")?;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| {
                black_box(files.read(&path, ReadOptions::new())?);
                Ok(())
            }),
            Box::new(|| {
                black_box(fs::read_to_string(&host)?);
                Ok(())
            }),
        ],
    )?;
    Ok(Measure {
        name: "FileSandbox::read, 1 KiB",
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "std::fs::read_to_string",
            target: Some(1.2),
        },
    })
}

fn stat_one(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    let host = dir.join("stat.txt");
    fs::write(&host, "x")?;
    let path = SandboxPath::parse("/data/stat.txt")?;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| {
                black_box(files.stat(&path)?);
                Ok(())
            }),
            Box::new(|| {
                black_box(host.symlink_metadata()?);
                Ok(())
            }),
        ],
    )?;
    Ok(Measure {
        name: "FileSandbox::stat, one name",
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "lstat",
            target: Some(1.1),
        },
    })
}

fn stat_deep(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    fs::create_dir_all(dir.join("a/b/c"))?;
    let host = dir.join("a/b/c/stat.txt");
    fs::write(&host, "x")?;
    let path = SandboxPath::parse("/data/a/b/c/stat.txt")?;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| {
                black_box(files.stat(&path)?);
                Ok(())
            }),
            Box::new(|| {
                black_box(host.metadata()?);
                Ok(())
            }),
        ],
    )?;
    Ok(Measure {
        name: "FileSandbox::stat, four names",
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "stat",
            target: Some(2.4),
        },
    })
}

/// Over a file that is there, as most writes are.
fn write(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    let text = "0123456789abcde\n".repeat(256);
    let path = SandboxPath::parse("/data/written.txt")?;
    let (host, temp) = (dir.join("by-hand.txt"), dir.join(".by-hand.tmp"));
    fs::write(&host, &text)?;
    files.write(&path, &text, WriteOptions::new())?;
    let [ours, other] = medians(
        ROUNDS,
        WRITE_BATCH,
        [
            Box::new(|| {
                black_box(files.write(&path, &text, WriteOptions::new())?);
                Ok(())
            }),
            Box::new(|| {
                let mut file = fs::File::create_new(&temp)?;
                file.write_all(text.as_bytes())?;
                drop(file);
                Ok(fs::rename(&temp, &host)?)
            }),
        ],
    )?;
    Ok(Measure {
        name: "FileSandbox::write, 4 KiB",
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "a temporary and rename, by hand",
            target: Some(1.1),
        },
    })
}

#[cfg(target_os = "linux")]
fn open(
    name: &'static str,
    way: &str,
    dir: &Path,
    files: &FileSandbox,
) -> Result<Measure, Box<dyn Error>> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat2};

    let host = dir.join(way);
    if let Some(above) = host.parent() {
        fs::create_dir_all(above)?;
    }
    fs::write(&host, "x")?;
    let path = SandboxPath::parse("/data")?.join(way)?;
    let root = fs::File::open(dir)?;
    // The same as ours.
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| {
                black_box(files.open(&path)?);
                Ok(())
            }),
            Box::new(|| {
                let file = openat2(&root, way, flags, Mode::empty(), resolve)?;
                black_box(fstat(&file)?);
                drop(black_box(file));
                Ok(())
            }),
        ],
    )?;
    Ok(Measure {
        name,
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "openat2 + fstat + close, by hand",
            target: Some(1.1),
        },
    })
}

#[cfg(not(target_os = "linux"))]
fn open(name: &'static str, _: &str, _: &Path, _: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    Ok(Measure {
        name,
        outcome: Outcome::NotHere("openat2 is Linux".to_owned()),
    })
}
