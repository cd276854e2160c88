//! Commands of a worker with a session: each begins where the one before ended, whatever confines
//! it, and nothing else is left of it.

use std::path::Path;
use std::time::Duration;

use forge_tools::{
    ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, CallRequest, CallResult, Gate,
    GateRequest, Intent, Judgement, Processes, ProgramList, Toolbox, Verdict, VerdictReason,
};
use os_sandbox::{Access, Backend, Plan, Policy, Requirement, Support};
use serde_json::{Value, json};

use crate::place::{self, everywhere};
use crate::support::{Always, block_on, call};

/// A plan under every mechanism of this machine.
#[expect(clippy::print_stderr, reason = "what is skipped is said")]
fn plans(dir: &Path) -> Vec<Plan> {
    let policy = Policy::builder()
        .mount(dir, "/data", Access::ALL)
        .build()
        .unwrap();
    let support = Support::detect();
    let plans: Vec<Plan> = [Backend::Namespaces, Backend::Landlock]
        .into_iter()
        .filter_map(|backend| {
            Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend)
                .inspect_err(|error| eprintln!("skipped: {backend}: {error}"))
                .ok()
        })
        .collect();
    assert!(!plans.is_empty());
    plans
}

fn processes(plan: &Plan) -> Processes {
    place::processes(plan.clone())
        .default_timeout(Duration::from_secs(600))
        .session()
}

fn toolbox(plan: &Plan) -> Toolbox {
    Toolbox::builder()
        .processes(processes(plan))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap()
}

fn run(toolbox: &Toolbox, command: &str) -> CallResult {
    call(toolbox, "shell", json!({"command": command}))
}

fn facts(result: &CallResult) -> &Value {
    result.structured.as_ref().unwrap()
}

/// What a command printed, which went well and says nothing of the session.
#[track_caller]
fn printed(toolbox: &Toolbox, command: &str) -> String {
    let result = run(toolbox, command);
    assert!(result.ok, "{command}: {}", result.content);
    assert_eq!(facts(&result)["exit_code"], 0, "{}", result.content);
    assert_eq!(facts(&result)["session"], Value::Null, "{}", result.content);
    assert_eq!(facts(&result)["stderr"], "", "{command}");
    facts(&result)["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn the_directory_and_the_variables_of_a_call_hold_for_the_next() {
    everywhere(the_directory_and_the_variables_of_a_call_hold_for_the_next_here);
}

fn the_directory_and_the_variables_of_a_call_hold_for_the_next_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("sub/it's deep")).unwrap();
    for plan in plans(dir.path()) {
        let toolbox = toolbox(&plan);
        let start = printed(&toolbox, "pwd -P");
        printed(&toolbox, "cd data/sub");
        assert_eq!(printed(&toolbox, "ls"), "it's deep\n", "{plan}");
        printed(&toolbox, "cd \"it's deep\"");
        printed(&toolbox, "touch here");
        assert!(dir.path().join("sub/it's deep/here").exists());
        printed(&toolbox, "cd ../..");
        assert_eq!(printed(&toolbox, "ls"), "sub\n");

        printed(&toolbox, "export A='b  c' D=$x");
        assert_eq!(printed(&toolbox, "printenv A D"), "b  c\n$x\n");
        printed(&toolbox, "E=f; G='line\nline'");
        assert_eq!(
            printed(&toolbox, "printf '%s,' \"$A\" \"$E\" \"$G\" | cat"),
            "b  c,f,line\nline,"
        );
        printed(&toolbox, "unset A LANG");
        assert_eq!(
            printed(&toolbox, "env | grep -c -e ^A= -e ^LANG= || true"),
            "0\n"
        );
        // Exit codes are the command's.
        let failed = run(&toolbox, "sh -c 'exit 7'");
        assert_eq!(facts(&failed)["exit_code"], 7);
        assert_eq!(printed(&toolbox, "printenv E"), "f\n");
        // Nothing is expanded in a plain command, as without a session.
        assert_eq!(printed(&toolbox, "echo $E * 'x'"), "$E * x\n");
        // Another worker, and the same one in another run, begin at the beginning.
        let other = self::toolbox(&plan);
        assert_eq!(printed(&other, "pwd -P").len(), start.len());
        assert_eq!(facts(&run(&other, "printenv E"))["exit_code"], 1);
    }
}

#[test]
fn without_a_session_each_call_begins_at_the_beginning() {
    everywhere(without_a_session_each_call_begins_at_the_beginning_here);
}

fn without_a_session_each_call_begins_at_the_beginning_here() {
    let dir = tempfile::tempdir().unwrap();
    for plan in plans(dir.path()) {
        let toolbox = Toolbox::builder()
            .processes(place::processes(plan.clone()))
            .gate(Always(Verdict::Allow))
            .build()
            .unwrap();
        run(&toolbox, "cd data; A=b");
        assert_eq!(facts(&run(&toolbox, "ls"))["stdout"], "data\n");
        assert_eq!(facts(&run(&toolbox, "printenv A"))["exit_code"], 1);
    }
}

#[test]
fn a_command_that_does_not_reach_its_end_leaves_the_session_as_it_was() {
    everywhere(a_command_that_does_not_reach_its_end_leaves_the_session_as_it_was_here);
}

fn a_command_that_does_not_reach_its_end_leaves_the_session_as_it_was_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    for plan in plans(dir.path()) {
        let toolbox = toolbox(&plan);
        printed(&toolbox, "cd data; A=b");
        for (command, code) in [
            ("cd sub; A=c; exit 3", 3),
            ("cd sub; A=c; kill -9 $$", 137),
            ("cd sub; A=c; exec true", 0),
        ] {
            let result = run(&toolbox, command);
            assert_eq!(
                facts(&result)["exit_code"],
                code,
                "{command}: {}",
                result.content
            );
            assert!(
                result
                    .content
                    .ends_with("[session: the shell did not reach its end]"),
                "{command}: {}",
                result.content
            );
            assert_eq!(
                printed(&toolbox, "ls; echo \"$A\""),
                "sub\nb\n",
                "{command}"
            );
        }
        // The time limit ends what runs, whatever it started, and nothing else.
        let command =
            "cd sub; A=c; setsid sh -c 'while :; do echo x >>beat; sleep 0.02; done' & sleep 60";
        let result = call(
            &toolbox,
            "shell",
            json!({"command": command, "timeout_s": 1}),
        );
        assert_eq!(result.error.unwrap().code, "TIME_LIMIT");
        let size = || std::fs::metadata(dir.path().join("sub/beat")).map_or(0, |meta| meta.len());
        let before = size();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(size(), before, "it goes on");
        assert_eq!(printed(&toolbox, "ls -d sub; echo \"$A\""), "sub\nb\n");
        let _maybe = std::fs::remove_file(dir.path().join("sub/beat"));
        // What runs in the background ends with the call, too.
        // Where everything on this machine is seen, another run of this test is seen as well.
        let seconds = format!("1000.{}", std::process::id());
        run(&toolbox, &format!("sleep {seconds} & echo started"));
        let count = format!("ps -e -o args 2>/dev/null | grep -c '^sleep {seconds}$' || true");
        assert_eq!(printed(&toolbox, &count), "0\n");
    }
}

#[test]
fn a_directory_that_is_gone_is_said_and_nothing_runs_elsewhere() {
    everywhere(a_directory_that_is_gone_is_said_and_nothing_runs_elsewhere_here);
}

fn a_directory_that_is_gone_is_said_and_nothing_runs_elsewhere_here() {
    let dir = tempfile::tempdir().unwrap();
    for plan in plans(dir.path()) {
        let toolbox = toolbox(&plan);
        printed(&toolbox, "mkdir data/x && cd data/x");
        std::fs::remove_dir(dir.path().join("x")).unwrap();
        let result = run(&toolbox, "touch made");
        assert_eq!(facts(&result)["exit_code"], 1);
        assert!(
            result.content.contains("[session: its directory is gone"),
            "{}",
            result.content
        );
        assert_eq!(printed(&toolbox, "ls"), "data\n");
        assert!(!dir.path().join("made").exists());
    }
}

/// A program has no way to the descriptor on which the shell says how it ended, and output that
/// looks like it is output.
#[test]
fn no_program_says_how_the_shell_ended() {
    everywhere(no_program_says_how_the_shell_ended_here);
}

fn no_program_says_how_the_shell_ended_here() {
    let dir = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh
for fd in 0 1 2 3 4 5 6 7 8 9; do
  printf '\\0=\\0/evil\\n\\0EVIL=1\\0=\\0' 2>/dev/null >&$fd
done
for file in /proc/*/fd/*; do
  case $file in /proc/self/*) continue ;; esac
  test -S $file && echo saw >&2
  test -S $file && printf '\\0=\\0/evil\\n\\0EVIL=1\\0=\\0' 2>/dev/null >$file
done
true
";
    std::fs::write(dir.path().join("forge-it"), script).unwrap();
    for plan in plans(dir.path()) {
        let toolbox = toolbox(&plan);
        printed(&toolbox, "cd data");
        let result = run(&toolbox, "sh ./forge-it");
        assert_eq!(facts(&result)["exit_code"], 0, "{}", result.content);
        // It was found, and could not be opened.
        let stderr = facts(&result)["stderr"].as_str().unwrap();
        assert!(stderr.contains("saw\n"), "{}", result.content);
        assert_eq!(facts(&result)["session"], Value::Null);
        let result = run(&toolbox, "printenv EVIL");
        assert_eq!(facts(&result)["exit_code"], 1, "{}", result.content);
        assert_eq!(printed(&toolbox, "ls"), "forge-it\n");
    }
}

#[test]
fn too_much_is_not_kept() {
    everywhere(too_much_is_not_kept_here);
}

fn too_much_is_not_kept_here() {
    let dir = tempfile::tempdir().unwrap();
    for plan in plans(dir.path()) {
        let toolbox = toolbox(&plan);
        printed(&toolbox, "A=b");
        for command in [
            "B=$(head -c 40000 /dev/zero | tr '\\0' x)",
            "for n in $(seq 100); do eval V$n=1; done",
        ] {
            let result = run(&toolbox, command);
            assert!(
                result
                    .content
                    .ends_with("[session: there is too much of it]"),
                "{}",
                result.content
            );
        }
        assert_eq!(printed(&toolbox, "printenv A"), "b\n");
    }
}

/// Allows what can be seen, as rules would.
struct Seen;

impl Gate for Seen {
    fn judge(&self, request: &GateRequest<'_>) -> Judgement {
        let opaque = request.intents.iter().find_map(|intent| match intent {
            Intent::Execute(line) => line.approval_reason(),
            _ => None,
        });
        match opaque {
            Some(why) => Judgement::new(Verdict::Ask, VerdictReason::new(why)),
            None => Judgement::new(Verdict::Allow, VerdictReason::new("seen")),
        }
    }
}

/// Agrees for the run, and keeps what it was shown.
#[derive(Clone, Default)]
struct Agrees(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl Approver for Agrees {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.0.lock().unwrap().push(request.intents.join("\n"));
        Box::pin(async { ApprovalAnswer::AllowForRun { by: "test".into() } })
    }
}

/// What was set before is as much a part of a command as what stands in front of it.
#[test]
fn the_state_is_part_of_the_question() {
    everywhere(the_state_is_part_of_the_question_here);
}

fn the_state_is_part_of_the_question_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let plan = plans(dir.path()).remove(0);
    let agrees = Agrees::default();
    let toolbox = Toolbox::builder()
        .processes(processes(&plan))
        .gate(Seen)
        .approver(agrees.clone())
        .build()
        .unwrap();
    let asked = || std::mem::take(&mut *agrees.0.lock().unwrap());
    run(&toolbox, "ls");
    run(&toolbox, "cd data");
    assert_eq!(asked(), Vec::<String>::new());
    run(&toolbox, "A=b");
    assert_eq!(asked().len(), 1);
    run(&toolbox, "ls");
    let question = asked().remove(0);
    assert!(question.starts_with("run ls\n  in "), "{question}");
    assert!(question.ends_with("\n  with A=b"), "{question}");
    // Agreed to for the run, here and with these variables.
    run(&toolbox, "ls");
    assert_eq!(asked(), Vec::<String>::new());
    run(&toolbox, "cd sub");
    asked();
    run(&toolbox, "ls");
    assert_eq!(asked().len(), 1);
}

/// Calls side by side run in the state that each was judged in.
#[test]
fn calls_side_by_side_do_not_move_each_other() {
    everywhere(calls_side_by_side_do_not_move_each_other_here);
}

fn calls_side_by_side_do_not_move_each_other_here() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..8 {
        std::fs::create_dir(dir.path().join(format!("d{n}"))).unwrap();
    }
    let plan = plans(dir.path()).remove(0);
    let toolbox = toolbox(&plan);
    printed(&toolbox, "cd data");
    block_on(async {
        let calls: Vec<_> = (0..8)
            .map(|n| {
                let command = format!("cd d{n} && touch made-$(ls .. | wc -l)-{n}");
                let toolbox = toolbox.clone();
                async move {
                    toolbox
                        .call(CallRequest::new("shell", json!({"command": command})))
                        .await
                }
            })
            .collect();
        // As many as there are, at once.
        let mut running = tokio::task::JoinSet::new();
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                for one in calls {
                    running.spawn_local(one);
                }
                while let Some(done) = running.join_next().await {
                    assert!(done.unwrap().ok);
                }
            })
            .await;
    });
    for n in 0..8 {
        assert!(dir.path().join(format!("d{n}/made-8-{n}")).exists(), "{n}");
    }
}

#[test]
fn lists_of_programs_hold_in_a_session() {
    everywhere(lists_of_programs_hold_in_a_session_here);
}

fn lists_of_programs_hold_in_a_session_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("cat"), "#!/bin/sh\necho mine\n").unwrap();
    let plan = plans(dir.path()).remove(0);
    let only = ProgramList {
        allow: Some(["cat", "cd", "export"].map(str::to_owned).to_vec()),
        ..ProgramList::default()
    };
    let toolbox = Toolbox::builder()
        .processes(processes(&plan).programs(vec![only]))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap();
    printed(&toolbox, "cd data");
    assert_eq!(printed(&toolbox, "cat cat"), "#!/bin/sh\necho mine\n");
    for command in ["./cat cat", "rm cat", "export PATH=."] {
        assert_eq!(
            run(&toolbox, command).error.unwrap().code,
            "BLOCKED",
            "{command}"
        );
    }
}
