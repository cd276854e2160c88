//! A toolbox over real directories, and small doubles for the traits around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
use forge_tools::{
    ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, CallRequest, CallResult, Gate,
    GateRequest, Judgement, MemoryRecorder, Toolbox, ToolboxBuilder, Verdict, VerdictReason,
};
use serde_json::Value;
use tempfile::TempDir;

/// `/data` read-only with two files, `/work-dir` writable with suffixes .md and .txt
/// and 40 bytes a file.
pub(crate) struct World {
    pub(crate) host: TempDir,
    pub(crate) files: FileSandbox,
}

impl World {
    pub(crate) fn new() -> Self {
        let host = tempfile::tempdir().unwrap();
        for dir in ["data/sub", "out", "outside"] {
            std::fs::create_dir_all(host.path().join(dir)).unwrap();
        }
        for (name, text) in [
            ("data/readme.md", "hello\nworld\n"),
            ("data/notes.md", "0123456789"),
            ("data/sub/deep.md", "deep"),
            ("outside/secret.txt", "the secret"),
        ] {
            std::fs::write(host.path().join(name), text).unwrap();
        }
        std::fs::write(host.path().join("data/picture.png"), [0x89, b'P', 0, 1]).unwrap();
        std::os::unix::fs::symlink(
            host.path().join("outside"),
            host.path().join("data/out-link"),
        )
        .unwrap();
        let open = |target: &str, dir: &str, mode| {
            Mount::open_ambient(
                SandboxPath::parse(target).unwrap(),
                host.path().join(dir),
                mode,
                cap_std::ambient_authority(),
            )
            .unwrap()
        };
        let files = FileSandbox::new(vec![
            open("/data", "data", Mode::ReadOnly),
            open("/out", "out", Mode::ReadWrite)
                .with_limits(Limits::new().suffixes([".md", ".txt"]).max_file_bytes(40)),
        ])
        .unwrap();
        World { host, files }
    }

    pub(crate) fn builder(&self) -> ToolboxBuilder {
        crate::place::with_files(Toolbox::builder(), self.files.clone())
    }

    pub(crate) fn toolbox(&self) -> Toolbox {
        self.builder().build().unwrap()
    }
}

pub(crate) fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}

pub(crate) fn call(toolbox: &Toolbox, tool: &str, arguments: Value) -> CallResult {
    block_on(toolbox.call(CallRequest::new(tool, arguments)))
}

/// A gate that says one thing about everything.
pub(crate) struct Always(pub(crate) Verdict);

impl Gate for Always {
    fn judge(&self, _: &GateRequest<'_>) -> Judgement {
        let mut reason = VerdictReason::new("the test says so");
        reason.why = Some("Use another way.".into());
        Judgement::new(self.0, reason)
    }
}

/// Gives prepared answers and counts the questions.
#[derive(Clone)]
pub(crate) struct Counting {
    answer: ApprovalAnswer,
    asked: Arc<AtomicUsize>,
}

impl Counting {
    pub(crate) fn new(answer: ApprovalAnswer) -> Self {
        Counting {
            answer,
            asked: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Approver for Counting {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.answer.clone()
        })
    }
}

pub(crate) fn recorder() -> Arc<MemoryRecorder> {
    Arc::new(MemoryRecorder::default())
}
