//! Every key by which the user file limits a project has a row here with an example, and every key
//! of projects has a role in a user file.

use std::fmt::Write as _;

use crate::grant::verdict::{Risk, Verdict};
use crate::loading::sources::{Sources, TrustedSettings};
use crate::syntax::key_table::{MeetRule, UserKeyRole};
use crate::tests::reference_page::roles;
use crate::{Diagnostics, Mode, Project, load};

/// Key, user file, a project that asks for more, and the project that asks for the remaining
/// rights. Numbers, words and switches are tried without a case of their own.
type UserLimitCase = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const LIMITS: &[UserLimitCase] = &[
    ("network", "network: false", "network: true", "network: false"),
    ("network", "network: { allow: [a.org] }", "network: true", "network: { allow: [a.org] }"),
    ("network", "network: { allow: ['*.a.org'] }", "network: { allow: [b.a.org, c.org] }", "network: { allow: [b.a.org] }"),
    ("network", "network: { allow: [a.org] }", "sandbox: { network: true }", "network: { allow: [a.org] }"),
    ("network", "network: { allow: ['*.a.org'], deny: [x.a.org] }", "network: { allow: ['*.a.org'] }",
        "network: { allow: ['*.a.org'], deny: [x.a.org] }"),
    ("network", "network: { allow: ['*.a.org'], deny: [x.a.org] }", "network: { allow: ['*.a.org', x.a.org], deny: [y.a.org] }",
        "network: { allow: ['*.a.org'], deny: [x.a.org, y.a.org] }"),
    ("network", "network: { allow: [a.org], deny: [b.org] }", "network: true", "network: { allow: [a.org], deny: [b.org] }"),
    ("network", "network: { loopback_out: ['127.0.0.1:1'] }", "network: { allow: [a.org, 'localhost:1'] }",
        "network: { loopback_out: ['127.0.0.1:1'] }"),
    ("network", "network: { allow: ['127.0.0.1:1'] }", "network: { loopback_out: ['localhost:1', '127.0.0.1:2'] }",
        "network: { allow: ['127.0.0.1:1'] }"),
    ("network", "network: { deny: [a.org] }", "network: { allow: [a.org] }", "network: false"),
    ("network", "network: false", "network: { loopback_in: [8080] }", "network: false"),
    ("network", "network: { allow: [a.org] }", "network: { allow: [a.org], loopback_in: [8080] }", "network: { allow: [a.org] }"),
    ("network", "network: { loopback_in: [8080, 9090] }", "network: { loopback_in: [3000, 8080] }", "network: { loopback_in: [8080] }"),
    ("network", "network: { loopback_in: [8080] }", "network: true", "network: { loopback_in: [8080] }"),
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
    ("shell.allow", "shell: { allow: [git] }", "shell: { default: ask, allow: [git, rm] }", "shell: { default: ask, allow: [git] }"),
    ("shell.allow", "shell: { allow: [git] }", "shell: { default: ask }", "shell: { default: ask, allow: [git] }"),
    ("shell.deny", "shell: { deny: [rm] }", "shell: { default: ask, deny: [dd] }", "shell: { default: ask, deny: [dd, rm] }"),
    ("shell.deny", "shell: { deny: [rm] }", "shell: { allow: [git] }", "shell: { allow: [git], deny: [rm] }"),
    ("shell.session", "shell: { session: call }", "shell: { default: ask, session: worker }", "shell: { default: ask, session: call }"),
    ("shell.env.pass", "shell: { env: { pass: [A, C] } }", "shell: { env: { pass: [A, B] } }", "shell: { env: { pass: [A] } }"),
    ("sandbox.protect", "sandbox: { protect: [mine] }", "sandbox: { protect: [theirs] }", "sandbox: { protect: [theirs, mine] }"),
    ("sandbox.protect", "sandbox: { protect: [mine] }", "", "sandbox: { protect: [mine] }"),
    ("sandbox.hide", "sandbox: { hide: [mine] }", "sandbox: { hide: [theirs] }", "sandbox: { hide: [theirs, mine] }"),
    ("sandbox.strict_paths", "sandbox: { strict_paths: true }",
        "sandbox: { zones: { a: { path: ./a, strict_paths: false } } }",
        "sandbox: { zones: { a: { path: ./a, strict_paths: true } } }"),
    ("sandbox.durable", "sandbox: { durable: true }",
        "sandbox: { zones: { a: { path: ./a, durable: false } } }",
        "sandbox: { zones: { a: { path: ./a, durable: true } } }"),
    ("sandbox.hardlinks", "sandbox: { hardlinks: read_only }",
        "sandbox: { paths: { a: { root: ./a, hardlinks: allow }, b: { root: ./b, hardlinks: deny } } }",
        "sandbox: { paths: { a: { root: ./a, hardlinks: read_only }, b: { root: ./b, hardlinks: deny } } }"),
    ("sandbox.quota.max_bytes", "sandbox: { quota: { max_bytes: 9 } }",
        "sandbox: { quota: { max_files: 3 }, zones: { a: { path: ./a, quota: { max_bytes: 10 } }, b: { path: ./b, quota: { max_bytes: 8 } } } }",
        "sandbox: { quota: { max_bytes: 9, max_files: 3 }, zones: { a: { path: ./a }, b: { path: ./b, quota: { max_bytes: 8 } } } }"),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: closed }", "sandbox: { unix_sockets: open }", ""),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: [/run/a] }", "sandbox: { unix_sockets: open }", "sandbox: { unix_sockets: [/run/a] }"),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: [/run/a] }", "sandbox: { unix_sockets: [/run/a, /run/b] }", "sandbox: { unix_sockets: [/run/a] }"),
    ("sandbox.unix_sockets", "sandbox: { unix_sockets: [/run/a] }", "sandbox: { unix_sockets: [/run/b] }", ""),
    ("log.redact", "log: { redact: [tr0ub4dor] }", "log: { redact: [hunter2hunter2] }",
        "log: { redact: [hunter2hunter2, tr0ub4dor] }"),
    ("git.repositories", "git: { repositories: [octo/a, octo/b] }", "git: { repositories: [octo/b, octo/c] }", "git: { repositories: [octo/b] }"),
    ("git.repositories", "git: { repositories: [{ repo: octo/a, access: ro }] }",
        "git: { repositories: [octo/a] }", "git: { repositories: [{ repo: octo/a, access: ro }] }"),
    ("git.repositories", "git: { repositories: [octo/a, { repo: octo/b, access: ro }] }",
        "git: { repositories: [{ repo: octo/a, access: ro }, { repo: octo/b, access: rw }] }",
        "git: { repositories: [{ repo: octo/a, access: ro }, { repo: octo/b, access: ro }] }"),
    ("git.repositories", "git: { repositories: [] }", "git: { repositories: [octo/a] }", ""),
    ("execution.mode", "execution: { mode: docker_required }", "execution_mode: prefer_docker", "execution: { mode: docker_required }"),
    ("execution.runners", "execution: { runners: [os] }", "execution: { runners: [docker, os] }", "execution: { runners: [os] }"),
    ("execution.runners", "execution: { runners: [os] }", "", "execution: { runners: [os] }"),
    ("delegation.max_depth", "delegation: { max_depth: 2 }", "delegation: { maxDepth: 3 }", "delegation: { max_depth: 2 }"),
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
        (grant.network(), grant.published_ports()),
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
    let mut untested = Vec::new();
    for (key, role) in roles() {
        let Some(UserKeyRole::Limit(meet)) = role else {
            continue;
        };
        let names: Vec<&str> = key.split('.').collect();
        let default = crate::loading::user_limits::role(&names).map_or("", |(row, _)| row.default);
        let of = |value: &str| match names[..] {
            [key] => format!("{key}: {value}"),
            [section, key] => format!("{section}: {{ {key}: {value} }}"),
            [section, below, key] => format!("{section}: {{ {below}: {{ {key}: {value} }} }}"),
            _ => panic!("{key} is deeper than three names"),
        };
        let is_tested = LIMITS.iter().any(|(tested, ..)| *tested == key);
        match meet {
            MeetRule::Least => {
                check(&key, &of("2"), &of("3"), &of("2"));
                if default.parse().unwrap_or(f64::INFINITY) > 2.0 {
                    check(&key, &of("2"), "", &of("2"));
                }
            }
            MeetRule::Stricter(order) if !is_tested => {
                for (loose, strict) in order.iter().zip(&order[1..]) {
                    check(&key, &of(strict), &of(loose), &of(strict));
                }
                let at = order.iter().position(|word| *word == default).unwrap();
                if let Some(strict) = order.get(at + 1) {
                    check(&key, &of(strict), "", &of(strict));
                }
            }
            _ if is_tested => {}
            _ => untested.push(key),
        }
    }
    assert_eq!(untested, Vec::<String>::new());
}

#[test]
fn every_key_of_projects_is_something_in_a_user_file() {
    let unknown: Vec<String> = roles()
        .into_iter()
        .filter(|(_, role)| role.is_none())
        .map(|(key, _)| key)
        .collect();
    assert_eq!(
        unknown,
        Vec::<String>::new(),
        "neither a limit, a preference, nor refused"
    );
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
