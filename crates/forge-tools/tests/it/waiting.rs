//! Calls that wait: nothing that blocks holds up the others, nothing waits for ever, and what
//! changes one file goes one after the other.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{
    Arguments, CallFailure, CallRequest, CommandLine, FailureCode, Intent, Invocation,
    MemoryRecorder, Params, ReadOnlyContext, Reply, ReplyFuture, Spec, Tool, ToolContext, Toolbox,
    Verdict, blocking,
};
use serde_json::json;

use crate::place::everywhere;
use crate::support::{Always, World, block_on, call};

/// Opens once; those who wait are given up after a while, so that a broken test ends.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Whether it was opened in time.
    fn wait(&self) -> bool {
        let open = self.0.0.lock().unwrap();
        let long = Duration::from_secs(600);
        let (open, _) = self
            .0
            .1
            .wait_timeout_while(open, long, |open| !*open)
            .unwrap();
        *open
    }
}

/// When a call blocks at a door.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    /// While its arguments are held against a schema.
    Arguments,
    Decides,
    Runs,
}

const EVERYWHERE: [At; 3] = [At::Arguments, At::Decides, At::Runs];

#[derive(Clone)]
struct Slow {
    spec: Spec,
    at: At,
    /// What it says that it touches.
    reads: Option<&'static str>,
    door: Door,
}

impl Tool for Slow {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn prepare(&self, _: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(self.clone()))
    }
}

impl Invocation for Slow {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        if self.at == At::Decides && !self.door.wait() {
            return Err(CallFailure::new(FailureCode::Internal, "nobody opened"));
        }
        let reads = self.reads.map(|path| view.path(path).map(Intent::Read));
        reads.into_iter().collect()
    }
    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        let (at, door) = (self.at, self.door.clone());
        blocking(move || match at != At::Runs || door.wait() {
            true => Ok(Reply::text("through")),
            false => Err(CallFailure::new(FailureCode::Internal, "nobody opened")),
        })
    }
}

fn slow(at: At, door: &Door) -> Slow {
    let mut spec = Spec::looks("slow", "Waits.");
    if at == At::Arguments {
        let door = door.clone();
        spec.params = Params::of_schema(json!({"type": "object"}), move |_| match door.wait() {
            true => Ok(()),
            false => Err(vec!["nobody opened".to_owned()]),
        });
    }
    Slow {
        spec,
        at,
        reads: None,
        door: door.clone(),
    }
}

#[test]
fn sixty_four_slow_calls_do_not_hold_up_a_cheap_one() {
    let world = World::new();
    for at in EVERYWHERE {
        let door = Door::default();
        let toolbox = world.builder().tool(slow(at, &door)).build().unwrap();
        block_on(async {
            let waiting: Vec<_> = (0..64)
                .map(|_| {
                    let toolbox = toolbox.clone();
                    tokio::spawn(
                        async move { toolbox.call(CallRequest::new("slow", json!({}))).await },
                    )
                })
                .collect();
            // They are all under way before the cheap one comes.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let path = json!({"path": "/data/readme.md"});
            let cheap = toolbox.call(CallRequest::new("read_file", path)).await;
            assert!(cheap.ok);
            door.open();
            for slow in waiting {
                assert_eq!(slow.await.unwrap().content, "through");
            }
        });
    }
}

#[test]
fn a_call_that_does_not_end_is_given_up() {
    for at in EVERYWHERE {
        let door = Door::default();
        let toolbox = Toolbox::builder()
            .tool(slow(at, &door))
            .timeout(Duration::from_millis(20))
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let result = runtime.block_on(toolbox.call(CallRequest::new("slow", json!({}))));
        assert_eq!(
            result.code,
            Some(FailureCode::TimeLimit),
            "{}",
            result.content
        );
        door.open();
    }
}

#[test]
fn a_call_that_nobody_waits_for_any_more_has_one_record() {
    let world = World::new();
    for (at, reads, given_up) in [
        (At::Arguments, None, true),
        (At::Arguments, None, false),
        (At::Decides, Some("/data/readme.md"), true),
        (At::Decides, Some("/data/readme.md"), false),
        (At::Runs, Some("/data/readme.md"), true),
        (At::Runs, Some("/data/readme.md"), false),
        (At::Runs, None, true),
        (At::Runs, None, false),
    ] {
        let door = Door::default();
        let recorder = Arc::new(MemoryRecorder::default());
        let tool = Slow {
            reads,
            ..slow(at, &door)
        };
        let limit = Duration::from_millis(if given_up { 20 } else { 600_000 });
        let toolbox = world
            .builder()
            .tool(tool)
            .timeout(limit)
            .shared_recorder(Arc::clone(&recorder) as _)
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let call = toolbox.call(CallRequest::new("slow", json!({})));
            // One that is given up ends by itself; the other one would never.
            let patience = Duration::from_millis(if given_up { 600_000 } else { 200 });
            let ended = tokio::time::timeout(patience, call).await;
            assert_eq!(ended.is_ok(), given_up);
        });
        door.open();
        // Waits until the work has ended, too.
        drop(runtime);
        let codes: Vec<_> = recorder.records().into_iter().map(|one| one.code).collect();
        let expected = if given_up { "TIME_LIMIT" } else { "CANCELLED" };
        assert_eq!(codes, [Some(expected.to_owned())], "{at:?} {reads:?}");
    }
}

/// Has a file appear at the path that it was asked for, once it has said what it would touch.
#[derive(Clone)]
struct Late {
    spec: Spec,
    appears: std::path::PathBuf,
}

impl Tool for Late {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn prepare(&self, _: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(self.clone()))
    }
}

impl Invocation for Late {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path("/work/a.md")?;
        std::fs::create_dir(self.appears.parent().unwrap()).unwrap();
        std::fs::write(&self.appears, "").unwrap();
        Ok(vec![Intent::Read(path)])
    }
    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || Ok(Reply::text(context.path("/work/a.md")?.as_str())))
    }
}

#[test]
fn a_path_is_what_it_was_when_the_call_was_judged() {
    let host = tempfile::tempdir().unwrap();
    let root = SandboxPath::parse("/").unwrap();
    let mount = Mount::open_ambient(
        root,
        host.path(),
        Mode::ReadOnly,
        cap_std::ambient_authority(),
    );
    let tool = Late {
        spec: Spec::looks("late", "Says what a path means."),
        appears: host.path().join("work/a.md"),
    };
    let toolbox = Toolbox::builder()
        .files(FileSandbox::new(vec![mount.unwrap()]).unwrap())
        .tool(tool)
        .build()
        .unwrap();
    let result = call(&toolbox, "late", json!({}));
    assert_eq!(result.content, "/a.md");
}

#[test]
fn edits_of_one_file_lose_nothing() {
    everywhere(edits_of_one_file_lose_nothing_here);
}

fn edits_of_one_file_lose_nothing_here() {
    let world = World::new();
    let lines = |sign: char| (0..8).map(|n| format!("{n}{sign}\n")).collect::<String>();
    std::fs::write(world.host.path().join("out/a.md"), lines('-')).unwrap();
    let toolbox = world.toolbox();
    block_on(async {
        let edits: Vec<_> = (0..8)
            .map(|n| {
                let toolbox = toolbox.clone();
                // Spellings of one path are one path.
                let path = if n % 2 == 0 {
                    "/out/a.md"
                } else {
                    "out/./a.md"
                };
                let arguments = json!({
                    "path": path, "old_text": format!("{n}-"), "new_text": format!("{n}+"),
                });
                tokio::spawn(
                    async move { toolbox.call(CallRequest::new("edit_file", arguments)).await },
                )
            })
            .collect();
        for edit in edits {
            let result = edit.await.unwrap();
            assert!(result.ok, "{}", result.content);
        }
    });
    let after = std::fs::read_to_string(world.host.path().join("out/a.md")).unwrap();
    assert_eq!(after, lines('+'));
}

#[test]
fn a_turn_has_a_budget_and_the_next_one_its_own() {
    let world = World::new();
    let toolbox = world.builder().build().unwrap();
    let read = || call(&toolbox, "read_file", json!({"path": "/data/notes.md"})).code;
    for fits in [2, 3] {
        toolbox.begin_turn_of(fits);
        for _ in 0..fits {
            assert_eq!(read(), None);
        }
        assert_eq!(read(), Some(FailureCode::Limit));
    }
}

/// Runs a command, as far as the executor can tell, and blocks at a door.
#[derive(Clone)]
struct Commands {
    spec: Spec,
    door: Door,
}

impl Tool for Commands {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn prepare(&self, _: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(self.clone()))
    }
}

impl Invocation for Commands {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(vec![Intent::Execute(CommandLine::parse("wait").unwrap())])
    }
    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        let door = self.door.clone();
        blocking(move || match door.wait() {
            true => Ok(Reply::text("through")),
            false => Err(CallFailure::new(FailureCode::Internal, "nobody opened")),
        })
    }
}

/// More commands than a runtime has threads for, and one thread to serve them all.
#[test]
fn commands_that_hang_leave_threads_for_files() {
    let world = World::new();
    let door = Door::default();
    let toolbox = world
        .builder()
        .gate(Always(Verdict::Allow))
        .tool(Commands {
            spec: Spec::looks("command", "Waits."),
            door: door.clone(),
        })
        .timeout(Duration::from_secs(600))
        .build()
        .unwrap();
    block_on(async {
        let hanging: Vec<_> = (0..600)
            .map(|_| {
                let toolbox = toolbox.clone();
                tokio::spawn(
                    async move { toolbox.call(CallRequest::new("command", json!({}))).await },
                )
            })
            .collect();
        for _ in 0..2000 {
            tokio::task::yield_now().await;
        }
        let path = json!({"path": "/data/readme.md"});
        let cheap = toolbox.call(CallRequest::new("read_file", path)).await;
        assert!(cheap.ok, "{}", cheap.content);
        let all_hang = hanging.iter().all(|command| !command.is_finished());
        assert!(all_hang, "it waited for the others");
        door.open();
        for command in hanging {
            assert_eq!(command.await.unwrap().content, "through");
        }
    });
}

/// The one thread that serves is never the one that waits: neither for files nor for commands.
#[test]
fn nothing_that_blocks_is_done_on_the_thread_that_serves() {
    let world = World::new();
    for at in EVERYWHERE {
        let door = Door::default();
        let toolbox = world.builder().tool(slow(at, &door)).build().unwrap();
        block_on(async {
            let call = toolbox.call(CallRequest::new("slow", json!({})));
            // Only this thread opens the door, and it does so while the call waits at it.
            let open = async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                door.open();
            };
            let (result, ()) = tokio::join!(call, open);
            assert_eq!(result.content, "through", "{at:?}");
        });
    }
}
