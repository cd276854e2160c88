//! `docs/mechanisms.md`: what each enforcer keeps, by Landlock version and user, and every case.
//! Made from the fixtures and from hosts that are assumed, so it is the same on every machine.

use super::expect::{Case, Enforcer, Fixtures, Outcome, Reference};
use os_sandbox::{Access, Backend, Entry, HostSpec, Plan, Policy, Requirement, Support};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The Landlock versions of the page.
pub(crate) const ABIS: std::ops::RangeInclusive<u32> = 1..=7;

/// A host that has what an enforcer takes and nothing else.
pub(crate) fn assumed(enforcer: Enforcer, mounts: Backend, abi: u32, root: bool) -> Support {
    let mounts = match enforcer {
        Enforcer::Landlock => Backend::None,
        Enforcer::MountLayer | Enforcer::Both => mounts,
    };
    Support::assume(HostSpec {
        landlock_abi: match enforcer {
            Enforcer::MountLayer => 0,
            Enforcer::Landlock | Enforcer::Both => abi,
        },
        seccomp: true,
        connector: true,
        namespaces: mounts == Backend::Namespaces,
        bubblewrap: (mounts == Backend::Bubblewrap).then(|| "0.12.0".to_owned()),
        uid_zero: root,
        ..HostSpec::default()
    })
}

/// A policy that makes every promise: protected and hidden names, a narrower part, limits.
fn everything() -> Policy {
    Policy::builder()
        .mount("/project", "/", Access::ALL)
        .mount("/project/vendor", "/vendor", Access::READ | Access::EXECUTE)
        .mount("/reference", "/reference", Access::READ)
        .protect(".git/hooks")
        .hide(".env")
        .build()
        .expect("a policy")
}

fn entries(policy: &Policy, enforcer: Enforcer, abi: u32, root: bool) -> Vec<Entry> {
    entries_under(policy, enforcer, Backend::Namespaces, abi, root)
}

fn entries_under(
    policy: &Policy,
    enforcer: Enforcer,
    mounts: Backend,
    abi: u32,
    root: bool,
) -> Vec<Entry> {
    let support = assumed(enforcer, mounts, abi, root);
    let backend = backend(enforcer, mounts);
    Plan::with_mechanism(policy, &support, Requirement::BestEffort, backend)
        .expect("nothing is required")
        .entries()
        .to_vec()
}

fn backend(enforcer: Enforcer, mounts: Backend) -> Backend {
    match enforcer {
        Enforcer::Landlock => Backend::Landlock,
        Enforcer::MountLayer | Enforcer::Both => mounts,
    }
}

/// The promises of a policy that makes them all, in the order of a plan.
pub(crate) fn promises() -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    entries(&everything(), Enforcer::Both, 7, false)
        .iter()
        .map(|entry| entry.promise.name())
        .filter(|name| seen.insert(*name))
        .collect()
}

/// The page.
pub(crate) fn page(fixtures: &Fixtures) -> String {
    let mut out = String::from(HEAD);
    for enforcer in [Enforcer::Landlock, Enforcer::MountLayer, Enforcer::Both] {
        states(&mut out, enforcer);
    }
    birdcage(&mut out);
    container(&mut out);
    out.push_str(CASES);
    for (title, cases) in &fixtures.files {
        let _ = write!(out, "\n### {title}\n\n");
        out.push_str("| what is tried | promise | policy | namespaces alone | Landlock + seccomp | both | reported as |\n");
        out.push_str("|---|---|---|---|---|---|---|\n");
        for case in cases {
            row(&mut out, fixtures, case);
        }
    }
    out.push_str("\n## Reports\n\n| id | what | where it is tried |\n|---|---|---|\n");
    for (id, what) in &fixtures.ids.covered {
        let cases: Vec<&str> = fixtures
            .cases()
            .filter(|case| case.source.contains(id))
            .map(|case| case.name.as_str())
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            id,
            cell(what),
            cell(&cases.join("; "))
        );
    }
    for (id, file) in &fixtures.ids.elsewhere {
        let _ = writeln!(out, "| {id} | | `{file}` |");
    }
    for (id, why) in &fixtures.ids.not_tried {
        let _ = writeln!(out, "| {id} | not tried | {} |", cell(why));
    }
    out
}

const HEAD: &str = "\
<!-- generated from fixtures/confinement by `cargo xtask docs` -->

# What each mechanism keeps

A plan lists each promise of a policy as `enforced`, `degraded` (in part), `detected` or `absent`. A *boundary* \
that is not enforced refuses the plan; a *guard* is listed. The columns are Landlock's versions: \
1 is Linux 5.13, 2 is 5.19, 3 is 6.2, 4 is 6.7, 5 is 6.10, 6 is 6.12, 7 is 6.15. `cargo xtask test-os` \
shows that a host behaves as this page says, as root and as an ordinary user, at each version up to its own.

The policy of these tables has a root mount that can be written, a part of it that cannot, a mount \
that is readable but not executable, protected and hidden names, no network and no local sockets.
";

const BIRDCAGE: &str = "
## birdcage, with seccomp inside

An optional mechanism (the feature `birdcage` of os-sandbox, GPL-3.0-or-later), used only where it is asked for by \
name. It is a column of [conformance](conformance.md) and none of the cases below: a set of its own, \
and those of ordinary commands, of survivors and of the self-test, run under it where it is built.

";

/// What birdcage keeps, without Landlock and with it.
fn birdcage(out: &mut String) {
    out.push_str(BIRDCAGE);
    out.push_str("| promise | rank | no Landlock | 7 |\n|---|---|---|---|\n");
    let of = |landlock_abi: u32, uid_zero: bool| {
        let support = Support::assume(HostSpec {
            landlock_abi,
            seccomp: true,
            birdcage: true,
            uid_zero,
            ..HostSpec::default()
        });
        let policy = everything();
        Plan::with_mechanism(
            &policy,
            &support,
            Requirement::BestEffort,
            Backend::Birdcage,
        )
        .expect("nothing is required")
        .entries()
        .to_vec()
    };
    let tables = [0, 7].map(|abi| [of(abi, true), of(abi, false)]);
    for (index, entry) in tables[0][0].iter().enumerate() {
        let _ = write!(out, "| {} | {} |", entry.promise, entry.promise.rank());
        for [root, user] in &tables {
            match (root[index].state, user[index].state) {
                (root, user) if root == user => {
                    let _ = write!(out, " {user} |");
                }
                (root, user) => {
                    let _ = write!(out, " {user} (root: {root}) |");
                }
            }
        }
        out.push('\n');
    }
}

const CONTAINER: &str = "
## A container, with seccomp

An optional mechanism (the crate `os-sandbox-docker`), used only where it is asked for by name: a \
fresh container of a Docker engine for each command, removed at its end. It is a column of \
[conformance](conformance.md) and none of the cases below; `crates/os-sandbox-docker/tests/docker` runs a set of \
its own against a real engine.

";

/// What a container keeps.
fn container(out: &mut String) {
    out.push_str(CONTAINER);
    out.push_str("| promise | rank | state | by | remark |\n|---|---|---|---|---|\n");
    let support = Support::assume(HostSpec {
        docker: true,
        ..HostSpec::default()
    });
    let policy = everything();
    let plan = Plan::with_mechanism(&policy, &support, Requirement::BestEffort, Backend::Docker)
        .expect("nothing is required");
    for entry in plan.entries() {
        let by: Vec<String> = entry.by.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            entry.promise,
            entry.promise.rank(),
            entry.state,
            by.join(", "),
            entry.reason.as_deref().unwrap_or_default()
        );
    }
}

const CASES: &str = "
## Cases

What a command tries under each enforcer. `deny`: it fails. `refused to plan`: no command is \
started, because of that promise. `refused to start`: the start itself is refused. `listed`: it works, and plan \
and receipt say that the promise is not kept. `closed`: the policy would allow it and the enforcer \
does not; the README of os-sandbox says so. Nothing is allowed that the policy denies and no plan lists.
";

fn states(out: &mut String, enforcer: Enforcer) {
    let _ = write!(out, "\n## {}\n\n", title(enforcer));
    let abis: Vec<u32> = match enforcer {
        Enforcer::MountLayer => vec![0],
        Enforcer::Landlock | Enforcer::Both => ABIS.collect(),
    };
    out.push_str("| promise | rank |");
    for abi in &abis {
        match abi {
            0 => out.push_str(" no Landlock |"),
            abi => {
                let _ = write!(out, " {abi} |");
            }
        }
    }
    out.push_str("\n|---|---|");
    out.push_str(&"---|".repeat(abis.len()));
    out.push('\n');
    let policy = everything();
    let tables: Vec<[Vec<Entry>; 2]> = abis
        .iter()
        .map(|abi| [true, false].map(|root| entries(&policy, enforcer, *abi, root)))
        .collect();
    for name in promises() {
        let find = |entries: &[Entry]| {
            entries
                .iter()
                .find(|entry| entry.promise.name() == name)
                .cloned()
        };
        let rank =
            find(&tables[0][0]).map_or(String::new(), |entry| entry.promise.rank().to_string());
        let _ = write!(out, "| {name} | {rank} |");
        for pair in &tables {
            let state = |at: usize| {
                find(&pair[at]).map_or("absent".to_owned(), |entry| entry.state.to_string())
            };
            let (root, user) = (state(0), state(1));
            if root == user {
                let _ = write!(out, " {root} |");
            } else {
                let _ = write!(out, " {user} (root: {root}) |");
            }
        }
        out.push('\n');
    }
    let plans: Vec<&str> = abis
        .iter()
        .map(|abi| {
            let plain = Policy::builder()
                .mount("/project", "/", Access::ALL)
                .build()
                .expect("a policy");
            let mounts = Backend::Namespaces;
            let support = assumed(enforcer, mounts, *abi, false);
            let backend = backend(enforcer, mounts);
            match Plan::with_mechanism(&plain, &support, Requirement::Enforce, backend) {
                Ok(_) => "planned",
                Err(_) => "refused",
            }
        })
        .collect();
    let _ = writeln!(
        out,
        "| *a policy with one writable mount* | | {} |",
        plans.join(" | ")
    );
}

fn title(enforcer: Enforcer) -> &'static str {
    match enforcer {
        Enforcer::MountLayer => "Namespaces alone",
        Enforcer::Landlock => "Landlock and seccomp alone",
        Enforcer::Both => "Namespaces, with Landlock and seccomp inside",
    }
}

fn row(out: &mut String, fixtures: &Fixtures, case: &Case) {
    let reference = match case.reference {
        Reference::Allow => "allow",
        Reference::Deny => "deny",
    };
    let _ = write!(
        out,
        "| {} | {} | {reference} |",
        cell(&case.name),
        case.promise.as_deref().unwrap_or("")
    );
    for enforcer in Enforcer::ALL {
        let [root, user] = [true, false].map(|root| fixtures.expect(case, enforcer, root));
        if root == user {
            let _ = write!(out, " {root} |");
        } else {
            let _ = write!(out, " {user} (root: {root}) |");
        }
    }
    let source: Vec<&str> = case.source.iter().map(String::as_str).collect();
    let _ = writeln!(out, " {} |", source.join(", "));
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The promise table of the fixtures against plans for assumed hosts.
pub(crate) fn complaints(fixtures: &Fixtures) -> Vec<String> {
    let mut out = Vec::new();
    for case in fixtures.cases() {
        let Some(promise) = &case.promise else {
            continue;
        };
        let policy = match super::policy::assumed(&case.policy) {
            Ok(policy) => policy,
            Err(error) => {
                out.push(format!("{:?}: {error}", case.name));
                continue;
            }
        };
        for enforcer in Enforcer::ALL {
            for abi in ABIS {
                for root in [true, false] {
                    let outcome = fixtures.expect(case, enforcer, root).at(abi);
                    for mounts in [Backend::Namespaces, Backend::Bubblewrap] {
                        let entries = entries_under(&policy, enforcer, mounts, abi, root);
                        if let Err(why) = fits(&entries, promise, outcome) {
                            let enforcer = enforcer.name();
                            let name = &case.name;
                            out.push(format!(
                                "{name:?}, {enforcer} ({mounts}) at ABI {abi}: {why}"
                            ));
                        }
                    }
                }
            }
        }
    }
    out
}

/// Whether a plan says of a promise what the outcome takes.
pub(crate) fn fits(entries: &[Entry], promise: &str, outcome: Outcome) -> Result<(), String> {
    let entry = entries.iter().find(|entry| entry.promise.name() == promise);
    let boundary = entry.is_some_and(|entry| entry.promise.rank() == os_sandbox::Rank::Boundary);
    let gap = entry.is_none_or(Entry::is_gap);
    let good = match outcome {
        Outcome::Allow | Outcome::Closed => true,
        // A guard may be kept in part: what is tried here is the part that is.
        Outcome::Deny => entry.is_some() && !(boundary && gap),
        Outcome::RefusedToStart => entry.is_some(),
        Outcome::Listed => gap && !boundary && entry.is_some(),
        Outcome::RefusedToPlan => gap && boundary,
    };
    if good {
        Ok(())
    } else {
        Err(format!(
            "expected {}, and the plan says: {entry:?}",
            outcome.name()
        ))
    }
}
