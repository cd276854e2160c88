//! `forge exec`: one command, confined as the project says. The exit code is the
//! command's own.

mod ask_hosts;
mod command_builder;
mod container;
pub(crate) mod denials;
mod end_report;
mod exec_log;
mod execution;
pub(crate) mod hints;
mod identity;
mod identity_files;
mod json_report;
mod missing;
mod open_urls;
mod outside_repository;
mod own_path;
mod personal_git;
mod planning;
pub(crate) mod proposals;
mod receipt;
mod session_summary;
mod site;
mod touched;

use std::path::{Path, PathBuf};
use std::thread;

use os_sandbox::{Policy, Sandbox};
use sandbox_config::Project;

use crate::ambient::Ambient;
use crate::cli::{ExecArgs, Global, TraceReport};
use crate::commands::reviewed;
use crate::exit::{CliError, ExitKind};
use crate::output::stderr;
use crate::setup::host_programs::HostPrograms;
use crate::setup::{
    self, authorities,
    presets::{self, ActivePresets},
};
use crate::terminal::HeldStops;
use ask_hosts::CommandHostQuestions;
use exec_log::ExecLog;
use execution::PlannedStart;
use identity::CommitterQuestion;
use identity_files::Identity;
use personal_git::PersonalGit;
use site::{ExecSite, SiteRequest, not_in_container};

pub(crate) fn run(args: &ExecArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    check_trace(args)?;
    thread::scope(|scope| {
        if !args.no_os_sandbox {
            // The plan waits for the result. Without the thread it detects.
            let detection = thread::Builder::new().name("support".to_owned());
            let _detecting = detection.spawn_scoped(scope, || {
                let _held = HeldStops::install();
                Sandbox::warm_up();
                setup::host_support();
            });
        }
        confine(args, ambient)
    })
}

/// Returns the programs of the host that no command of the project can change.
fn host_programs(
    project: &Project,
    presets: Option<&ActivePresets>,
    ambient: &Ambient,
) -> HostPrograms {
    let mut programs = HostPrograms::of_project(ambient, project);
    programs.leave_out(presets.iter().flat_map(|presets| &presets.dirs().state));
    programs
}

/// Plans the command and executes it.
fn confine(args: &ExecArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    // Any failure before the command runs is 125, a mistake in the configuration included.
    let refused = |failure: CliError| failure.exits(ExitKind::ExecRefused);
    let (project, presets) =
        presets::load_project(&ambient.global, args, ambient).map_err(refused)?;
    let active = presets.as_ref();
    let programs = || host_programs(&project, active, ambient);
    if active.is_some_and(ActivePresets::has_keys_outside) {
        authorities::check(ambient, &programs()).map_err(refused)?;
    }
    let committer = caller_directory(&ambient.global)
        .map(|here| CommitterQuestion::ask(here, programs, ambient));
    ask_hosts::check(args, ambient)?;
    let stops = HeldStops::install().map_err(|error| signals(&error))?;
    // Opened first: a command that cannot be recorded does not run.
    let mut kept = ExecLog::open(&project, args, ambient).map_err(refused)?;
    let committer = committer.map(CommitterQuestion::answer);
    let git = personal_git(args, committer.as_ref().ok(), ambient).map_err(refused)?;
    let chosen = caller_directory(&ambient.global).and_then(|here| {
        let request = SiteRequest {
            args,
            project: &project,
            presets: active,
            git: git.as_ref(),
            log: &kept,
            ambient,
            here: &here,
        };
        request.choose()
    });
    let (site, runner) = match chosen {
        Ok(chosen) => chosen,
        Err(failure) => return Err(kept.refused(failure)),
    };
    let allowed = kept.allowed(runner, args.no_os_sandbox, grounds(&site, active));
    allowed.map_err(refused)?;
    match site {
        ExecSite::Here(plan, mut of) => {
            ask_hosts::warn_of_a_shared_terminal(args, &plan, &ambient.global);
            let review = of.review.take();
            let start = PlannedStart {
                plan,
                project: &project,
                of: &of,
                committer: committer?,
                git: git.as_ref(),
                review,
                presets: active,
                stops,
            };
            let asking = || CommandHostQuestions::new(args, &project, &of.grant, ambient, &kept);
            let questions = args.ask_hosts.then(asking).transpose()?;
            execution::execute(args, start, ambient, kept, questions)
        }
        ExecSite::Container(context) => match not_in_container(args, active) {
            None => container::execute(&ambient.global, args, &context, kept),
            Some(failure) => Err(kept.refused(failure)),
        },
    }
}

/// Returns the facts about presets and review that the log has beside the approval.
fn grounds(site: &ExecSite, presets: Option<&ActivePresets>) -> impl Iterator<Item = String> {
    let (plan, review) = match site {
        ExecSite::Here(plan, context) => (Some(plan), context.review.as_ref()),
        ExecSite::Container(_) => (None, None),
    };
    let of_presets = presets.map(|presets| presets.describe(plan));
    of_presets.into_iter().chain(review.map(reviewed::describe))
}

/// Writes the person's settings of git for a command. A worker's command gets none.
fn personal_git(
    args: &ExecArgs,
    committer: Option<&Identity>,
    ambient: &Ambient,
) -> Result<Option<PersonalGit>, CliError> {
    let Some(committer) = committer.filter(|_| args.worker.is_none() && !args.no_os_sandbox) else {
        return Ok(None);
    };
    let personal = &committer.personal;
    if let Some(note) = personal.note_unsigned(&args.command)
        && !ambient.global.quiet
    {
        stderr::print(note);
    }
    PersonalGit::create(personal, ambient.state_dir()?).map_err(|error| {
        let text = format!("the directory for your settings of git: {error}");
        CliError::exec_refused("state", text)
    })
}

fn signals(error: &std::io::Error) -> CliError {
    CliError::exec_refused("signals", error.to_string())
}

/// Refuses options that contradict each other.
fn check_trace(args: &ExecArgs) -> Result<(), CliError> {
    if args.full && args.trace == Some(TraceReport::Off) {
        return Err(
            CliError::usage("`--trace=off` reports nothing, and `--full` asks for more")
                .hint("leave out one of them"),
        );
    }
    Ok(())
}

/// Returns the caller's directory by the kernel's name for it.
fn caller_directory(global: &Global) -> Result<PathBuf, CliError> {
    let start = global.directory.as_deref().unwrap_or(Path::new("."));
    start.canonicalize().map_err(|error| {
        let text = format!("{}: {error}", start.display());
        CliError::exec_refused("exec", text)
    })
}

/// Returns the path inside the sandbox of the caller's working directory.
fn directory_inside(policy: &Policy, here: &Path) -> Result<String, CliError> {
    policy.directory_inside(here).ok_or_else(|| {
        let shown: Vec<String> = policy
            .mounts()
            .iter()
            .filter(|mount| !mount.access().is_none())
            .map(|mount| mount.host().display().to_string())
            .collect();
        let shown = match shown.as_slice() {
            [] => "the project shows commands no directory".to_owned(),
            [one] => format!("the project shows {one}: go there, or name it with -C"),
            several => format!(
                "the project shows {}: go to one of them, or name it with -C",
                several.join(", ")
            ),
        };
        CliError::exec_refused(
            "mount.unavailable",
            format!(
                "the command cannot start here: {} is in no directory that the project shows",
                here.display()
            ),
        )
        .hint(shown)
    })
}
