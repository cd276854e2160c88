//! The self-test, tested: it holds under every mechanism and policy, it leaves nothing behind, and
//! without any confinement it says of each try that it worked, so that it is able to fail.

use crate::fixture::{Mechanism, World, open};
use crate::report::Report;
use os_sandbox::{
    Access, Backend, Expected, Network, Observation, Plan, Policy, PolicyBuilder, Proof,
    Requirement, Support, UnixSockets,
};

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let cases: [(&str, Build, &[&str]); 5] = [
        (
            "plain",
            |world| world.policy(),
            &["write in a read-only mount", "write in a writable mount"],
        ),
        (
            "guards",
            |world| world.policy().protect(".git/hooks").hide(".env"),
            &["change a protected name", "read a hidden file"],
        ),
        (
            "unix sockets",
            |world| world.policy().unix_sockets(UnixSockets::Open),
            &["make a local socket"],
        ),
        (
            "unrestricted network",
            |world| world.policy().network(Network::Unrestricted),
            &["make an internet socket"],
        ),
        (
            "a mount around the temporary directory",
            |_| {
                let dir = std::fs::canonicalize(std::env::temp_dir()).expect("a path");
                Policy::builder().mount(dir, "/temporary", Access::ALL)
            },
            &["read a file outside"],
        ),
    ];
    for (name, build, wanted) in cases {
        let outcome = one(mechanism, build, wanted);
        report.case(&format!("proof: {name}"), outcome);
    }
    if mechanism.moves() {
        let build: Build = |world| world.policy().network(Network::Loopback);
        let wanted = [
            "make an internet socket",
            "connect to its caller's loopback",
        ];
        report.case("proof: loopback", one(mechanism, build, &wanted));
    }
    if mechanism.has_mount_layer() {
        let build: Build = |world| {
            let part = world.host("rw").join("part");
            let access = Access::READ | Access::EXECUTE;
            world.policy().mount(part, "/rw/part", access)
        };
        let wanted = ["write in a read-only part of a mount"];
        report.case("proof: narrower", one(mechanism, build, &wanted));
    }
}

type Build = fn(&World) -> PolicyBuilder;

fn one(mechanism: Mechanism, build: Build, wanted: &[&str]) -> Result<(), String> {
    let world = world(mechanism);
    let policy = build(&world).build().map_err(|error| error.to_string())?;
    let plan = mechanism.plan(&policy);
    let proof = plan.prove().map_err(|error| error.to_string())?;
    if !proof.holds() {
        return Err(proof.to_string());
    }
    for name in wanted {
        if !proof.checks.iter().any(|check| check.name == *name) {
            return Err(format!("nobody tried to {name}:\n{proof}"));
        }
    }
    if proof.enforcement.policy != policy.hash() {
        return Err("the receipt is of another policy".to_owned());
    }
    untouched(&world)
}

/// A world with a protected and a hidden name, and a directory to be narrowed.
fn world(mechanism: Mechanism) -> World {
    let world = World::new(mechanism);
    let rw = world.host("rw");
    for dir in [".git/hooks", "part"] {
        std::fs::create_dir_all(rw.join(dir)).expect("a directory");
    }
    std::fs::write(rw.join(".env"), "TOKEN=secret").expect("a file");
    world
}

fn untouched(world: &World) -> Result<(), String> {
    world.unharmed()?;
    let mut names: Vec<String> = std::fs::read_dir(world.host("rw"))
        .map_err(|error| error.to_string())?
        .map(|entry| entry.expect("an entry").file_name().display().to_string())
        .collect();
    names.sort();
    if names != [".env", ".git", "file", "link", "part", "pinned"] {
        return Err(format!("left in the mount: {names:?}"));
    }
    Ok(())
}

/// Every older Landlock: what it does not keep is listed, and the rest holds.
pub(crate) fn older() -> usize {
    let mut report = Report::new(Mechanism::Landlock);
    for abi in 1..=Support::detect().landlock_abi() {
        let support = Support::detect().with_landlock_at_most(abi);
        let outcome = best_effort(&support, Backend::Landlock).and_then(|proof| {
            let gap = |name: &str| {
                let found = proof.checks.iter().find(|check| check.name == name);
                found.map(|check| (check.expected, check.seen))
            };
            let truncated = gap("empty a file outside");
            let open = Some((Expected::Listed, Observation::Worked));
            if !proof.holds() || (truncated == open) != (abi < 3) {
                return Err(proof.to_string());
            }
            Ok(())
        });
        report.case(&format!("proof under ABI {abi}"), outcome);
    }
    report.failures()
}

/// No confinement: everything is listed, and nearly everything works. A try that were refused here
/// would prove nothing elsewhere.
pub(crate) fn unconfined() -> usize {
    let mut report = Report::new(Mechanism::Landlock);
    let outcome = best_effort(&Support::detect(), Backend::None).and_then(|proof| {
        if !proof.holds() || !proof.to_string().contains("listed  ") {
            return Err(proof.to_string());
        }
        let refused: Vec<&str> = proof
            .checks
            .iter()
            .filter(|check| check.seen != Observation::Worked)
            .map(|check| check.name)
            .filter(|name| !depends_on_the_host(name))
            .collect();
        if refused.is_empty() {
            Ok(())
        } else {
            Err(format!("refused by nobody: {refused:?}"))
        }
    });
    report.case("proof without a mechanism", outcome);
    report.failures()
}

/// Tries that need privileges or parts of the kernel, or that the launcher alone prevents.
fn depends_on_the_host(name: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    let always = [
        "see a descriptor not meant for it",
        "see a variable not meant for it",
        "leave a process behind",
        "make an IPv6 socket",
        "make a multipath TCP socket",
        "make a socket to the hypervisor",
        "set up io_uring",
        "make a user namespace",
        "use bpf, perf or keyrings",
        "open a file of /sys for writing",
        "open /proc/sysrq-trigger",
        "open a kernel setting for writing",
    ];
    let privileged = ["mount a file system", "keep capabilities"];
    always.contains(&name) || (!root && privileged.contains(&name))
}

fn best_effort(support: &Support, backend: Backend) -> Result<Proof, String> {
    let world = world(Mechanism::Landlock);
    let policy = world
        .policy()
        .protect(".git/hooks")
        .hide(".env")
        .build()
        .map_err(|error| error.to_string())?;
    let plan = Plan::with_mechanism(&policy, support, Requirement::BestEffort, backend)
        .map(open)
        .map_err(|error| error.to_string())?;
    let proof = plan.prove().map_err(|error| error.to_string())?;
    untouched(&world)?;
    Ok(proof)
}
