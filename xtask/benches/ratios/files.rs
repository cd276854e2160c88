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
        open(dir.path(), &files)?,
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

/// Opening alone has no name in the interface: reading one byte is opening and one read. (An
/// empty file would be read as one of unknown size, like those in /proc.)
#[cfg(target_os = "linux")]
fn open(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat2};

    fs::write(dir.join("byte"), "x")?;
    let path = SandboxPath::parse("/data/byte")?;
    let root = fs::File::open(dir)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| {
                black_box(files.read(&path, ReadOptions::new())?);
                Ok(())
            }),
            Box::new(|| {
                let file = openat2(&root, "byte", flags, Mode::empty(), resolve)?;
                black_box(fstat(&file)?);
                let mut bytes = vec![0; 16];
                let got = rustix::io::read(&file, &mut bytes)?;
                bytes.truncate(got);
                black_box(String::from_utf8(bytes)?);
                Ok(())
            }),
        ],
    )?;
    Ok(Measure {
        name: "FileSandbox::read, 1 byte",
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "openat2 + fstat + read, by hand",
            target: Some(1.1),
        },
    })
}

#[cfg(not(target_os = "linux"))]
fn open(_: &Path, _: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    Ok(Measure {
        name: "FileSandbox::read, 1 byte",
        outcome: Outcome::NotHere("openat2 is Linux".to_owned()),
    })
}
