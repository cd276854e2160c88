//! Every key by which the user file limits a project has a row here with an example, and every key
//! of projects has a role in a user file.

use std::fmt::Write as _;

use crate::grant::limits::LIMITS as LIMIT_KEYS;
use crate::grant::verdict::{Risk, Verdict};
use crate::keys;
use crate::loading::sources::{Sources, TrustedSettings};
use crate::loading::user_limits::{ROWS, UserKeyRole, role};
use crate::syntax::key_table::KeyTable;
use crate::syntax::key_table::shape::ValueShape;
use crate::{Diagnostics, Mode, Project, load};

/// Key, user file, a project that asks for more, and the project that asks for the remaining
/// rights.
type UserLimitCase = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const LIMITS: &[UserLimitCase] = &[
    ("network", "network: false", "network: true", "network: false"),
    ("network", "network: { allow: [a.org] }", "network: true", "network: { allow: [a.org] }"),
    ("network", "network: { allow: ['*.a.org'] }", "network: { allow: [b.a.org, c.org] }", "network: { allow: [b.a.org] }"),
    ("network", "network: { allow: [a.org] }", "sandbox: { network: true }", "network: { allow: [a.org] }"),
    ("approval.mode", "approval: { mode: manual }", "approval: { mode: auto }", "approval: { mode: manual }"),
    ("approval.mode", "approval: { mode: manual }", "approval: { mode: approve_all }", "approval: { mode: manual }"),
    ("approval.require_user_permission.*", "approval: { require_user_permission: { shell: true } }",
        "approval: { require_user_permission: { shell: false } }", "approval: { require_user_permission: { shell: true } }"),
    ("approval.require_user_permission_by_risk.*", "approval: { require_user_permission_by_risk: { exec: true } }",
        "approval: { require_user_permission_by_risk: { exec: false } }", ""),
    ("shell.rules", "shell: { rules: [{ pattern: 'curl *', approval: blocked }] }",
        "shell: { rules: [{ pattern: '*', approval: ask }] }",
        "shell: { rules: [{ pattern: '*', approval: ask }, { pattern: 'curl *', approval: blocked }] }"),
    ("shell.rules", "shell: { rules: [{ pattern: 'curl *', approval: blocked }] }",
        "shell: { default: ask }", "shell: { default: ask, rules: [{ pattern: 'curl *', approval: blocked }] }"),
    ("approval.timeout_s", "approval: { timeout_s: 9 }", "approval: { timeout_s: 10 }", "approval: { timeout_s: 9 }"),
    ("approval.timeout_s", "approval: { timeout_s: 9 }", "", "approval: { timeout_s: 9 }"),
    ("shell.allow", "shell: { allow: [git] }", "shell: { default: ask, allow: [git, rm] }", "shell: { default: ask, allow: [git] }"),
    ("shell.allow", "shell: { allow: [git] }", "shell: { default: ask }", "shell: { default: ask, allow: [git] }"),
    ("shell.deny", "shell: { deny: [rm] }", "shell: { default: ask, deny: [dd] }", "shell: { default: ask, deny: [dd, rm] }"),
    ("shell.deny", "shell: { deny: [rm] }", "shell: { allow: [git] }", "shell: { allow: [git], deny: [rm] }"),
    ("shell.session", "shell: { session: call }", "shell: { default: ask, session: worker }", "shell: { default: ask, session: call }"),
    ("shell.env.pass", "shell: { env: { pass: [A, C] } }", "shell: { env: { pass: [A, B] } }", "shell: { env: { pass: [A] } }"),
    ("sandbox.protect", "sandbox: { protect: [mine] }", "sandbox: { protect: [theirs] }", "sandbox: { protect: [theirs, mine] }"),
    ("sandbox.protect", "sandbox: { protect: [mine] }", "", "sandbox: { protect: [mine] }"),
    ("sandbox.hide", "sandbox: { hide: [mine] }", "sandbox: { hide: [theirs] }", "sandbox: { hide: [theirs, mine] }"),
    ("sandbox.require_os_sandbox", "sandbox: { require_os_sandbox: true }", "sandbox: { require_os_sandbox: false }", "sandbox: { require_os_sandbox: true }"),
    ("sandbox.require_os_sandbox", "sandbox: { require_os_sandbox: true }", "", "sandbox: { require_os_sandbox: true }"),
    ("sandbox.strict_paths", "sandbox: { strict_paths: true }", "", "sandbox: { strict_paths: true }"),
    ("sandbox.strict_paths", "sandbox: { strict_paths: true }",
        "sandbox: { zones: { a: { path: ./a, strict_paths: false } } }",
        "sandbox: { zones: { a: { path: ./a, strict_paths: true } } }"),
    ("sandbox.durable", "sandbox: { durable: true }", "", "sandbox: { durable: true }"),
    ("sandbox.durable", "sandbox: { durable: true }",
        "sandbox: { zones: { a: { path: ./a, durable: false } } }",
        "sandbox: { zones: { a: { path: ./a, durable: true } } }"),
    ("sandbox.hardlinks", "sandbox: { hardlinks: deny }", "sandbox: { hardlinks: allow }", "sandbox: { hardlinks: deny }"),
    ("sandbox.hardlinks", "sandbox: { hardlinks: read_only }",
        "sandbox: { paths: { a: { root: ./a, hardlinks: allow }, b: { root: ./b, hardlinks: deny } } }",
        "sandbox: { paths: { a: { root: ./a, hardlinks: read_only }, b: { root: ./b, hardlinks: deny } } }"),
    ("sandbox.quota.max_bytes", "sandbox: { quota: { max_bytes: 9 } }",
        "sandbox: { quota: { max_files: 3 }, zones: { a: { path: ./a, quota: { max_bytes: 10 } }, b: { path: ./b, quota: { max_bytes: 8 } } } }",
        "sandbox: { quota: { max_bytes: 9, max_files: 3 }, zones: { a: { path: ./a }, b: { path: ./b, quota: { max_bytes: 8 } } } }"),
    ("sandbox.quota.max_files", "sandbox: { quota: { max_files: 9 } }", "", "sandbox: { quota: { max_files: 9 } }"),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: closed }", "sandbox: { unix_sockets: open }", ""),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: [/run/a] }", "sandbox: { unix_sockets: open }", "sandbox: { unix_sockets: [/run/a] }"),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: [/run/a] }", "sandbox: { unix_sockets: [/run/a, /run/b] }", "sandbox: { unix_sockets: [/run/a] }"),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: [/run/a] }", "sandbox: { unix_sockets: [/run/b] }", ""),
    ("sandbox.survivors", "sandbox: { survivors: ended }", "sandbox: { survivors: left }", ""),
    ("log.redact", "log: { redact: [tr0ub4dor] }", "log: { redact: [hunter2hunter2] }",
        "log: { redact: [hunter2hunter2, tr0ub4dor] }"),
    ("require", "require: guards", "require: boundaries", "require: guards"),
    ("require", "require: guards", "", "require: guards"),
    ("git.mode", "git: { mode: unaware }", "git: { mode: commit }", ""),
    ("git.mode", "git: { mode: read_only }", "", "git: { mode: read_only }"),
    ("git.allow_executable_config", "git: { allow_executable_config: false }", "git: { allow_executable_config: true }", ""),
    ("git.repositories", "git: { repositories: [octo/a, octo/b] }", "git: { repositories: [octo/b, octo/c] }", "git: { repositories: [octo/b] }"),
    ("git.repositories", "git: { repositories: [{ repo: octo/a, access: ro }] }",
        "git: { repositories: [octo/a] }", "git: { repositories: [{ repo: octo/a, access: ro }] }"),
    ("git.repositories", "git: { repositories: [octo/a, { repo: octo/b, access: ro }] }",
        "git: { repositories: [{ repo: octo/a, access: ro }, { repo: octo/b, access: rw }] }",
        "git: { repositories: [{ repo: octo/a, access: ro }, { repo: octo/b, access: ro }] }"),
    ("git.repositories", "git: { repositories: [] }", "git: { repositories: [octo/a] }", ""),
    ("execution.mode", "execution: { mode: docker_required }", "execution: { mode: local_only }", "execution: { mode: docker_required }"),
    ("execution.mode", "execution: { mode: docker_required }", "execution_mode: prefer_docker", "execution: { mode: docker_required }"),
    ("execution.mode", "execution: { mode: prefer_docker }", "", "execution: { mode: prefer_docker }"),
    ("execution.runners", "execution: { runners: [os] }", "execution: { runners: [docker, os] }", "execution: { runners: [os] }"),
    ("execution.runners", "execution: { runners: [os] }", "", "execution: { runners: [os] }"),
    ("docker.enabled", "docker: { enabled: false }", "docker: { enabled: true }", ""),
    ("docker.network_default", "docker: { network_default: none }", "docker: { network_default: bridge }", ""),
    ("docker.cpu_limit", "docker: { cpu_limit: 0.5 }", "docker: { cpu_limit: 2 }", "docker: { cpu_limit: 0.5 }"),
    ("docker.mem_limit_mb", "docker: { mem_limit_mb: 9 }", "docker: { mem_limit_mb: 10 }", "docker: { mem_limit_mb: 9 }"),
    ("docker.pids_limit", "docker: { pids_limit: 9 }", "", "docker: { pids_limit: 9 }"),
    ("docker.read_only_root", "docker: { read_only_root: true }", "docker: { read_only_root: false }", ""),
    ("docker.reuse", "docker: { reuse: call }", "docker: { reuse: session }", ""),
    ("delegation.max_depth", "delegation: { max_depth: 2 }", "delegation: { maxDepth: 3 }", "delegation: { max_depth: 2 }"),
    ("delegation.max_children", "delegation: { max_children: 2 }", "", "delegation: { max_children: 2 }"),
    ("delegation.child_sandbox_policy", "delegation: { child_sandbox_policy: intersect }",
        "sandbox: { paths: { d: { root: ./d } } }\ndelegation: { child_sandbox_policy: own }",
        "sandbox: { paths: { d: { root: ./d } } }"),
];

struct UserLimitWorld {
    dir: tempfile::TempDir,
    sources: Sources,
}

fn world(user: &str, project: &str) -> UserLimitWorld {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("p");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(
        home.join("golem-forge.config.yaml"),
        format!("name: p\n{project}\n"),
    )
    .unwrap();
    std::fs::write(dir.path().join("user.yaml"), user).unwrap();
    let sources = Sources {
        trust: TrustedSettings::Given,
        user_file: Some(dir.path().join("user.yaml")),
        ..Sources::new(&home)
    };
    UserLimitWorld { dir, sources }
}

fn loaded(user: &str, project: &str) -> Result<String, Diagnostics> {
    let world = world(user, project);
    let shown = load(&world.sources).map(|project| shown(&project));
    drop(world.dir);
    shown
}

/// Returns the effective project, without origins.
fn shown(project: &Project) -> String {
    let grant = project.ceiling();
    let (depth, children) = (project.max_depth(), project.max_children());
    let mut out = format!("{depth} {children} {:?}\n", project.redacted());
    for tool in ["shell", "write_file", "other"] {
        for risk in Risk::ALL {
            for stated in [Verdict::Allow, Verdict::Ask, Verdict::Block] {
                let approval = grant.approval();
                let verdict = approval.tool(tool, risk, None).max(stated);
                write!(out, "{} ", approval.answer(tool, risk, verdict)).unwrap();
            }
        }
    }
    for command in ["curl x", "ls", "git log"] {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let verdict = grant.shell().map(|shell| shell.decide(&words).verdict());
        write!(out, "{verdict:?} ").unwrap();
    }
    let shells = grant.shell().into_iter();
    let programs: Vec<_> = shells
        .flat_map(|shell| shell.programs())
        .map(|programs| (programs.allow(), programs.deny()))
        .collect();
    let execution = grant.execution();
    writeln!(
        out,
        "\n{} {:?} {:?}\n{:?}\n{:?}\n{:?} {} {} {:?}\n{:?} {:?}\n{:?} {:?} {}",
        grant.approval().timeout_s,
        programs,
        grant.confinement(),
        grant.network(),
        grant.limits(),
        execution.mode(),
        execution.os,
        execution.containers,
        execution.docker(),
        grant.environment(),
        grant.require_os_sandbox(),
        grant.protect(),
        grant.hide(),
        grant.pool.is_some(),
    )
    .unwrap();
    for one in grant.repositories() {
        writeln!(out, "{} {}", one.address(), one.access()).unwrap();
    }
    writeln!(out, "{}", grant.allows_executable_config()).unwrap();
    for mount in grant.mounts() {
        let writes = mount.mode() == Mode::ReadWrite;
        let rules = mount.file_rules();
        writeln!(out, "{} {writes} {rules:?}", mount.target()).unwrap();
    }
    out
}

/// A check of one row: the user's word holds, and nothing else is changed by it.
fn check(key: &str, user: &str, asked: &str, left: &str) {
    let both = loaded(user, asked).unwrap_or_else(|mistakes| panic!("{key}\n{mistakes}"));
    assert_eq!(both, loaded("", left).unwrap(), "{user} / {asked}");
    assert_ne!(both, loaded("", asked).unwrap(), "{user} / {asked}");
}

#[test]
fn every_limit_limits() {
    for (key, user, asked, left) in LIMITS {
        check(key, user, asked, left);
    }
    for key in LIMIT_KEYS.list.iter().filter(|key| key.in_effect) {
        let of = |count: u64| format!("limits: {{ {}: {count} }}", key.name);
        check(key.name, &of(2), &of(3), &of(2));
        check(key.name, &of(2), "", &of(2));
    }
}

#[test]
fn every_limit_has_a_row() {
    let mut limits = Vec::new();
    paths(&keys::PROJECT, &[], &mut |names, now| {
        if now && matches!(role(names), Some(UserKeyRole::Limit(_))) {
            limits.push(names.join("."));
        }
    });
    let tested = |key: &String| LIMITS.iter().any(|(tested, ..)| tested == key);
    let untested = limits
        .iter()
        .filter(|key| !key.starts_with("limits.") && !tested(key));
    assert_eq!(untested.collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(limits.len() > 20, "{limits:?}");
}

#[test]
fn every_key_of_projects_is_something_in_a_user_file() {
    let mut unknown = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    paths(&keys::PROJECT, &[], &mut |names, now| match role(names) {
        Some(_) => {
            let row = ROWS
                .iter()
                .find(|(pattern, _)| crate::loading::user_limits::fits(pattern, names));
            known.insert(row.unwrap().0);
        }
        None if now => unknown.push(names.join(".")),
        None => {}
    });
    assert_eq!(
        unknown,
        Vec::<String>::new(),
        "neither a limit, a preference, nor refused"
    );
    let all: std::collections::BTreeSet<&str> = ROWS.iter().map(|(pattern, _)| *pattern).collect();
    assert_eq!(known, all, "a row without a key");
}

/// Every key, as deep as the rows go: a key with a role covers the keys below it.
fn paths(table: &'static KeyTable, above: &[&str], each: &mut impl FnMut(&[&str], bool)) {
    for key in table.list {
        let mut names = above.to_vec();
        names.push(key.name);
        let mut below = Vec::new();
        key.shape.tables(&mut below);
        if role(&names).is_some() {
            each(&names, key.in_effect);
        } else if let ValueShape::Map(..) = key.shape {
            names.push("*");
            each(&names, key.in_effect);
        } else if below.is_empty() {
            each(&names, key.in_effect);
        } else {
            for table in below {
                paths(table, &names, each);
            }
        }
    }
}

/// The project says one thing in two ways, by two layers; both are above the user file.
#[test]
fn a_second_spelling_is_no_way_around() {
    for (user, mode) in [
        ("docker_required", "DockerRequired"),
        ("prefer_docker", "PreferDocker"),
    ] {
        let user = format!("execution: {{ mode: {user} }}");
        let mut world = world(&user, "execution_mode: local_only");
        let project = load(&world.sources).unwrap();
        assert_eq!(format!("{:?}", project.ceiling().execution().mode()), mode);
        world
            .sources
            .overrides
            .push(("execution.mode".into(), "local_only".into()));
        let mistakes = load(&world.sources).unwrap_err();
        let codes: Vec<&str> = mistakes.iter().map(|one| one.code().as_str()).collect();
        assert!(codes.contains(&"config.above_user_file"), "{mistakes}");
        assert!(!codes.contains(&"config.duplicate_key"), "{mistakes}");
    }
}
