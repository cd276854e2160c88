//! A toolbox to throw things at, and what must hold of whatever comes back.

use std::sync::{Arc, OnceLock};

use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
use forge_tools::{
    CallResult, Gate, GateRequest, Judgement, Redactor, Risk, Toolbox, ToolboxBuilder, Verdict,
    VerdictReason,
};
use tempfile::TempDir;

/// Most characters of a result, before the note on what was cut.
const RESULT_CHARS: usize = 2_000;

/// The directory of the host that every run reads from.
fn host() -> &'static TempDir {
    static HOST: OnceLock<TempDir> = OnceLock::new();
    HOST.get_or_init(|| {
        let host = tempfile::tempdir().expect("a directory");
        let data = host.path().join("data");
        std::fs::create_dir_all(data.join("sub")).expect("a directory");
        std::fs::write(data.join("readme.md"), "hello\nworld\n").expect("a file");
        std::fs::write(data.join("sub/long.md"), "one line of many\n".repeat(1_000))
            .expect("a file");
        std::fs::write(data.join("picture.png"), [0x89, b'P', 0, 1]).expect("a file");
        std::os::unix::fs::symlink("/etc", data.join("away")).expect("a link");
        host
    })
}

/// Asks about what writes, and nobody is there to answer unless the call brings somebody.
struct AsksToWrite;

impl Gate for AsksToWrite {
    fn judge(&self, request: &GateRequest<'_>) -> Judgement {
        let verdict = match request.risk {
            Risk::ReadOnly => Verdict::Allow,
            Risk::WritesWorkspace | Risk::WritesFs | Risk::Network | Risk::Exec => Verdict::Ask,
        };
        Judgement::new(verdict, VerdictReason::new("the fuzzer asks"))
    }
}

fn files() -> FileSandbox {
    let path = |text| SandboxPath::parse(text).expect("a path");
    let data = Mount::open_ambient(
        path("/data"),
        &host().path().join("data"),
        Mode::ReadOnly,
        cap_std::ambient_authority(),
    );
    let limits = Limits::new()
        .suffixes([".md", ".txt"])
        .max_file_bytes(4_096);
    let out = Mount::memory(path("/out"), Mode::ReadWrite).with_limits(limits);
    FileSandbox::new(vec![data.expect("a directory"), out]).expect("two mounts")
}

/// What is slow to make and the same for all.
fn builder() -> ToolboxBuilder {
    static REDACTOR: OnceLock<Arc<Redactor>> = OnceLock::new();
    Toolbox::builder()
        .files(files())
        .max_result_chars(RESULT_CHARS)
        .shared_redactor(Arc::clone(REDACTOR.get_or_init(Arc::default)))
}

/// `/data` of the host, read-only; `/out` in memory, new each time, writable.
pub fn toolbox() -> Toolbox {
    builder().build().expect("tools")
}

/// The same, and a person would have to agree to what writes.
pub fn asking_toolbox() -> Toolbox {
    builder().gate(AsksToWrite).build().expect("tools")
}

/// No place of the host, not the word that models must not see unless they said it, and in bounds.
pub fn check_text(asked: &str, said: &str) {
    let host = host().path().to_str().expect("a path of text");
    assert!(!said.contains(host), "{said}");
    assert!(!said.contains("root:x:0"), "{said}");
    assert!(asked.contains("zone") || !said.contains("zone"), "{said}");
}

/// What must hold of a result, whatever was asked.
pub fn check(asked: &str, result: &CallResult) {
    let chars = result.content.chars().count();
    assert!(chars <= RESULT_CHARS + 400, "{chars} characters");
    assert_eq!(result.ok, result.error.is_none());
    let said = format!(
        "{} {:?} {:?}",
        result.content, result.structured, result.error
    );
    check_text(asked, &said);
}
