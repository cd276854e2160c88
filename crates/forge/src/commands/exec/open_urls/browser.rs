//! The person's browser.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Opens a URL with the program in `BROWSER`, or else with that of the desktop. No shell reads the URL.
pub(super) fn open(browser: Option<&OsStr>, url: &str) -> io::Result<()> {
    let own = browser.filter(|own| !own.is_empty());
    let desktop = ["xdg-open", "open"].map(OsStr::new);
    let programs: &[&OsStr] = match &own {
        Some(own) => std::slice::from_ref(own),
        None => &desktop,
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for program in programs {
        // A group of its own: Ctrl-C is for the command.
        let started = Command::new(program)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match started {
            Ok(mut child) => {
                std::thread::spawn(move || child.wait());
                return Ok(());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
