//! Completion in shells. The script of `forge completions` starts forge with the words of the line
//! each time that a person presses TAB, and shows the candidates that forge prints.
//!
//! Candidates come from loaded files: no program is run and nothing is written. A project that cannot
//! be loaded or is not trusted has no candidates, and no error disturbs the line.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, FromArgMatches as _};
use clap_complete::engine::{
    self, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Shells, Zsh};
use sandbox_config::{Project, WithoutDirectories, schema};

use crate::ambient::Ambient;
use crate::cli::{Cli, Global};
use crate::commands::run::model::FIRST_MODELS;
use crate::output::escape::{escape, shortened};
use crate::setup;
use crate::setup::offered_tools;
use crate::setup::presets;
use crate::state::rules_file::RulesFile;
use crate::state::stored_runs::{StoredRun, StoredRuns};
use crate::topics::TOPICS;

const NAME: &str = "forge";

/// Names the shell that asks. The underscore keeps it apart from the variables of a person.
const VARIABLE: &str = "_FORGE_COMPLETE";

/// Runs whose own files are read, and candidates that are offered.
const MAX_RUNS: usize = 100;
/// Programs that are offered.
const MAX_PROGRAMS: usize = 500;
/// Characters of the text beside a candidate.
const MAX_HELP_CHARS: usize = 80;

/// Those whose scripts ask forge. The others get a fixed list of commands and options.
const SHELLS: Shells<'static> = Shells(&[&BashWords, &Fish, &AutoloadedZsh]);

/// Prints candidates if a shell asks for them.
pub(crate) fn answer_shell() -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let directory = std::env::current_dir().ok();
    let factory = || match is_behind_program() {
        true => command_words(),
        false => with_completers(Cli::whole_command(), ""),
    };
    let answered = CompleteEnv::with_factory(factory)
        .var(VARIABLE)
        .shells(SHELLS)
        .try_complete(std::env::args_os(), directory.as_deref());
    match answered {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        // Why: bash would print the error into the line.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Writes the script that a shell loads.
pub(crate) fn write_script(
    shell: clap_complete::Shell,
    script: &mut dyn Write,
) -> std::io::Result<()> {
    if let Some(completer) = SHELLS.completer(&shell.to_string()) {
        return completer.write_registration(VARIABLE, NAME, NAME, NAME, script);
    }
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::whole_command(), NAME, &mut text);
    script.write_all(&text)
}

/// Returns `true` if the line goes on behind the program of `forge exec`, where words are not forge's
/// and options of forge are not taken.
///
/// Why: clap gives index 0 to the first and to the second value of an argument, and offers the
/// options of the command behind them.
fn is_behind_program() -> bool {
    let mut words = typed_words();
    words.pop();
    let matches = Cli::whole_command()
        .ignore_errors(true)
        .try_get_matches_from(words);
    let is_given = |exec: &clap::ArgMatches| {
        exec.try_get_raw("command")
            .is_ok_and(|values| values.is_some())
    };
    matches.is_ok_and(|matches| matches.subcommand_matches("exec").is_some_and(is_given))
}

/// Returns a command of which each word is a path, or anything.
fn command_words() -> Command {
    let words = clap::Arg::new("words")
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .add(ArgValueCompleter::new(PathCompleter::any()));
    Command::new(NAME)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(words)
}

/// Adds the completers to the arguments of a command and of its subcommands. `path` has the names of
/// the commands above it.
fn with_completers(command: Command, path: &str) -> Command {
    let with_own = command.mut_args(|argument| {
        let value = argument.get_value_names().and_then(|names| names.first());
        let id = argument.get_id().as_str();
        match value.and_then(|value| completer(path, id, value)) {
            Some(completer) => argument.add(completer),
            None => argument,
        }
    });
    let below: Vec<String> = with_own
        .get_subcommands()
        .map(|one| one.get_name().to_owned())
        .collect();
    below.iter().fold(with_own, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |below| with_completers(below, path.trim_start()))
    })
}

/// Returns the completer of a value, by its command, its argument and the name that help has for it.
fn completer(command: &str, argument: &str, value: &str) -> Option<ArgValueCompleter> {
    Some(match (command, value) {
        _ if argument == "presets" => ArgValueCompleter::new(preset),
        ("preset show" | "preset copy", "NAME") => ArgValueCompleter::new(preset),
        ("preset check", "FILE|NAME") => ArgValueCompleter::new(preset_or_path),
        ("allow", _) if argument == "remove" => ArgValueCompleter::new(own_rule),
        ("run", "WORKER") => ArgValueCompleter::new(worker_or_path),
        (_, "WORKER") | ("worker show", "NAME") => ArgValueCompleter::new(worker),
        (_, "TOOL") | ("tools call", "NAME") => ArgValueCompleter::new(tool),
        (_, "RUN") => ArgValueCompleter::new(run),
        (_, "KEY=VALUE") => ArgValueCompleter::new(setting),
        (_, "MODEL" | "PROVIDER:MODEL") => ArgValueCompleter::new(model),
        ("config get", "KEY") => ArgValueCompleter::new(key),
        ("explain", "SUBJECT") => ArgValueCompleter::new(subject),
        ("exec", "COMMAND") => ArgValueCompleter::new(program),
        ("help", "TOPIC") => ArgValueCompleter::new(topic),
        _ => return None,
    })
}

/// bash inserts candidates as they are, and splits words at `=` and `:`.
struct BashWords;

impl EnvCompleter for BashWords {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> std::io::Result<()> {
        let mut text = Vec::new();
        Bash.write_registration(variable, name, bin, completer, &mut text)?;
        let text = String::from_utf8_lossy(&text)
            .replace("-o bashdefault ", "-o bashdefault -o default ")
            .replace(
                "words[COMP_CWORD]=\"$2\"",
                "[[ ${words[COMP_CWORD]} == [=:] ]] || words[COMP_CWORD]=\"$2\"",
            );
        script.write_all(text.as_bytes())
    }

    /// Writes nothing if a candidate needs quotes: bash then completes file names by itself.
    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        let variable = |name| std::env::var(name).ok();
        let index = variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok());
        let (words, inserted_from) = join_words(words, index.unwrap_or_default());
        let index = words.len().saturating_sub(1);
        let candidates = engine::complete(command, words, index, directory)?;
        let values: Vec<String> = candidates
            .iter()
            .map(|candidate| candidate.get_value().to_string_lossy())
            .filter_map(|value| Some(value.get(inserted_from..)?.to_owned()))
            .collect();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
        if !values.iter().all(|value| value.chars().all(is_plain)) {
            return Ok(());
        }
        let separator = variable("_CLAP_IFS").unwrap_or_else(|| "\n".to_owned());
        write!(out, "{}", values.join(&separator))
    }
}

/// Returns the words up to the one at `index`, with those joined that bash splits, and the length of
/// what bash does not replace in the last one.
fn join_words(words: Vec<OsString>, index: usize) -> (Vec<OsString>, usize) {
    let mut joined: Vec<OsString> = Vec::new();
    let mut inserted_from = 0;
    let mut continues = false;
    // An empty last word may be missing.
    let last = [OsString::new()];
    for word in words.into_iter().chain(last).take(index.saturating_add(1)) {
        let is_break = word == "=" || word == ":";
        match joined.last_mut() {
            Some(last) if is_break || continues => {
                inserted_from = last.len() + if is_break { word.len() } else { 0 };
                last.push(&word);
            }
            _ => {
                inserted_from = 0;
                joined.push(word);
            }
        }
        continues = is_break;
    }
    (joined, inserted_from)
}

/// zsh runs the file `_forge` of its function path as the function itself, the first time.
struct AutoloadedZsh;

impl EnvCompleter for AutoloadedZsh {
    fn name(&self) -> &'static str {
        Zsh.name()
    }

    fn is(&self, name: &str) -> bool {
        Zsh.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> std::io::Result<()> {
        Zsh.write_registration(variable, name, bin, completer, script)?;
        writeln!(
            script,
            "if [[ $funcstack[1] == _{name} ]]; then\n    _clap_dynamic_completer_{name} \"$@\"\nfi"
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Zsh.write_complete(command, words, directory, out)
    }
}

/// Completes the name of a worker.
fn worker(typed: &OsStr) -> Vec<CompletionCandidate> {
    starting_with(typed, project().as_ref().map(workers).unwrap_or_default())
}

/// Completes what `forge run` takes first: a worker, its file, or a project's directory.
fn worker_or_path(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_run =
        |path: &Path| path.is_dir() || path.extension().is_some_and(|suffix| suffix == "worker");
    let mut candidates = worker(typed);
    candidates.extend(PathCompleter::any().filter(is_run).complete(typed));
    candidates
}

/// Completes the program of a command, by its name or its path.
fn program(typed: &OsStr) -> Vec<CompletionCandidate> {
    if typed.is_empty() || typed.as_bytes().contains(&b'/') {
        return PathCompleter::any().complete(typed);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let entries = std::env::split_paths(&path)
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .flatten();
    let names: BTreeSet<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&*typed.to_string_lossy()))
        .collect();
    let programs = names.into_iter().map(CompletionCandidate::new);
    starting_with(typed, programs.take(MAX_PROGRAMS))
}

/// Completes the name of a preset.
fn preset(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(ambient) = typed_ambient() else {
        return Vec::new();
    };
    let library = presets::library(&ambient);
    let candidates = library.names().into_iter().map(|name| {
        let preset = library.read(&name);
        candidate(&name, preset.as_ref().map_or("", |preset| preset.about()))
    });
    starting_with(typed, candidates)
}

/// Completes what `forge preset check` takes.
fn preset_or_path(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut candidates = preset(typed);
    candidates.extend(PathCompleter::file().complete(typed));
    candidates
}

/// Completes a model: that of the project, its providers, and those that a person may try first.
fn model(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut names: BTreeSet<String> = FIRST_MODELS
        .iter()
        .map(|first| first.name.to_owned())
        .collect();
    names.insert("scripted:".to_owned());
    if let Some(project) = project() {
        names.extend(project.model().map(ToString::to_string));
        names.extend(project.providers().map(|one| format!("{}:", one.name())));
    }
    starting_with(typed, names.iter().map(|name| candidate(name, "")))
}

/// Completes a rule of the person's own for this project.
fn own_rule(typed: &OsStr) -> Vec<CompletionCandidate> {
    let rules = typed_ambient()
        .and_then(|ambient| RulesFile::of_project(&ambient).ok())
        .and_then(|file| file.read().ok());
    let rules = rules.iter().flat_map(|rules| rules.iter());
    starting_with(
        typed,
        rules.map(|(rule, _)| candidate(&rule, "a rule of yours")),
    )
}

/// Completes what `forge help` takes: a topic, a command, or a subcommand of the one before.
fn topic(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut words = typed_words();
    words.pop();
    let mut command = Cli::whole_command();
    let above = words.iter().skip_while(|word| *word != "help").skip(1);
    let above: Vec<_> = above.collect();
    for word in &above {
        let below = word.to_str().and_then(|word| command.find_subcommand(word));
        match below.cloned() {
            Some(below) => command = below,
            None => return Vec::new(),
        }
    }
    let topics = TOPICS.iter().filter(|_| above.is_empty());
    let topics = topics.map(|(name, about)| candidate(name, about));
    let below: Vec<_> = command
        .get_subcommands()
        .map(|one| {
            let about = one.get_about().map(ToString::to_string);
            candidate(one.get_name(), &about.unwrap_or_default())
        })
        .collect();
    starting_with(typed, below.into_iter().chain(topics))
}

/// Completes the name of a run of this project, the newest first.
fn run(typed: &OsStr) -> Vec<CompletionCandidate> {
    let last = [candidate("last", "the newest run of this project")];
    let runs = typed_ambient().and_then(|ambient| runs(&ambient, typed));
    starting_with(typed, last.into_iter().chain(runs.unwrap_or_default()))
}

/// Completes `KEY=VALUE` of a setting.
fn setting(typed: &OsStr) -> Vec<CompletionCandidate> {
    let keys = schema::project_keys();
    let candidates = keys.iter().flat_map(|key| {
        let bare = format!("{}=", key.path());
        let words = key.words().iter();
        let pairs = words.map(|word| candidate(&format!("{bare}{word}"), key.description()));
        match typed.to_string_lossy().starts_with(&bare) {
            true => pairs.collect(),
            false => vec![candidate(&bare, key.description())],
        }
    });
    starting_with(typed, candidates)
}

/// Completes the name of a key.
fn key(typed: &OsStr) -> Vec<CompletionCandidate> {
    let keys = schema::project_keys();
    let candidates = keys
        .iter()
        .map(|key| candidate(key.path(), key.description()));
    starting_with(typed, candidates)
}

/// Completes the name of a tool.
fn tool(typed: &OsStr) -> Vec<CompletionCandidate> {
    starting_with(typed, project().as_ref().map(tools).unwrap_or_default())
}

/// Completes what `forge explain` takes: a mount, a tool, a worker or a repository.
fn subject(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(project) = project() else {
        return Vec::new();
    };
    let ceiling = project.ceiling();
    let mounts = ceiling.mounts().map(|mount| {
        let host = mount.host().to_string_lossy();
        candidate(mount.target(), &format!("{} {host}", mount.mode_word()))
    });
    let repositories = ceiling.repositories().iter().map(|repository| {
        let name = format!("repo:{}", repository.name());
        candidate(&name, "a git repository")
    });
    let named = mounts.chain(repositories);
    let candidates: Vec<_> = named
        .chain(tools(&project))
        .chain(workers(&project))
        .collect();
    starting_with(typed, candidates)
}

fn workers(project: &Project) -> Vec<CompletionCandidate> {
    let workers = project.workers().unwrap_or_default();
    let named = workers.iter();
    named
        .map(|worker| candidate(worker.name(), worker.description().unwrap_or("a worker")))
        .collect()
}

fn tools(project: &Project) -> Vec<CompletionCandidate> {
    let tools = offered_tools::tools(project.ceiling()).unwrap_or_default();
    let named = tools.iter();
    named.map(|tool| candidate(&tool.name, "a tool")).collect()
}

fn runs(ambient: &Ambient, typed: &OsStr) -> Option<Vec<CompletionCandidate>> {
    let project = setup::project_dir(ambient).ok();
    let runs = StoredRuns::read(ambient.state.as_deref()?).ok()?;
    let typed = typed.to_string_lossy();
    let named = runs
        .newest_first()
        .filter(|run| run.name.starts_with(&*typed))
        .take(MAX_RUNS);
    let of_project = named.filter_map(|run: &StoredRun| {
        let about = run.about();
        let elsewhere = about
            .as_ref()
            .zip(project.as_ref())
            .is_some_and(|(about, project)| about.project != *project);
        let command = about.and_then(|about| about.command);
        (!elsewhere).then(|| candidate(&run.name, &command.unwrap_or_default()))
    });
    Some(of_project.collect())
}

/// Returns the project that the typed words name.
fn project() -> Option<Project> {
    let ambient = typed_ambient()?;
    setup::project_silently(&ambient, WithoutDirectories::DefaultZones).ok()
}

/// Returns the words of the typed line, up to the one that is completed.
fn typed_words() -> Vec<OsString> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<OsString> = words.collect();
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok();
    let index = index.and_then(|index| index.parse().ok());
    let index = index.unwrap_or_else(|| words.len().saturating_sub(1));
    join_words(words, index).0
}

/// Returns the options of the typed line that say where the project is.
fn typed_ambient() -> Option<Ambient> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let matches = Cli::whole_command()
        .ignore_errors(true)
        .try_get_matches_from(words)
        .ok()?;
    let mut global = Global::from_arg_matches(&matches).ok()?;
    // Why: the last one may not be complete.
    global.set.clear();
    global.color = None;
    let ambient = Ambient::from_env(global);
    ambient.check().ok()?;
    Some(ambient)
}

fn candidate(value: &str, help: &str) -> CompletionCandidate {
    let help = shortened(escape(help), MAX_HELP_CHARS);
    let help = Some(help).filter(|help| !help.is_empty());
    CompletionCandidate::new(value).help(help.map(Into::into))
}

/// Returns the candidates that go on from what is typed. A name that a terminal would not show as it
/// is, is left out.
fn starting_with(
    typed: &OsStr,
    candidates: impl IntoIterator<Item = CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fits = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy();
        value.starts_with(&*typed) && escape(&value) == value
    };
    candidates.into_iter().filter(fits).collect()
}
