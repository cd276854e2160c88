//! What the servers work on: files of several lengths, a directory of 1 000 names, and a tree of
//! 10 000 files. Every server has files of its own to write to.

use std::error::Error;
use std::fs;
use std::path::Path;

/// Lines that hold the word which is searched for, in the whole tree.
pub(crate) const NEEDLES: usize = 20;

/// Files of the tree that end in `.md`.
pub(crate) const PAGES: usize = 500;

const FILES: usize = 10_000;

pub(crate) fn plant(dir: &Path, servers: &[&str]) -> Result<(), Box<dyn Error>> {
    fs::create_dir(dir)?;
    fs::write(dir.join("small.txt"), text(1024))?;
    fs::write(dir.join("medium.txt"), text(64 * 1024))?;
    fs::write(dir.join("large.log"), text(10 << 20))?;
    for server in servers {
        fs::create_dir(dir.join(server))?;
        let edited = format!("{}the old text\n{}", text(512), text(512));
        fs::write(dir.join(server).join("edited.txt"), edited)?;
    }
    fs::create_dir(dir.join("wide"))?;
    for number in 0..1_000 {
        fs::write(dir.join(format!("wide/file-{number:04}.txt")), "")?;
    }
    for number in 0..FILES {
        let parent = dir.join(format!("tree/d{}/e{}", number / 1_000, number / 10 % 100));
        if number % 10 == 0 {
            fs::create_dir_all(&parent)?;
        }
        let end = if number % (FILES / PAGES) == 0 {
            "md"
        } else {
            "txt"
        };
        let needle = if number % (FILES / NEEDLES) == 1 {
            "a needle\n"
        } else {
            ""
        };
        let body = format!("{}{needle}", text(1024));
        fs::write(parent.join(format!("f{number}.{end}")), body)?;
    }
    Ok(())
}

/// Lines of text, `bytes` in all.
fn text(bytes: usize) -> String {
    let lines = (0..).map(|line| format!("line {line} of something that somebody wrote\n"));
    let mut text = String::with_capacity(bytes + 64);
    for line in lines {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&line);
    }
    text.truncate(bytes.saturating_sub(1));
    text.push('\n');
    text
}
