//! The system call filter in the form that an engine takes. It has the same table as the other
//! mechanisms (`seccomp/rules.rs`), but inverted: an engine's library ignores names that it does
//! not know, so the profile must refuse unnamed calls instead of allowing them. It therefore lists
//! the calls without a rule.
//!
//! Engines before 23 answer EPERM to unnamed calls, whatever the profile says. Programs do without
//! some calls only if the kernel does not have them, so the profile names those calls, too.
//!
//! The rules of a profile join only tests of different arguments with "and", and have no order.
//! Each rule of the table is therefore cut into cubes, sets of calls that do not overlap.
//!
//! Format: <https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp>

use os_sandbox::mechanism::seccomp::{
    Action, Arch, ENOSYS, EPERM, FilterSpec, InternetSocketRule, ObservedCalls, Rule, Table, Test,
    UnixSocketRule, WatchRule, table,
};
use std::fmt::Write as _;

/// Calls without a rule in the table, up to Linux 6.17. The filter refuses a later call as if the
/// kernel did not have it.
const PLAIN: &str = include_str!("plain_calls.txt");

/// The first program of a container: a target, or a program with more permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilteredProgram {
    Target,
    /// The caller's own program. It confines the programs that it starts, and opens files itself
    /// with `openat2`, which a target may not use.
    OwnProgram,
}

/// Returns the profile, as JSON.
pub(super) fn profile(
    arch: Arch,
    internet: bool,
    unix: UnixSocketRule,
    inside: FilteredProgram,
) -> String {
    let table = table(FilterSpec {
        arch,
        internet: internet_rule(internet),
        unix,
        freeze_metadata: false,
        shared_host: false,
        shared_group: false,
        tracing: false,
        ask_modes: false,
        watches: WatchRule::Allow,
        supervisor_is_first: false,
        observed: ObservedCalls::default(),
    });
    let mut out = SeccompProfile::new(arch);
    let mut plain: Vec<&str> = PLAIN.split_whitespace().collect();
    let mut never: Vec<&str> = Vec::new();
    for (name, rule) in rules(&table) {
        plain.retain(|plain| *plain != name);
        match (name, inside) {
            ("openat2", FilteredProgram::OwnProgram) => plain.push(name),
            _ if *rule == Rule::always(Action::Errno(EPERM)) => never.push(name),
            _ => out.rule(name, rule),
        }
    }
    out.all(&plain, Action::Allow);
    out.all(&never, Action::Errno(EPERM));
    out.done()
}

fn internet_rule(internet: bool) -> InternetSocketRule {
    match internet {
        true => InternetSocketRule::Allow,
        false => InternetSocketRule::Deny,
    }
}

/// Returns each call that has a rule.
fn rules(table: &Table) -> impl Iterator<Item = (&'static str, &Rule)> {
    let plain = Rule::always(Action::Allow);
    table
        .arch
        .names()
        .filter_map(|(name, number)| Some((name, table.rule(number)?)))
        .filter(move |(_, rule)| **rule != plain)
}

struct SeccompProfile(String);

impl SeccompProfile {
    fn new(arch: Arch) -> SeccompProfile {
        let arch = match arch {
            Arch::X86_64 => "SCMP_ARCH_X86_64",
            Arch::Aarch64 => "SCMP_ARCH_AARCH64",
        };
        let default = format!(r#""defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":{ENOSYS}"#);
        SeccompProfile(format!(
            r#"{{{default},"architectures":["{arch}"],"syscalls":["#
        ))
    }

    fn all(&mut self, names: &[&str], action: Action) {
        let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        self.entry(&names.join(","), action, "");
    }

    fn rule(&mut self, name: &str, rule: &Rule) {
        for (cube, action) in cubes(rule) {
            let tests: Vec<String> = cube
                .0
                .iter()
                .enumerate()
                .filter(|(_, (mask, _))| *mask != 0)
                .map(|(arg, (mask, value))| {
                    format!(
                        "{{\"index\":{arg},\"value\":{mask},\"valueTwo\":{value},\
                         \"op\":\"SCMP_CMP_MASKED_EQ\"}}"
                    )
                })
                .collect();
            self.entry(&format!("\"{name}\""), action, &tests.join(","));
        }
    }

    fn entry(&mut self, names: &str, action: Action, tests: &str) {
        let action = match action {
            Action::Allow => "\"action\":\"SCMP_ACT_ALLOW\"".to_owned(),
            Action::Errno(errno) => format!("\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":{errno}"),
            // The engine has no listener for notifications.
            Action::UserNotify => return,
            Action::Kill => "\"action\":\"SCMP_ACT_KILL_PROCESS\"".to_owned(),
        };
        let comma = if self.0.ends_with('[') { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(
            self.0,
            "{comma}{{\"names\":[{names}],{action},\"args\":[{tests}]}}"
        );
    }

    fn done(mut self) -> String {
        self.0.push_str("]}");
        self.0
    }
}

/// Calls whose arguments have certain bits: a mask and a value for the low 32 bits of each
/// argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cube([(u32, u32); 6]);

/// Cuts the rule into sets of calls that do not overlap and that cover all calls.
fn cubes(rule: &Rule) -> Vec<(Cube, Action)> {
    let mut out = Vec::new();
    let mut rest = vec![Cube([(0, 0); 6])];
    for clause in &rule.clauses {
        let mut others = Vec::new();
        for cube in rest {
            let mut held = vec![cube];
            for test in &clause.tests {
                held = held
                    .into_iter()
                    .flat_map(|cube| cube.cut(*test, &mut others))
                    .collect();
            }
            out.extend(held.into_iter().map(|cube| (cube, clause.action)));
        }
        rest = others;
    }
    out.extend(rest.into_iter().map(|cube| (cube, rule.otherwise)));
    out
}

impl Cube {
    /// Returns the parts in which a test succeeds, and moves the other parts to `others`.
    fn cut(self, test: Test, others: &mut Vec<Cube>) -> Vec<Cube> {
        let mut held = Vec::new();
        match test {
            Test::Masked { arg, mask, value } => {
                let (known, bits) = self.0[usize::from(arg)];
                if (bits ^ value) & known & mask != 0 {
                    others.push(self);
                    return held;
                }
                let mut cube = self;
                for bit in bits_of(mask & !known) {
                    others.push(cube.with(arg, bit, !value & bit));
                    cube = cube.with(arg, bit, value & bit);
                }
                held.push(cube);
            }
            Test::Any { arg, mask } => {
                let (known, bits) = self.0[usize::from(arg)];
                if bits & known & mask != 0 {
                    held.push(self);
                    return held;
                }
                let mut cube = self;
                for bit in bits_of(mask & !known) {
                    held.push(cube.with(arg, bit, bit));
                    cube = cube.with(arg, bit, 0);
                }
                others.push(cube);
            }
        }
        held
    }

    fn with(mut self, arg: u8, bit: u32, value: u32) -> Cube {
        let (mask, bits) = &mut self.0[usize::from(arg)];
        *mask |= bit;
        *bits |= value;
        self
    }
}

/// Returns the bits, highest first: numbers are small, so large ones are separated at once.
fn bits_of(mask: u32) -> impl Iterator<Item = u32> {
    (0..32)
        .rev()
        .map(|at| 1 << at)
        .filter(move |bit| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Cube {
        fn holds(self, args: &[u64; 6]) -> bool {
            let low = |at: usize| args[at] as u32;
            (0..6).all(|at| low(at) & self.0[at].0 == self.0[at].1)
        }
    }

    fn wanted(internet: bool, unix: UnixSocketRule) -> Table {
        table(FilterSpec {
            arch: Arch::X86_64,
            internet: internet_rule(internet),
            unix,
            freeze_metadata: false,
            shared_host: false,
            shared_group: false,
            tracing: false,
            ask_modes: false,
            watches: WatchRule::Allow,
            supervisor_is_first: false,
            observed: ObservedCalls::default(),
        })
    }

    proptest! {
        /// Every call is in exactly one cube, which has the table's action.
        #[test]
        fn cubes_say_what_the_table_says(
            args in prop::array::uniform6(prop_oneof![0u64..32, any::<u64>()]),
            internet: bool,
            open: bool,
        ) {
            let table = wanted(internet, if open { UnixSocketRule::Allow } else { UnixSocketRule::Deny });
            for (name, rule) in rules(&table) {
                let number = Arch::X86_64.number(name).unwrap();
                let want = table.decide(Arch::X86_64.audit(), number, &args);
                let cubes = cubes(rule);
                let found: Vec<Action> = cubes
                    .iter()
                    .filter(|(cube, _)| cube.holds(&args))
                    .map(|(_, action)| *action)
                    .collect();
                prop_assert_eq!(found, vec![want], "{} {:?}", name, args);
            }
        }
    }

    #[test]
    fn a_profile() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let text = profile(arch, true, UnixSocketRule::Allow, FilteredProgram::Target);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["defaultErrnoRet"], 38);
            let rules = value["syscalls"].as_array().unwrap();
            // The kernel takes 4096 instructions for the whole filter; tests/docker checks that it
            // accepts them.
            assert!(rules.len() < 500, "{} rules", rules.len());
            let of = |name: &str| -> Vec<&serde_json::Value> {
                let named = |rule: &&serde_json::Value| {
                    rule["names"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .any(|one| one == name)
                };
                rules.iter().filter(named).collect()
            };
            assert_eq!(of("ptrace").len(), 1);
            assert_eq!(of("ptrace")[0]["errnoRet"], 1);
            assert_eq!(of("read")[0]["action"], "SCMP_ACT_ALLOW");
            for absent in ["openat2", "clone3"] {
                assert_eq!(of(absent)[0]["errnoRet"], 38, "{absent}");
            }
            assert!(of("fchmodat2").len() > 2);
        }
        let own = profile(
            Arch::X86_64,
            true,
            UnixSocketRule::Allow,
            FilteredProgram::OwnProgram,
        );
        assert!(own.contains("\"openat2\"],\"action\":\"SCMP_ACT_ALLOW\""));
    }
}
