//! `forge allow`: the user's own rules for this project, which answer its questions about commands
//! and name hosts that its commands reach, and directories that they see.
//! The change is shown before it is written; the file is replaced whole, under a lock.

use std::path::Path;

use sandbox_config::{
    ConfigOrigin, Diagnostic, PersonalRules, Project, TrustedSettings, WithoutDirectories,
};

use sandbox_names::lexical::normalize;
use sandbox_network::HostPattern;

use crate::cli::{AllowArgs, Global};
use crate::commands::log::refused::RefusedAttempts;
use crate::commands::prelude::*;
use crate::commands::project::offers::Offers;
use crate::output::escape::shell_word;
use crate::setup;
use crate::state::rules_file::RulesFile;

pub(crate) fn run(args: &AllowArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let file = RulesFile::of_project(ambient)?;
    if args.list {
        let rules = file.read()?;
        return file.list(ambient, &rules);
    }
    for rule in &args.rules {
        check_kind(rule)?;
        check_directory(rule, ambient)?;
    }
    let wanted = match args.last {
        false => {
            let rules = args.rules.iter();
            rules.map(|rule| as_written(rule, ambient)).collect()
        }
        true => file.choose_refused(ambient, args.yes)?,
    };
    if wanted.is_empty() && args.remove.is_none() {
        return Ok(ExitKind::Done);
    }
    loop {
        // Why: a person takes time to answer, and the lock would block others meanwhile.
        let held = if args.yes { Some(file.lock()?) } else { None };
        let rules = file.read()?;
        let new = match &args.remove {
            None => rules.with(&file.project, &wanted)?,
            Some(rule) => rules
                .without(&as_written(rule, ambient))
                .ok_or_else(|| no_rule(rule))?,
        };
        if new == rules.text() {
            return file.done(&ambient.global, "unchanged", None, &[]);
        }
        let mut notes = match args.remove {
            None => file.review(ambient, rules.text(), &new)?,
            Some(_) => Vec::new(),
        };
        notes.extend(other_meanings(&args.rules));
        let diff = file.diff(rules.text(), &new);
        if !args.yes
            && let Err(end) = file.confirm(ambient, &diff, &notes)
        {
            return end;
        }
        let is_written = match held {
            Some(_) => file.write(&new).map(|()| true)?,
            // After a concurrent change it is shown again.
            None => file.replace(rules.text(), &new)?,
        };
        if is_written {
            // The question has shown it.
            let shows = args.yes || ambient.global.json;
            let (diff, notes) = match shows {
                true => (Some(&*diff), &*notes),
                false => (None, &[][..]),
            };
            return file.done(&ambient.global, "written", diff, notes);
        }
    }
}

impl RulesFile {
    pub(crate) fn of_project(ambient: &Ambient) -> Result<Self, CliError> {
        let project = setup::project_dir(ambient)?;
        let dir = ambient.personal_rules().ok_or_else(CliError::no_home)?;
        Ok(RulesFile::new(project, dir))
    }

    /// Returns warnings about the new rules: that they run anything, that the project blocks the
    /// same commands, that it has no shell.
    fn review(&self, ambient: &Ambient, old: &str, new: &str) -> Result<Vec<String>, CliError> {
        let project = setup::project_trusting(
            ambient,
            None,
            WithoutDirectories::DefaultZones,
            TrustedSettings::Given,
        )?;
        let rules = PersonalRules::parse(&self.path().to_string_lossy(), new)?;
        let is_added = |line: u32| usize::try_from(line).is_ok_and(|n| n > old.lines().count());
        let added = |finding: &Diagnostic| finding.line().is_some_and(is_added);
        let unusable = rules.unusable_paths(&exec_project(ambient)?);
        if let Some(finding) = unusable.iter().find(|finding| added(finding)) {
            return Err(CliError::usage(finding.message()));
        }
        let findings = rules.review(project.ceiling());
        let findings = findings.iter().filter(|finding| added(finding));
        let mut notes: Vec<String> = findings.map(|one| one.message().to_owned()).collect();
        let mut commands = rules.command_origins().map(ConfigOrigin::line);
        if project.ceiling().shell().is_none() && commands.any(is_added) {
            notes.push(
                "this project offers no shell, so nothing is asked about commands".to_owned(),
            );
        }
        Ok(notes)
    }

    /// Returns the rules for what the last run was refused and the person picks. Without a person,
    /// it lists them; with `all`, it returns all.
    fn choose_refused(&self, ambient: &Ambient, all: bool) -> Result<Vec<String>, CliError> {
        let state = ambient.state_dir()?;
        let refused = RefusedAttempts::of_last_run(state, &self.project)?;
        let offers = Offers::new(&refused, &exec_project(ambient)?, ambient);
        let rules = offers.rules();
        if ambient.global.json && !all {
            print_json(&offers.to_json(&self.project))?;
            return Ok(Vec::new());
        }
        if !ambient.global.json {
            offers.print(all)?;
        }
        if all || rules.is_empty() {
            return Ok(rules);
        }
        if ambient.reason_not_to_ask(ambient.global.no_input).is_some() {
            stderr::print("hint: allow one of them: forge allow RULE");
            return Ok(Vec::new());
        }
        let explanation = "The numbers of rules above, with spaces or commas between them; all: every \
                           one of them; Enter: nothing is allowed.";
        let question = "Allow which? [numbers, or all; enter for none] ";
        let line = setup::ask_line(question, explanation)?;
        picked(&rules, &line)
    }

    /// Shows the change and asks. An error is how the command ends without it.
    fn confirm(
        &self,
        ambient: &Ambient,
        diff: &str,
        notes: &[String],
    ) -> Result<(), Result<ExitKind, CliError>> {
        stderr::print(diff.trim_end());
        for note in notes {
            stderr::print(format_args!("warning: {}", escape(note)));
        }
        let hint = "pass --yes to write exactly this";
        setup::require_person(ambient, " whether to write this", hint).map_err(Err)?;
        let explanation = "y: the change above is written, and holds for you in this project; any other \
                           answer: nothing is written. `forge allow --remove RULE` takes a rule back.";
        let answer = setup::ask_line("Write this? [y/N] ", explanation);
        match answer.map_err(Err)?.as_str() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(self.done(&ambient.global, "refused", None, &[])),
        }
    }

    fn list(&self, ambient: &Ambient, rules: &PersonalRules) -> Result<ExitKind, CliError> {
        let text = if ambient.global.json {
            let rules: Vec<Value> = rules
                .iter()
                .map(|(rule, origin)| json!({ "rule": rule, "line": origin.line() }))
                .collect();
            let (project, file) = (self.project.to_string_lossy(), self.path());
            json!({ "project": project, "file": file.to_string_lossy(), "rules": rules })
                .to_string()
        } else if rules.iter().next().is_none() {
            format!("you have no rules for {}", escape_path(&self.project))
        } else {
            let rows: Vec<Vec<String>> = rules
                .iter()
                .map(|(rule, origin)| vec![escape(&rule), escape(&origin.to_string())])
                .collect();
            crate::output::describe::table(&rows, "", ambient.layout())
                .trim_end()
                .to_owned()
        };
        print_line(&text)?;
        Ok(ExitKind::Done)
    }

    fn done(
        &self,
        global: &Global,
        state: &str,
        diff: Option<&str>,
        notes: &[String],
    ) -> Result<ExitKind, CliError> {
        if global.json {
            let file = self.path();
            print_line(
                json!({
                    "project": self.project.to_string_lossy(),
                    "file": file.to_string_lossy(),
                    "state": state,
                    "diff": diff,
                    "notes": notes,
                })
                .to_string(),
            )?;
        } else {
            let mut text = match state {
                "refused" => format!("nothing was written to {}", self.shown()),
                _ => format!("{state}: {}", self.shown()),
            };
            if let Some(diff) = diff {
                text.push('\n');
                text.push_str(diff.trim_end());
            }
            print_line(&text)?;
            for note in notes {
                stderr::print(format_args!("warning: {}", escape(note)));
            }
        }
        Ok(match state {
            "refused" => ExitKind::Negative,
            _ => ExitKind::Done,
        })
    }
}

/// Kinds of rules about a path.
const PATH_KINDS: [&str; 3] = ["programs", "read", "write"];

/// Refuses a rule that would be one about a command, and is meant as something else: `net:example.com`,
/// `list`.
fn check_kind(rule: &str) -> Result<(), CliError> {
    const FLAGS: [&str; 2] = ["last", "list"];
    if FLAGS.contains(&rule) {
        let text = format!("`{rule}` is not a rule");
        return Err(CliError::usage(text).hint(format!("did you mean `forge allow --{rule}`?")));
    }
    let is_word = |kind: &str| kind.len() > 1 && kind.chars().all(|c| c.is_ascii_lowercase());
    match rule.split_once(':') {
        Some((kind, _)) if is_word(kind) && kind != "host" && !PATH_KINDS.contains(&kind) => {
            let text = format!("unknown kind of rule `{kind}:`");
            let hint = "a rule is a command such as `npm test *`, or begins with host:, read:, write: or programs:";
            Err(CliError::usage(text).hint(hint))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a directory without a kind, which would be a rule about a program of that name.
fn check_directory(rule: &str, ambient: &Ambient) -> Result<(), CliError> {
    let full = as_written(&format!("read:{rule}"), ambient);
    let is_dir = (full.strip_prefix("read:")).is_some_and(|path| Path::new(path).is_dir());
    if !rule.contains('/') || !is_dir {
        return Ok(());
    }
    let text = format!("`{}` is a directory, and not a command", escape(rule));
    let full = shell_word(&full);
    let hint =
        format!("to show it to commands: forge allow {full}; to let them write there, write:");
    Err(CliError::usage(text).hint(hint))
}

/// Returns warnings about rules that are about commands and look as if something else were meant.
fn other_meanings(rules: &[String]) -> Vec<String> {
    let is_plain = |rule: &String| !rule.contains([' ', ':', '/']);
    let mut notes = Vec::new();
    if rules.len() > 1 && rules.iter().all(is_plain) {
        let words = rules.join(" ");
        notes.push(format!(
            "{} rules, each about a program without arguments; one command of these words is one rule: \
             forge allow '{words}'",
            rules.len()
        ));
    }
    let is_host = |rule: &&String| {
        let (_, last) = rule.rsplit_once('.').unwrap_or_default();
        let is_name = last.len() > 1 && last.chars().all(|c| c.is_ascii_lowercase());
        is_name && is_plain(rule) && HostPattern::parse(rule).is_ok()
    };
    notes.extend(rules.iter().filter(is_host).map(|host| {
        format!("`{host}` is a rule about a program; a host is allowed by: forge allow host:{host}")
    }));
    notes
}

/// Returns a rule as the file has it: with the whole path of a directory. Shells leave a `~` alone behind
/// a colon.
fn as_written(rule: &str, ambient: &Ambient) -> String {
    let Some((kind, path)) = rule.split_once(':') else {
        return rule.to_owned();
    };
    let path = path.trim();
    let home = ambient.home.as_deref();
    let full = match (path.strip_prefix('~'), home) {
        _ if path.is_empty() || !PATH_KINDS.contains(&kind) => return rule.to_owned(),
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ if path.starts_with(['~', '/']) => return rule.to_owned(),
        _ => {
            let start = ambient.global.directory.clone().unwrap_or_default();
            let Ok(typed) = std::path::absolute(start.join(path)) else {
                return rule.to_owned();
            };
            normalize(&typed)
        }
    };
    full.to_str()
        .map_or_else(|| rule.to_owned(), |full| format!("{kind}:{full}"))
}

/// Loads the project as `forge exec` does.
pub(super) fn exec_project(ambient: &Ambient) -> Result<Project, CliError> {
    let trust = TrustedSettings::Given;
    setup::project_trusting(ambient, None, WithoutDirectories::WholeDirectory, trust)
}

/// Returns the rules with these numbers, separated by spaces or commas.
fn picked(rules: &[String], answer: &str) -> Result<Vec<String>, CliError> {
    if answer == "all" {
        return Ok(rules.to_vec());
    }
    let words = answer.split([' ', ',']).filter(|word| !word.is_empty());
    let pick = |word: &str| {
        let number = word
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let rule = number.and_then(|number| rules.get(number)).cloned();
        rule.ok_or_else(|| {
            let text = format!("`{}` is none of the numbers", escape(word));
            CliError::usage(text)
        })
    };
    words.map(pick).collect()
}

fn no_rule(rule: &str) -> CliError {
    CliError::usage(format!(
        "you have no rule `{}` for this project",
        escape(rule)
    ))
    .hint("`forge allow --list` lists them")
}
