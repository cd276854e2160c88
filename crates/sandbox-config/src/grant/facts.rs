//! The facts of a grant by name, without file and line. Two grants are compared by them, for example
//! after the files changed.
//!
//! Every field is destructured, so that a new field does not compile until it is listed or ignored
//! here.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use crate::grant::confinement::{Confinement, GitConfigMode};
use crate::grant::execution::ExecutionSettings;
use crate::grant::git::Repository;
use crate::grant::limits::RunLimits;
use crate::grant::mount::Mount;
use crate::grant::shell::{CommandRule, ProgramLists, RuleList, ShellRules};
use crate::grant::verdict::{ApprovalPolicy, MountApproval, VerdictSetting, risk_key, tool_key};
use crate::grant::{EnvironmentGrant, Grant};

type GrantFacts = BTreeMap<String, String>;

impl Grant {
    /// Returns every fact of this grant, by name. Two grants with equal facts decide equally, and
    /// differ at most in their origins.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use sandbox_config::{load, Sources};
    /// let file = dir.path().join("golem-forge.config.yaml");
    /// let facts = |text: &str| {
    ///     std::fs::write(&file, text).unwrap();
    ///     load(&Sources::new(dir.path())).unwrap().ceiling().facts()
    /// };
    /// let before = facts("limits: { max_turns: 5 }\n");
    /// assert_eq!(before["limits.max_turns"], "5");
    /// assert_eq!(before, facts("# A remark.\nlimits:\n  max_turns: 5\n"));
    /// assert_ne!(before, facts("limits: { max_turns: 6 }\n"));
    /// ```
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, String> {
        let Grant {
            front,
            mounts,
            network,
            published_ports,
            shell,
            environment,
            limits,
            approval,
            require_os_sandbox,
            execution,
            tools,
            protect,
            hide,
            undeclared,
            pool,
            drawn_from,
            confinement,
            repositories,
            executable_config,
            // Like the person's rules: an answer changes no configuration.
            askable_hosts: _,
        } = self;
        let mut facts = GrantFacts::new();
        push(&mut facts, "front end", format!("{front:?}"));
        let undeclared = format!("{undeclared:?}");
        push(&mut facts, "callees that declare nothing", undeclared);
        push(&mut facts, "directories are drawn from", drawn_from);
        of_mounts(&mut facts, "mount", mounts);
        let pool = pool.as_deref().unwrap_or(&[]);
        of_mounts(&mut facts, "project's mount", pool);
        push(&mut facts, "network", format!("{network:?}"));
        if !published_ports.is_empty() {
            push(&mut facts, "network.loopback_in", published_ports);
        }
        of_confinement(&mut facts, confinement);
        push(&mut facts, "require_os_sandbox", require_os_sandbox);
        of_repositories(&mut facts, repositories);
        push(&mut facts, "git.allow_executable_config", executable_config);
        push(&mut facts, "tools", listed(tools.as_deref()));
        push(&mut facts, "sandbox.protect", protect.join(" "));
        push(&mut facts, "sandbox.hide", hide.join(" "));
        of_shell(&mut facts, shell.as_ref());
        of_environment(&mut facts, environment);
        of_limits(&mut facts, limits);
        of_approval(&mut facts, approval);
        of_execution(&mut facts, execution);
        facts
    }
}

fn push(facts: &mut GrantFacts, name: impl Into<String>, value: impl Display) {
    facts.insert(name.into(), value.to_string());
}

/// Formats a value whose absence has a meaning, too.
fn or_none(value: Option<impl Debug>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"))
}

fn listed<'a>(list: Option<impl IntoIterator<Item = &'a String>>) -> String {
    let Some(list) = list else {
        return "any".to_owned();
    };
    let list: Vec<&str> = list.into_iter().map(String::as_str).collect();
    list.join(" ")
}

fn of_mounts(facts: &mut GrantFacts, noun: &str, mounts: &[Mount]) {
    for mount in mounts {
        push(facts, format!("{noun} {}", mount.target), of_mount(mount));
    }
}

fn of_confinement(facts: &mut GrantFacts, confinement: &Confinement) {
    let Confinement {
        require_guards,
        unix_sockets,
        git,
        git_config,
        survivors,
        // Reports give no access.
        trace: _,
        programs,
        review,
    } = confinement;
    let held = format!("{require_guards} {unix_sockets:?} {git:?} {survivors:?}");
    push(facts, "confinement", held);
    if *review {
        push(facts, "sandbox.review", review);
    }
    if *git_config == GitConfigMode::JudgedAfter {
        push(facts, "sandbox.unprotect", ".git/config");
    }
    // Where `PATH` looks among them is the person's, and may be another today.
    let programs = format!("{:?}", programs.directories());
    push(facts, "sandbox.programs", programs);
}

fn of_repositories(facts: &mut GrantFacts, repositories: &[Repository]) {
    for repository in repositories {
        let Repository {
            address,
            name,
            access,
            origin: _,
        } = repository;
        let fact = format!("{access}, as {name}");
        push(facts, format!("repository {address}"), fact);
    }
}

fn of_mount(mount: &Mount) -> String {
    let Mount {
        name,
        target: _,
        outside: _,
        rooted: _,
        host,
        part,
        // How much of `host` existed: another answer as soon as it was made.
        anchor: _,
        create,
        // Both are in the word.
        mode: _,
        staged: _,
        suffixes,
        max_file_bytes,
        approval,
        usable,
        file_rules,
        // Follows from the project's directory and `host`.
        way: _,
        own_files,
        origin: _,
        mode_origin: _,
    } = mount;
    let MountApproval {
        read,
        write,
        delete,
    } = *approval;
    let part = part.as_ref().map_or(String::new(), |part| {
        format!(" ({}, {})", part.below, part.host.display())
    });
    let made = if *create { ", made if missing" } else { "" };
    let mode = mount.mode_word();
    let used = if *usable { "" } else { ", not used" };
    format!(
        "{name}: {}{part}{made}{used}, {mode}, read {}, write {}, delete {}, files {}, largest {}, \
         {file_rules:?}, own files {own_files:?}",
        host.display(),
        stated(read),
        stated(write),
        stated(delete),
        listed(suffixes.as_ref()),
        or_none(*max_file_bytes),
    )
}

/// A callee may still change a verdict that is not explicit.
fn stated(verdict: VerdictSetting) -> String {
    match verdict {
        VerdictSetting::Default(verdict) => format!("{verdict} unless said"),
        VerdictSetting::Explicit(verdict) => verdict.to_string(),
    }
}

fn of_shell(facts: &mut GrantFacts, shell: Option<&ShellRules>) {
    // Why: the person's rules are answers given in advance, and an answer changes no configuration.
    let Some(ShellRules { lists, personal: _ }) = shell else {
        push(facts, "shell", "not offered");
        return;
    };
    push(facts, "shell", "offered");
    for (n, list) in lists.iter().enumerate() {
        let RuleList {
            rules,
            default,
            programs,
            origin: _,
        } = list;
        let ProgramLists {
            allow,
            deny,
            allow_at: _,
            deny_at: _,
        } = programs;
        // The project's own list is the first.
        let of = |key: &str| match n {
            0 => format!("shell.{key}"),
            _ => format!("shell.{key} (declaration {n})"),
        };
        push(facts, of("default"), or_none(default.as_ref()));
        push(facts, of("allow"), listed(allow.as_ref()));
        push(facts, of("deny"), deny.join(" "));
        for (row, rule) in rules.iter().enumerate() {
            let CommandRule {
                pattern,
                verdict,
                why,
                origin: _,
            } = rule;
            let why = why.as_ref();
            let why = why.map_or(String::new(), |why| format!(" ({why})"));
            let rule = format!("`{}` {verdict}{why}", pattern.text());
            push(facts, of(&format!("rules[{row}]")), rule);
        }
    }
}

fn of_environment(facts: &mut GrantFacts, environment: &EnvironmentGrant) {
    let EnvironmentGrant { pass, set, session } = environment;
    push(facts, "shell.env.pass", pass.join(" "));
    for (name, value) in set {
        push(facts, format!("shell.env.set.{name}"), value);
    }
    push(facts, "shell.session", session);
}

fn of_limits(facts: &mut GrantFacts, limits: &RunLimits) {
    for limit in limits.list() {
        let value = match limit.key {
            "max_cost_usd" => or_none(limit.written.map(|nano| nano as f64 / 1e9)),
            _ => or_none(limit.written),
        };
        push(facts, format!("limits.{}", limit.key), value);
    }
}

fn of_approval(facts: &mut GrantFacts, approval: &ApprovalPolicy) {
    let ApprovalPolicy {
        mode,
        mode_at: _,
        by_risk,
        by_tool,
        timeout_s,
        floor,
    } = approval;
    push(facts, "approval.mode", mode);
    push(facts, "approval.timeout_s", timeout_s);
    // Why: recorded runs have the former name of the type in their fingerprint.
    let floor = format!("{floor:?}").replacen("MinimumStrictness", "Floor", 1);
    push(facts, "approval.floor", floor);
    for (risk, said) in by_risk {
        push(facts, risk_key(*risk), said.verdict);
    }
    for (tool, said) in by_tool {
        push(facts, tool_key(tool), said.verdict);
    }
}

fn of_execution(facts: &mut GrantFacts, execution: &ExecutionSettings) {
    let ExecutionSettings {
        mode,
        os,
        containers,
        docker,
        origin: _,
        network_origin: _,
    } = execution;
    push(facts, "execution.mode", mode);
    push(facts, "execution.runners.os", os);
    push(facts, "execution.runners.docker", containers);
    // Why: recorded runs have the former names of the type and of two fields in their fingerprint.
    let docker = format!("{docker:?}")
        .replacen("DockerSettings", "Docker", 1)
        .replacen(", network_default: ", ", network: ", 1)
        .replacen(", cpu_limit: ", ", cpu_limit_milli: ", 1);
    push(facts, "docker", docker);
}
