//! `forge completions` and `forge man`: what is made of the command line's own description.

use std::io::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use serde_json::json;

use crate::cli::{Cli, Completions, Global, Man};
use crate::exit::{Exit, Failure};
use crate::visible::visible_path;

const NAME: &str = "forge";

pub(crate) fn completions(args: &Completions) -> Result<Exit, Failure> {
    // Written to memory first: the library panics if its output fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    std::io::stdout()
        .lock()
        .write_all(&script)
        .map_err(Failure::stdout)?;
    Ok(Exit::Done)
}

pub(crate) fn man(global: &Global, args: &Man) -> Result<Exit, Failure> {
    let base = global.directory.clone().unwrap_or_default();
    let dir = base.join(&args.directory);
    let failed = |path: &Path, error: std::io::Error| {
        Failure::new(
            Exit::Negative,
            "man",
            format!("cannot write {}: {error}", visible_path(path)),
        )
    };
    std::fs::create_dir_all(&dir).map_err(|error| failed(&dir, error))?;
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    page(&command, &mut pages)
        .map_err(|error| Failure::new(Exit::Negative, "man", error.to_string()))?;
    let mut names = Vec::new();
    for (name, text) in pages {
        let path = dir.join(&name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
        names.push(name);
    }
    let text = if global.json {
        json!({"directory": dir.to_string_lossy(), "pages": names}).to_string()
    } else {
        names.join("\n")
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::stdout)?;
    Ok(Exit::Done)
}

/// The page of a command, and those of the commands below it.
fn page(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    // With the commands above it: forge-mcp-install.
    let name = command.get_display_name().unwrap_or(NAME);
    pages.push((format!("{name}.1"), text));
    for below in command.get_subcommands() {
        page(below, pages)?;
    }
    Ok(())
}
