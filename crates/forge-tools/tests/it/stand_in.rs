//! Calls that are made on the thread that serves: nobody else is held up by one that takes long, and
//! everything else about it is as on a thread of its own.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{
    Arguments, BlockingHandoff, CallFailure, CallRequest, FailureCode, Intent, Invocation,
    ReadOnlyContext, Reply, ReplyFuture, Spec, Tool, ToolContext, Toolbox, blocking,
};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

/// Nothing here takes so long unless it never ends.
const LONG: Duration = Duration::from_secs(600);

#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) -> bool {
        let open = self.0.0.lock().unwrap();
        let door = &self.0.1;
        *door
            .wait_timeout_while(open, LONG, |open| !*open)
            .unwrap()
            .0
    }
}

/// What a tool does that says of itself that it reads a file.
#[derive(Clone)]
enum Does {
    /// Says on which thread it does so.
    Answer(Arc<Mutex<Option<ThreadId>>>),
    /// Keeps its thread until the door is open.
    Block(Door),
    /// Waits for a timer of the runtime.
    Sleep,
}

#[derive(Clone)]
struct Reads(Spec, Does);

impl Tool for Reads {
    fn spec(&self) -> &Spec {
        &self.0
    }
    fn prepare(&self, _: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(self.clone()))
    }
}

impl Invocation for Reads {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(vec![Intent::Read(view.path("/data")?)])
    }
    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        match &self.1 {
            Does::Answer(on) => {
                let on = Arc::clone(on);
                blocking(move || {
                    *on.lock().unwrap() = Some(thread::current().id());
                    Ok(Reply::text("here"))
                })
            }
            Does::Block(door) => {
                let door = door.clone();
                blocking(move || match door.wait() {
                    true => Ok(Reply::text("through")),
                    false => Err(CallFailure::new(FailureCode::Internal, "nobody opened")),
                })
            }
            Does::Sleep => Box::pin(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(Reply::text("slept"))
            }),
        }
    }
}

struct Place {
    toolbox: Toolbox,
    door: Door,
    answered_on: Arc<Mutex<Option<ThreadId>>>,
    _dir: tempfile::TempDir,
}

fn place(timeout: Duration) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let target = SandboxPath::parse("/data").unwrap();
    let authority = cap_std::ambient_authority();
    let mount = Mount::open_ambient(target, dir.path(), Mode::ReadOnly, authority).unwrap();
    let (door, answered_on) = (Door::default(), Arc::default());
    let tool = |name: &'static str, does| Reads(Spec::looks(name, "For a test."), does);
    let toolbox = Toolbox::builder()
        .files(FileSandbox::new(vec![mount]).unwrap())
        .tool(tool("answer", Does::Answer(Arc::clone(&answered_on))))
        .tool(tool("block", Does::Block(door.clone())))
        .tool(tool("sleep", Does::Sleep))
        .timeout(timeout)
        .build()
        .unwrap();
    Place {
        toolbox,
        door,
        answered_on,
        _dir: dir,
    }
}

impl Place {
    /// Whether a call was made on the thread that waits for it.
    async fn is_made_here(&self, stand_in: &BlockingHandoff) -> bool {
        let before = thread::current().id();
        let result = self.call("answer", stand_in).await;
        assert!(result.ok, "{}", result.content);
        let on = self.answered_on.lock().unwrap().take();
        on == Some(before) && before == thread::current().id()
    }

    /// Waits until somebody stands by.
    async fn is_manned(&self, stand_in: &BlockingHandoff) {
        while !self.is_made_here(stand_in).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn call(
        &self,
        tool: &str,
        stand_in: &BlockingHandoff,
    ) -> impl Future<Output = forge_tools::CallResult> + Send + 'static {
        let toolbox = self.toolbox.clone();
        let call = CallRequest::new(tool, json!({})).with_blocking_handoff(stand_in.clone());
        async move { toolbox.call(call).await }
    }
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all();
    builder.build().unwrap()
}

/// Does `test` in a task of a runtime of two threads. One that hangs fails.
fn run<F: Future<Output = ()> + Send + 'static>(test: F) {
    let (done, until_done) = mpsc::channel();
    thread::spawn(move || {
        let runtime = runtime(2);
        let outcome = runtime.block_on(runtime.spawn(test));
        runtime.shutdown_timeout(LONG);
        let _ = done.send(outcome);
    });
    until_done.recv_timeout(4 * LONG).unwrap().unwrap();
}

#[test]
fn a_call_that_keeps_the_thread_holds_up_nobody() {
    run(async {
        let (place, stand_in) = (place(LONG), BlockingHandoff::on_this_runtime().unwrap());
        // More than once: whoever stood by stands by again.
        for _ in 0..3 {
            place.is_manned(&stand_in).await;
            *place.door.0.0.lock().unwrap() = false;
            let blocked = tokio::spawn(place.call("block", &stand_in));
            // Timers, and calls that find the seat taken.
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert!(!place.is_made_here(&stand_in).await);
            }
            assert!(!blocked.is_finished());
            place.door.open();
            assert_eq!(blocked.await.unwrap().content, "through");
        }
    });
}

#[test]
fn what_takes_too_long_is_given_up() {
    run(async {
        // Who stands by has all the time that it needs.
        let (patient, hasty) = (place(LONG), place(Duration::from_millis(100)));
        let stand_in = BlockingHandoff::on_this_runtime().unwrap();
        patient.is_manned(&stand_in).await;
        let result = hasty.call("block", &stand_in).await;
        assert_eq!(
            result.code,
            Some(FailureCode::TimeLimit),
            "{}",
            result.content
        );
        hasty.door.open();
        patient.is_manned(&stand_in).await;
    });
}

#[test]
fn a_tool_may_wait_for_the_runtime() {
    run(async {
        let (place, stand_in) = (place(LONG), BlockingHandoff::on_this_runtime().unwrap());
        for _ in 0..3 {
            place.is_manned(&stand_in).await;
            let result = place.call("sleep", &stand_in).await;
            assert_eq!(result.content, "slept");
        }
    });
}

#[test]
fn many_at_once_are_all_made() {
    run(async {
        let (place, stand_in) = (place(LONG), BlockingHandoff::on_this_runtime().unwrap());
        place.is_manned(&stand_in).await;
        let calls = ["answer", "sleep"].repeat(100);
        let calls = calls
            .iter()
            .map(|tool| tokio::spawn(place.call(tool, &stand_in)));
        for call in calls.collect::<Vec<_>>() {
            assert!(call.await.unwrap().ok);
        }
    });
}

#[test]
fn one_thread_alone_cannot_stand_in() {
    let one = runtime(1);
    assert!(
        one.block_on(async { BlockingHandoff::on_this_runtime() })
            .is_none()
    );
    let current = Builder::new_current_thread().build().unwrap();
    let taken = current.block_on(async { BlockingHandoff::on_this_runtime() });
    assert!(taken.is_none());
    assert!(BlockingHandoff::on_this_runtime().is_none());
}
