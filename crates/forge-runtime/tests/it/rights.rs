//! What a mount says about reading, writing and deleting holds for the files in it, by whatever
//! tool and whatever way they are reached.
//!
//! [`ROWS`] lists every tool once, with what it reads, changes and tells; the table is made from
//! that list, and held against a rule in words: a call is as strict as the strictest word on what
//! it needs, in the mount of the path and in the mount of the file that the path leads to. What a
//! search meets on its way down is left out where it is blocked, and asked about where it is asked.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forge_git::{BranchName, GitService, Repo, StagedStore};
use forge_runtime::{Extras, Isolation, OsSandbox, RepositorySource, equip};
use forge_tools::{
    ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, CallRequest, Caller, FailureCode,
    NoRecord, Toolbox, Verdict,
};
use proptest::prelude::*;
use sandbox_config::{Sources, TrustedSettings, load};
use serde_json::{Value, json};

use crate::memory::MemoryRepositories;

/// In names and contents of the mount that is looked for, and nowhere else.
const NAME: &str = "canary-name";
const TEXT: &str = "canary-text";

/// What a tool needs of the file that its path leads to.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Read,
    Write,
    Delete,
}

/// How a tool takes a path.
enum Takes {
    /// A file, with what the call needs of it.
    File(&'static [Need]),
    /// A directory, of which it shows the names.
    Directory,
    /// A directory, and whatever lies below it.
    Below,
    /// A name where nothing is yet.
    New(&'static [Need]),
    /// No path of a mount; why it cannot reach one.
    None(&'static str),
}

struct Row {
    tool: &'static str,
    takes: Takes,
    call: fn(&str) -> Value,
}

const fn row(tool: &'static str, takes: Takes, call: fn(&str) -> Value) -> Row {
    Row { tool, takes, call }
}

use Need::{Delete, Read, Write};

/// Every tool that a worker may have. One that is not here fails
/// [`every_tool_has_its_rows`].
const ROWS: &[Row] = &[
    row("read_file", Takes::File(&[Read]), |p| json!({"path": p})),
    row(
        "write_file",
        Takes::File(&[Write]),
        |p| json!({"path": p, "content": "new"}),
    ),
    row(
        "write_file",
        Takes::New(&[Write]),
        |p| json!({"path": p, "content": "new"}),
    ),
    row(
        "write_file",
        Takes::File(&[Read, Write]),
        |p| json!({"path": p, "content": "new", "if_match": "0".repeat(64)}),
    ),
    row(
        "append_file",
        Takes::File(&[Write]),
        |p| json!({"path": p, "content": "new"}),
    ),
    row(
        "edit_file",
        Takes::File(&[Read, Write]),
        |p| json!({"path": p, "old_text": "first", "new_text": "new"}),
    ),
    row(
        "edit_file",
        Takes::File(&[Read, Write]),
        |p| json!({"path": p, "old_text": "canary-taxt", "new_text": "new"}),
    ),
    row("list_files", Takes::Directory, |p| json!({"path": p})),
    row(
        "list_files",
        Takes::Below,
        |p| json!({"path": p, "pattern": "**/*"}),
    ),
    row(
        "search_files",
        Takes::Below,
        |p| json!({"path": p, "pattern": "canary"}),
    ),
    row(
        "search_files",
        Takes::File(&[Read]),
        |p| json!({"path": p, "pattern": "canary"}),
    ),
    row(
        "delete_file",
        Takes::File(&[Delete]),
        |p| json!({"path": p}),
    ),
    row(
        "delete_file",
        Takes::File(&[Delete]),
        |p| json!({"path": p, "recursive": true}),
    ),
    row(
        "move_file",
        Takes::File(&[Read, Delete]),
        |p| json!({"from": p, "to": "/free/moved"}),
    ),
    row(
        "move_file",
        Takes::New(&[Write]),
        |p| json!({"from": "/free/other", "to": p}),
    ),
    row(
        "copy_file",
        Takes::File(&[Read]),
        |p| json!({"from": p, "to": "/free/copied"}),
    ),
    row(
        "copy_file",
        Takes::New(&[Write]),
        |p| json!({"from": "/free/other", "to": p}),
    ),
    row("create_dir", Takes::New(&[Write]), |p| json!({"path": p})),
    row("file_exists", Takes::File(&[Read]), |p| json!({"path": p})),
    row("file_info", Takes::File(&[Read]), |p| json!({"path": p})),
    row("hash_file", Takes::File(&[Read]), |p| json!({"path": p})),
    row(
        "git_stage",
        Takes::File(&[Read]),
        |p| json!({"files": [p], "repo": "octo/it", "message": "m", "from": "/"}),
    ),
    row(
        "read_output",
        Takes::None("results of earlier calls only"),
        |_| json!({}),
    ),
    row(
        "shell",
        Takes::None("commands see no mount that may not be read"),
        |_| json!({}),
    ),
    row(
        "git_status",
        Takes::None("files that a pull has put there"),
        |_| json!({}),
    ),
    row("git_pull", Takes::None("files of a repository"), |_| {
        json!({})
    }),
    row("git_diff", Takes::None("what is staged"), |_| json!({})),
    row("git_list_staged", Takes::None("what is staged"), |_| {
        json!({})
    }),
    row("git_discard", Takes::None("what is staged"), |_| json!({})),
];

/// Answers, and counts; keeps what was asked.
#[derive(Default)]
struct Person {
    agrees: AtomicBool,
    asked: AtomicUsize,
    last: Mutex<String>,
}

struct Asks(Arc<Person>);

impl Approver for Asks {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        *self.0.last.lock().unwrap() = request.preview();
        let agrees = self.0.agrees.load(Ordering::SeqCst);
        Box::pin(async move {
            let by = "a test".to_owned();
            match agrees {
                true => ApprovalAnswer::AllowOnce { by },
                false => ApprovalAnswer::Deny { by, reason: None },
            }
        })
    }
}

/// What a mount says: read, write, delete.
type Words = [Verdict; 3];

const FREE: Words = [Verdict::Allow; 3];

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "preApproved",
        Verdict::Ask => "ask",
        Verdict::Block => "blocked",
    }
}

fn all_words() -> Vec<Words> {
    const ALL: [Verdict; 3] = [Verdict::Allow, Verdict::Ask, Verdict::Block];
    let mut words = Vec::new();
    for read in ALL {
        for write in ALL {
            for delete in ALL {
                words.push([read, write, delete]);
            }
        }
    }
    words
}

struct World {
    dir: tempfile::TempDir,
    toolbox: Toolbox,
    person: Arc<Person>,
}

impl World {
    /// `/door` is where paths begin, `/it` is what they lead to, `/door/in` is the same sort of
    /// mount inside of the other.
    fn new(door: Words, it: Words) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mount = |name: &str, said: Words| {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            format!(
                "    {name}: {{path: ./{name}, mode: rw, approval: {{read: {}, write: {}, delete: {}}}}}\n",
                word(said[0]),
                word(said[1]),
                word(said[2])
            )
        };
        let config = format!(
            "sandbox:\n  mode: direct\n  zones:\n{}{}{}git: {{ repositories: [{{ repo: octo/it, access: rw }}] }}\n",
            mount("door", door),
            mount("it", it),
            mount("free", FREE),
        );
        std::fs::write(dir.path().join("golem-forge.config.yaml"), &config).unwrap();
        let mut sources = Sources::new(dir.path());
        sources.trust = TrustedSettings::Given;
        sources.user_file = Some(dir.path().join("user.yaml"));
        let project = load(&sources).unwrap_or_else(|mistakes| panic!("{config}\n{mistakes}"));
        let repositories = MemoryRepositories::new();
        let repo = Repo::parse("octo/it").unwrap();
        repositories.commit(&repo, &BranchName::default(), [("a.md", Some("one\n"))]);
        let git = GitService::new(repositories, StagedStore::in_memory().unwrap());
        let mut isolation = Isolation::from(OsSandbox::Off);
        isolation.repositories = RepositorySource::of(Arc::new(git));
        let person = Arc::new(Person::default());
        let equipped = equip(
            project.ceiling(),
            Caller::new("main"),
            &isolation,
            Arc::new(Asks(person.clone())),
            Arc::new(NoRecord),
            Arc::default(),
            Extras::default(),
        );
        let toolbox = equipped.unwrap_or_else(|e| panic!("{config}\n{e}")).toolbox;
        let world = World {
            dir,
            toolbox,
            person,
        };
        world.fill();
        world
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }

    /// Everything as it was.
    fn fill(&self) {
        for name in ["door", "it", "free"] {
            for entry in std::fs::read_dir(self.at(name)).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() && !path.is_symlink() {
                    true => std::fs::remove_dir_all(path).unwrap(),
                    false => std::fs::remove_file(path).unwrap(),
                }
            }
        }
        let write = |at: &str, text: &str| std::fs::write(self.at(at), text).unwrap();
        write(&format!("it/{NAME}"), &format!("first\n{TEXT}\nlast\n"));
        std::fs::create_dir(self.at("it/sub")).unwrap();
        write("it/sub/plain", TEXT);
        write("free/other", "other\n");
        write("door/own", "own\n");
        link(&self.at(&format!("it/{NAME}")), &self.at("door/link"));
        link(&self.at("it"), &self.at("door/dir"));
    }

    fn call(&self, rt: &tokio::runtime::Runtime, tool: &str, args: Value, agrees: bool) -> Outcome {
        self.person.agrees.store(agrees, Ordering::SeqCst);
        self.person.asked.store(0, Ordering::SeqCst);
        let result = rt.block_on(self.toolbox.call(CallRequest::new(tool, args)));
        let mut told = result.to_json();
        // What it says for people is no part of what a model sees.
        told["decision"] = Value::Null;
        Outcome {
            asked: self.person.asked.load(Ordering::SeqCst),
            code: result.code,
            told: format!("{}\n{told}", result.content),
        }
    }
}

fn link(to: &Path, at: &Path) {
    std::os::unix::fs::symlink(to, at).unwrap();
}

struct Outcome {
    asked: usize,
    code: Option<FailureCode>,
    told: String,
}

impl Outcome {
    fn verdict(&self) -> Verdict {
        match (self.code, self.asked) {
            (Some(FailureCode::Blocked), 0) => Verdict::Block,
            (_, 0) => Verdict::Allow,
            (_, _) => Verdict::Ask,
        }
    }
}

fn rt() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

fn need(words: Words, needs: &[Need]) -> Verdict {
    let said = needs.iter().map(|need| match need {
        Read => words[0],
        Write => words[1],
        Delete => words[2],
    });
    said.max().unwrap_or(Verdict::Allow)
}

/// A way to `/it`: the path, whether it goes by `/door`, and what it leads to.
const FILES: [(&str, bool); 4] = [
    ("/it/canary-name", false),
    ("/it/sub/../canary-name", false),
    ("/door/link", true),
    ("/door/dir/canary-name", true),
];
const NEW: [(&str, bool); 2] = [("/it/new", false), ("/door/dir/new", true)];
const DIRECTORIES: [(&str, bool); 2] = [("/it", false), ("/door/dir", true)];
/// Names that are not there, beside one that is.
const MISSED: [(&str, bool); 2] = [("/it/canary-nam", false), ("/door/dir/canary-nam", true)];

/// What is due to one call.
#[derive(Debug, Clone, Copy)]
struct Due {
    verdict: Verdict,
    /// Whether all that it could tell may be told without asking.
    open: bool,
    /// Whether it is asked about telling.
    reads: bool,
}

/// One call against the rule, refused and agreed to.
fn hold(world: &World, rt: &tokio::runtime::Runtime, row: &Row, path: &str, due: Due, about: &str) {
    for agrees in [false, true] {
        let found = world.call(rt, row.tool, (row.call)(path), agrees);
        let said = || format!("{} {path}, {about}, {due:?}: {}", row.tool, found.told);
        let verdict = found.verdict();
        // About what is missing, or is not what it has to be, nobody is asked, where that may be
        // told.
        let args = (row.call)(path);
        let is_other = args.get("if_match").is_some() || args["old_text"] == "canary-taxt";
        let is_hopeless = (path.ends_with("canary-nam") || is_other) && due.open;
        let fits = verdict == due.verdict || is_hopeless && verdict == Verdict::Allow;
        assert!(fits, "{}", said());
        assert!(found.asked <= 1, "{}", said());
        if !(due.open || due.reads && agrees && verdict == Verdict::Ask) {
            let mut shown = found.told.replace(path, "");
            if path.ends_with(NAME) {
                shown = shown.replace(NAME, "");
            }
            let shown = shown.replace("`canary`", "").replace("canary-taxt", "");
            assert!(!shown.contains("canary"), "{}", said());
        }
        world.fill();
    }
}

/// Every tool × every way in × what both mounts say, against the rule.
#[test]
fn every_tool_keeps_the_word_of_every_mount_that_it_touches() {
    let rt = rt();
    let mut doors = vec![FREE];
    for operation in 0..3 {
        for verdict in [Verdict::Ask, Verdict::Block] {
            let mut words = FREE;
            words[operation] = verdict;
            doors.push(words);
        }
    }
    let mut cells = Vec::new();
    for it in all_words() {
        for door in &doors {
            // Where only one of both is special, the other is free.
            if it == FREE || *door == FREE || (it[0], it[1]) == (Verdict::Ask, Verdict::Allow) {
                cells.push((it, *door));
            }
        }
    }
    // Every word alone in a sample, and one in three of those that say several things.
    let several = |words: &[Words; 2]| {
        words
            .as_flattened()
            .iter()
            .filter(|w| **w != FREE[0])
            .count()
            > 1
    };
    let cells = test_sample::cases("mounts: words", cells, |at, (it, door)| {
        at % 3 == 0 || !several(&[*it, *door])
    });
    let mut calls = 0;
    for (it, door) in cells {
        {
            let door = &door;
            let world = World::new(*door, it);
            let about = format!("door {door:?}, it {it:?}");
            for row in ROWS {
                let (ways, needs): (Vec<(&str, bool)>, &[Need]) = match row.takes {
                    Takes::File(needs) => ([&FILES[..], &MISSED[..]].concat(), needs),
                    Takes::New(needs) => (NEW.to_vec(), needs),
                    Takes::Directory | Takes::Below => (DIRECTORIES.to_vec(), &[Read]),
                    Takes::None(_) => continue,
                };
                for (path, by_door) in ways {
                    // A link itself is deleted, and stays in its directory.
                    let kept = path == "/door/link" && row.tool == "delete_file";
                    let mut verdict = match kept {
                        true => Verdict::Allow,
                        false => need(it, needs),
                    };
                    // It is the link that goes away, and what it leads to that is read.
                    if path == "/door/link" && row.tool == "move_file" {
                        verdict = need(it, &[Read]);
                    }
                    if by_door {
                        verdict = verdict.max(need(*door, needs));
                    }
                    let open = it[0] == Verdict::Allow;
                    let reads = needs.contains(&Read);
                    let due = Due {
                        verdict,
                        open,
                        reads,
                    };
                    hold(&world, &rt, row, path, due, &about);
                    calls += 1;
                }
                if let Takes::Below = row.takes {
                    for path in ["/", "/door"] {
                        // Of what is below the top, only asking is due: the rest is left out.
                        let below = |word| match word {
                            Verdict::Ask => Verdict::Ask,
                            Verdict::Allow | Verdict::Block => Verdict::Allow,
                        };
                        let (verdict, reads) = match path {
                            "/" => (below(door[0]).max(below(it[0])), it[0] != Verdict::Block),
                            _ => (door[0], false),
                        };
                        let open = it[0] == Verdict::Allow;
                        let due = Due {
                            verdict,
                            open,
                            reads,
                        };
                        hold(&world, &rt, row, path, due, &about);
                        calls += 1;
                    }
                }
            }
        }
    }
    assert!(calls > 1_500, "{calls}");
}

/// A search that leaves a mount out says so; a search that asks names each mount.
#[test]
fn what_is_left_out_is_told_and_what_is_asked_is_named() {
    let rt = rt();
    let search = || json!({"pattern": "canary"});
    let world = World::new(FREE, [Verdict::Block, Verdict::Allow, Verdict::Allow]);
    let found = world.call(&rt, "search_files", search(), false);
    assert!(
        found.told.contains("left out: it: it may not be read"),
        "{}",
        found.told
    );
    let listed = world.call(&rt, "list_files", json!({"pattern": "**/*"}), false);
    assert!(
        listed.told.contains("left out: it: it may not be read"),
        "{}",
        listed.told
    );
    let world = World::new([Verdict::Ask; 3], [Verdict::Ask; 3]);
    let found = world.call(&rt, "search_files", search(), true);
    let asked = world.person.last.lock().unwrap().clone();
    assert_eq!(found.asked, 1);
    assert!(
        asked.contains("read /it\n") && asked.contains("read /door\n"),
        "{asked}"
    );
    assert!(found.told.contains(TEXT));
}

/// The list is the whole list: a tool without a row fails, and so does a row without a tool.
#[test]
fn every_tool_has_its_rows() {
    let world = World::new(FREE, FREE);
    let mut there = forge_tools::tools::names();
    there.extend(world.toolbox.specs().map(|spec| spec.name.clone()));
    there.sort();
    there.dedup();
    let mut listed: Vec<&str> = ROWS.iter().map(|row| row.tool).collect();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(there, listed);
    // Each path that a tool takes is one that a row fills in.
    for spec in world.toolbox.specs() {
        let rows = || ROWS.iter().filter(|row| row.tool == spec.name);
        let reaches = rows().any(|row| !matches!(row.takes, Takes::None(_)));
        let schema = spec.params.to_json_schema();
        for name in ["path", "from", "to", "files"] {
            let takes = schema["properties"].get(name).is_some() && spec.name.ends_with("_file");
            let filled = rows().any(|row| {
                (row.call)("/x/y")
                    .get(name)
                    .is_some_and(|v| v.to_string().contains("/x/y"))
            });
            assert!(!takes || (reaches && filled), "{}: `{name}`", spec.name);
        }
        for row in rows() {
            if let Takes::None(why) = row.takes {
                assert!(!why.is_empty());
            }
        }
    }
}

fn any_path() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "it",
        "door",
        "free",
        "link",
        "dir",
        NAME,
        "sub",
        "plain",
        "..",
        "new",
        "canary-nam",
        "own",
        "moved",
    ]);
    prop::collection::vec(names, 0..5).prop_map(|names| format!("/{}", names.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_sample::count("mounts: calls beside a blocked one", 24, 64), ..ProptestConfig::default() })]

    /// No sequence of calls, all of them agreed to where somebody is asked, makes anything of a
    /// mount appear whose reading is blocked.
    #[test]
    fn nothing_of_a_blocked_mount_appears(
        calls in prop::collection::vec((0..ROWS.len(), any_path(), any_path()), 1..24),
        write in any::<bool>(),
    ) {
        let rt = rt();
        let may = if write { Verdict::Allow } else { Verdict::Ask };
        let world = World::new(FREE, [Verdict::Block, may, Verdict::Allow]);
        // What a call has said is no news, to that one and to those that find what it made.
        let mut said = Vec::new();
        for (row, path, other) in calls {
            let row = &ROWS[row];
            let mut args = (row.call)(&path);
            // Both ends anywhere.
            if args.get("to").is_some() {
                args["from"] = json!(path);
                args["to"] = json!(other);
            }
            let found = world.call(&rt, row.tool, args.clone(), true);
            let names = [&path, &other].map(|path| path.split('/').map(str::to_owned));
            said.extend(names.into_iter().flatten().filter(|name| name.starts_with("canary")));
            // The longest first: one may begin another.
            said.sort_by_key(|name| std::cmp::Reverse(name.len()));
            let mut told = found.told.clone();
            for name in &said {
                told = told.replace(name, "");
            }
            let patterns = ["canary-taxt", "\"canary\"", "`canary`"];
            for pattern in patterns {
                told = told.replace(pattern, "");
            }
            prop_assert!(!told.contains("canary"), "{} {args}: {}", row.tool, found.told);
        }
    }
}

/// Agrees for the run, and keeps what it was asked.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct ForTheRun(Mutex<Vec<String>>);

#[cfg(target_os = "linux")]
impl Approver for ForTheRun {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.0.lock().unwrap().push(request.preview());
        Box::pin(async {
            ApprovalAnswer::AllowForRun {
                by: "a test".to_owned(),
            }
        })
    }
}

/// An answer for the run counts when the worker is called again, and is to the script as it was.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_for_the_run_holds_for_the_run_and_for_what_was_shown() {
    const MAIN: &str = "sandbox: {zones: [{name: workspace}]}\nshell: {}\nworkers: [child]\n";
    const CHILD: &str = "sandbox: {zones: [{name: workspace}]}\nshell: {}\n";
    let mut world =
        crate::support::World::new(crate::support::CONFIG, &[("main", MAIN), ("child", CHILD)]);
    let approver = Arc::new(ForTheRun::default());
    world.approver = approver.clone();
    std::fs::create_dir_all(world.dir.path().join("workspace")).unwrap();
    std::fs::create_dir_all(world.dir.path().join("data")).unwrap();
    let script = world.dir.path().join("workspace/go.sh");
    std::fs::write(&script, "echo one\n").unwrap();
    let report = world.run(
        "version: 1
workers:
  main:
    - calls: [{tool: child, args: {input: x}}]
    - calls: [{tool: child, args: {input: x}}]
    - calls: [{tool: write_file, args: {path: /workspace/go.sh, content: \"echo two\\n\"}}]
    - calls: [{tool: child, args: {input: x}}]
    - say: done
  child:
    - calls: [{tool: shell, args: {command: sh workspace/go.sh}}]
    - say: finished
",
    );
    assert!(report.end.is_answer(), "{:?}", report.end);
    let results = world.results();
    let asked = approver.0.lock().unwrap();
    assert_eq!(asked.len(), 2, "{results}\n{asked:?}");
    assert!(
        asked
            .iter()
            .all(|text| text.contains("--- /workspace/go.sh")),
        "{asked:?}"
    );
    assert_eq!(
        results.matches("\none").count() + results.matches(" one").count(),
        2,
        "{results}"
    );
    assert!(results.contains("two"), "{results}");
}
