//! Directories beside the front-end's: `knowledge_base`, which workers are given to read, and
//! `runs_dir`, where what is kept of runs stands, out of every worker's reach. And `log`: what is
//! kept.

use std::path::PathBuf;

use crate::front::place::{Host, Reach, is_outside, place};
use crate::grant::file_rules::FileRules;
use crate::grant::mount::{Mode, Mount};
use crate::grant::verdict::MountApproval;
use crate::project::walk::Walk;
use crate::project::widening::RUNS_DIR;
use crate::syntax::diagnostic::{Code, Diagnostic};
use crate::syntax::fields::Fields;
use crate::syntax::keys;
use crate::syntax::text::Span;
use crate::syntax::yaml::Entry;

/// What is kept of runs, and where.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// None: in the state directory of whoever runs.
    pub(crate) runs_dir: Option<PathBuf>,
    pub(crate) transcripts: bool,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            runs_dir: None,
            transcripts: true,
        }
    }
}

/// The name that the knowledge base has inside, and in workers' declarations.
const KNOWLEDGE_BASE: &str = "kb";

/// `knowledge_base`: one more mount, read-only, at `/kb`.
pub(crate) fn knowledge_base(walk: &mut Walk<'_>, top: &Fields<'_>, mounts: &mut Vec<Mount>) {
    let Some((entry, host)) = directory(walk, top, "knowledge_base", "knowledge base") else {
        return;
    };
    let span = &entry.node.span;
    let outside = is_outside(walk, &host, Mode::ReadOnly, "knowledge_base", span, false);
    if let Some(problem) = no_place(mounts, &host, span) {
        walk.reports.add(problem);
        return;
    }
    mounts.push(Mount {
        name: KNOWLEDGE_BASE.to_owned(),
        target: format!("/{KNOWLEDGE_BASE}"),
        host: host.path,
        part: None,
        anchor: host.anchor,
        // As zones: a project that was just cloned has its directories.
        create: !outside,
        mode: Mode::ReadOnly,
        suffixes: None,
        max_file_bytes: None,
        file_rules: FileRules::default(),
        approval: MountApproval::ASKING,
        usable: true,
        way: Vec::new(),
        own_files: Vec::new(),
        origin: entry.key_span.origin(),
        mode_origin: entry.key_span.origin(),
    });
}

fn no_place(mounts: &[Mount], host: &Host, span: &Span) -> Option<Diagnostic> {
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
            Diagnostic::error(Code::MountName, message)
                .at(span)
                .note(format!("that mount: {}", mount.origin))
                .help("list the directory among the mounts instead, with `ro`"),
        );
    }
    let other = overlapping(mounts, host)?;
    let message = format!("the knowledge base and `{}` share a directory", other.name);
    Some(
        Diagnostic::error(Code::Overlap, message)
            .at(span)
            .note(format!("`{}`: {}", other.name, other.origin))
            .help("one file must have one set of rights: give each a directory of its own"),
    )
}

/// A mount that holds the directory, or that it holds.
fn overlapping<'m>(mounts: &'m [Mount], host: &Host) -> Option<&'m Mount> {
    mounts
        .iter()
        .find(|mount| mount.host.starts_with(&host.path) || host.path.starts_with(&mount.host))
}

/// `runs_dir` and `log`.
pub(crate) fn kept(walk: &mut Walk<'_>, top: &Fields<'_>, mounts: &[Mount]) -> Kept {
    let mut kept = Kept {
        runs_dir: runs_dir(walk, top, mounts),
        ..Kept::default()
    };
    let log = top
        .get("log")
        .and_then(|entry| Fields::open(&mut walk.reports, &entry.node, "log", &keys::LOG));
    if let Some(transcripts) = log.and_then(|log| log.boolean(&mut walk.reports, "transcripts")) {
        kept.transcripts = transcripts;
    }
    kept
}

fn runs_dir(walk: &mut Walk<'_>, top: &Fields<'_>, mounts: &[Mount]) -> Option<PathBuf> {
    let (entry, host) = directory(walk, top, "runs_dir", "directory of runs")?;
    let span = &entry.node.span;
    if let Some(mount) = overlapping(mounts, &host) {
        let message = format!(
            "`{}` would show workers what is kept of runs, or let them change it",
            mount.name
        );
        walk.reports.add(
            Diagnostic::error(Code::Overlap, message)
                .at(span)
                .note(format!("`{}`: {}", mount.name, mount.origin))
                .help("keep runs in a directory that no mount shares"),
        );
        return None;
    }
    let elsewhere = !host.path.starts_with(walk.dir) || host.through_link;
    let value = host.path.display().to_string();
    let kept = !elsewhere || walk.agreed(&RUNS_DIR, "runs_dir", &value, span);
    kept.then_some(host.path)
}

fn directory<'n>(
    walk: &mut Walk<'_>,
    top: &Fields<'n>,
    key: &'static str,
    noun: &str,
) -> Option<(&'n Entry, Host)> {
    let text = top.string(&mut walk.reports, key)?;
    let entry = top.get(key)?;
    match place(walk, text, Reach::Anywhere, noun) {
        Ok(host) => Some((entry, host)),
        Err(problem) => {
            walk.reports.add(problem.at(&entry.node.span));
            None
        }
    }
}
