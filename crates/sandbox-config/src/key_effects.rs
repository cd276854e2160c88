//! Every key that is read changes something in the public API, and every such key has a row here: a
//! key that is parsed and unused would be an empty promise.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::grant::Grant;
use crate::grant::verdict::Operation;
use crate::loading::sources::{ConfigChoice, Sources, TrustedSettings, WithoutFile};
use crate::syntax::keys::{self, KeyTable};
use crate::{Declaration, Mode, Project, Worker, ZoneDeclaration, load};

/// Writes the public properties of a grant.
fn grant(out: &mut String, grant: &Grant, dir: &Path) {
    for mount in grant.mounts() {
        let verdicts: Vec<String> = Operation::ALL
            .iter()
            .map(|operation| grant.mount_approval(mount.name(), *operation).to_string())
            .collect();
        writeln!(
            out,
            "{} {} {} {:?} {:?} {verdicts:?} usable={} {:?}",
            mount.target(),
            mount
                .host()
                .strip_prefix(dir)
                .unwrap_or(mount.host())
                .display(),
            mount.mode(),
            mount.suffixes(),
            mount.max_file_bytes(),
            mount.usable(),
            mount.file_rules()
        )
        .unwrap();
    }
    writeln!(
        out,
        "{:?} {:?} {:?} {:?} {:?} os={} tools={:?}\n{:?}\nprotect={:?}\nhide={:?}\n{:?}",
        grant.network(),
        grant.shell(),
        grant.environment(),
        grant.limits(),
        grant.approval(),
        grant.require_os_sandbox(),
        grant.tools(),
        grant.execution(),
        grant.protect(),
        grant.hide(),
        grant.confinement(),
    )
    .unwrap();
    for one in grant.repositories() {
        let address = one.address().replace(&dir.display().to_string(), "");
        writeln!(out, "{} {address} {}", one.name(), one.access()).unwrap();
    }
    writeln!(out, "{}", grant.allows_executable_config()).unwrap();
}

fn shown(project: &Project) -> String {
    let mut out = format!(
        "{} {:?} {} {:?} depth={} children={} {:?} {} {:?}\n",
        project.name(),
        project.model(),
        project.entry(),
        project.worker_paths(),
        project.max_depth(),
        project.max_children(),
        project
            .runs_dir()
            .map(|dir| dir.strip_prefix(project.dir()).unwrap_or(dir)),
        project.keeps_transcripts(),
        project.redacted(),
    );
    for name in ["ollama", "x"] {
        let provider = project.provider(name).ok().map(|provider| {
            let models = ["m", "other"].map(|model| {
                let tokens = (provider.max_tokens(model), provider.context_tokens(model));
                (provider.prices(model), tokens)
            });
            let (wire, url, key) = (provider.wire(), provider.base_url(), provider.key());
            format!(
                "{wire} {url} {key} {} {} {models:?}",
                provider.streams(),
                provider.retry_s()
            )
        });
        writeln!(out, "{provider:?}").unwrap();
    }
    let git = project.git();
    writeln!(out, "{:?} {:?}", git.author(), git.trailer()).unwrap();
    for one in git.credentials() {
        let source = one.source().to_string();
        let source = source.replace(&project.dir().display().to_string(), "");
        writeln!(out, "{} {source}", one.server()).unwrap();
    }
    grant(&mut out, project.ceiling(), project.dir());
    let undeclared = project.ceiling().child(&Declaration::undeclared()).unwrap();
    writeln!(out, "undeclared={}", undeclared.mounts().count()).unwrap();
    let nothing = project.ceiling().child(&Declaration::none()).unwrap();
    let own = nothing.child(&Declaration::zones([ZoneDeclaration::new(
        "d",
        Mode::ReadOnly,
    )]));
    writeln!(out, "own={}", own.is_ok()).unwrap();
    out
}

fn shown_worker(project: &Project, worker: &Worker) -> String {
    let mut out = format!(
        "{:?} {:?} {:?} {:?} {} {:?} {:?}\n{} {:?} {:?} {:?} {:?} {:?} {:?}\n",
        worker.input_schema(),
        worker.output_schema(),
        worker.compatible_models(),
        worker.attachment_policy(),
        worker.allows_empty_input(),
        worker.license(),
        worker.metadata(),
        worker.name(),
        worker.description(),
        worker.model(),
        worker.instructions(),
        worker.tools(),
        worker.delegates(),
        worker.limits()
    );
    grant(
        &mut out,
        &project.ceiling().child(worker.declaration()).unwrap(),
        project.dir(),
    );
    out
}

fn project(text: &str) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("p");
    std::fs::create_dir_all(home.join("docs")).unwrap();
    std::fs::write(home.join("golem-forge.config.yaml"), text).unwrap();
    let sources = Sources {
        trust: TrustedSettings::Given,
        ..Sources::new(&home)
    };
    load(&sources)
        .map(|project| shown(&project))
        .map_err(|mistakes| mistakes.to_string())
}

fn worker(front: &str) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("workers")).unwrap();
    std::fs::write(
        dir.path().join("golem-forge.config.yaml"),
        "git: { repositories: [octo/reports, ./x.git] }\nnetwork: true\nsandbox: { unix_sockets: [/run/agent.sock, /run/b.sock] }\nshell: { rules: [{ pattern: \"grep *\", approval: preApproved }] }\n",
    )
    .unwrap();
    let body = if front.contains("instructions") {
        ""
    } else {
        "Body.\n"
    };
    std::fs::write(
        dir.path().join("workers/w.worker"),
        format!("---\n{front}\n---\n{body}"),
    )
    .unwrap();
    let mut sources = Sources {
        trust: TrustedSettings::Given,
        ..Sources::new(dir.path())
    };
    if ["restrict", "paths", "mounts"]
        .iter()
        .any(|key| front.contains(key))
    {
        sources.choice = ConfigChoice::None;
        sources.without_file = WithoutFile::RootAtStart;
    }
    let project = load(&sources).map_err(|mistakes| mistakes.to_string())?;
    let workers = project.workers().map_err(|mistakes| mistakes.to_string())?;
    Ok(shown_worker(&project, &workers[0]))
}

/// Table, key, and two texts that differ in that key only. `Err` (a refusal) is an effect, too.
type KeyEffect = (&'static KeyTable, &'static str, &'static str, &'static str);

const R: &str = "sandbox: { root: . }";
const P: &str = "sandbox: { paths: { d: { root: ./d } } }";
const M: &str = "sandbox: { mounts: [{ source: ., target: /data }] }";
const Z: &str = "sandbox: { zones: { d: { path: ./d } } }";

fn project_rows() -> Vec<KeyEffect> {
    use keys::{
        APPROVAL, DELEGATION, DOCKER, ENVIRONMENT, EXAMPLES, EXECUTION, GIT, LIMITS, NETWORK,
        PROJECT, QUOTA, RULE, SANDBOX, SHELL, ZONE, ZONE_APPROVAL,
    };
    let rule = "shell: { rules: [{ pattern: \"grep *\", approval: ask }] }";
    vec![
        (&PROJECT, "version", "", "version: 2"),
        (&PROJECT, "name", "", "name: other"),
        (&PROJECT, "model", "", "model: a:b"),
        (&PROJECT, "entry", "", "entry: first"),
        (&PROJECT, "worker_paths", "", "worker_paths: [w]"),
        (&PROJECT, "worker_paths", "", "workerPaths: [w]"),
        (&PROJECT, "sandbox", "", Z),
        (&PROJECT, "network", "", "network: true"),
        (&PROJECT, "approval", "", "approval: { mode: manual }"),
        (&PROJECT, "shell", "", rule),
        (&PROJECT, "limits", "", "limits: { max_turns: 1 }"),
        (&PROJECT, "delegation", "", "delegation: { max_depth: 1 }"),
        (
            &SANDBOX,
            "mode",
            Z,
            "sandbox: { mode: direct, zones: { d: { path: ./d } } }",
        ),
        (
            &SANDBOX,
            "root",
            Z,
            "sandbox: { root: sb, zones: { d: { path: ./d } } }",
        ),
        (&SANDBOX, "zones", "sandbox: {}", Z),
        (
            &PROJECT,
            "execution",
            "",
            "execution: { mode: prefer_docker }",
        ),
        (
            &PROJECT,
            "execution_mode",
            "",
            "execution_mode: docker_required",
        ),
        (&PROJECT, "runs_dir", "", "runs_dir: ./runs"),
        (&PROJECT, "knowledge_base", "", "knowledge_base: ./docs"),
        (&PROJECT, "log", "", "log: { transcripts: false }"),
        (&keys::LOG, "transcripts", "", "log: { transcripts: false }"),
        (&keys::LOG, "dir", "", "log: { dir: ./runs }"),
        (&keys::LOG, "redact", "", "log: { redact: [tr0ub4dor] }"),
        (&PROJECT, "docker", "", "docker: { enabled: true }"),
        (
            &EXECUTION,
            "mode",
            "",
            "execution: { mode: docker_required }",
        ),
        (&EXECUTION, "runners", "", "execution: { runners: [os] }"),
        (&DOCKER, "enabled", "", "docker: { enabled: true }"),
        (&DOCKER, "image", "", "docker: { image: \"debian:12\" }"),
        (
            &DOCKER,
            "host",
            "",
            "docker: { host: \"unix:///run/d.sock\" }",
        ),
        (
            &DOCKER,
            "network_default",
            "",
            "docker: { network_default: bridge }",
        ),
        (&DOCKER, "cpu_limit", "", "docker: { cpu_limit: 0.5 }"),
        (&DOCKER, "mem_limit_mb", "", "docker: { mem_limit_mb: 9 }"),
        (&DOCKER, "pids_limit", "", "docker: { pids_limit: 9 }"),
        (
            &DOCKER,
            "read_only_root",
            "",
            "docker: { read_only_root: false }",
        ),
        (&DOCKER, "reuse", "", "docker: { reuse: session }"),
        (&SANDBOX, "default", "", "sandbox: { default: inherit }"),
        (
            &SANDBOX,
            "require_os_sandbox",
            "",
            "sandbox: { require_os_sandbox: true }",
        ),
        (
            &NETWORK,
            "allow",
            "network: { allow: [a.com] }",
            "network: { allow: [a.com, '*.b.com:443'] }",
        ),
        (&SANDBOX, "protect", "", "sandbox: { protect: [x] }"),
        (&PROJECT, "approval", "", "permissions: { mode: manual }"),
        (&PROJECT, "require", "", "require: guards"),
        (&PROJECT, "git", "", "git: { mode: read_only }"),
        (
            &GIT,
            "mode",
            "git: { mode: read_only }",
            "git: { mode: commit }",
        ),
        (
            &SANDBOX,
            "unix_sockets",
            "",
            "sandbox: { unix_sockets: open }",
        ),
        (
            &SANDBOX,
            "unix_sockets",
            "",
            "sandbox: { unix_sockets: [/run/agent.sock] }",
        ),
        (
            &SANDBOX,
            "programs",
            "",
            "sandbox: { programs: [/opt/tools/bin] }",
        ),
        (&SANDBOX, "show", "", "sandbox: { show: [.ssh] }"),
        (&SANDBOX, "unprotect", "", "sandbox: { unprotect: [.idea] }"),
        (
            &SANDBOX,
            "unprotect",
            "",
            "sandbox: { unprotect: [.git/config] }",
        ),
        (&SANDBOX, "survivors", "", "sandbox: { survivors: left }"),
        (&SANDBOX, "hardlinks", "", "sandbox: { hardlinks: allow }"),
        (
            &SANDBOX,
            "quota",
            "",
            "sandbox: { quota: { max_files: 1 } }",
        ),
        (
            &SANDBOX,
            "strict_paths",
            "",
            "sandbox: { strict_paths: true }",
        ),
        (&SANDBOX, "durable", "", "sandbox: { durable: true }"),
        (
            &QUOTA,
            "max_bytes",
            "",
            "sandbox: { quota: { max_bytes: 1e6 } }",
        ),
        (
            &QUOTA,
            "max_files",
            "",
            "sandbox: { quota: { max_files: 9 } }",
        ),
        (
            &ZONE,
            "hardlinks",
            Z,
            "sandbox: { zones: { d: { path: ./d, hardlinks: deny } } }",
        ),
        (
            &ZONE,
            "quota",
            Z,
            "sandbox: { zones: { d: { path: ./d, quota: { max_bytes: 1 } } } }",
        ),
        (
            &ZONE,
            "strict_paths",
            Z,
            "sandbox: { zones: { d: { path: ./d, strict_paths: true } } }",
        ),
        (
            &ZONE,
            "durable",
            Z,
            "sandbox: { zones: { d: { path: ./d, durable: true } } }",
        ),
        (&SANDBOX, "hide", "", "sandbox: { hide: [x] }"),
        (&ZONE, "path", Z, "sandbox: { zones: { d: { path: ./e } } }"),
        (
            &ZONE,
            "mode",
            Z,
            "sandbox: { zones: { d: { path: ./d, mode: ro } } }",
        ),
        (
            &ZONE,
            "suffixes",
            Z,
            "sandbox: { zones: { d: { path: ./d, suffixes: [.md] } } }",
        ),
        (
            &ZONE,
            "max_file_bytes",
            Z,
            "sandbox: { zones: { d: { path: ./d, max_file_bytes: 1e3 } } }",
        ),
        (
            &ZONE,
            "approval",
            Z,
            "sandbox: { zones: { d: { path: ./d, approval: { read: ask } } } }",
        ),
        (
            &ZONE_APPROVAL,
            "read",
            Z,
            "sandbox: { zones: { d: { path: ./d, approval: { read: ask } } } }",
        ),
        (
            &ZONE_APPROVAL,
            "write",
            Z,
            "sandbox: { zones: { d: { path: ./d, approval: { write: preApproved } } } }",
        ),
        (
            &ZONE_APPROVAL,
            "delete",
            Z,
            "sandbox: { zones: { d: { path: ./d, approval: { delete: blocked } } } }",
        ),
        (&APPROVAL, "mode", "", "approval: { mode: auto }"),
        (&APPROVAL, "timeout_s", "", "approval: { timeout_s: 9 }"),
        (
            &SHELL,
            "allow",
            "shell: { default: ask }",
            "shell: { default: ask, allow: [git] }",
        ),
        (
            &SHELL,
            "deny",
            "shell: { default: ask }",
            "shell: { default: ask, deny: [rm] }",
        ),
        (
            &APPROVAL,
            "require_user_permission",
            "",
            "approval: { require_user_permission: { shell: false } }",
        ),
        (
            &APPROVAL,
            "require_user_permission_by_risk",
            "",
            "approval: { require_user_permission_by_risk: { exec: false } }",
        ),
        (&SHELL, "rules", "", rule),
        (&SHELL, "default", "", "shell: { default: ask }"),
        (
            &SHELL,
            "session",
            "shell: { default: ask }",
            "shell: { default: ask, session: worker }",
        ),
        (
            &SHELL,
            "env",
            rule,
            "shell: { env: { set: { A: b } }, rules: [{ pattern: \"grep *\", approval: ask }] }",
        ),
        (
            &RULE,
            "pattern",
            rule,
            "shell: { rules: [{ pattern: \"wc *\", approval: ask }] }",
        ),
        (
            &RULE,
            "approval",
            rule,
            "shell: { rules: [{ pattern: \"grep *\", approval: blocked }] }",
        ),
        (
            &RULE,
            "why",
            rule,
            "shell: { rules: [{ pattern: \"grep *\", approval: ask, why: x }] }",
        ),
        (
            &RULE,
            "examples",
            rule,
            "shell: { rules: [{ pattern: \"grep *\", approval: ask, examples: { match: [wc] } }] }",
        ),
        (
            &EXAMPLES,
            "match",
            rule,
            "shell: { rules: [{ pattern: \"grep *\", approval: ask, examples: { match: [wc] } }] }",
        ),
        (
            &EXAMPLES,
            "no_match",
            rule,
            "shell: { rules: [{ pattern: \"grep *\", approval: ask, examples: { no_match: [grep] } }] }",
        ),
        (&ENVIRONMENT, "pass", "", "shell: { env: { pass: [LANG] } }"),
        (
            &ENVIRONMENT,
            "set",
            "",
            "shell: { env: { set: { CI: \"1\" } } }",
        ),
        (
            &LIMITS,
            "timeout_s_default",
            "",
            "limits: { timeout_s_default: 1 }",
        ),
        (&LIMITS, "timeout_s_max", "", "limits: { timeout_s_max: 1 }"),
        (&LIMITS, "max_stdout_kb", "", "limits: { max_stdout_kb: 1 }"),
        (&LIMITS, "max_stderr_kb", "", "limits: { max_stderr_kb: 1 }"),
        (
            &LIMITS,
            "max_file_write_mb",
            "",
            "limits: { max_file_write_mb: 1 }",
        ),
        (&LIMITS, "max_turns", "", "limits: { max_turns: 1 }"),
        (&LIMITS, "processes", "", "limits: { processes: 1 }"),
        (&LIMITS, "memory_mb", "", "limits: { memory_mb: 1 }"),
        (&LIMITS, "max_tokens", "", "limits: { max_tokens: 1 }"),
        (&LIMITS, "max_tokens", "", "limits: { max_tokens: null }"),
        (&LIMITS, "max_wall_s", "", "limits: { max_wall_s: 1 }"),
        (&LIMITS, "max_working_s", "", "limits: { max_working_s: 1 }"),
        (&LIMITS, "repeat_calls", "", "limits: { repeat_calls: 1 }"),
        (
            &DELEGATION,
            "child_sandbox_policy",
            P,
            "sandbox: { paths: { d: { root: ./d } } }\ndelegation: { child_sandbox_policy: own }",
        ),
        (
            &LIMITS,
            "max_tool_calls",
            "",
            "limits: { max_tool_calls: 1 }",
        ),
        (&LIMITS, "max_cost_usd", "", "limits: { max_cost_usd: 0.5 }"),
        (&DELEGATION, "max_depth", "", "delegation: { maxDepth: 2 }"),
        (
            &DELEGATION,
            "max_children",
            "",
            "delegation: { max_children: 2 }",
        ),
    ]
}

/// Of a provider that forge knows, and of one that it does not.
#[rustfmt::skip]
fn provider_rows() -> Vec<KeyEffect> {
    use keys::{MODEL_FACTS, PRICE, PROJECT, PROVIDER};
    const X: &str = "providers: { x: { wire: openai-chat, base_url: 'https://a.com' } }";
    const PRICED: &str = "providers: { ollama: { prices: { input: 1, output: 2 } } }";
    vec![
        (&PROJECT, "providers", "", X),
        (&PROVIDER, "wire", "", "providers: { ollama: { wire: anthropic } }"),
        (&PROVIDER, "base_url", "", "providers: { ollama: { base_url: 'http://127.0.0.1:1' } }"),
        (&PROVIDER, "api_key_env", "", "providers: { ollama: { api_key_env: K } }"),
        (&PROVIDER, "plain_http",
            "providers: { x: { wire: openai-chat, base_url: 'http://a.com' } }",
            "providers: { x: { wire: openai-chat, base_url: 'http://a.com', plain_http: true } }"),
        (&PROVIDER, "prices", "", PRICED),
        (&PROVIDER, "max_tokens", "", "providers: { ollama: { max_tokens: 9 } }"),
        (&PROVIDER, "context_tokens", "", "providers: { ollama: { context_tokens: 9 } }"),
        (&PROVIDER, "stream", "", "providers: { ollama: { stream: false } }"),
        (&PROVIDER, "retry_s", "", "providers: { ollama: { retry_s: 9 } }"),
        (&PROVIDER, "models", "", "providers: { ollama: { models: { m: { max_tokens: 9 } } } }"),
        (&MODEL_FACTS, "max_tokens", "", "providers: { ollama: { models: { m: { max_tokens: 9 } } } }"),
        (&MODEL_FACTS, "context_tokens", "", "providers: { ollama: { models: { m: { context_tokens: 9 } } } }"),
        (&MODEL_FACTS, "prices", PRICED,
            "providers: { ollama: { prices: { input: 1, output: 2 }, models: { m: { prices: { input: 2, output: 2 } } } } }"),
        (&PRICE, "input", PRICED, "providers: { ollama: { prices: { input: 3, output: 2 } } }"),
        (&PRICE, "output", PRICED, "providers: { ollama: { prices: { input: 1, output: 3 } } }"),
        (&PRICE, "cache_read", PRICED, "providers: { ollama: { prices: { input: 1, output: 2, cache_read: 0 } } }"),
        (&PRICE, "cache_write", PRICED, "providers: { ollama: { prices: { input: 1, output: 2, cache_write: 0 } } }"),
    ]
}

#[rustfmt::skip]
fn git_rows() -> Vec<KeyEffect> {
    use keys::{GIT, GIT_CREDENTIAL, GIT_REPOSITORY};
    const AGENT: &str = "git: { credentials: { 'ssh://git@a.com': { agent: true } } }";
    vec![
        (&GIT, "author", "", "git: { author: 'me <a@b>' }"),
        (&GIT, "trailer", "", "git: { trailer: none }"),
        (&GIT, "trailer", "git: { trailer: none }", "git: { trailer: 'Reviewed-by: me' }"),
        (&GIT, "allow_executable_config", "", "git: { allow_executable_config: true }"),
        (&GIT, "repositories", "", "git: { repositories: [octo/reports] }"),
        (&GIT, "credentials", "", "git: { credentials: { 'https://a.com': { token_env: K } } }"),
        (&GIT_REPOSITORY, "repo", "git: { repositories: [{ repo: ./x.git }] }", "git: { repositories: [{ repo: ./y.git }] }"),
        (&GIT_REPOSITORY, "access", "git: { repositories: [./x.git] }", "git: { repositories: [{ repo: ./x.git, access: ro }] }"),
        (&GIT_CREDENTIAL, "token_env", "", "git: { credentials: { 'https://a.com': { token_env: K } } }"),
        (&GIT_CREDENTIAL, "agent", "", AGENT),
        (&GIT_CREDENTIAL, "known_hosts", AGENT, "git: { credentials: { 'ssh://git@a.com': { agent: true, known_hosts: ./hosts } } }"),
    ]
}

/// The front-ends beside zones.
fn front_rows() -> Vec<KeyEffect> {
    use keys::{MOUNT, NAMED_PATH, SANDBOX};
    vec![
        (&SANDBOX, "root", "", R),
        (&SANDBOX, "network", "", "sandbox: { network: true }"),
        (
            &SANDBOX,
            "readonly",
            R,
            "sandbox: { root: ., readonly: true }",
        ),
        (&SANDBOX, "paths", "", P),
        (&SANDBOX, "mounts", "", M),
        (&SANDBOX, "read_paths", "", "sandbox: { read_paths: [.] }"),
        (
            &SANDBOX,
            "write_paths",
            "",
            "sandbox: { write_paths: [out] }",
        ),
        (
            &NAMED_PATH,
            "hardlinks",
            P,
            "sandbox: { paths: { d: { root: ./d, hardlinks: deny } } }",
        ),
        (
            &NAMED_PATH,
            "quota",
            P,
            "sandbox: { paths: { d: { root: ./d, quota: { max_files: 3 } } } }",
        ),
        (
            &NAMED_PATH,
            "strict_paths",
            P,
            "sandbox: { paths: { d: { root: ./d, strict_paths: true } } }",
        ),
        (
            &NAMED_PATH,
            "durable",
            P,
            "sandbox: { paths: { d: { root: ./d, durable: true } } }",
        ),
        (
            &NAMED_PATH,
            "root",
            P,
            "sandbox: { paths: { d: { root: ./e } } }",
        ),
        (
            &NAMED_PATH,
            "mode",
            P,
            "sandbox: { paths: { d: { root: ./d, mode: rw } } }",
        ),
        (
            &NAMED_PATH,
            "suffixes",
            P,
            "sandbox: { paths: { d: { root: ./d, suffixes: [.md] } } }",
        ),
        (
            &NAMED_PATH,
            "max_file_bytes",
            P,
            "sandbox: { paths: { d: { root: ./d, max_file_bytes: 1e7 } } }",
        ),
        (
            &NAMED_PATH,
            "approval",
            P,
            "sandbox: { paths: { d: { root: ./d, approval: { write: ask } } } }",
        ),
        (
            &MOUNT,
            "source",
            M,
            "sandbox: { mounts: [{ source: .., target: /data }] }",
        ),
        (
            &MOUNT,
            "target",
            M,
            "sandbox: { mounts: [{ source: ., target: / }] }",
        ),
        (
            &MOUNT,
            "readonly",
            M,
            "sandbox: { mounts: [{ source: ., target: /data, readonly: true }] }",
        ),
    ]
}

fn worker_rows() -> Vec<KeyEffect> {
    use keys::{WORKER, WORKER_APPROVAL, WORKER_SANDBOX, WORKER_SHELL, WORKER_ZONE};
    let zone = "sandbox: { zones: [{ name: cache }] }";
    let restrict = "sandbox: { restrict: /src }";
    vec![
        (&WORKER, "name", "", "name: other"),
        (&WORKER, "description", "", "description: x"),
        (&WORKER, "model", "", "model: a:b"),
        (&WORKER, "sandbox", "", "sandbox: inherit"),
        (&WORKER, "network", "", "network: true"),
        (&WORKER, "shell", "", "shell: {}"),
        (&WORKER, "git", "", "git: { repositories: [octo/reports] }"),
        (
            &keys::WORKER_GIT,
            "repositories",
            "git: { repositories: [./x.git] }",
            "git: { repositories: [{ repo: ./x.git, access: ro }] }",
        ),
        (&WORKER, "tools", "", "tools: [read_file]"),
        (&WORKER, "workers", "", "workers: ['*']"),
        (&WORKER, "limits", "", "limits: { max_turns: 2 }"),
        (&WORKER, "instructions", "", "instructions: Do it."),
        (
            &WORKER,
            "compatible_models",
            "",
            "compatible_models: ['a:*']",
        ),
        (&WORKER, "toolsets", "", "toolsets: {}"),
        (
            &keys::TOOLSETS,
            "filesystem",
            "toolsets: {}",
            "toolsets: { filesystem: {} }",
        ),
        (
            &keys::TOOLSETS,
            "shell",
            "toolsets: {}",
            "toolsets: { shell: {} }",
        ),
        (
            &keys::TOOLSETS,
            "workers",
            "toolsets: {}",
            "toolsets: { workers: { allowed_workers: ['*'] } }",
        ),
        (
            &keys::WORKER_TOOLSET,
            "allowed_workers",
            "toolsets: { workers: {} }",
            "toolsets: { workers: { allowed_workers: [a] } }",
        ),
        (
            &WORKER,
            "attachment_policy",
            "",
            "attachment_policy: { max_attachments: 1 }",
        ),
        (
            &keys::ATTACHMENTS,
            "max_attachments",
            "",
            "attachment_policy: { max_attachments: 1 }",
        ),
        (
            &keys::ATTACHMENTS,
            "max_total_bytes",
            "",
            "attachment_policy: { max_total_bytes: 1 }",
        ),
        (
            &keys::ATTACHMENTS,
            "allowed_suffixes",
            "",
            "attachment_policy: { allowed_suffixes: [.md] }",
        ),
        (
            &keys::ATTACHMENTS,
            "denied_suffixes",
            "",
            "attachment_policy: { denied_suffixes: [.md] }",
        ),
        (&WORKER, "allow_empty_input", "", "allow_empty_input: true"),
        (&WORKER, "approval", "", "approval: { mode: manual }"),
        (&WORKER_APPROVAL, "mode", "", "approval: { mode: deny }"),
        (
            &WORKER_APPROVAL,
            "require_user_permission",
            "",
            "approval: { require_user_permission: { read_file: true } }",
        ),
        (
            &WORKER_APPROVAL,
            "require_user_permission_by_risk",
            "",
            "approval: { require_user_permission_by_risk: { read_only: true } }",
        ),
        (
            &WORKER,
            "input_schema",
            "",
            "input_schema: { type: object }",
        ),
        (
            &WORKER,
            "output_schema",
            "",
            "output_schema: { type: string }",
        ),
        (&WORKER, "license", "", "license: MIT"),
        (&WORKER, "metadata", "", "metadata: { a: 1 }"),
        (&WORKER_SANDBOX, "zones", "sandbox: {}", zone),
        (
            &WORKER_SANDBOX,
            "restrict",
            "sandbox: { restrict: / }",
            restrict,
        ),
        (
            &WORKER_SANDBOX,
            "paths",
            restrict,
            "sandbox: { paths: { docs: { root: ./docs, mode: rw } } }",
        ),
        (
            &WORKER_SANDBOX,
            "mounts",
            restrict,
            "sandbox: { mounts: [{ source: ., target: /workers }] }",
        ),
        (
            &WORKER_SANDBOX,
            "readonly",
            restrict,
            "sandbox: { restrict: /src, readonly: true }",
        ),
        (
            &WORKER_SANDBOX,
            "rebase",
            restrict,
            "sandbox: { restrict: /src, rebase: true }",
        ),
        (
            &WORKER_SANDBOX,
            "use",
            restrict,
            "sandbox: { restrict: /src, use: false }",
        ),
        (
            &WORKER_SANDBOX,
            "approval",
            restrict,
            "sandbox: { restrict: /src, approval: { write: ask } }",
        ),
        (
            &WORKER_SANDBOX,
            "unix_sockets",
            "sandbox: {}",
            "sandbox: { unix_sockets: inherit }",
        ),
        (
            &WORKER_SANDBOX,
            "unix_sockets",
            "sandbox: {}",
            "sandbox: { unix_sockets: [/run/agent.sock] }",
        ),
        (
            &WORKER_ZONE,
            "name",
            zone,
            "sandbox: { zones: [{ name: workspace }] }",
        ),
        (
            &WORKER_ZONE,
            "mode",
            zone,
            "sandbox: { zones: [{ name: cache, mode: ro }] }",
        ),
        (
            &WORKER_ZONE,
            "use",
            zone,
            "sandbox: { zones: [{ name: cache, use: false }] }",
        ),
        (
            &WORKER_ZONE,
            "approval",
            zone,
            "sandbox: { zones: [{ name: cache, approval: { write: blocked } }] }",
        ),
        (
            &WORKER_ZONE,
            "suffixes",
            zone,
            "sandbox: { zones: [{ name: cache, suffixes: [.md] }] }",
        ),
        (
            &WORKER_ZONE,
            "max_file_bytes",
            zone,
            "sandbox: { zones: [{ name: cache, max_file_bytes: 9 }] }",
        ),
        (
            &WORKER_SHELL,
            "rules",
            "shell: {}",
            "shell: { rules: [{ pattern: \"grep x\", approval: blocked }] }",
        ),
        (
            &WORKER_SHELL,
            "allow",
            "shell: {}",
            "shell: { allow: [git] }",
        ),
        (&WORKER_SHELL, "deny", "shell: {}", "shell: { deny: [rm] }"),
        (
            &WORKER_SHELL,
            "default",
            "shell: {}",
            "shell: { default: ask }",
        ),
    ]
}

#[test]
fn every_project_key_flips_something() {
    for (_, key, without, with) in project_rows()
        .into_iter()
        .chain(provider_rows())
        .chain(git_rows())
        .chain(front_rows())
    {
        // These three speak by refusing; every other text is valid.
        let refuses = matches!(key, "version" | "examples" | "match" | "no_match");
        assert_eq!(
            project(with).is_err(),
            refuses,
            "{key}: {:?}",
            project(with)
        );
        assert_ne!(project(without), project(with), "{key}: {with}");
    }
}

#[test]
fn every_worker_key_flips_something() {
    for (_, key, without, with) in worker_rows() {
        assert!(worker(with).is_ok(), "{key}: {:?}", worker(with));
        assert_ne!(worker(without), worker(with), "{key}: {with}");
    }
}

#[test]
fn every_key_that_is_read_has_a_row() {
    let rows: Vec<KeyEffect> = project_rows()
        .into_iter()
        .chain(provider_rows())
        .chain(git_rows())
        .chain(front_rows())
        .chain(worker_rows())
        .collect();
    for table in keys::PROJECT
        .reached()
        .into_iter()
        .chain(keys::WORKER.reached())
    {
        let flipped: BTreeSet<&str> = rows
            .iter()
            .filter(|(of, ..)| std::ptr::eq(*of, table))
            .map(|(_, key, ..)| *key)
            .collect();
        let read: BTreeSet<&str> = table
            .list
            .iter()
            .filter(|key| key.in_effect)
            .map(|key| key.name)
            .collect();
        assert_eq!(flipped, read, "{}", table.plural);
    }
}
