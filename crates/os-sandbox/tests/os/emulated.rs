//! Hosts that have less: Landlock held at each older version, and no mechanism at all. What such a
//! plan still promises must hold; what it does not is refused unless asked for.

use crate::fixture::{Mechanism, World, open, said};
use crate::report::Report;
use os_sandbox::{Backend, Command, Exit, Plan, Promise, PromiseState, Requirement, Support};

/// Every version up to this kernel's.
pub(crate) fn landlock() -> usize {
    let mut report = Report::new(Mechanism::Landlock);
    for abi in 1..=Support::detect().landlock_abi() {
        report.case(&format!("ABI {abi}"), one(abi));
    }
    report.failures()
}

fn one(abi: u32) -> Result<(), String> {
    let world = World::new(Mechanism::Landlock);
    let policy = world.policy().build().map_err(|error| error.to_string())?;
    let support = Support::detect().with_landlock_at_most(abi);
    let enforced = Plan::with_mechanism(&policy, &support, Requirement::Enforce, Backend::Landlock);
    if enforced.is_ok() != (abi >= 6) {
        return Err(format!("{enforced:?}"));
    }
    let plan = Plan::with_mechanism(
        &policy,
        &support,
        Requirement::BestEffort,
        Backend::Landlock,
    )
    .map(open)
    .map_err(|error| error.to_string())?;
    let kept = |promise: Promise| {
        plan.plan()
            .entries()
            .iter()
            .any(|entry| entry.promise == promise && entry.state == PromiseState::Enforced)
    };
    for (op, refused) in [
        ("read {outside}/file", kept(Promise::ReadOutside)),
        ("write {outside}/new", true),
        ("truncate-path {outside}/file", kept(Promise::WriteOutside)),
        ("delete {outside}/file", true),
        (
            "open-write /proc/sys/kernel/core_pattern",
            kept(Promise::KernelSettings),
        ),
        ("listen", kept(Promise::Network)),
        ("write {ro}/new", true),
        ("write {rw}/new", false),
    ] {
        if op.starts_with("truncate") && !refused {
            // The gap is real, and the file is needed.
            continue;
        }
        let words: Vec<String> = op.split_whitespace().map(str::to_owned).collect();
        let said = world.probe(&plan, &words);
        if said.starts_with("errno ") != refused {
            return Err(format!("{op}: {said}"));
        }
    }
    world.unharmed()?;
    // Without scopes the supervisor still ends what does not defend itself.
    let lock = format!("{}/lock", world.inside("rw"));
    let output = Command::new(&plan, "/probe")
        .args(["--probe", "hold", &lock, "double+exit"])
        .output();
    let said = said(output);
    let file =
        std::fs::File::open(world.host("rw").join("lock")).map_err(|error| error.to_string())?;
    file.try_lock()
        .map_err(|error| format!("{said}: the holder lives on: {error}"))
}

/// Asked for by name, a command runs without confinement, and the plan says so.
pub(crate) fn none() -> usize {
    let mut report = Report::new(Mechanism::Landlock);
    report.case("no mechanism", unconfined());
    report.failures()
}

fn unconfined() -> Result<(), String> {
    let world = World::new(Mechanism::Landlock);
    let policy = world.policy().build().map_err(|error| error.to_string())?;
    let support = Support::detect();
    let refused = Plan::with_mechanism(&policy, &support, Requirement::Enforce, Backend::None);
    if refused.is_ok() {
        return Err("enforced by nothing".to_owned());
    }
    let plan = Plan::with_mechanism(&policy, &support, Requirement::BestEffort, Backend::None)
        .map(open)
        .map_err(|error| error.to_string())?;
    let read = ["read".to_owned(), "{outside}/file".to_owned()];
    for (said, want) in [
        (world.probe(&plan, &read), "ok outside content"),
        (world.probe(&plan, &["fds".to_owned()]), "ok 0 1 2"),
        (
            world.probe(&plan, &["env".to_owned()]),
            "ok HOME LANG LOGNAME OS_SANDBOX PATH TERM TMPDIR USER",
        ),
    ] {
        if said != want {
            return Err(said);
        }
    }
    let output = world
        .sh(&plan, "sleep 600 & cat ro/file; exit 4")
        .map_err(|error| error.to_string())?;
    if output.exit != Exit::Code(4) || output.stdout.text() != "ro content" {
        return Err(format!("{output:?}"));
    }
    Ok(())
}
