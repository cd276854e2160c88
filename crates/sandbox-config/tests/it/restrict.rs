//! A worker of a root project narrows to a subtree, to reading, or both.

use sandbox_config::{
    ConfigChoice, Declaration, Escalation, Grant, Mode, Project, Restrict, WithoutDirectories, load,
};

use crate::support::Scratch;

const RO: Mode = Mode::ReadOnly;
const RW: Mode = Mode::ReadWrite;

fn project() -> (Scratch, Project) {
    let scratch = Scratch::new()
        .file("src/a.rs", "a")
        .file("src/lib/b.rs", "b")
        .file("docs/c.md", "c")
        .file(".git/hooks/pre-commit", "h");
    let project = load_root(&scratch);
    (scratch, project)
}

fn load_root(scratch: &Scratch) -> Project {
    let mut sources = scratch.sources();
    sources.choice = ConfigChoice::None;
    sources.without_directories = WithoutDirectories::WholeDirectory;
    load(&sources).unwrap()
}

fn to(place: &str) -> Restrict {
    Restrict::to(place).unwrap()
}

fn child(parent: &Grant, wish: Restrict) -> Result<Grant, Escalation> {
    parent.child(&Declaration::restrict(wish))
}

/// `/src ro`, one line per mount.
fn table(grant: &Grant) -> Vec<String> {
    grant
        .mounts()
        .map(|mount| format!("{} {}", mount.target(), mount.mode()))
        .collect()
}

#[test]
fn the_table_of_readonly() {
    let (_scratch, project) = project();
    let all = || Restrict::everything();
    let rw = project.ceiling();
    let ro = child(rw, all().readonly(true)).unwrap();
    for (parent, wish, expected) in [
        (rw, all(), Ok(RW)),
        (rw, all().readonly(true), Ok(RO)),
        (rw, all().readonly(false), Ok(RW)),
        (&ro, all(), Ok(RO)),
        (&ro, all().readonly(true), Ok(RO)),
        (
            &ro,
            all().readonly(false),
            Err("Cannot upgrade read-only sandbox to read-write".to_owned()),
        ),
    ] {
        let got = child(parent, wish.clone())
            .map(|grant| grant.mount_access("/").unwrap())
            .map_err(|escalation| escalation.to_string());
        assert_eq!(got, expected, "{wish:?}");
    }
}

#[test]
fn a_chain_cannot_climb() {
    let (_scratch, project) = project();
    let src = child(project.ceiling(), to("/src")).unwrap();
    assert_eq!(table(&src), ["/src rw"]);
    assert_eq!(
        table(&child(&src, to("/src/lib")).unwrap()),
        ["/src/lib rw"]
    );
    for place in ["/docs", "/", "/srcs", "/src/../docs"] {
        let climbed = child(&src, to(place));
        match place {
            // All that is held is what lies below it.
            "/" => assert_eq!(table(&climbed.unwrap()), ["/src rw"]),
            _ => assert!(climbed.is_err(), "{place}"),
        }
    }
    let lib = child(&src, to("/src/lib").readonly(true)).unwrap();
    assert_eq!(table(&lib), ["/src/lib ro"]);
    assert_eq!(table(&child(&lib, to("/src")).unwrap()), ["/src/lib ro"]);
    assert!(child(&lib, to("/src").readonly(false)).is_err());
    // Whoever inherits holds what its caller holds.
    assert_eq!(lib.child(&Declaration::undeclared()).unwrap(), lib);
    assert_eq!(lib.child(&Declaration::inherit()).unwrap(), lib);
}

#[test]
fn rebase_makes_a_new_top_for_everybody_below() {
    let (_scratch, project) = project();
    let src = child(project.ceiling(), to("/src").rebased()).unwrap();
    assert_eq!(table(&src), ["/ rw"]);
    assert_eq!(src.mount("/").unwrap().host(), project.dir().join("src"));
    // Places are counted from the top that the caller sees: it has no name for another.
    let lib = child(&src, to("/lib")).unwrap();
    assert_eq!(table(&lib), ["/lib rw"]);
    let lib = child(&src, to("/lib").rebased()).unwrap();
    assert_eq!(table(&lib), ["/ rw"]);
    assert_eq!(
        lib.mount("/").unwrap().host(),
        project.dir().join("src/lib")
    );
    let docs = child(&src, to("/docs")).unwrap();
    assert_eq!(
        docs.mounts().next().unwrap().host(),
        project.dir().join("src/docs")
    );
}

#[test]
fn what_is_refused_says_so_to_people_and_to_models() {
    let (_scratch, project) = project();
    let src = child(project.ceiling(), to("/src").readonly(true)).unwrap();
    let refused = child(&src, to("/docs").readonly(false)).unwrap_err();
    insta::assert_snapshot!(refused.for_person(), @r#"
    error[worker.exceeds_parent]: Child requests '/docs' but parent doesn't have it
       = note: Available: /src
       = help: a place is counted from the `/` that the caller sees
    "#);
    insta::assert_snapshot!(refused.for_model(), @r#"
    Child requests '/docs' but parent doesn't have it
    Available: /src
    "#);
    let refused = child(&src, to("/src").readonly(false)).unwrap_err();
    insta::assert_snapshot!(refused.for_person(), @r#"
    error[worker.exceeds_parent]: Cannot upgrade read-only sandbox to read-write
       = help: leave `readonly` out, or make it read-write for the caller
    "#);
    insta::assert_snapshot!(refused.for_model(), @r#"
    Cannot upgrade read-only sandbox to read-write
    "#);
}

#[test]
fn files_say_it_the_same_way() {
    let front = "---\nsandbox:\n  restrict: /src\n  readonly: true\n---\n";
    let scratch = Scratch::new()
        .file("workers/analyzer.worker", front)
        .file("workers/editor.worker", "---\n---\nEdit.\n")
        .file(
            "workers/climber.worker",
            "---\nsandbox: { restrict: /docs, readonly: false }\n---\n",
        );
    let project = load_root(&scratch);
    let grant =
        |name: &str, parent: &Grant| parent.child(project.worker(name).unwrap().declaration());
    let analyzer = grant("analyzer", project.ceiling()).unwrap();
    assert_eq!(table(&analyzer), ["/src ro"]);
    assert_eq!(
        table(&grant("editor", project.ceiling()).unwrap()),
        ["/ rw"]
    );
    assert_eq!(table(&grant("editor", &analyzer).unwrap()), ["/src ro"]);
    insta::assert_snapshot!(grant("climber", &analyzer).unwrap_err().for_person(), @r#"
    error[worker.exceeds_parent]: Child requests '/docs' but parent doesn't have it
      --> workers/climber.worker:2:22
       |
     2 | sandbox: { restrict: /docs, readonly: false }
       |                      ^^^^^
       = note: Available: /src
       = help: a place is counted from the `/` that the caller sees
    "#);
    let read_only = child(project.ceiling(), Restrict::everything().readonly(true)).unwrap();
    insta::assert_snapshot!(grant("climber", &read_only).unwrap_err().for_person(), @r#"
    error[worker.exceeds_parent]: Cannot upgrade read-only sandbox to read-write
      --> workers/climber.worker:2:39
       |
     2 | sandbox: { restrict: /docs, readonly: false }
       |                                       ^^^^^
       = help: leave `readonly` out, or make it read-write for the caller
    "#);
}

#[test]
fn mistakes_show_what_to_write() {
    let check = |front: &str, root: bool| {
        let scratch = Scratch::new().file("workers/w.worker", format!("---\n{front}\n---\n"));
        let project = if root {
            load_root(&scratch)
        } else {
            scratch.load().unwrap()
        };
        match project.workers() {
            Ok(_) => "no mistakes".to_owned(),
            Err(mistakes) => mistakes.to_string(),
        }
    };
    insta::assert_snapshot!(check("sandbox: { restrict: src }", true), @r#"
    error[config.bad_value]: `src` does not begin with `/`
      --> workers/w.worker:2:22
       |
     2 | sandbox: { restrict: src }
       |                      ^^^
       = help: a place in the sandbox begins with `/`: `restrict: /src`
    "#);
    insta::assert_snapshot!(check("sandbox: { restrict: /../x, readonly: \"yes\" }", true), @r#"
    error[config.bad_value]: `/../x` climbs above `/`
      --> workers/w.worker:2:22
       |
     2 | sandbox: { restrict: /../x, readonly: "yes" }
       |                      ^^^^^
       = help: a place in the sandbox begins with `/`: `restrict: /x`

    error[config.wrong_type]: `sandbox.readonly` must be true or false, not a string
      --> workers/w.worker:2:39
       |
     2 | sandbox: { restrict: /../x, readonly: "yes" }
       |                                       ^^^^^
       = help: write `true`
    "#);
    insta::assert_snapshot!(check("sandbox: { zones: [{ name: src, mode: ro }] }", true), @r#"
    error[config.front_end]: this project has one root, not zones: a worker restricts itself to a subtree
      --> workers/w.worker:2:12
       |
     2 | sandbox: { zones: [{ name: src, mode: ro }] }
       |            ^^^^^
       = help: write
               sandbox:
                 restrict: /src
                 readonly: true
    "#);
    insta::assert_snapshot!(check("sandbox: { restrict: /cache/x, readonly: true }", false), @r#"
    error[config.front_end]: `restrict` is for projects with one root, and without `sandbox` in its file this project has the default zones
      --> workers/w.worker:2:12
       |
     2 | sandbox: { restrict: /cache/x, readonly: true }
       |            ^^^^^^^^
       = help: write
               sandbox:
                 zones:
                   - { name: cache, mode: ro }
    "#);
    insta::assert_snapshot!(check("sandbox: { readonly: true }", false), @r#"
    error[config.front_end]: `readonly` is for projects with one root, and without `sandbox` in its file this project has the default zones
      --> workers/w.worker:2:12
       |
     2 | sandbox: { readonly: true }
       |            ^^^^^^^^
       = help: write
               sandbox:
                 zones:
                   - { name: cache, mode: ro }
                   - { name: workspace, mode: ro }
    "#);
    insta::assert_snapshot!(check("sandbox: { zones: [{ name: cache }], readonly: true }", false), @r#"
    error[config.front_end]: a worker names zones or a subtree: `zones` and `readonly`
      --> workers/w.worker:2:38
       |
     2 | sandbox: { zones: [{ name: cache }], readonly: true }
       |                                      ^^^^^^^^
      ::: workers/w.worker:2:12   `zones` is here
       = help: keep one of them; for a read-only zone write `mode: ro` beside its name
    "#);
    insta::assert_snapshot!(check("sandbox: { root: . }", true), @r#"
    error[config.foreign_key]: unknown key `root`
      --> workers/w.worker:2:12
       |
     2 | sandbox: { root: . }
       |            ^^^^
       = help: the root belongs to the project file
    "#);
}

#[cfg(feature = "files")]
mod files {
    use super::*;
    use file_sandbox::{ErrorKind, FileSandbox, ListOptions};

    fn open(grant: &Grant) -> FileSandbox {
        grant.files(cap_std::ambient_authority()).unwrap().unwrap()
    }

    fn can(files: &FileSandbox, path: &str) -> (bool, bool) {
        let path = files.path(path).unwrap();
        (files.can_read(&path), files.can_write(&path))
    }

    #[test]
    fn a_subtree_is_all_there_is() {
        let (_scratch, project) = project();
        let files = open(&child(project.ceiling(), to("/src")).unwrap());
        assert_eq!(files.readable_roots(), ["/src"]);
        assert_eq!(can(&files, "/src/lib/b.rs"), (true, true));
        assert_eq!(can(&files, "/docs/c.md"), (false, false));
        let files = open(&child(project.ceiling(), to("/src").rebased()).unwrap());
        assert_eq!(can(&files, "/lib/b.rs"), (true, true));
        let top = files.path("/").unwrap();
        let names = format!("{:?}", files.list(&top, ListOptions::default()).unwrap());
        assert!(names.contains("a.rs") && !names.contains("docs"), "{names}");
    }

    #[test]
    fn guards_hold_in_a_part() {
        let (_scratch, project) = project();
        let git = child(project.ceiling(), to("/.git").rebased()).unwrap();
        let files = open(&git);
        let hook = files.path("/hooks/pre-commit").unwrap();
        let denied = files.write(&hook, "x", Default::default()).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    }

    #[test]
    fn no_link_is_followed_to_a_part() {
        let (scratch, project) = project();
        let granted = child(project.ceiling(), to("/src/lib")).unwrap();
        let away = scratch.path().join("src");
        std::fs::rename(&away, scratch.path().join("moved")).unwrap();
        let scratch = scratch.link("docs", "src");
        std::fs::create_dir(scratch.path().join("docs/lib")).unwrap();
        let refused = granted.files(cap_std::ambient_authority()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cannot open /src/lib: it is not a directory"
        );
        #[cfg(feature = "process")]
        assert!(granted.policy().is_err());
    }

    #[test]
    fn what_is_only_held_is_not_touched_and_handed_on() {
        let (_scratch, project) = project();
        let coordinator = child(project.ceiling(), to("/src").delegate_only()).unwrap();
        assert!(
            coordinator
                .files(cap_std::ambient_authority())
                .unwrap()
                .is_none()
        );
        #[cfg(feature = "process")]
        assert!(coordinator.policy().unwrap().mounts().is_empty());
        for called in [
            Declaration::undeclared(),
            Declaration::inherit(),
            Declaration::restrict(to("/src").readonly(true)),
        ] {
            let files = open(&coordinator.child(&called).unwrap());
            assert!(can(&files, "/src/a.rs").0, "{called:?}");
        }
    }
}

#[cfg(feature = "process")]
mod commands {
    use super::*;
    use os_sandbox::Access;

    #[test]
    fn commands_see_the_subtree_with_its_guards() {
        let (_scratch, project) = project();
        let at = |path: &str| project.dir().join(path);
        let src = child(project.ceiling(), to("/src").readonly(true)).unwrap();
        let policy = src.policy().unwrap();
        assert!(policy.allows(at("src/a.rs"), Access::READ));
        assert!(!policy.allows(at("src/a.rs"), Access::WRITE));
        assert!(!policy.allows(at("docs/c.md"), Access::READ));

        let git = child(project.ceiling(), to("/.git")).unwrap();
        let policy = git.policy().unwrap();
        assert!(policy.allows(at(".git/HEAD"), Access::WRITE));
        assert!(!policy.allows(at(".git/hooks/pre-commit"), Access::WRITE));
        assert!(!policy.allows(at(".git/config"), Access::WRITE));
        // A part that lies in a guarded name.
        let hooks = child(project.ceiling(), to("/.git/hooks").rebased()).unwrap();
        let policy = hooks.policy().unwrap();
        assert!(!policy.allows(at(".git/hooks/pre-commit"), Access::WRITE));
        assert!(policy.allows(at(".git/hooks/pre-commit"), Access::READ));
    }
}

#[test]
fn a_lineage_follows_a_file_through_a_new_top() {
    use sandbox_config::{AccessQuery, GrantChain, Operation, Verdict};
    let scratch = Scratch::new()
        .file(
            "workers/boss.worker",
            "---\nsandbox: { restrict: /src, rebase: true }\nworkers: ['*']\n---\n",
        )
        .file(
            "workers/reader.worker",
            "---\nsandbox: { restrict: /lib, readonly: true }\n---\n",
        );
    let project = load_root(&scratch);
    let worker = |name: &str| project.worker(name).unwrap();
    let boss = GrantChain::from_project(&project)
        .entry(&worker("boss"))
        .unwrap();
    let reader = boss.call(&worker("reader")).unwrap();
    let table = |path: &str, operation| {
        let answers = reader.ask(&AccessQuery::path(path, operation));
        let lines: Vec<String> = answers
            .iter()
            .map(|answer| {
                let at = answer.origin.as_ref().map(ToString::to_string);
                let at = at.unwrap_or_default();
                format!("{}: {} ({}) {at}", answer.who, answer.verdict, answer.rule)
            })
            .collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(table("/lib/b.rs", Operation::Write), @r#"
    the project: preApproved (write in / is `preApproved`) 
    boss: preApproved (write in / is `preApproved`) 
    reader: blocked ('/lib' is read-only for this worker) workers/reader.worker:2:38
    "#);
    insta::assert_snapshot!(table("/a.rs", Operation::Read), @r#"
    the project: preApproved (read in / is `preApproved`) 
    boss: preApproved (read in / is `preApproved`) 
    reader: blocked ('/a.rs' not available to this worker) workers/reader.worker:2:1
    "#);
    let decisive = reader.decisive(&AccessQuery::path("/lib/b.rs", Operation::Write));
    assert_eq!(
        (decisive.who.as_str(), decisive.verdict),
        ("reader", Verdict::Block)
    );
}
