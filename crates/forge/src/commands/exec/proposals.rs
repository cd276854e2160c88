//! Proposed grants: the smallest rules of a person that would have let refused attempts pass.
//! A proposal names one directory, or an address. It never names `/`, the home directory or a
//! directory around it, a directory of the system or the kernel, a protected or hidden name, or a
//! place of credentials; such refusals have a reason instead. Nothing is written.
//!
//! Entry point: [`RuleOffers::new`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use os_sandbox::{Denial, DenialReason, DeniedOperation};
use sandbox_config::{PersonalRules, Project};
use sandbox_names::{HIDDEN, PROTECTED, credentials, fold, pattern};

use crate::output::escape::shell_word;
use crate::setup::command_for;
use crate::setup::program_dirs::PathDirs;

/// Directories of the system and the kernel, of which a project gets no more than forge shows.
const OF_SYSTEM: [&str; 15] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root",
    "/run", "/sbin", "/sys", "/usr", "/var",
];
/// A grant that would have let a refused attempt pass.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProposedGrant {
    /// A directory to show; `true` if it is to be written.
    Directory(PathBuf, bool),
    /// Rules for directories with programs, or for a host.
    Rules(Vec<String>),
}

/// The reason for which no grant is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoGrant {
    /// The name has characters that were escaped, so the path is not known.
    Unclear,
    /// The path has the name of a place of credentials, or one that is protected or hidden anywhere.
    Secret,
    /// A directory of the system.
    OfSystem,
    /// The home directory, or one around it.
    AroundHome,
    /// The path leads through a link to this directory, which the command would not see there.
    Link(PathBuf),
    /// No directory around the path exists.
    Absent,
    /// A worker's command: its directories are mounts.
    OfWorker,
    /// A lookup of a name while the network is off.
    UnknownName,
    /// The project, its guards, or another part of the policy decides.
    Policy,
    /// A line for the directory would have no effect.
    NoEffect(String),
}

impl fmt::Display for NoGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoGrant::Unclear => "its name holds characters that no rule can have",
            NoGrant::Secret => {
                "its path has a protected or hidden name, or one of a place of credentials"
            }
            NoGrant::OfSystem => "it is in a directory of the system",
            NoGrant::AroundHome => "its directory is the home directory, or around it",
            NoGrant::Link(real) => {
                return write!(f, "the path leads through a link to {}", real.display());
            }
            NoGrant::Absent => "no directory around it exists",
            NoGrant::OfWorker => "the directories of workers are mounts: `sandbox.mounts`",
            NoGrant::UnknownName => {
                "it looks up the name of a host, which is not recorded; if you know the name: \
                 forge allow host:NAME"
            }
            NoGrant::Policy => "a rule of yours does not change it",
            NoGrant::NoEffect(why) => return f.write_str(why),
        })
    }
}

/// The proposals for the refusals of one run.
#[derive(Debug, Default)]
struct Proposals {
    /// Directories to show; `true` if they are to be written.
    mounts: BTreeMap<PathBuf, bool>,
    /// The other rules.
    rules: BTreeSet<String>,
    /// The refusals with a proposal.
    with: Vec<(Denial, ProposedGrant)>,
    /// The refusals without one.
    without: Vec<(Denial, NoGrant)>,
}

impl Proposals {
    /// Finds the proposals. `home`: the person's home directory.
    fn new(denials: &[Denial], of_workers: &[Denial], home: Option<&Path>) -> Proposals {
        let mut proposals = Proposals::default();
        for denial in denials {
            match propose(denial, home) {
                Ok(ProposedGrant::Directory(..)) if of_workers.contains(denial) => {
                    proposals.without.push((denial.clone(), NoGrant::OfWorker));
                }
                Ok(grant) => proposals.with.push((denial.clone(), grant)),
                Err(why) => proposals.without.push((denial.clone(), why)),
            }
        }
        for (_, grant) in &proposals.with {
            match grant {
                ProposedGrant::Directory(path, is_written) => {
                    *proposals.mounts.entry(path.clone()).or_default() |= is_written;
                }
                ProposedGrant::Rules(rules) => proposals.rules.extend(rules.clone()),
            }
        }
        let all = proposals.mounts.clone();
        // A directory with at least the same access shows everything below it.
        proposals.mounts.retain(|path, is_written| {
            let around = path.ancestors().skip(1);
            !around
                .filter_map(|around| all.get(around))
                .any(|of_around| *of_around || !*is_written)
        });
        proposals
    }

    /// Returns the rules of a person, each with the refusals that it lifts.
    fn personal_rules(&self) -> Vec<(String, Vec<&Denial>)> {
        let lifted = |lifts: &dyn Fn(&ProposedGrant) -> bool| -> Vec<&Denial> {
            let with = self.with.iter().filter(|(_, grant)| lifts(grant));
            with.map(|(denial, _)| denial).collect()
        };
        let mounts = self.mounts.iter().map(|(path, is_written)| {
            let verb = if *is_written { "write" } else { "read" };
            let rule = format!("{verb}:{}", path.display());
            let below = |grant: &ProposedGrant| {
                matches!(grant, ProposedGrant::Directory(one, writes)
                    if one.starts_with(path) && (*is_written || !*writes))
            };
            (rule, lifted(&below))
        });
        let rules = self.rules.iter().map(|rule| {
            let of = |grant: &ProposedGrant| {
                matches!(grant, ProposedGrant::Rules(all) if all.contains(rule))
            };
            (rule.clone(), lifted(&of))
        });
        mounts.chain(rules).collect()
    }
}

/// The rules of a person for refused attempts.
#[derive(Default)]
pub(crate) struct RuleOffers {
    /// Rules that have an effect, each with the refusals that it lifts.
    pub(crate) offered: Vec<(String, Vec<Denial>)>,
    /// The other refusals, with the reasons.
    pub(crate) without: Vec<(Denial, NoGrant)>,
}

impl RuleOffers {
    /// Finds the rules that lift refusals of the project's commands. `of_workers`: those of workers'
    /// commands.
    pub(crate) fn new(
        denials: &[Denial],
        of_workers: &[Denial],
        project: &Project,
        home: Option<&Path>,
    ) -> RuleOffers {
        let proposals = Proposals::new(denials, of_workers, home);
        let mut offers = RuleOffers {
            offered: Vec::new(),
            without: proposals.without.clone(),
        };
        for (rule, lifts) in proposals.personal_rules() {
            let lifts = lifts.into_iter().cloned();
            match reason_against(&rule, project) {
                None => offers.offered.push((rule, lifts.collect())),
                Some(why) => offers
                    .without
                    .extend(lifts.map(|denial| (denial, why.clone()))),
            }
        }
        offers
    }

    /// Returns the commands that lift the refusals, as they are typed.
    pub(crate) fn commands(&self, project: &Project) -> Vec<String> {
        let allow = command_for(project.dir(), "allow");
        let rules = self.offered.iter();
        rules
            .map(|(rule, _)| format!("{allow} {}", shell_word(rule)))
            .collect()
    }
}

/// Returns the reason for which a rule would have no effect in the project.
fn reason_against(rule: &str, project: &Project) -> Option<NoGrant> {
    let Ok(rules) = PersonalRules::parse("RULE", rule) else {
        return Some(NoGrant::Unclear);
    };
    // A space at the end is not a part of a line.
    let mut read = rules.iter();
    if read.next().is_none_or(|(text, _)| text != rule) || read.next().is_some() {
        return Some(NoGrant::Unclear);
    }
    let finding = rules.unusable_paths(project).into_iter().next()?;
    Some(NoGrant::NoEffect(finding.message().to_owned()))
}

/// Returns the grant that would have let an attempt pass.
fn propose(denial: &Denial, home: Option<&Path>) -> Result<ProposedGrant, NoGrant> {
    let operation = denial.operation;
    let reads = matches!(operation, DeniedOperation::Read | DeniedOperation::Execute);
    match denial.reason {
        DenialReason::Outside | DenialReason::NotShown | DenialReason::ReadOnly(_) => {
            let directory = grantable(denial, home)?;
            if operation != DeniedOperation::Execute {
                return Ok(ProposedGrant::Directory(directory, !reads));
            }
            let rule = |path: &PathBuf| format!("programs:{}", path.display());
            let Some(home) = home else {
                return Ok(ProposedGrant::Rules(vec![rule(&directory)]));
            };
            // A version manager's programs need all of its directory.
            let whole = PathDirs::of(&directory, Some(home)).absolute(home);
            match whole.iter().any(|path| is_secret(path)) {
                true => Err(NoGrant::Secret),
                false => Ok(ProposedGrant::Rules(whole.iter().map(rule).collect())),
            }
        }
        DenialReason::NetworkOff | DenialReason::NotNamed
            if operation == DeniedOperation::Connect =>
        {
            // A resolver's address is not that of the host.
            match denial.object.ends_with(":53") {
                true => Err(NoGrant::UnknownName),
                false => Ok(ProposedGrant::Rules(vec![format!(
                    "host:{}",
                    denial.object
                )])),
            }
        }
        _ => Err(NoGrant::Policy),
    }
}

/// Returns the directory that shows the object of an attempt.
fn grantable(denial: &Denial, home: Option<&Path>) -> Result<PathBuf, NoGrant> {
    let object = Path::new(&denial.object);
    // Escaped characters are not those of the path, and lost bytes are others.
    if !object.is_absolute() || denial.object.contains(['\\', '\u{fffd}']) {
        return Err(NoGrant::Unclear);
    }
    if is_secret(object) {
        return Err(NoGrant::Secret);
    }
    // A change of a name is a change of the directory that holds it.
    let is_of_name = matches!(
        denial.operation,
        DeniedOperation::Create
            | DeniedOperation::Remove
            | DeniedOperation::Move
            | DeniedOperation::Bind
    );
    let mut around = object.ancestors().skip(usize::from(is_of_name));
    let directory = around.find(|path| path.is_dir()).ok_or(NoGrant::Absent)?;
    let real = directory.canonicalize().map_err(|_| NoGrant::Absent)?;
    let real_home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let homes: Vec<&Path> = home.into_iter().chain(real_home.as_deref()).collect();
    let is_around_home =
        |path: &Path| homes.is_empty() || homes.iter().any(|home| home.starts_with(path));
    let is_of_system = |path: &Path| {
        let is_at_home = homes.iter().any(|home| path.starts_with(home));
        let is_scratch = path.starts_with("/var/tmp");
        let is_below = OF_SYSTEM.iter().any(|top| path.starts_with(top));
        path.components().count() <= 2 || is_below && !is_at_home && !is_scratch
    };
    for path in [directory, &real] {
        if is_of_system(path) {
            return Err(NoGrant::OfSystem);
        }
        if is_around_home(path) {
            return Err(NoGrant::AroundHome);
        }
        if is_secret(path) {
            return Err(NoGrant::Secret);
        }
    }
    // A command could have made the link, and a mount of its target is not in its place.
    match real == directory {
        true => Ok(real),
        false => Err(NoGrant::Link(real)),
    }
}

/// Returns `true` for a path with a part that a built-in pattern protects or hides, or that names
/// credentials.
fn is_secret(path: &Path) -> bool {
    let first = |pattern: &'static &str| {
        let pattern = pattern.trim_start_matches('/');
        pattern.split('/').next().map(fold)
    };
    let patterns: Vec<String> = HIDDEN
        .iter()
        .chain(PROTECTED)
        .filter_map(first)
        // All settings of a person are more than the shell's, which the pattern is about.
        .filter(|pattern| pattern != ".config")
        .collect();
    let is_named = |part: Component<'_>| match part {
        Component::Normal(name) => patterns.iter().any(|one| pattern::fits(one, name)),
        _ => false,
    };
    // Any directory can be a home directory.
    let mut homes = path.ancestors().skip(1);
    let is_of_credentials = |home: &Path| {
        path.strip_prefix(home)
            .is_ok_and(|below| credentials(below).is_some())
    };
    path.components().any(is_named) || homes.any(is_of_credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(operation: DeniedOperation, object: &Path, reason: DenialReason) -> Denial {
        Denial {
            operation,
            object: object.display().to_string(),
            reason,
            program: "cat".into(),
        }
    }

    #[test]
    fn a_proposal_names_the_directory_and_nothing_wider() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().canonicalize().unwrap().join("home");
        for name in ["library/deep", "tools", ".ssh", "secrets"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        let read = |name: &str| {
            denial(
                DeniedOperation::Read,
                &home.join(name),
                DenialReason::NotShown,
            )
        };
        let denials = [
            read("library/a.txt"),
            read("library/deep/b.txt"),
            denial(
                DeniedOperation::Execute,
                &home.join("tools/tool"),
                DenialReason::Outside,
            ),
            denial(
                DeniedOperation::Connect,
                Path::new("192.0.2.1:80"),
                DenialReason::NotNamed,
            ),
            // Never proposed.
            read(".profile"),
            read("plain"),
            read(".ssh/id_ed25519"),
            read("secrets/server.pem"),
            read("secrets/.env"),
            read("../"),
            denial(
                DeniedOperation::Create,
                Path::new("/etc/made"),
                DenialReason::Outside,
            ),
            denial(
                DeniedOperation::Write,
                &home.join("library/x"),
                DenialReason::Protected("x".into()),
            ),
        ];
        let proposals = Proposals::new(&denials, &[], Some(&home));
        let rules = proposals.personal_rules().into_iter();
        let rules: Vec<String> = rules.map(|(rule, _)| rule).collect();
        let home = home.display();
        let wanted = [
            format!("read:{home}/library"),
            "host:192.0.2.1:80".to_owned(),
            format!("programs:{home}/tools"),
        ];
        assert_eq!(rules, wanted);
        assert_eq!(proposals.without.len(), 8);
    }

    #[test]
    fn without_a_home_no_directory_is_proposed() {
        let scratch = tempfile::tempdir().unwrap();
        let object = scratch.path().join("file");
        let one = denial(DeniedOperation::Read, &object, DenialReason::Outside);
        assert_eq!(Proposals::new(&[one], &[], None).without.len(), 1);
    }
}
