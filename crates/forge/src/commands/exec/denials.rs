//! Denials of a command as lines for a person, with the keys that would allow them.

use std::path::Path;

use forge_tools::{describe_denials, relevant_denials};
use os_sandbox::{Access, Denial, DenialReason, DeniedOperation, Enforcement};
use sandbox_config::SharedState;
use sandbox_names::{HIDDEN, PROTECTED};

use super::{proposals::Proposals, touched};
use crate::output::escape::escape_path;
use crate::output::stderr;

const ALLOW_HINT: &str = "hint: allow it for yourself, in this project: forge allow --last";

/// Prints every denial of a command, whatever came of it. `home`: the person's home directory.
pub(super) fn print_all(receipt: &Enforcement, read_only: bool, home: Option<&Path>) {
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
            true => "refused: nothing that would have changed something",
            false => "refused: not known, because this mechanism does not report it",
        });
    }
    // Full reports end with grants.
    if receipt.touched.is_none() {
        print_hints(&receipt.denials.iter().collect::<Vec<_>>(), read_only, home);
    }
}

/// Prints the smallest grants that would have let the refused attempts pass.
pub(super) fn print_grants(receipt: &Enforcement, home: Option<&Path>) {
    let proposals = Proposals::new(&receipt.denials, home);
    for line in proposals.lines() {
        stderr::print(format!("grant: {line}"));
    }
    match proposals.without().len() {
        0 => {}
        count => stderr::print(format!(
            "grant: none is proposed for {count} of the refusals"
        )),
    }
}

/// Prints the denials of a command that has ended, and one hint for each kind of them. No setting
/// allows files of the kernel and names of `shared` state: programs probe them and keep caches
/// there. After a success the first are left out, and the second counted.
pub(super) fn print(
    receipt: &Enforcement,
    is_success: bool,
    shared: &[SharedState],
    read_only: bool,
    home: Option<&Path>,
) {
    // Its output went to the terminal.
    let mut denials = relevant_denials(&receipt.denials, None);
    if is_success {
        denials.retain(|denial| !is_of_kernel(&denial.object));
        for state in shared {
            let before = denials.len();
            denials.retain(|denial| !is_in(denial, state));
            match before - denials.len() {
                0 => {}
                count => stderr::print(format!(
                    "refused: {count} changes of protected names in {}, listed by: forge log show last",
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
        stderr::print(line);
    }
    denials.retain(|denial| !shared.iter().any(|state| is_in(denial, state)));
    print_hints(&denials, read_only, home);
}

fn is_in(denial: &Denial, state: &SharedState) -> bool {
    Path::new(&denial.object).starts_with(&state.host)
}

/// Returns a line about the hidden paths in the mounts of a command that failed. Why: a program that
/// reads a whole directory meets them, and says only that a file cannot be read.
pub(super) fn describe_hidden(receipt: &Enforcement) -> Option<String> {
    let is_told = |denial: &Denial| matches!(denial.reason, DenialReason::Hidden(_));
    let [first, more @ ..] = receipt.hidden.as_slice() else {
        return None;
    };
    if receipt.denials.iter().any(is_told) {
        return None;
    }
    let others = if more.is_empty() { "" } else { " and others" };
    let hint = hidden_hint(&first.pattern);
    Some(format!(
        "note: commands cannot read {}{others}, which is hidden ({hint})",
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

fn print_hints(denials: &[&Denial], read_only: bool, home: Option<&Path>) {
    let mut hints: Vec<String> = Vec::new();
    for denial in denials {
        let hint = match denial.reason {
            DenialReason::ReadOnly(_) if read_only => Some("leave out --read-only".to_owned()),
            _ => key_hint(denial),
        };
        let Some(hint) = hint else { continue };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    for hint in hints {
        stderr::print(format!("hint: {hint}"));
    }
    // A person's rule does not open a mount of the project.
    let outside = denials
        .iter()
        .filter(|denial| !matches!(denial.reason, DenialReason::ReadOnly(_)));
    let outside: Vec<Denial> = outside.copied().cloned().collect();
    if !Proposals::new(&outside, home).personal_rules().is_empty() {
        stderr::print(ALLOW_HINT);
    }
}

/// Returns `true` if the network was refused as a whole.
pub(super) fn is_network_off(receipt: &Enforcement) -> bool {
    receipt.unreachable > 0
        || receipt
            .denials
            .iter()
            .any(|denial| is_connect(denial) && denial.reason == DenialReason::NetworkOff)
}

/// Devices and the kernel's own files are in no mount.
fn is_of_kernel(object: &str) -> bool {
    ["/dev/", "/proc/", "/sys/"]
        .iter()
        .any(|top| object.starts_with(top))
}

fn is_connect(denial: &Denial) -> bool {
    denial.operation == DeniedOperation::Connect
}

/// Names a key of a project for a built-in pattern, and the option for one command.
fn once_or_always(purpose: &str, key: &str, pattern: &str) -> String {
    format!("{purpose}: `sandbox.{key}: [{pattern:?}]`; for once: -c 'sandbox.{key}=[{pattern}]'")
}

fn hidden_hint(pattern: &str) -> String {
    match HIDDEN.contains(&pattern) {
        true => once_or_always("to show that name", "show", pattern),
        false => format!("to show that name: take {pattern:?} out of `hide`"),
    }
}

/// Returns the key that would allow it. `None` if another line says it, or nothing would.
pub(crate) fn key_hint(denial: &Denial) -> Option<String> {
    let text = match &denial.reason {
        DenialReason::Outside if is_of_kernel(&denial.object) => return None,
        DenialReason::Outside | DenialReason::ReadOnly(_) => {
            "to let it write there: a mount of that directory in `sandbox.mounts`".to_owned()
        }
        DenialReason::Protected(pattern) => match PROTECTED.contains(&pattern.as_str()) {
            true => once_or_always("to let it change that name", "unprotect", pattern),
            false => format!("to let it change that name: take {pattern:?} out of `protect`"),
        },
        DenialReason::Hidden(pattern) => hidden_hint(pattern),
        DenialReason::GitConfig(_) => {
            "to change git's configuration in that way: run that git command without forge"
                .to_owned()
        }
        DenialReason::ProtectedPart => "to let it change files of git: `git.mode`".to_owned(),
        DenialReason::LocalSocketsClosed => {
            "to let it use local sockets: for once, -c sandbox.unix_sockets=open".to_owned()
        }
        DenialReason::NetworkOff if !is_connect(denial) => {
            "under Landlock alone a command has no network, not even for servers of its own; \
             namespaces give it one: forge doctor"
                .to_owned()
        }
        DenialReason::SocketNotNamed => {
            "to let it connect: the socket's path in `sandbox.unix_sockets`".to_owned()
        }
        _ => return None,
    };
    Some(text)
}
