//! Directories beside the front-end's: `knowledge_base`, which workers may read, and `runs_dir`,
//! the directory of recorded runs, out of every worker's reach. And `log`: the contents of a
//! record.

use std::path::PathBuf;

use crate::grant::mount::{Mode, Mount};
use crate::grant::verdict::MountApproval;
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules::RUNS_DIR;
use crate::mount_syntax::path_scope::{HostPath, PathScope, is_outside, resolve_host_path};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields};
use crate::syntax::text::Span;
use crate::syntax::yaml::YamlEntry;

/// The contents and the directory of recorded runs.
#[derive(Clone, Debug)]
pub(crate) struct RunStorage {
    /// `None`: the state directory of the user who runs.
    pub(crate) runs_dir: Option<PathBuf>,
    pub(crate) transcripts: bool,
    /// Texts to redact.
    pub(crate) redact: Vec<String>,
}

impl Default for RunStorage {
    fn default() -> RunStorage {
        RunStorage {
            runs_dir: None,
            transcripts: true,
            redact: Vec::new(),
        }
    }
}

/// The name that the knowledge base has inside, and in workers' declarations.
const KNOWLEDGE_BASE: &str = "kb";

/// `knowledge_base`: one more mount, read-only, at `/kb`.
pub(crate) fn knowledge_base(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    mounts: &mut Vec<Mount>,
) {
    let Some((entry, host)) = directory(context, top, "knowledge_base", "knowledge base") else {
        return;
    };
    let span = &entry.node.span;
    let outside = is_outside(context, &host, Mode::ReadOnly, "knowledge_base", span);
    if let Some(problem) = no_place(mounts, &host, span) {
        context.report(problem);
        return;
    }
    mounts.push(Mount {
        // As zones: a project that was just cloned has its directories.
        create: !outside,
        approval: MountApproval::ASKING,
        ..host.mount(
            format!("/{KNOWLEDGE_BASE}"),
            Mode::ReadOnly,
            entry.key_span.origin(),
        )
    });
}

fn no_place(mounts: &[Mount], host: &HostPath, span: &Span) -> Option<Diagnostic> {
    let target = format!("/{KNOWLEDGE_BASE}");
    let in_the_way = mounts
        .iter()
        .find(|mount| mount.target == "/" || mount.target.eq_ignore_ascii_case(&target));
    if let Some(mount) = in_the_way {
        let message = format!(
            "the knowledge base would be at {target}, and the mount at {} is in its way",
            mount.target
        );
        return Some(
            DiagnosticCode::MountName
                .at(span, message)
                .note(format!("that mount: {}", mount.origin))
                .help("list the directory among the mounts instead, with `ro`"),
        );
    }
    let other = overlapping(mounts, host)?;
    let message = format!("the knowledge base and `{}` share a directory", other.name);
    Some(
        DiagnosticCode::Overlap
            .at(span, message)
            .note(format!("`{}`: {}", other.name, other.origin))
            .help("one file must have one set of rights: give each a directory of its own"),
    )
}

/// A mount that holds the directory, or that it holds.
fn overlapping<'m>(mounts: &'m [Mount], host: &HostPath) -> Option<&'m Mount> {
    mounts
        .iter()
        .find(|mount| mount.host.starts_with(&host.path) || host.path.starts_with(&mount.host))
}

/// `runs_dir` and `log`.
pub(crate) fn read_storage(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    mounts: &[Mount],
) -> RunStorage {
    let log = top.section(&mut context.reports, "log", &keys::LOG);
    let mut kept = RunStorage {
        runs_dir: runs_dir(context, top, log.as_ref(), mounts),
        ..RunStorage::default()
    };
    let Some(log) = log else {
        return kept;
    };
    if let Some(transcripts) = log.boolean(&mut context.reports, "transcripts") {
        kept.transcripts = transcripts;
    }
    kept.redact = redact(context, &log);
    kept
}

/// Every text is compared with every place where one of them begins.
const MAX_REDACTED: usize = 1_000;

/// `log.redact`: secrets for the redactor of tools.
fn redact(context: &mut LoadContext<'_>, log: &MappingFields<'_>) -> Vec<String> {
    let texts = log
        .strings(&mut context.reports, "redact")
        .unwrap_or_default();
    let texts = match log.get("redact") {
        Some(entry) => fields::at_most(
            &mut context.reports,
            &entry.node,
            "log.redact",
            &texts,
            MAX_REDACTED,
        ),
        None => &[],
    };
    let mut list = Vec::new();
    for (text, node) in texts {
        let problem = if text.len() < 8 {
            Some("it is shorter than 8 bytes, as words are")
        } else if text.len() > 4096 {
            Some("it is longer than 4096 bytes")
        } else if text.chars().any(char::is_control) {
            Some("it holds control characters")
        } else if "[redacted: text ".contains(*text) {
            Some("every placeholder holds it")
        } else {
            None
        };
        match problem {
            None => list.push((*text).to_owned()),
            // Not the text itself: it is to be seen nowhere.
            Some(why) => {
                let message =
                    format!("a text of `log.redact` cannot be kept from being seen: {why}");
                let wrong = DiagnosticCode::BadValue.at(&node.span, message);
                context.report(wrong);
            }
        }
    }
    list
}

/// Returns `true` if a project names a directory for runs or knowledge.
pub(crate) fn names_directories(top: &MappingFields<'_>) -> bool {
    let of_log = top.get("log").and_then(|entry| entry.node.entry("dir"));
    let own = top.get("runs_dir").or(top.get("knowledge_base"));
    own.or(of_log).is_some()
}

/// `runs_dir`, or `log.dir`: of two, the value of the stronger layer.
fn runs_dir(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    log: Option<&MappingFields<'_>>,
    mounts: &[Mount],
) -> Option<PathBuf> {
    let log_dir = log.and_then(|log| Some((log, log.get("dir")?)));
    let (fields, key, dotted) = match (top.get("runs_dir"), log_dir) {
        (Some(own), Some((_, other))) if own.key_span.layer() == other.key_span.layer() => {
            return context.refuse(
                DiagnosticCode::DuplicateKey
                    .at(&other.key_span, "`runs_dir` and `log.dir` are one key")
                    .related(&own.key_span, "the other one")
                    .help("keep one of them"),
            );
        }
        (Some(own), Some((log, other))) if other.key_span.layer() > own.key_span.layer() => {
            (log, "dir", "log.dir")
        }
        (None, Some((log, _))) => (log, "dir", "log.dir"),
        (_, _) => (top, "runs_dir", "runs_dir"),
    };
    let (entry, host) = directory(context, fields, key, "directory of runs")?;
    let span = &entry.node.span;
    if let Some(mount) = overlapping(mounts, &host) {
        let message = format!(
            "`{}` would show workers what is kept of runs, or let them change it",
            mount.name
        );
        return context.refuse(
            DiagnosticCode::Overlap
                .at(span, message)
                .note(format!("`{}`: {}", mount.name, mount.origin))
                .help("keep runs in a directory that no mount shares"),
        );
    }
    let elsewhere = !host.path.starts_with(context.dir) || host.through_link;
    let value = host.path.display().to_string();
    let kept = !elsewhere || context.agreed(&RUNS_DIR, dotted, &value, span);
    kept.then_some(host.path)
}

fn directory<'n>(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'n>,
    key: &'static str,
    noun: &str,
) -> Option<(&'n YamlEntry, HostPath)> {
    let text = top.string(&mut context.reports, key)?;
    let entry = top.get(key)?;
    let host = resolve_host_path(context, text, PathScope::Anywhere, noun);
    Some((entry, context.reports.take_at(host, &entry.node.span)?))
}
