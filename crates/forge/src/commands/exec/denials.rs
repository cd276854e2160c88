//! Denials of a command as lines for a person, with the keys that would allow them.

use std::path::Path;

use forge_tools::{describe_denials, relevant_denials};
use os_sandbox::{Access, Denial, DenialReason, DeniedOperation, Enforcement};
use sandbox_config::{Project, SharedState};

use super::hints::{HintContext, is_of_kernel};
use super::{proposals::RuleOffers, touched};
use crate::output::escape::escape_path;
use crate::output::stderr;

/// Prints every denial of a command, with effect or without.
pub(super) fn print_all(receipt: &Enforcement, hints: &HintContext<'_>) {
    if let Some(touched) = &receipt.touched {
        touched::describe(touched)
            .into_iter()
            .for_each(stderr::print);
    }
    for denial in &receipt.denials {
        stderr::print(format!("refused: {}", with_program(denial)));
    }
    if receipt.more_denials {
        stderr::print("refused: more, which are not listed");
    }
    if receipt.denials.is_empty() {
        stderr::print(match receipt.reports_denials {
            true if receipt.touched.is_some() => "refused: nothing",
            true => "refused: no change of a file and no connection",
            false => "refused: not known, because this mechanism does not report it",
        });
    }
    hints.print(&receipt.denials.iter().collect::<Vec<_>>());
}

/// Prints the smallest grants that would have let the refused attempts pass.
pub(super) fn print_grants(receipt: &Enforcement, hints: &HintContext<'_>) {
    let all = &receipt.denials[..];
    let of_workers = if hints.is_of_worker { all } else { &[] };
    let offers = RuleOffers::new(all, of_workers, hints.project, hints.home);
    let lines = describe_grants(&offers, hints.project);
    lines.into_iter().for_each(stderr::print);
}

/// Returns a line for each command that lifts refusals.
pub(crate) fn describe_grants(offers: &RuleOffers, project: &Project) -> Vec<String> {
    let lines = offers.commands(project).into_iter();
    let mut lines: Vec<String> = lines.map(|line| format!("grant: {line}")).collect();
    match offers.without.len() {
        0 => {}
        rest => lines.push(format!(
            "grant: none is proposed for {rest} of the refusals"
        )),
    }
    lines
}

/// Prints the denials of a command that has ended, and one hint for each kind of them. No setting
/// allows files of the kernel and names of `shared` state: programs probe them and keep caches
/// there. After a success the first are left out, and the second counted. Local sockets are left out
/// as well: the name of a user is first asked from a daemon (nscd(8)).
pub(super) fn print(
    receipt: &Enforcement,
    is_success: bool,
    shared: &[SharedState],
    hints: &HintContext<'_>,
) {
    // Its output went to the terminal.
    let mut denials = relevant_denials(&receipt.denials, None);
    if is_success {
        let is_probe = |denial: &Denial| {
            is_of_kernel(&denial.object) || denial.reason == DenialReason::LocalSocketsClosed
        };
        denials.retain(|denial| !is_probe(denial));
        for state in shared {
            let before = denials.len();
            denials.retain(|denial| !is_in(denial, state));
            match before - denials.len() {
                0 => {}
                count => stderr::print(format!(
                    "refused: {count} change{} in {}, listed by: forge explain --from-run last",
                    if count == 1 { "" } else { "s" },
                    escape_path(&state.host)
                )),
            }
        }
    }
    let writable: Vec<String> = receipt
        .mounts
        .iter()
        .filter(|mount| mount.access.contains(Access::WRITE))
        .map(|mount| mount.inside.clone())
        .collect();
    for line in describe_denials(&denials, &writable, receipt.more_denials) {
        // The line about those that have none.
        let is_about_more = line.starts_with("refused: more than ") || line.ends_with(" more");
        stderr::print(match is_about_more {
            true => format!("{line}, listed by: forge explain --from-run last"),
            false => line,
        });
    }
    denials.retain(|denial| !shared.iter().any(|state| is_in(denial, state)));
    hints.print(&denials);
}

/// Prints the refused changes of existing protected names, of a command that succeeded. Why: git exits
/// with 0 after a checkout that could not replace a file, and leaves the tree of two commits.
pub(super) fn print_unchanged(receipt: &Enforcement, hints: &HintContext<'_>) {
    let all = receipt.denials.iter();
    let denials: Vec<&Denial> = all.filter(|denial| keeps_existing(denial)).collect();
    let lines = describe_denials(&denials, &[], false);
    lines.into_iter().for_each(stderr::print);
    hints.print(&denials);
}

/// Returns `true` for a refused change of the content or the name of an existing protected file or
/// directory.
fn keeps_existing(denial: &Denial) -> bool {
    use DeniedOperation::{Move, Remove, Write};
    let is_guard = |reason: &DenialReason| {
        matches!(reason, DenialReason::Protected(_) | DenialReason::Hidden(_))
    };
    let is_guarded = match &denial.reason {
        DenialReason::Holds { reasons, .. } => reasons.iter().any(is_guard),
        reason => is_guard(reason),
    };
    is_guarded
        && matches!(denial.operation, Write | Remove | Move)
        && Path::new(&denial.object).symlink_metadata().is_ok()
}

fn is_in(denial: &Denial, state: &SharedState) -> bool {
    Path::new(&denial.object).starts_with(&state.host)
}

/// Returns a line about the hidden paths in the mounts of a command that failed. Why: a program that
/// reads a whole directory meets them, and says only that a file cannot be read. `None` if every
/// read was reported, and none was one of them.
pub(super) fn describe_hidden(receipt: &Enforcement, hints: &HintContext<'_>) -> Option<String> {
    let is_told = |denial: &Denial| matches!(denial.reason, DenialReason::Hidden(_));
    let [first, more @ ..] = receipt.hidden.as_slice() else {
        return None;
    };
    let is_observed = receipt.touched.is_some() && !receipt.more_denials;
    if is_observed || receipt.denials.iter().any(is_told) {
        return None;
    }
    let (others, are) = match more {
        [] => ("", "is"),
        _ => (" and others", "are"),
    };
    let hint = hints.own.hint_to_show(&first.pattern, &first.path);
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    Some(format!(
        "note: if a file could not be read: commands cannot read {}{others}, which {are} \
         hidden{hint}",
        first.path
    ))
}

/// Returns a denial with the program that tried.
pub(crate) fn with_program(denial: &Denial) -> String {
    let program = match denial.program.as_str() {
        "" => "a program that has ended",
        name => name,
    };
    format!("{denial}, to {program}")
}

/// Returns `true` if the network was refused as a whole.
pub(super) fn is_network_off(receipt: &Enforcement) -> bool {
    receipt.unreachable > 0
        || receipt
            .denials
            .iter()
            .any(|denial| is_connect(denial) && denial.reason == DenialReason::NetworkOff)
}

pub(super) fn is_connect(denial: &Denial) -> bool {
    denial.operation == DeniedOperation::Connect
}
