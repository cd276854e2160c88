//! `forge completions` and `forge man`: pages generated from the command line's description.

use std::io::Write as _;
use std::path::{Component, Path};

use clap::{Arg, Command};
use file_sandbox::cap_std::{ambient_authority, fs as cap};

use crate::cli::{Cli, CompletionsArgs, Global, ManArgs};
use crate::commands::prelude::*;
use crate::completion;
use crate::written_file::WrittenFile;

const NAME: &str = "forge";

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitKind, CliError> {
    let mut script = Vec::new();
    completion::write_script(args.shell, &mut script).map_err(CliError::stdout)?;
    std::io::stdout()
        .lock()
        .write_all(&script)
        .map_err(CliError::stdout)?;
    Ok(ExitKind::Done)
}

pub(crate) fn man(global: &Global, args: &ManArgs) -> Result<ExitKind, CliError> {
    let base = global.directory.clone().unwrap_or_default();
    let dir = base.join(&args.directory);
    let failed = |path: &Path, error: std::io::Error| {
        CliError::negative(
            "man",
            format!("cannot write {}: {error}", escape_path(path)),
        )
    };
    let base = match base.as_os_str().is_empty() {
        true => Path::new("."),
        false => &base,
    };
    let opened = open_or_make_dir(base, &args.directory).map_err(|error| failed(&dir, error))?;
    let command = Cli::whole_command();
    let mut pages = Vec::new();
    page(&command, &mut pages).map_err(|error| CliError::negative("man", error.to_string()))?;
    let mut names = Vec::new();
    for (name, text) in pages {
        let path = dir.join(&name);
        let directory = opened.try_clone();
        let file = directory.and_then(|dir| WrittenFile::open_in(dir, (&name).into()));
        let written = file.and_then(|file| file.replace(&text));
        written.map_err(|error| failed(&path, error))?;
        names.push(name);
    }
    let object = json!({"directory": dir.to_string_lossy(), "pages": names});
    print_result(global, &object, &names.join("\n"))
}

/// Opens a directory, without a link that leads out of `base`, and makes it if it does not exist.
fn open_or_make_dir(base: &Path, path: &Path) -> std::io::Result<cap::Dir> {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if path.is_absolute() || climbs {
        let path = base.join(path);
        std::fs::create_dir_all(&path)?;
        return cap::Dir::open_ambient_dir(path, ambient_authority());
    }
    let base = cap::Dir::open_ambient_dir(base, ambient_authority())?;
    base.create_dir_all(path)?;
    base.open_dir(path)
}

/// The page of a command, and those of the commands below it.
fn page(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    // Why: the library's own synopsis leaves out the values of options.
    text.extend_from_slice(synopsis(command).as_bytes());
    man.render_description_section(&mut text)?;
    if command.get_opts().any(|option| !option.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if command.get_after_long_help().is_some() {
        man.render_extra_section(&mut text)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut text)?;
    }
    // With the commands above it: forge-mcp-install.
    let name = command.get_display_name().unwrap_or(NAME);
    pages.push((format!("{name}.1"), text));
    for below in command.get_subcommands() {
        page(below, pages)?;
    }
    Ok(())
}

/// Returns the synopsis of a command: its own options with their values, the others in one word,
/// and the arguments.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut words = vec![format!("\\fB{}\\fR", roff(name))];
    let own = |option: &&Arg| !option.is_hide_set() && !option.is_global_set();
    for option in command.get_opts().filter(own) {
        let long = option.get_long().map(|long| format!("--{long}"));
        let flag = long.or_else(|| option.get_short().map(|short| format!("-{short}")));
        let mut word = format!("\\fB{}\\fR", roff(&flag.unwrap_or_default()));
        for value in option.get_value_names().unwrap_or_default() {
            let takes_none = option
                .get_num_args()
                .is_some_and(|count| count.min_values() == 0);
            let value = format!("\\fI{}\\fR", roff(value));
            word.push_str(&match takes_none {
                true => format!(" [{value}]"),
                false => format!(" {value}"),
            });
        }
        words.push(match option.is_required_set() {
            true => word,
            false => format!("[{word}]"),
        });
    }
    let flags = command.get_arguments().filter(|argument| {
        !argument.is_positional() && !argument.get_action().takes_values() && own(argument)
    });
    for flag in flags.filter_map(Arg::get_long) {
        words.push(format!("[\\fB{}\\fR]", roff(&format!("--{flag}"))));
    }
    words.push("[\\fIGLOBAL OPTIONS\\fR]".to_owned());
    for positional in command.get_positionals() {
        let names = positional.get_value_names().unwrap_or_default();
        let names: Vec<String> = names.iter().map(|name| roff(name)).collect();
        let mut word = format!("\\fI{}\\fR", names.join(" "));
        if positional
            .get_num_args()
            .is_some_and(|count| count.max_values() > 1)
        {
            word.push_str("...");
        }
        words.push(match positional.is_required_set() {
            true => word,
            false => format!("[{word}]"),
        });
    }
    if command.has_subcommands() {
        words.push(match command.is_subcommand_required_set() {
            true => "\\fICOMMAND\\fR".to_owned(),
            false => "[\\fICOMMAND\\fR]".to_owned(),
        });
    }
    format!(".SH SYNOPSIS\n{}\n", words.join(" "))
}

/// Returns a text in which roff changes nothing.
fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
