//! `forge check`: checks the project file and every worker, shows the grant of each, and runs
//! nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use os_sandbox::Survey;
use sandbox_config::{
    Diagnostic, Diagnostics, Grant, Layer, Project, Review, TrustedSettings, WithoutDirectories,
};

use crate::cli::{CheckArgs, CheckFormat, Global};
use crate::commands::prelude::*;
use crate::output::describe::{self, TextLayout, Tone};
use crate::output::describe_git;
use crate::output::escape::{escape, escape_lines, escape_path};
use crate::output::findings;
use crate::setup;
use crate::setup::home_dir;

pub(crate) fn run(args: &CheckArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let format = format(&ambient.global, args)?;
    let loaded = setup::project_silently(ambient, WithoutDirectories::DefaultZones);
    let project = match loaded {
        Ok(project) => project,
        // A collector of findings wants these as well.
        Err(failure) => {
            let failure = match failure.is_untrusted() {
                true => with_findings(args, format, failure, ambient)?,
                false => without_warnings(failure, format, ambient),
            };
            if let (Some(diagnostics), true) = (failure.diagnostics(), for_programs(format)) {
                let list: Vec<Diagnostic> = diagnostics.iter().cloned().collect();
                print(&written(format, &list))?;
            }
            return Err(failure);
        }
    };
    let review = project.review();
    let shown = restricted(&ambient.global, args, &project, &review)?;
    let text = match format {
        CheckFormat::Text => {
            let described = as_text(&project, &review, ambient);
            format!("{}\n{described}", verdict(&shown, ambient.layout()))
        }
        CheckFormat::Json => as_json(&project, &review, &shown).to_string(),
        CheckFormat::Sarif | CheckFormat::Github => written(format, &shown),
    };
    if !review.is_readable() && !for_programs(format) {
        // As for an unreadable project file: the result is missing.
        return match Diagnostics::of(shown) {
            Some(diagnostics) => Err(without_warnings(diagnostics.into(), format, ambient)),
            None => Ok(ExitKind::Usage),
        };
    }
    print(&text)?;
    if matches!(format, CheckFormat::Text) && !ambient.global.quiet {
        for told in command_warnings(&project) {
            stderr::print_diagnostic(&format!("warning: {told}"));
        }
    }
    let bad = shown.iter().any(Diagnostic::is_error);
    print_findings(&ambient.global, format, shown);
    Ok(match (review.is_readable(), bad) {
        (false, true) => ExitKind::Usage,
        (true, true) => ExitKind::Negative,
        (_, false) => ExitKind::Done,
    })
}

/// Returns the failure as `--quiet` prints it: with its errors only. Programs get all findings.
fn without_warnings(failure: CliError, format: CheckFormat, ambient: &Ambient) -> CliError {
    let is_quiet = ambient.global.quiet && format == CheckFormat::Text;
    let errors = failure.diagnostics().filter(|_| is_quiet).and_then(|all| {
        let errors = all.iter().filter(|one| one.is_error());
        Diagnostics::of(errors.cloned().collect())
    });
    errors.map_or(failure, CliError::from)
}

/// Returns the failure of an untrusted project with the findings of the project as it would be
/// after an agreement. A person who decides about trust is shown the grants as well.
fn with_findings(
    args: &CheckArgs,
    format: CheckFormat,
    failure: CliError,
    ambient: &Ambient,
) -> Result<CliError, CliError> {
    let global = &ambient.global;
    let (start, without_directories) = (None, WithoutDirectories::DefaultZones);
    let project =
        setup::project_trusting(ambient, start, without_directories, TrustedSettings::Given)?;
    let review = project.review();
    let mut shown = restricted(global, args, &project, &review)?;
    // The missing agreement comes last, where a person reads on.
    let untrusted = failure.diagnostics().into_iter();
    shown.extend(untrusted.flat_map(Diagnostics::iter).cloned());
    if format == CheckFormat::Text {
        let text = as_text(&project, &review, ambient);
        let verdict = verdict(&shown, ambient.layout());
        print(&format!(
            "{verdict}\n\nIf you agree, this is in force:\n\n{text}"
        ))?;
        shown.retain(|one| one.is_error() || !global.quiet);
    }
    Ok(Diagnostics::of(shown).map_or(failure, CliError::from))
}

/// Prints the findings to standard error, unless the result has them.
fn print_findings(global: &Global, format: CheckFormat, shown: Vec<Diagnostic>) {
    match format {
        CheckFormat::Text => {
            for finding in shown.iter().filter(|one| one.is_error() || !global.quiet) {
                stderr::print_diagnostic(&format!("{}\n", escape_lines(&finding.to_string())));
            }
        }
        CheckFormat::Json => {
            if let Some(diagnostics) = Diagnostics::of(shown) {
                stderr::print(diagnostics.to_json());
            }
        }
        CheckFormat::Sarif | CheckFormat::Github => {}
    }
}

/// Returns warnings about commands: each is refused where the scan of a mount is incomplete, or
/// where the mechanism enforces no list of hosts; or not every program reaches them.
fn command_warnings(project: &Project) -> Vec<String> {
    let ceiling = project.ceiling();
    let hosts = setup::host_list_remark(ceiling);
    let programs = ceiling.confinement().programs().directories().iter();
    let absent = programs.filter(|path| !path.exists()).map(|path| {
        let path = escape_path(path);
        format!("{path} of `sandbox.programs` does not exist: commands see no programs in it")
    });
    // An unopenable mount has a finding of its own; a check makes no directory.
    let policy = ceiling.policy_as_written().ok();
    let surveys = policy.and_then(|policy| Survey::of(&policy).ok());
    let surveys = surveys.into_iter().flatten();
    hosts
        .into_iter()
        .chain(setup::survivors_remark(ceiling))
        .chain(absent)
        .chain(surveys.flat_map(|one| survey_notes(&one)))
        .collect()
}

/// Returns the notes about a mount before a command runs in it.
pub(in crate::commands) fn survey_notes(survey: &Survey) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(reason) = &survey.incomplete {
        out.push(format!(
            "every command is refused, because protected and hidden names cannot be looked for: \
             {reason}"
        ));
    }
    if let Some(first) = survey.unlisted.first() {
        let more = match survey.unlisted.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        out.push(format!(
            "commands reach nothing in {first}{more}, which cannot be listed"
        ));
    }
    out
}

fn format(global: &Global, args: &CheckArgs) -> Result<CheckFormat, CliError> {
    match (global.json, args.format) {
        (false, None) => Ok(CheckFormat::Text),
        (false, Some(format)) => Ok(format),
        (true, None | Some(CheckFormat::Json)) => Ok(CheckFormat::Json),
        (true, Some(_)) => Err(CliError::usage("--json is --format json: give one of them")),
    }
}

fn for_programs(format: CheckFormat) -> bool {
    match format {
        CheckFormat::Text | CheckFormat::Json => false,
        CheckFormat::Sarif | CheckFormat::Github => true,
    }
}

fn written(format: CheckFormat, list: &[Diagnostic]) -> String {
    match format {
        CheckFormat::Github => findings::github(list),
        CheckFormat::Text | CheckFormat::Json | CheckFormat::Sarif => {
            findings::sarif(list).to_string()
        }
    }
}

fn print(text: &str) -> Result<(), CliError> {
    match text.trim_end() {
        "" => Ok(()),
        text => print_line(text),
    }
}

/// The findings of the files that were named; of all, if none was.
fn restricted(
    global: &Global,
    args: &CheckArgs,
    project: &Project,
    review: &Review,
) -> Result<Vec<Diagnostic>, CliError> {
    if args.files.is_empty() {
        return Ok(review.findings().to_vec());
    }
    let base = global.directory.as_deref().unwrap_or(Path::new("."));
    let mut named: BTreeSet<PathBuf> = BTreeSet::new();
    for file in &args.files {
        let path = base.join(file);
        let unusable = |why: &str| {
            CliError::usage(format!("{}: {why}", escape_path(file)))
                .hint("name the project file or worker files; -C DIR starts in another project")
        };
        let path = path
            .canonicalize()
            .map_err(|error| unusable(&error.to_string()))?;
        if !belongs(project, &path) {
            return Err(unusable("not a file of this project"));
        }
        named.insert(path);
    }
    let shown = review.findings().iter().filter(|finding| {
        let path = finding.path().and_then(|path| path.canonicalize().ok());
        path.is_none_or(|path| named.contains(&path))
    });
    Ok(shown.cloned().collect())
}

fn belongs(project: &Project, path: &Path) -> bool {
    let is_project_file = project
        .file()
        .and_then(|file| file.canonicalize().ok())
        .is_some_and(|file| file == path);
    let is_worker = path
        .extension()
        .is_some_and(|extension| extension == "worker")
        && project.worker_dirs().iter().any(|dir| {
            let dir = dir.canonicalize().ok();
            dir.is_some() && dir.as_deref() == path.parent()
        });
    is_project_file || is_worker
}

/// Returns who has the directories of a project that names none, and how to name some.
fn describe_default_directories(project: &Project, home: Option<&Path>) -> Option<String> {
    let mut mounts = project.ceiling().mounts().peekable();
    mounts.peek()?;
    if !mounts.all(|mount| mount.origin().layer() == Layer::Default) {
        return None;
    }
    let instead = match (home_dir::describe(project.dir(), home), project.file()) {
        (Some(what), _) => {
            return Some(format!(
                "this is {what}, which commands are not given, and where no project can be: go to \
                 a project, or name it: -C DIR"
            ));
        }
        (None, None) => "`forge init` writes a project file",
        (None, Some(_)) => {
            "`sandbox: { root: . }` in the project file gives all of them the project"
        }
    };
    Some(format!(
        "workers, tools and MCP clients have these; `forge exec` has the working directory \
         instead; {instead}"
    ))
}

/// Describes the result in a few words.
fn verdict(shown: &[Diagnostic], layout: TextLayout) -> String {
    let errors = shown.iter().filter(|one| one.is_error()).count();
    let warnings = shown.len() - errors;
    let count = |number: usize, noun: &str| crate::run_view::count(number as u64, noun);
    match (errors, warnings) {
        (0, 0) => layout.paint("no mistakes", Tone::Good),
        (0, warnings) => layout.paint(&count(warnings, "warning"), Tone::Doubtful),
        (errors, 0) => layout.paint(&count(errors, "error"), Tone::Bad),
        (errors, warnings) => {
            let text = format!("{}, {}", count(errors, "error"), count(warnings, "warning"));
            layout.paint(&text, Tone::Bad)
        }
    }
}

fn as_text(project: &Project, review: &Review, ambient: &Ambient) -> String {
    let (global, layout) = (&ambient.global, ambient.layout());
    let file = project
        .file()
        .map_or("no project file, defaults".to_owned(), |file| {
            escape_path(file)
        });
    let ceiling = project.ceiling();
    let project_line = format!("project {} ({file})", escape(project.name()));
    let mut text = layout.wrap(&project_line, "");
    text.push('\n');
    let table = |grant| describe::mount_table(grant, "  ", layout, global.verbose > 0);
    let has_files = |grant: &Grant| grant.mounts().next().is_some();
    let own: Vec<_> = review
        .tree()
        .iter()
        .filter(|node| !has_files(ceiling) && has_files(node.grant()))
        .collect();
    if own.is_empty() {
        text.push_str(&table(ceiling));
    }
    for node in own {
        let name = escape(node.worker());
        let line = format!("no files of the project; `{name}` has its own, by the old form:");
        text.push_str(&layout.wrap(&line, "  "));
        text.push_str(&table(node.grant()));
    }
    if let Some(note) = describe_default_directories(project, ambient.home.as_deref()) {
        text.push('\n');
        text.push_str(&layout.wrap(&note, "  "));
    }
    let line = format!(
        "network {} · shell {} · approval mode {} · delegation up to {} deep",
        escape(&describe::network(ceiling)),
        describe::shell(ceiling),
        ceiling.approval().mode(),
        project.max_depth()
    );
    text.push('\n');
    text.push_str(&layout.wrap(&line, "  "));
    text.push_str("\nwhat commands and file tools are held to\n");
    text.push_str(&describe::confinement_table(ceiling, "  ", layout));
    let servers = describe_git::credentials(project).into_iter();
    let servers: Vec<Vec<String>> = servers
        .map(|(name, text)| vec![name.to_owned(), text])
        .collect();
    text.push_str(&describe::table(&servers, "  ", layout));
    if !review.tree().is_empty() {
        text.push_str("\nworkers\n");
        text.push_str(&describe::tree(review.tree(), project.entry(), layout));
    }
    text
}

fn as_json(project: &Project, review: &Review, shown: &[Diagnostic]) -> Value {
    let ceiling = project.ceiling();
    json!({
        "ok": !shown.iter().any(Diagnostic::is_error),
        "project": project.name(),
        "file": project.file().map(Path::to_string_lossy),
        "mounts": describe::mounts_json(ceiling),
        "network": describe::network(ceiling),
        "repositories": describe_git::repositories_json(ceiling),
        "credentials": describe_git::credentials_json(project),
        "shell": ceiling.shell().map(|rules| rules.rules().count()),
        "personal_rules": describe::personal_rules_json(ceiling),
        "limits": describe::limits_json(ceiling),
        "confinement": describe::confinement_json(ceiling),
        "approval_mode": ceiling.approval().mode().to_string(),
        "max_depth": project.max_depth(),
        "entry": project.entry(),
        "workers": review.workers().iter().map(|worker| json!({
            "name": worker.name(),
            "description": worker.description(),
            "file": worker.shown(),
            "calls": describe::delegates_json(worker),
        })).collect::<Vec<_>>(),
        "tree": review.tree().iter().map(describe::tree_json).collect::<Vec<_>>(),
        "findings": shown.iter().map(|finding| {
            let mut object = finding.to_json();
            object["severity"] = if finding.is_error() { "error" } else { "warning" }.into();
            object
        }).collect::<Vec<_>>(),
    })
}
