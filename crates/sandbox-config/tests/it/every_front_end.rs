//! Whatever is declared, on every front-end: a called worker can do to no path what its caller
//! cannot. Asked of what enforces, not of the grant: open file tools and the policy for commands,
//! both built from the grant; and, where that has the same words, of `FileSandbox::restrict`.

use std::path::{Path, PathBuf};

use file_sandbox::{FileSandbox, Restriction, SandboxPath};
use os_sandbox::{Access, Policy};
use proptest::prelude::*;
use sandbox_config::{
    AccessQuery, Declaration, Grant, GrantChain, Mode, Operation, Project, Restrict, Verdict,
    ZoneDeclaration,
};

use crate::support::Scratch;

/// One project of each form, over the same tree. `{}`: the policy of called workers.
const FRONTS: [&str; 5] = [
    "sandbox: { mode: direct, zones: { src: { path: ./src }, docs: { path: ./docs, mode: ro } } }",
    "sandbox: { root: . }",
    "sandbox: { paths: { src: { root: ./src, mode: rw }, docs: { root: ./docs } } }",
    "sandbox: { mounts: [{ source: ., target: / }, { source: ./src/lib, target: /src/lib, readonly: true }] }",
    "sandbox: { read_paths: [./src, ./docs], write_paths: [./src/lib] }",
];

const FILES: [&str; 8] = [
    "src/a.rs",
    "src/lib/b.rs",
    "src/lib/deep/c.rs",
    "docs/d.md",
    ".git/hooks/pre-commit",
    ".env",
    "src/key.pem",
    "golem-forge.config.yaml",
];

/// Places as workers name them, on whatever front-end.
const PLACES: [&str; 8] = [
    "/",
    "/src",
    "/src/lib",
    "/src/lib/deep",
    "/lib",
    "/docs",
    "/.git",
    "/absent",
];

fn tree(config: &str) -> Scratch {
    FILES.iter().filter(|file| !file.ends_with(".yaml")).fold(
        Scratch::with_config(&format!("{config}\n")),
        // Every content is a private key: a policy does not look at files, and file tools do.
        |scratch, file| scratch.file(file, "-----BEGIN PRIVATE KEY-----\n"),
    )
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::ReadOnly), Just(Mode::ReadWrite)]
}

fn restrict() -> impl Strategy<Value = Restrict> {
    (
        proptest::sample::select(PLACES.to_vec()),
        proptest::option::of(any::<bool>()),
        any::<bool>(),
        proptest::bool::weighted(0.2),
    )
        .prop_map(|(place, readonly, rebase, delegate_only)| {
            let mut wish = Restrict::to(place).unwrap();
            if let Some(readonly) = readonly {
                wish = wish.readonly(readonly);
            }
            if rebase {
                wish = wish.rebased();
            }
            if delegate_only {
                wish = wish.delegate_only();
            }
            wish
        })
}

fn zones() -> impl Strategy<Value = Vec<ZoneDeclaration>> {
    let names = proptest::sample::select(vec!["src", "docs", "lib", "absent"]);
    let zone =
        (names, mode(), proptest::bool::weighted(0.2)).prop_map(|(name, mode, delegate_only)| {
            let wish = ZoneDeclaration::new(name, mode);
            if delegate_only {
                wish.delegate_only()
            } else {
                wish
            }
        });
    proptest::collection::vec(zone, 1..3)
}

fn declaration() -> impl Strategy<Value = Declaration> {
    prop_oneof![
        1 => Just(Declaration::undeclared()),
        1 => Just(Declaration::inherit()),
        1 => Just(Declaration::none()),
        4 => zones().prop_map(Declaration::zones),
        6 => restrict().prop_map(Declaration::restrict),
    ]
}

/// What a grant comes to, file by file of the host: read, write by file tools, and by commands.
struct Can {
    files: Option<Vec<(PathBuf, bool, bool)>>,
    policy: Option<Policy>,
}

impl Can {
    /// `all`: also what is held without being used, which is a right of whoever is called.
    fn of(grant: &Grant, top: &Path, all: bool) -> Can {
        let grant = if all {
            grant.child(&Declaration::inherit()).unwrap()
        } else {
            grant.clone()
        };
        // A part that is absent cannot be opened, and then nothing starts.
        let Ok(files) = grant.files(cap_std::ambient_authority()) else {
            return Can {
                files: None,
                policy: None,
            };
        };
        let list = FILES.iter().map(|file| {
            let host = top.join(file);
            let seen = grant
                .mounts()
                .filter(|mount| mount.usable() && host.starts_with(mount.host()))
                .max_by_key(|mount| mount.host().components().count())
                .map(|mount| {
                    let below = host
                        .strip_prefix(mount.host())
                        .unwrap()
                        .display()
                        .to_string();
                    format!("{}/{below}", mount.target().trim_end_matches('/'))
                });
            let (read, write) = match (&files, seen) {
                (Some(files), Some(seen)) => {
                    let path = SandboxPath::parse(&seen).unwrap();
                    (files.can_read(&path), files.can_write(&path))
                }
                _ => (false, false),
            };
            (host, read, write)
        });
        Can {
            files: Some(list.collect()),
            policy: Some(
                grant
                    .policy()
                    .expect("commands are shown what file tools are"),
            ),
        }
    }

    fn at_most(&self, other: &Can) -> Result<(), TestCaseError> {
        let (Some(own), Some(held)) = (&self.files, &other.files) else {
            // What the caller could not open the called one may (a part that is there of a part
            // that is not cannot be); nothing to compare.
            return Ok(());
        };
        for ((host, read, write), (_, may_read, may_write)) in own.iter().zip(held) {
            prop_assert!(read <= may_read, "reads {}", host.display());
            prop_assert!(write <= may_write, "writes {}", host.display());
        }
        if let (Some(own), Some(held)) = (&self.policy, &other.policy) {
            for (host, ..) in self.files.iter().flatten() {
                for access in [Access::READ, Access::WRITE, Access::EXECUTE] {
                    let widens = own.allows(host, access) && !held.allows(host, access);
                    prop_assert!(!widens, "commands: {access:?} {}", host.display());
                }
            }
        }
        Ok(())
    }

    /// File tools and commands agree, but for what only file tools know.
    fn agrees(&self) -> Result<(), TestCaseError> {
        let (Some(files), Some(policy)) = (&self.files, &self.policy) else {
            return Ok(());
        };
        for (host, read, write) in files {
            prop_assert_eq!(
                *read,
                policy.allows(host, Access::READ),
                "{}",
                host.display()
            );
            prop_assert_eq!(
                *write,
                policy.allows(host, Access::WRITE),
                "{}",
                host.display()
            );
        }
        Ok(())
    }
}

fn chains_narrow(project: &Project, chain: &[Declaration]) -> Result<(), TestCaseError> {
    let top = project.dir();
    let ceiling = Can::of(project.ceiling(), top, true);
    prop_assert!(ceiling.policy.is_some() && ceiling.files.is_some());
    let mut held = project.ceiling().clone();
    for declaration in chain {
        let Ok(child) = held.child(declaration) else {
            continue;
        };
        let uses = Can::of(&child, top, false);
        let passes_on = Can::of(&child, top, true);
        uses.agrees()?;
        uses.at_most(&passes_on)?;
        passes_on.at_most(&Can::of(&held, top, true))?;
        passes_on.at_most(&ceiling)?;
        held = child;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_only_narrows(
        front in proptest::sample::select(FRONTS.to_vec()),
        chain in proptest::collection::vec(declaration(), 1..5),
    ) {
        let scratch = tree(front);
        chains_narrow(&scratch.load().unwrap(), &chain)?;
    }

    /// With `own` a chain does not narrow; the project still bounds every link of it.
    #[test]
    fn own_sandboxes_stay_below_the_project(chain in proptest::collection::vec(declaration(), 1..5)) {
        let scratch = tree(&format!("{}\ndelegation: {{ child_sandbox_policy: own }}", FRONTS[2]));
        let project = scratch.load().unwrap();
        let ceiling = Can::of(project.ceiling(), project.dir(), true);
        let mut held = project.ceiling().clone();
        for declaration in &chain {
            let Ok(child) = held.child(declaration) else { continue };
            Can::of(&child, project.dir(), true).at_most(&ceiling)?;
            prop_assert!(child.shell().is_some() <= held.shell().is_some());
            held = child;
        }
    }

    /// The same words in `file_sandbox` come to the same.
    #[test]
    fn a_restriction_is_what_file_sandbox_makes_of_it(
        front in proptest::sample::select(FRONTS.to_vec()),
        wishes in proptest::collection::vec(
            (proptest::sample::select(PLACES.to_vec()), proptest::option::of(any::<bool>()), any::<bool>()),
            1..4,
        ),
    ) {
        let scratch = tree(front);
        let project = scratch.load().unwrap();
        let open = |grant: &Grant| grant.files(cap_std::ambient_authority());
        let mut grant = project.ceiling().clone();
        let mut files = open(&grant).unwrap().unwrap();
        for (place, readonly, rebase) in wishes {
            let mut wish = Restrict::to(place).unwrap();
            let at = SandboxPath::parse(place).unwrap();
            let mut restriction = Restriction::nothing().keep(at.clone());
            if let Some(readonly) = readonly {
                wish = wish.readonly(readonly);
                restriction = restriction.read_only(readonly);
            }
            if rebase {
                wish = wish.rebased();
                restriction = restriction.rebase(at);
            }
            let child = grant.child(&Declaration::restrict(wish));
            let opened = child.as_ref().ok().map(open).and_then(Result::ok).flatten();
            let restricted = files.restrict(&restriction).ok();
            prop_assert_eq!(opened.is_some(), restricted.is_some(), "{} of {}", place, front);
            let (Ok(child), Some(opened), Some(restricted)) = (child, opened, restricted) else { continue };
            same(&opened, &restricted)?;
            (grant, files) = (child, opened);
        }
    }
}

/// What a grant says of a path is what the opened file tools do: every restriction of every form,
/// asked for every operation on every path.
#[test]
fn what_a_grant_says_of_a_path_holds() {
    const PATHS: [&str; 6] = [
        "/src/a.rs",
        "/src/lib/b.rs",
        "/docs/d.md",
        "/lib/b.rs",
        "/a.rs",
        "/b.rs",
    ];
    let mut asked = 0;
    for front in FRONTS {
        let scratch = tree(front).file("workers/w.worker", "---\n---\n");
        let project = scratch.load().unwrap();
        for (words, wish) in every_restriction() {
            let Ok(child) = project.ceiling().child(&Declaration::restrict(wish)) else {
                continue;
            };
            let Ok(Some(files)) = child.files(cap_std::ambient_authority()) else {
                continue;
            };
            for path in PATHS {
                let at = SandboxPath::parse(path).unwrap();
                for operation in Operation::ALL {
                    let can = match operation {
                        Operation::Read => files.can_read(&at),
                        Operation::Write | Operation::Delete => files.can_write(&at),
                    };
                    let refusal = child.refusal(path, operation);
                    let what = format!("{operation} {path}, {words}, of {front}: {refusal:?}");
                    // A guard refuses more than what is held does.
                    let guarded = child
                        .mount_at(path)
                        .is_some_and(|mount| mount.host().ends_with(".git"));
                    if guarded {
                        assert!(refusal.is_none() || !can, "{what}");
                    } else {
                        assert_eq!(refusal.is_none(), can, "{what}");
                    }
                    asked += 1;
                }
            }
        }
        for operation in Operation::ALL {
            let absent = GrantChain::from_project(&project)
                .decisive(&AccessQuery::path("/absent/x", operation));
            assert!(
                absent.verdict == Verdict::Block || project.ceiling().mount("/").is_some(),
                "{operation} /absent/x of {front}"
            );
        }
    }
    assert!(asked > 1000, "only {asked} questions were asked");
}

fn every_restriction() -> Vec<(String, Restrict)> {
    let mut all = Vec::new();
    for place in PLACES {
        for readonly in [None, Some(false), Some(true)] {
            for (rebased, delegate_only) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let mut wish = Restrict::to(place).unwrap();
                if let Some(readonly) = readonly {
                    wish = wish.readonly(readonly);
                }
                if rebased {
                    wish = wish.rebased();
                }
                if delegate_only {
                    wish = wish.delegate_only();
                }
                let words = format!(
                    "restrict: {place}, readonly: {readonly:?}, rebased: {rebased}, delegate only: {delegate_only}"
                );
                all.push((words, wish));
            }
        }
    }
    all
}

fn same(one: &FileSandbox, other: &FileSandbox) -> Result<(), TestCaseError> {
    for base in ["", "/src", "/src/lib", "/docs", "/lib"] {
        for file in FILES
            .iter()
            .chain(&["a.rs", "b.rs", "d.md", "hooks/pre-commit", "deep/c.rs"])
        {
            let path = SandboxPath::parse(&format!("{base}/{file}")).unwrap();
            prop_assert_eq!(
                one.can_read(&path),
                other.can_read(&path),
                "read {}",
                path.as_str()
            );
            prop_assert_eq!(
                one.can_write(&path),
                other.can_write(&path),
                "write {}",
                path.as_str()
            );
        }
    }
    Ok(())
}
