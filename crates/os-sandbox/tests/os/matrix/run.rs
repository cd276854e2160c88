//! One check function for every case. Cases that need the same world share one confined process;
//! the process tries them one after the other and says what came of each.

use super::expect::{Case, Enforcer, Fixtures, Outcome, Reference};
use super::page::fits;
use super::scene::{Outside, Scene};
use crate::fixture::{Mechanism, open};
use crate::report::Report;
use crate::words;
use os_sandbox::{
    Access, Backend, Command, Exceeded, Exit, Output, Plan, PlanError, Requirement, Sandbox,
    Support,
};
use std::collections::BTreeMap;
use std::path::Path;

/// An enforcer at a version of Landlock; 0 for the one without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    enforcer: Enforcer,
    /// The mount layer, if the enforcer has one.
    mounts: Backend,
    abi: u32,
    /// The best that this host has, not an emulated older one.
    top: bool,
}

impl Level {
    pub(crate) fn name(self) -> String {
        let mounts = match (self.enforcer, self.mounts) {
            (Enforcer::Landlock, _) | (_, Backend::Namespaces) => String::new(),
            (_, other) => format!("{other}: "),
        };
        match self.abi {
            0 => format!("{mounts}{}", self.enforcer.name()),
            abi => format!("{mounts}{} ABI {abi}", self.enforcer.name()),
        }
    }

    fn backend(self) -> Backend {
        match self.enforcer {
            Enforcer::Landlock => Backend::Landlock,
            Enforcer::MountLayer | Enforcer::Both => self.mounts,
        }
    }

    fn mechanism(self) -> Mechanism {
        match (self.enforcer, self.mounts) {
            (Enforcer::Landlock, _) => Mechanism::Landlock,
            (Enforcer::MountLayer, Backend::Namespaces) => Mechanism::NamespacesAlone,
            (Enforcer::MountLayer, _) => Mechanism::BubblewrapAlone,
            (Enforcer::Both, Backend::Namespaces) => Mechanism::Namespaces,
            (Enforcer::Both, _) => Mechanism::Bubblewrap,
        }
    }

    fn support(self) -> Support {
        Support::detect().with_landlock_at_most(self.abi)
    }
}

/// Everything that this host can be; never less. Older versions of Landlock are tried under the
/// preferred mount layer, and under the other one if that does not work here.
pub(crate) fn levels() -> Vec<Level> {
    let support = Support::detect();
    let abi = support.landlock_abi();
    let layers = [
        (Backend::Namespaces, support.namespaces()),
        (Backend::Bubblewrap, support.bubblewrap().is_some()),
    ];
    let layers = layers.into_iter().filter(|(_, works)| *works);
    let mut out = Vec::new();
    let mut add = |enforcer, mounts, abis: std::ops::RangeInclusive<u32>| {
        out.extend(abis.map(|at| Level {
            enforcer,
            mounts,
            abi: at,
            top: at == abi || enforcer == Enforcer::MountLayer,
        }));
    };
    add(Enforcer::Landlock, Backend::None, 1..=abi);
    for (index, (mounts, _)) in layers.enumerate() {
        add(Enforcer::MountLayer, mounts, 0..=0);
        let oldest = if index == 0 { 1 } else { abi.max(1) };
        add(Enforcer::Both, mounts, oldest..=abi);
    }
    out
}

/// All cases at one level. What has to do with programs and not with versions runs at the top
/// only, unless everything is asked for.
pub(crate) fn level(level: Level) -> usize {
    let mut report = Report::new(level.mechanism());
    let fixtures = match Fixtures::read() {
        Ok(fixtures) => fixtures,
        Err(error) => {
            report.case("fixtures", Err(error));
            return report.failures();
        }
    };
    let full = test_sample::is_full();
    let mut outside = Outside::new();
    let mut shared: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for (index, case) in fixtures.cases().enumerate() {
        if case.script.is_some() && !level.top && !full && case.reference == Reference::Allow {
            continue;
        }
        let lonely = case.script.is_some() || case.alone || !case.after.is_empty();
        let key = if lonely {
            format!("{index}")
        } else {
            format!(
                "{:?} {:?} {:?} {:?}",
                case.policy, case.setup, case.cwd, case.stdin
            )
        };
        shared.entry(key).or_default().push(case);
    }
    for cases in shared.values() {
        let run = Run {
            fixtures: &fixtures,
            level,
            root: nix::unistd::geteuid().is_root(),
        };
        run.together(cases, &outside, &mut report);
    }
    report.case(
        &format!("{}: nobody outside was reached", level.name()),
        outside.unharmed(),
    );
    report.failures()
}

struct Run<'a> {
    fixtures: &'a Fixtures,
    level: Level,
    root: bool,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Worked(String),
    Errno(i32),
    /// A script ended with an error, and this is what it printed.
    Failed(String),
    /// The command was not started, with this text.
    NotStarted(String),
    /// The tree was ended over a limit before there was an answer.
    Ended(Exceeded),
    Nonsense(String),
}

impl Run<'_> {
    fn together(&self, cases: &[&Case], outside: &Outside, report: &mut Report) {
        let name = |case: &Case| format!("{}: {}", self.level.name(), case.name);
        let mut posed = Vec::new();
        for case in cases {
            match self.why_not(case) {
                Some(reason) => report.not_posed(&name(case), &reason),
                None => posed.push(*case),
            }
        }
        let Some(first) = posed.first() else { return };
        let scene = match Scene::new(first, outside) {
            Ok(scene) => scene,
            Err(error) => {
                report.case(&name(first), Err(error));
                return;
            }
        };
        let (support, backend) = (self.level.support(), self.level.backend());
        let plan =
            |requirement| Plan::with_mechanism(&scene.policy, &support, requirement, backend);
        let enforced = plan(Requirement::Enforce);
        let best = match plan(Requirement::BestEffort) {
            Ok(plan) => plan,
            Err(error) => {
                report.case(&name(first), Err(error.to_string()));
                return;
            }
        };
        let mut tried = Vec::new();
        for case in posed {
            match self.planned(case, &enforced, &best, &scene) {
                Ok(Outcome::RefusedToPlan) => report.case(&name(case), Ok(())),
                Ok(outcome) => tried.push((case, outcome)),
                Err(why) => report.case(&name(case), Err(why)),
            }
        }
        if tried.is_empty() {
            return;
        }
        let plan = open(enforced.unwrap_or(best));
        let said = self.attempt(&tried, &plan, &scene);
        for ((case, outcome), said) in tried.iter().zip(said) {
            report.case(
                &name(case),
                self.judge(case, *outcome, &said, &plan, &scene),
            );
        }
        if let Err(what) = scene.after(&[]) {
            let names: Vec<&str> = tried.iter().map(|(case, _)| case.name.as_str()).collect();
            report.case(
                &format!("{}: nothing was changed", self.level.name()),
                Err(format!("{what}, by one of {names:?}")),
            );
        }
    }

    /// Why this host cannot even pose the case.
    fn why_not(&self, case: &Case) -> Option<String> {
        if let Some(reason) = case.root_only.as_ref().filter(|_| !self.root) {
            return Some(format!("takes root: {reason}"));
        }
        case.needs.iter().find_map(|need| {
            if need == "connector" {
                let there = Support::detect().named_sockets(Backend::Landlock);
                return (!there).then(|| "no process can make calls for a command here".to_owned());
            }
            if need == "toolchain" {
                // Looked up again for each case, which is rare.
                return super::scene::toolchain_missing();
            }
            let there = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
                .iter()
                .any(|dir| Path::new(dir).join(need).exists());
            (!there).then(|| format!("{need} is not installed in a system directory"))
        })
    }

    /// Holds the plans against the case: refused for the right promise, or listed as it should be.
    fn planned(
        &self,
        case: &Case,
        enforced: &Result<Plan, PlanError>,
        best: &Plan,
        scene: &Scene,
    ) -> Result<Outcome, String> {
        let connects = best.support().named_sockets(best.backend());
        let outcome = if case.policy.unix_named.is_empty() || connects {
            self.fixtures
                .expect(case, self.level.enforcer, self.root)
                .at(self.level.abi)
        } else {
            // Some containers let nobody connect for a command; then that is what is promised.
            Outcome::RefusedToPlan
        };
        if let Some(promise) = &case.promise {
            fits(best.entries(), promise, outcome)?;
        }
        if let Err(refused) = enforced {
            // Refused is one thing; refused for a reason that nobody wrote down is another.
            for gap in refused.gaps() {
                let name = gap.promise.name();
                let row = self.fixtures.promise(name).map(|row| {
                    self.fixtures
                        .row(row, self.level.enforcer, self.root)
                        .at(self.level.abi)
                });
                let own = outcome == Outcome::RefusedToPlan;
                if row != Some(Outcome::RefusedToPlan) && !own {
                    return Err(format!("no plan because of {gap}"));
                }
            }
        }
        match (outcome, enforced) {
            (Outcome::RefusedToPlan, Ok(_)) => Err("there is a plan".to_owned()),
            (Outcome::RefusedToPlan, Err(refused)) => {
                let named = case.promise.as_deref().is_none_or(|promise| {
                    refused
                        .gaps()
                        .iter()
                        .any(|gap| gap.promise.name() == promise)
                });
                if named {
                    Ok(outcome)
                } else {
                    Err(format!("refused for another reason: {refused}"))
                }
            }
            _ => {
                self.by_text(case, scene)?;
                Ok(outcome)
            }
        }
    }

    /// `Policy::allows` is what enforcers are compared with, so it must say what the case says.
    fn by_text(&self, case: &Case, scene: &Scene) -> Result<(), String> {
        if case.beyond_text {
            return Ok(());
        }
        for attempt in &case.attempts {
            let (access, path) = match attempt.split(' ').collect::<Vec<_>>()[..] {
                ["read" | "list", path] => (Access::READ, path),
                [
                    "open-write" | "write" | "append" | "truncate" | "truncate-path" | "delete"
                    | "mkdir",
                    path,
                ] => (Access::WRITE, path),
                ["exec", path] => (Access::EXECUTE, path),
                _ => continue,
            };
            let allowed = scene.policy.allows(Path::new(&scene.host(path)), access);
            if allowed != (case.reference == Reference::Allow) {
                return Err(format!("{attempt}: the policy says {allowed}"));
            }
        }
        Ok(())
    }

    /// Tries everything, and returns what was said for each attempt of each case.
    fn attempt(&self, tried: &[(&Case, Outcome)], plan: &Sandbox, scene: &Scene) -> Vec<Vec<Said>> {
        let first = tried[0].0;
        let fill = |text: &str| scene.inside(text, self.level.enforcer);
        let mut command = match &first.script {
            Some(script) => Command::new(plan, "sh").args(["-c", &fill(script)]),
            None => Command::new(plan, "/probe").args(["--probe", "each"]).args(
                tried
                    .iter()
                    .flat_map(|(case, _)| &case.attempts)
                    .map(|attempt| fill(attempt)),
            ),
        };
        if let Some(cwd) = &first.cwd {
            command = command.cwd(scene.host(cwd));
        }
        if let Some(stdin) = &first.stdin {
            match std::fs::File::open(scene.host(stdin)) {
                Ok(file) => command = command.stdin(file),
                Err(error) => return self.all(tried, &Said::Nonsense(error.to_string())),
            }
        }
        match command.output() {
            Err(error) => self.all(tried, &Said::NotStarted(error.to_string())),
            Ok(output) if first.script.is_some() => vec![vec![of_script(&output)]],
            Ok(output) => {
                let text = output.stdout.text().into_owned();
                let over = output.exceeded.filter(of_the_tree);
                let mut lines = text.lines();
                let mut next = || match lines.next() {
                    Some(line) => of_line(line),
                    None if let Some(over) = over => Said::Ended(over),
                    None => Said::Nonsense(format!("no answer: {output:?}")),
                };
                tried
                    .iter()
                    .map(|(case, _)| case.attempts.iter().map(|_| next()).collect())
                    .collect()
            }
        }
    }

    fn all(&self, tried: &[(&Case, Outcome)], said: &Said) -> Vec<Vec<Said>> {
        tried
            .iter()
            .map(|(case, _)| vec![said.clone(); case.attempts.len().max(1)])
            .collect()
    }

    /// The one check.
    fn judge(
        &self,
        case: &Case,
        outcome: Outcome,
        said: &[Said],
        plan: &Sandbox,
        scene: &Scene,
    ) -> Result<(), String> {
        let mut through = 0;
        for (at, said) in said.iter().enumerate() {
            let what = case.attempts.get(at).map_or("the script", String::as_str);
            let after = if case.after.is_empty() {
                Ok(())
            } else {
                scene.after(&case.after)
            };
            // Seen from outside, where there is something to see; else by its own words.
            let denied = match (case.reference, said) {
                (_, Said::Nonsense(text)) => return Err(format!("{what}: {text}")),
                (Reference::Deny, Said::Worked(_)) if !case.after.is_empty() => after.is_ok(),
                (_, Said::Worked(_)) => false,
                (_, Said::Errno(_) | Said::Failed(_) | Said::NotStarted(_) | Said::Ended(_)) => {
                    true
                }
            };
            if case.reference == Reference::Deny && !denied {
                let gap = plan
                    .plan()
                    .gaps()
                    .any(|gap| Some(gap.promise.name()) == case.promise.as_deref());
                if !gap {
                    return Err(format!("{what}: SILENTLY ALLOWED: {said:?} {after:?}"));
                }
            }
            let good = match outcome {
                Outcome::Allow => {
                    matches!(said, Said::Worked(text)
                    if case.says.as_ref().is_none_or(|says| says == text))
                        && after.is_ok()
                }
                Outcome::Deny | Outcome::Closed => {
                    denied && !matches!(said, Said::NotStarted(_)) && self.right_errno(case, said)
                }
                // One way through is enough; others may fail because the first one worked.
                Outcome::Listed => {
                    through += usize::from(!denied);
                    true
                }
                Outcome::RefusedToStart => matches!(said, Said::NotStarted(_)) && after.is_ok(),
                Outcome::RefusedToPlan => false,
            };
            if !good {
                return Err(format!(
                    "{what}: expected {} {:?}, got {said:?} {after:?}",
                    outcome.name(),
                    case.says
                ));
            }
        }
        if outcome == Outcome::Listed && through == 0 {
            return Err(format!("listed as open, and nothing got through: {said:?}"));
        }
        Ok(())
    }

    fn right_errno(&self, case: &Case, said: &Said) -> bool {
        match said {
            Said::Errno(errno) if !case.errno.is_empty() => case
                .errno
                .iter()
                .any(|name| words::number(name) == Ok(u64::from(errno.unsigned_abs()))),
            _ => true,
        }
    }
}

fn of_the_tree(exceeded: &Exceeded) -> bool {
    matches!(exceeded, Exceeded::Memory(_) | Exceeded::Processes(_))
}

fn of_line(line: &str) -> Said {
    if let Some(errno) = line
        .strip_prefix("errno ")
        .and_then(|text| text.parse().ok())
    {
        return Said::Errno(errno);
    }
    match line.strip_prefix("ok") {
        Some(text) => Said::Worked(text.trim().to_owned()),
        None => Said::Nonsense(line.to_owned()),
    }
}

fn of_script(output: &Output) -> Said {
    if output.exit == Exit::Code(0) {
        Said::Worked(output.stdout.text().trim_end().to_owned())
    } else {
        Said::Failed(format!(
            "{}: {:?} {:?}",
            output.exit,
            output.stdout.text(),
            output.stderr.text()
        ))
    }
}
