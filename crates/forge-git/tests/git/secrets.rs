//! Keys in files: a person is asked, sees where they are and not what they are, and has agreed to
//! exactly what was shown.

use std::sync::{Arc, Mutex};

use file_sandbox::FileSandbox;
use forge_git::tools;
use forge_tools::{
    ApprovalAnswer, ApprovalRequest, ApprovedCall, Approver, AutoApprove, BoxFuture, CallFailure,
    CallRequest, CallResult, CallRunner, Gate, GateRequest, HostApprover, Judgement, LocalRunner,
    NoApprover, Redactor, Reply, Spec, Toolbox, Verdict, VerdictReason,
};
use serde_json::json;

use crate::tools::granted;
use crate::world::{Person, World, in_memory, wait, worlds};

fn key() -> String {
    format!("ghp_{}", "a1B2c3D4e5".repeat(4))
}

/// What the rules say of every tool.
pub(crate) struct Rules(pub(crate) Verdict);

impl Gate for Rules {
    fn judge(&self, _: &GateRequest<'_>) -> Judgement {
        Judgement::new(self.0, VerdictReason::new("the rules say so"))
    }
}

fn toolbox(world: &World, approver: impl Approver, rules: Verdict) -> Toolbox {
    with_runner(world, approver, rules, LocalRunner)
}

fn with_runner(
    world: &World,
    approver: impl Approver,
    rules: Verdict,
    runner: impl CallRunner,
) -> Toolbox {
    let mut builder = Toolbox::builder()
        .files(world.files.clone())
        .gate(Rules(rules))
        .shared_redactor(Arc::new(Redactor::new([("DEPLOY", "tr0ub4dor&3")])))
        .approver(approver)
        .runner(runner);
    for tool in tools::all(world.git.clone(), granted(world)) {
        builder = builder.boxed_tool(tool);
    }
    builder.build().unwrap()
}

fn stage(toolbox: &Toolbox, world: &World, files: &[&str]) -> CallResult {
    let repo = world.repo.to_string();
    let arguments = json!({ "repo": repo, "files": files, "message": "m" });
    wait(toolbox.call(CallRequest::new("git_stage", arguments)))
}

fn how_many(world: &World) -> usize {
    wait(world.git.list_staged()).unwrap().commits.len()
}

#[test]
fn a_person_is_asked_whatever_the_rules_say() {
    for world in worlds() {
        let text = format!("one\ntwo\nkey: {} # it\nDEPLOY=tr0ub4dor&3\n", key());
        world.write("/workspace/notes.md", &text);
        world.write("/workspace/plain.md", "nothing in it\n");
        for (agrees, rules, files, questions, code) in [
            (true, Verdict::Allow, &["/workspace/notes.md"][..], 1, None),
            (true, Verdict::Ask, &["/workspace/notes.md"], 1, None),
            (
                false,
                Verdict::Allow,
                &["/workspace/notes.md"],
                1,
                Some("DENIED"),
            ),
            (
                true,
                Verdict::Block,
                &["/workspace/notes.md"],
                0,
                Some("BLOCKED"),
            ),
            (true, Verdict::Allow, &["/workspace/plain.md"], 0, None),
        ] {
            let person = Arc::new(Person::saying(agrees));
            let asked: Arc<dyn Approver> = person.clone();
            let before = how_many(&world);
            let result = stage(&toolbox(&world, asked, rules), &world, files);
            let shown = person.shown.lock().unwrap().join("");
            assert_eq!(
                person.shown.lock().unwrap().len(),
                questions,
                "{rules:?} {files:?}"
            );
            assert_eq!(result.error.as_ref().map(|error| error.code.as_str()), code);
            assert_eq!(how_many(&world) - before, usize::from(code.is_none()));
            for told in [&shown, &result.content] {
                assert!(
                    !told.contains(&key()) && !told.contains("tr0ub4dor"),
                    "{told}"
                );
            }
            if questions == 1 {
                for part in [
                    "'notes.md' line 3 looks like a secret (github-token",
                    " line 3, github-token",
                    "+key: [redacted: github-token",
                    "] # it",
                    "+DEPLOY=[redacted: DEPLOY",
                ] {
                    assert!(shown.contains(part), "{part} in {shown}");
                }
            }
        }
    }
}

#[test]
fn what_nobody_has_seen_nobody_has_agreed_to() {
    let world = in_memory();
    world
        .others
        .commit(&Default::default(), &[("README.md", Some("hello\n"))]);
    world.write("/workspace/notes.md", &format!("key: {}\n", key()));
    let approvers: [Arc<dyn Approver>; 4] = [
        Arc::new(AutoApprove::confined()),
        Arc::new(AutoApprove::even_unconfined()),
        Arc::new(HostApprover),
        Arc::new(NoApprover::because("nobody is there")),
    ];
    for approver in approvers {
        for rules in [Verdict::Allow, Verdict::Ask] {
            let toolbox = toolbox(&world, approver.clone(), rules);
            let result = stage(&toolbox, &world, &["/workspace/notes.md"]);
            assert!(result.error.is_some());
            let text = &result.content;
            assert!(
                text.contains("'notes.md' line 1 looks like a secret"),
                "{text}"
            );
            assert!(!text.contains(&key()));
            assert_eq!(how_many(&world), 0);
        }
    }
}

/// Says yes, and the file is another one by then.
struct Meanwhile {
    files: FileSandbox,
    asked: Mutex<usize>,
    /// After how many questions it stays as it is.
    restless: usize,
}

impl Approver for Meanwhile {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        if *asked <= self.restless {
            let text = format!("{} times\nkey: {}\n", asked, key());
            let path = self.files.path("/workspace/notes.md").unwrap();
            self.files.write(&path, &text, Default::default()).unwrap();
        }
        let by = "a person".to_owned();
        Box::pin(async move { ApprovalAnswer::AllowOnce { by } })
    }
}

#[test]
fn what_changes_meanwhile_is_asked_again() {
    for (restless, questions, staged) in [(0, 1, 1), (1, 2, 1), (9, 3, 0)] {
        let world = in_memory();
        world
            .others
            .commit(&Default::default(), &[("README.md", Some("hello\n"))]);
        world.write("/workspace/notes.md", &format!("key: {}\n", key()));
        let person = Arc::new(Meanwhile {
            files: world.files.clone(),
            asked: Mutex::default(),
            restless,
        });
        let approver: Arc<dyn Approver> = person.clone();
        let toolbox = toolbox(&world, approver, Verdict::Allow);
        stage(&toolbox, &world, &["/workspace/notes.md"]);
        assert_eq!(*person.asked.lock().unwrap(), questions);
        assert_eq!(how_many(&world), staged);
    }
}

/// Changes a file in the last moment: after the answer, before the work.
struct LastMoment(FileSandbox, String);

impl CallRunner for LastMoment {
    fn place(&self, _: &Spec, _: &'static str) -> &'static str {
        "elsewhere"
    }

    fn run(&self, call: ApprovedCall) -> BoxFuture<'_, Result<Reply, CallFailure>> {
        let path = self.0.path("/workspace/notes.md").unwrap();
        self.0.write(&path, &self.1, Default::default()).unwrap();
        call.run()
    }
}

#[test]
fn a_yes_is_for_what_was_shown() {
    let other = format!("ghp_{}", "Z9y8X7w6V5".repeat(4));
    for (begin, after, staged) in [
        (
            format!("key: {}\n", key()),
            format!("key: {}\n", key()),
            true,
        ),
        (
            format!("key: {}\n", key()),
            format!("key: {other}\n"),
            false,
        ),
        // Nobody was asked, since there was nothing.
        ("plain\n".to_owned(), format!("key: {other}\n"), false),
        // What is none any more needs no yes.
        (format!("key: {}\n", key()), "plain\n".to_owned(), true),
    ] {
        let world = in_memory();
        world
            .others
            .commit(&Default::default(), &[("README.md", Some("hello\n"))]);
        world.write("/workspace/notes.md", &begin);
        let runner = LastMoment(world.files.clone(), after.clone());
        let toolbox = with_runner(&world, Person::saying(true), Verdict::Allow, runner);
        let result = stage(&toolbox, &world, &["/workspace/notes.md"]);
        assert_eq!(
            result.error.is_none(),
            staged,
            "{begin} {after}: {result:?}"
        );
        assert_eq!(how_many(&world), usize::from(staged));
        assert!(!result.content.contains(&other));
    }
}

#[test]
fn letters_of_two_bytes_hide_nothing() {
    let world = in_memory();
    world
        .others
        .commit(&Default::default(), &[("README.md", Some("hello\n"))]);
    let wide: Vec<u8> = format!("\u{feff}one\nkey: {}\n", key())
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let path = world.files.path("/workspace/wide.txt").unwrap();
    world
        .files
        .write_bytes(&path, &wide, Default::default())
        .unwrap();
    let error = world.stage(&["/workspace/wide.txt"]).unwrap_err();
    assert!(error.to_string().contains("'wide.txt' line 2"), "{error}");
}

#[test]
fn more_than_a_person_reads_is_agreed_to_by_none() {
    let world = in_memory();
    world
        .others
        .commit(&Default::default(), &[("README.md", Some("hello\n"))]);
    let many: String = (0..60).map(|_| format!("key: {}\n", key())).collect();
    world.write("/workspace/notes.md", &many);
    let person = Arc::new(Person::saying(true));
    let approver: Arc<dyn Approver> = person.clone();
    let toolbox = toolbox(&world, approver, Verdict::Allow);
    let result = stage(&toolbox, &world, &["/workspace/notes.md"]);
    assert_eq!(result.error.unwrap().code, "APPROVAL_REQUIRED");
    assert!(result.content.contains("and 40 more"), "{}", result.content);
    assert_eq!(person.shown.lock().unwrap().len(), 0);
    assert_eq!(how_many(&world), 0);
}
