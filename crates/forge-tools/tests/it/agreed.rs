//! What a person has seen is what is done: files that change while somebody reads, answers that
//! are kept, and what nobody has to be asked about.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use forge_tools::{
    ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, CallRecord, DecisionEntry, Recorder,
    Toolbox, Verdict,
};
use serde_json::{Value, json};

use crate::place::everywhere;
use crate::support::{Always, World, call};

/// Agrees to everything, keeps what it was shown, and meanwhile the files change.
#[derive(Clone)]
pub(crate) struct Reader {
    for_run: bool,
    shown: Arc<Mutex<Vec<String>>>,
    meanwhile: Arc<dyn Fn(usize) + Send + Sync>,
}

impl Reader {
    pub(crate) fn new(for_run: bool, meanwhile: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Reader {
            for_run,
            shown: Arc::default(),
            meanwhile: Arc::new(meanwhile),
        }
    }

    pub(crate) fn shown(&self) -> Vec<String> {
        std::mem::take(&mut *self.shown.lock().unwrap())
    }
}

impl Approver for Reader {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let mut shown = self.shown.lock().unwrap();
        shown.push(request.question());
        (self.meanwhile)(shown.len());
        let by = "a person".to_owned();
        let answer = match self.for_run {
            true => ApprovalAnswer::AllowForRun { by },
            false => ApprovalAnswer::AllowOnce { by },
        };
        Box::pin(async { answer })
    }
}

fn asking(world: &World, reader: &Reader) -> Toolbox {
    let builder = world.builder().gate(Always(Verdict::Ask));
    builder.approver(reader.clone()).build().unwrap()
}

fn file(world: &World) -> PathBuf {
    world.host.path().join("out/a.md")
}

/// Each way to change `/out/a.md`, which says `old`, and what it says then.
fn ways() -> [(&'static str, Value, &'static str); 5] {
    [
        (
            "write_file",
            json!({"path": "/out/a.md", "content": "new\n"}),
            "new\n",
        ),
        (
            "append_file",
            json!({"path": "/out/a.md", "content": "new\n"}),
            "own\nnew\n",
        ),
        (
            "edit_file",
            json!({"path": "/out/a.md", "old_text": "o", "new_text": "0"}),
            "0wn\n",
        ),
        (
            "copy_file",
            json!({"from": "/out/b.md", "to": "/out/a.md", "overwrite": true}),
            "b\n",
        ),
        (
            "move_file",
            json!({"from": "/out/b.md", "to": "/out/a.md", "overwrite": true}),
            "b\n",
        ),
    ]
}

fn fresh() -> World {
    let world = World::new();
    std::fs::write(file(&world), "old\n").unwrap();
    std::fs::write(world.host.path().join("out/b.md"), "b\n").unwrap();
    world
}

#[test]
fn what_changed_while_somebody_read_is_asked_again() {
    everywhere(what_changed_while_somebody_read_is_asked_again_here);
}

fn what_changed_while_somebody_read_is_asked_again_here() {
    for (tool, arguments, after) in ways() {
        let world = fresh();
        let path = file(&world);
        let reader = Reader::new(false, move |question| {
            if question == 1 {
                std::fs::write(&path, "own\n").unwrap();
            }
        });
        let result = call(&asking(&world, &reader), tool, arguments);
        assert!(result.ok, "{tool}: {}", result.content);
        let shown = reader.shown();
        assert_eq!(shown.len(), 2, "{tool}");
        assert!(
            shown[0].contains("old\n") && !shown[0].contains("own\n"),
            "{}",
            shown[0]
        );
        assert!(
            shown[1].contains("own\n") && !shown[1].contains("old\n"),
            "{}",
            shown[1]
        );
        assert_eq!(
            std::fs::read_to_string(file(&world)).unwrap(),
            after,
            "{tool}"
        );
    }
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    everywhere(a_file_that_appears_meanwhile_is_not_replaced_here);
}

fn a_file_that_appears_meanwhile_is_not_replaced_here() {
    let world = World::new();
    let path = file(&world);
    let work = "a day of work\n";
    let reader = Reader::new(false, move |_| std::fs::write(&path, work).unwrap());
    let arguments = json!({"path": "/out/a.md", "content": "new\n"});
    assert!(call(&asking(&world, &reader), "write_file", arguments).ok);
    let shown = reader.shown();
    assert!(shown[0].contains("--- (new file)"), "{}", shown[0]);
    assert!(shown[1].contains("-a day of work"), "{}", shown[1]);
}

#[test]
fn what_keeps_changing_is_given_up() {
    everywhere(what_keeps_changing_is_given_up_here);
}

fn what_keeps_changing_is_given_up_here() {
    for (tool, arguments, _) in ways() {
        let world = fresh();
        let path = file(&world);
        let reader = Reader::new(true, move |question| {
            std::fs::write(&path, format!("o {question}\n")).unwrap();
        });
        let result = call(&asking(&world, &reader), tool, arguments);
        let error = result.error.unwrap();
        assert_eq!(error.code, "APPROVAL_REQUIRED", "{tool}");
        assert!(
            error.message.contains("keeps changing"),
            "{}",
            error.message
        );
        assert_eq!(result.decision.answer, Some("unanswered"));
        assert_eq!(reader.shown().len(), 3);
        assert_eq!(std::fs::read_to_string(file(&world)).unwrap(), "o 3\n");
    }
}

/// Changes a file between the decision and the deed.
struct Late(PathBuf);

impl Recorder for Late {
    fn decided(&self, _: &DecisionEntry<'_>) -> std::io::Result<Option<u64>> {
        std::fs::write(&self.0, "o late\n")?;
        Ok(None)
    }

    fn record(&self, _: &CallRecord) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_moment_is_left_between_the_answer_and_the_deed() {
    everywhere(no_moment_is_left_between_the_answer_and_the_deed_here);
}

fn no_moment_is_left_between_the_answer_and_the_deed_here() {
    let mut rows = Vec::from(ways());
    rows.push((
        "write_file",
        json!({"path": "/out/new.md", "content": "x"}),
        "",
    ));
    for (tool, arguments, _) in rows {
        let world = fresh();
        let target = match arguments["path"].as_str() {
            Some("/out/new.md") => world.host.path().join("out/new.md"),
            Some(_) | None => file(&world),
        };
        let reader = Reader::new(false, |_| {});
        let builder = world.builder().gate(Always(Verdict::Ask));
        let toolbox = builder
            .approver(reader.clone())
            .recorder(Late(target.clone()))
            .build()
            .unwrap();
        let result = call(&toolbox, tool, arguments);
        assert_eq!(result.error.unwrap().code, "STALE", "{tool}");
        assert_eq!(
            std::fs::read_to_string(&target).unwrap(),
            "o late\n",
            "{tool}"
        );
    }
}

#[test]
fn for_the_run_is_for_what_was_shown() {
    everywhere(for_the_run_is_for_what_was_shown_here);
}

fn for_the_run_is_for_what_was_shown_here() {
    let world = fresh();
    let reader = Reader::new(true, |_| {});
    let toolbox = asking(&world, &reader);
    let write = || {
        let arguments = json!({"path": "/out/a.md", "content": "new\n"});
        assert!(call(&toolbox, "write_file", arguments).ok);
        reader.shown().len()
    };
    assert_eq!(write(), 1);
    // What was agreed to is there already.
    assert_eq!(write(), 0);
    // The very difference that was agreed to.
    std::fs::write(file(&world), "old\n").unwrap();
    assert_eq!(write(), 0);
    // Another one.
    std::fs::write(file(&world), "own\n").unwrap();
    assert_eq!(write(), 1);
    // And each further line is one as well.
    for _ in 0..2 {
        let arguments = json!({"path": "/out/a.md", "content": "x\n"});
        assert!(call(&toolbox, "append_file", arguments).ok);
        assert_eq!(reader.shown().len(), 1);
    }
}

/// `/out` takes files of 40 bytes.
#[test]
fn nobody_is_asked_about_what_the_mount_would_not_take() {
    everywhere(nobody_is_asked_about_what_the_mount_would_not_take_here);
}

fn nobody_is_asked_about_what_the_mount_would_not_take_here() {
    let long = "x".repeat(41);
    for (tool, arguments) in [
        ("write_file", json!({"path": "/out/a.md", "content": long})),
        (
            "append_file",
            json!({"path": "/out/a.md", "content": &long[..37]}),
        ),
        (
            "append_file",
            json!({"path": "/out/new.md", "content": long}),
        ),
        (
            "edit_file",
            json!({"path": "/out/a.md", "old_text": "old", "new_text": long}),
        ),
        (
            "copy_file",
            json!({"from": "/data/long.md", "to": "/out/c.md"}),
        ),
    ] {
        let world = fresh();
        std::fs::write(world.host.path().join("data/long.md"), &long).unwrap();
        let reader = Reader::new(false, |_| {});
        let result = call(&asking(&world, &reader), tool, arguments.clone());
        let error = result.error.unwrap();
        assert_eq!(error.code, "TOO_LARGE", "{tool}: {}", error.message);
        assert_eq!(reader.shown(), Vec::<String>::new(), "{tool}");
        // Where nobody is asked the same is said.
        let free = call(&world.toolbox(), tool, arguments);
        assert_eq!(free.error.unwrap().code, "TOO_LARGE", "{tool}");
    }
    let world = fresh();
    let reader = Reader::new(false, |_| {});
    let fits = json!({"path": "/out/a.md", "content": &long[..36]});
    assert!(call(&asking(&world, &reader), "append_file", fits).ok);
}

#[test]
fn what_is_replaced_by_another_file_is_shown() {
    everywhere(what_is_replaced_by_another_file_is_shown_here);
}

fn what_is_replaced_by_another_file_is_shown_here() {
    let question = |tool: &str, arguments| {
        let world = fresh();
        let png = [0x89, b'P', 0, 2];
        std::fs::write(world.host.path().join("out/p.md"), png).unwrap();
        let reader = Reader::new(false, |_| {});
        let result = call(&asking(&world, &reader), tool, arguments);
        assert!(result.ok, "{}", result.content);
        let shown = reader.shown().remove(0);
        let (_, rest) = shown.split_once("asked").unwrap();
        rest.split_once('\n').unwrap().1.to_owned()
    };
    for tool in ["copy_file", "move_file"] {
        let arguments = json!({"from": "/out/b.md", "to": "/out/a.md", "overwrite": true});
        let shown = question(tool, arguments);
        let rows: Vec<&str> = shown.lines().map(str::trim).take(5).collect();
        assert_eq!(
            rows,
            [
                "--- /out/a.md",
                "+++ /out/a.md",
                "@@ -1 +1 @@",
                "-old",
                "+b"
            ]
        );
        // Nothing is replaced here.
        let arguments = json!({"from": "/out/b.md", "to": "/out/c.md", "overwrite": true});
        let shown = question(tool, arguments);
        assert!(
            shown.contains("(2 bytes, SHA-256 ") && !shown.contains("@@"),
            "{shown}"
        );
    }
    // No text, so there is no difference to show.
    let arguments = json!({"from": "/data/picture.png", "to": "/out/p.md", "overwrite": true});
    let shown = question("copy_file", arguments);
    assert_eq!(shown.matches("(4 bytes, SHA-256 ").count(), 2, "{shown}");
}

/// What is deleted, moved or copied is what was shown: of a directory everything in it.
#[test]
fn what_goes_is_bound_to_what_was_shown() {
    everywhere(what_goes_is_bound_to_what_was_shown_here);
}

fn what_goes_is_bound_to_what_was_shown_here() {
    let tree = "(a directory: 2 files, 1 directories, ";
    for (tool, arguments, shows) in [
        ("delete_file", json!({"path": "/out/a.md"}), "+++ (deleted)"),
        (
            "delete_file",
            json!({"path": "/out/tree", "recursive": true}),
            tree,
        ),
        (
            "move_file",
            json!({"from": "/out/a.md", "to": "/out/z.md"}),
            " bytes, SHA-256 ",
        ),
        (
            "move_file",
            json!({"from": "/out/tree", "to": "/out/other.md"}),
            tree,
        ),
        (
            "copy_file",
            json!({"from": "/out/a.md", "to": "/out/z.md"}),
            " bytes, SHA-256 ",
        ),
    ] {
        let world = fresh();
        let out = world.host.path().join("out");
        std::fs::create_dir_all(out.join("tree/sub")).unwrap();
        std::fs::write(out.join("tree/one.md"), "one").unwrap();
        std::fs::write(out.join("tree/sub/two.md"), "two").unwrap();
        let reader = Reader::new(false, move |question| {
            if question == 1 {
                std::fs::write(out.join("a.md"), "own\n").unwrap();
                std::fs::write(out.join("tree/sub/two.md"), "six").unwrap();
            }
        });
        let result = call(&asking(&world, &reader), tool, arguments);
        assert!(result.ok, "{tool}: {}", result.content);
        let shown = reader.shown();
        assert_eq!(shown.len(), 2, "{tool}: {shown:?}");
        assert!(
            shown.iter().all(|text| text.contains(shows)),
            "{tool}: {shown:?}"
        );
        assert_ne!(shown[0], shown[1]);
    }
}

#[test]
fn a_carriage_return_at_the_end_of_a_row_is_seen() {
    everywhere(a_carriage_return_at_the_end_of_a_row_is_seen_here);
}

fn a_carriage_return_at_the_end_of_a_row_is_seen_here() {
    let world = fresh();
    let reader = Reader::new(false, |_| {});
    let arguments = json!({"path": "/out/a.md", "content": "old\r\n"});
    assert!(call(&asking(&world, &reader), "write_file", arguments).ok);
    let shown = reader.shown().remove(0);
    assert!(
        shown.contains("-old\n") && shown.contains("+old\\r\n"),
        "{shown}"
    );
}

/// `\n` that was typed and a newline are two questions.
#[test]
fn two_calls_never_read_alike() {
    let world = World::new();
    let reader = Reader::new(true, |_| {});
    let toolbox = asking(&world, &reader);
    let mut shown = Vec::new();
    for content in [
        "a\nb",
        "a\\nb",
        "a\\\nb",
        "a\\\\nb",
        "a\u{2800}b",
        "a\\u{2800}b",
    ] {
        let arguments = json!({"path": "/out/a.md", "content": content});
        call(&toolbox, "write_file", arguments);
        std::fs::remove_file(file(&world)).unwrap();
        let mut question = reader.shown();
        assert_eq!(question.len(), 1, "{content:?}");
        shown.append(&mut question);
    }
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 6);
}
