//! The audit log from outside: what is written can be verified, whatever happens to the writer, and
//! whatever happens to the file shows.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use file_sandbox::cap_std;
use forge_tools::audit::{
    AuditLog, Integrity, LogDefect, LogOptions, LogPosition, LogSeal, MAX_LINE_BYTES,
    VerificationReport, Verifier, segment_name, verify,
};
use forge_tools::{CallRecord, DecisionEntry, MemoryRecorder, Recorder, Redactor, Toolbox};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{World, call};

fn open(dir: &Path, options: LogOptions) -> std::io::Result<AuditLog> {
    let dir = cap_std::fs::Dir::open_ambient_dir(dir, cap_std::ambient_authority())?;
    AuditLog::open(dir, options)
}

fn small(max_segment_bytes: u64) -> LogOptions {
    LogOptions {
        max_segment_bytes,
        ..LogOptions::default()
    }
}

/// A record as the executor makes them.
fn record(arguments: Value) -> CallRecord {
    let kept = Arc::new(MemoryRecorder::default());
    let toolbox = Toolbox::builder()
        .shared_recorder(Arc::clone(&kept) as Arc<dyn Recorder>)
        .build()
        .unwrap();
    call(&toolbox, "no_such_tool", arguments);
    kept.records().remove(0)
}

fn write(log: &AuditLog, record: &CallRecord) {
    let call = log.decided(&record.asked()).unwrap();
    assert!(call.is_some());
    log.record(&CallRecord {
        call,
        ..record.clone()
    })
    .unwrap();
}

/// `count` calls and the seal.
fn sealed(dir: &Path, count: u64) -> LogSeal {
    let log = open(dir, LogOptions::default()).unwrap();
    for n in 0..count {
        write(&log, &record(json!({ "n": n })));
    }
    log.seal("answered").unwrap()
}

fn all_segments(dir: &Path) -> VerificationReport {
    let mut verifier = Verifier::new();
    for segment in 0.. {
        match std::fs::File::open(dir.join(segment_name(segment))) {
            Ok(file) => verifier.segment(std::io::BufReader::new(file)).unwrap(),
            Err(_) => break,
        }
    }
    verifier.finish()
}

fn lines(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("audit.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn at(line: u64) -> LogPosition {
    LogPosition { segment: 0, line }
}

/// Asked, decided with reasons, where and why, what policies did; and
/// the decision is there before the work.
#[test]
fn a_call_is_two_lines_and_the_first_is_there_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(open(dir.path(), LogOptions::default()).unwrap());
    let world = World::new();
    let toolbox = world
        .builder()
        .shared_recorder(Arc::clone(&log) as Arc<dyn Recorder>)
        .build()
        .unwrap();
    call(
        &toolbox,
        "write_file",
        json!({"path": "/out/new.md", "content": "x"}),
    );
    call(&toolbox, "read_file", json!({"path": "/elsewhere/a"}));
    let sealed = log.seal("answered").unwrap();
    assert_eq!((sealed.tally.calls, sealed.tally.failed), (2, 1));

    let lines = lines(dir.path());
    let kinds: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "begin",
            "decision",
            "execution",
            "decision",
            "execution",
            "end",
            "seal"
        ]
    );
    let (decision, execution) = (&lines[1], &lines[2]);
    assert_eq!(decision["tool"], "write_file");
    assert_eq!(decision["arguments"]["path"], "/out/new.md");
    assert_eq!(decision["intents"][0], "write /out/new.md");
    assert_eq!(decision["decision"]["verdict"], "allow");
    assert!(decision["decision"]["reasons"][0]["text"].is_string());
    assert_eq!(execution["call"], decision["seq"]);
    assert_eq!(execution["runner"], "local");
    assert_eq!(execution["artifacts"][0]["path"], "/out/new.md");
    assert_eq!(execution["artifacts"][0]["bytes"], 1);
    assert_eq!(execution["content_sha256"].as_str().unwrap().len(), 64);
    assert!(execution["duration_us"].is_u64());
    assert_eq!(lines[4]["code"], "OUTSIDE_SANDBOX");
    assert_eq!(lines[4]["events"][0]["event"], "refused");
    assert_eq!(all_segments(dir.path()).integrity, Integrity::Whole);
}

/// The decision is written before the result is known, so it is cleaned by itself.
#[test]
fn no_secret_is_written_before_the_work_either() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), LogOptions::default()).unwrap();
    let secret = "hunter2-but-longer";
    let world = World::new();
    let toolbox = world
        .builder()
        .shared_redactor(Arc::new(Redactor::new([("DEPLOY_PASSWORD", secret)])))
        .recorder(log)
        .build()
        .unwrap();
    let arguments = json!({"path": "/out/a.md", "content": format!("p={secret}")});
    assert!(call(&toolbox, "write_file", arguments).ok);
    let text = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    assert!(
        text.contains("DEPLOY_PASSWORD") && !text.contains(secret),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(world.host.path().join("out/a.md")).unwrap(),
        format!("p={secret}")
    );
}

/// A recorder that is told of the decision and then finds the disk full.
struct FullFrom(u64, std::sync::atomic::AtomicU64);

impl FullFrom {
    fn next(&self) -> std::io::Result<()> {
        let n = self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if n < self.0 {
            return Ok(());
        }
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

impl Recorder for FullFrom {
    fn decided(&self, _: &DecisionEntry<'_>) -> std::io::Result<Option<u64>> {
        self.next().map(|()| Some(7))
    }

    fn record(&self, record: &CallRecord) -> std::io::Result<()> {
        // Without a decision the executor never got to it.
        assert_eq!(record.call, (self.0 > 0).then_some(7));
        self.next()
    }
}

#[test]
fn what_cannot_be_recorded_is_not_made_and_its_result_is_withheld() {
    for (room, made, says) in [(0, false, "so it was not made"), (1, true, "is withheld")] {
        let world = World::new();
        let toolbox = world
            .builder()
            .recorder(FullFrom(room, Default::default()))
            .build()
            .unwrap();
        let result = call(
            &toolbox,
            "write_file",
            json!({"path": "/out/new.md", "content": "x"}),
        );
        assert_eq!(result.error.unwrap().code, "INTERNAL");
        assert!(result.content.contains(says), "{}", result.content);
        assert_eq!(world.host.path().join("out/new.md").exists(), made);
    }
}

#[test]
fn files_are_the_owners_alone_and_one_program_writes() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), small(1)).unwrap();
    write(&log, &record(json!({})));
    for name in ["audit.jsonl", "audit.1.jsonl"] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
    }
    let refused = open(dir.path(), LogOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    drop(log);
    open(dir.path(), LogOptions::default()).unwrap();
}

/// The chain holds across files, and across programs that go on where another one stopped.
#[test]
fn a_log_goes_on_in_further_files_and_in_further_programs() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let log = open(dir.path(), small(4096)).unwrap();
        for n in 0..20 {
            write(&log, &record(json!({ "round": round, "n": n })));
        }
        if round > 0 {
            log.seal("answered").unwrap();
            assert!(log.decided(&record(json!({})).asked()).is_err());
        }
    }
    let found = all_segments(dir.path());
    assert_eq!(found.integrity, Integrity::Whole);
    assert!(found.segments > 5, "{}", found.segments);
    for segment in 0..found.segments {
        let size = std::fs::metadata(dir.path().join(segment_name(segment))).unwrap();
        assert!(size.len() <= 4096, "{}", size.len());
    }
    std::fs::remove_file(dir.path().join(segment_name(2))).unwrap();
    let mut verifier = Verifier::new();
    for segment in (0..found.segments).filter(|segment| *segment != 2) {
        let file = std::fs::read(dir.path().join(segment_name(segment))).unwrap();
        verifier.segment(&file[..]).unwrap();
    }
    let cut = verifier.finish().integrity;
    assert!(
        matches!(cut, Integrity::Broken(LogDefect::Cut { .. })),
        "{cut:?}"
    );
}

#[test]
fn callers_in_parallel_keep_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), small(8192)).unwrap();
    let record = record(json!({}));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| write(&log, &record)));
        }
    });
    let sealed = log.seal("answered").unwrap();
    assert_eq!(sealed.tally.calls, 800);
    let found = all_segments(dir.path());
    assert_eq!(
        (found.integrity, found.lines, found.head),
        (Integrity::Whole, sealed.lines, sealed.head)
    );
}

#[test]
fn each_damage_is_told_apart_and_its_line_named() {
    let dir = tempfile::tempdir().unwrap();
    sealed(dir.path(), 4);
    let text = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // begin, 4 × (decision, execution), end, seal
    assert_eq!(lines.len(), 11);
    let edited = |n: usize, from: &str, to: &str| {
        let mut all: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert!(all[n - 1].contains(from));
        all[n - 1] = all[n - 1].replacen(from, to, 1);
        all.concat()
    };
    let without = |gone: &[usize]| {
        let kept = lines.iter().enumerate();
        kept.filter(|(n, _)| !gone.contains(&(n + 1)))
            .map(|(_, line)| *line)
            .collect::<String>()
    };
    let swapped = |a: usize, b: usize| {
        let mut all = lines.clone();
        all.swap(a - 1, b - 1);
        all.concat()
    };
    let foreign = |line: &str| {
        let mut all = lines.clone();
        all.insert(5, line);
        all.concat()
    };
    let broken = |found: LogDefect| Integrity::Broken(found);
    let unreadable = "it has no number and hash";
    for (what, text, expected) in [
        ("nothing", text.clone(), Integrity::Whole),
        ("empty", String::new(), Integrity::Unsealed),
        ("no seal", without(&[11]), Integrity::Unsealed),
        ("no end", without(&[9, 10, 11]), Integrity::Unsealed),
        (
            "torn",
            text[..text.len() - 1].to_owned(),
            Integrity::Torn { at: at(11) },
        ),
        (
            "edited",
            edited(4, "\"n\":1", "\"n\":2"),
            broken(LogDefect::Edited { at: at(4) }),
        ),
        (
            "edited hash",
            edited(5, "\"prev\":\"", "\"prev\":\"0"),
            broken(LogDefect::Edited { at: at(5) }),
        ),
        (
            "edited first",
            edited(1, "\"format\":1", "\"format\":2"),
            broken(LogDefect::Edited { at: at(1) }),
        ),
        (
            "edited first hash",
            edited(1, "\"prev\":\"0", "\"prev\":\"1"),
            broken(LogDefect::Edited { at: at(1) }),
        ),
        (
            "edited end",
            edited(10, "answered", "failed"),
            broken(LogDefect::Edited { at: at(10) }),
        ),
        (
            "edited count",
            edited(11, "\"count\":10", "\"count\":11"),
            broken(LogDefect::Edited { at: at(11) }),
        ),
        (
            "one gone",
            without(&[4]),
            broken(LogDefect::Cut {
                before: at(4),
                missing: 1,
            }),
        ),
        (
            "first ones gone",
            without(&[1, 2, 3]),
            broken(LogDefect::Cut {
                before: at(1),
                missing: 3,
            }),
        ),
        (
            "swapped",
            swapped(4, 7),
            broken(LogDefect::Reordered { at: at(7) }),
        ),
        (
            "twice",
            foreign(lines[2]),
            broken(LogDefect::Reordered { at: at(6) }),
        ),
        (
            "foreign",
            foreign("hello\n"),
            broken(LogDefect::Foreign {
                at: at(6),
                why: unreadable,
            }),
        ),
        (
            "empty line",
            foreign("\n"),
            broken(LogDefect::Foreign {
                at: at(6),
                why: unreadable,
            }),
        ),
        (
            "too long",
            foreign(&format!("{}\n", "x".repeat(3 * MAX_LINE_BYTES))),
            broken(LogDefect::Foreign {
                at: at(6),
                why: "it is longer than any that we write",
            }),
        ),
    ] {
        let found = verify(text.as_bytes()).unwrap();
        assert_eq!(found.integrity, expected, "{what}");
    }
}

/// What a kill in the middle of a write leaves is moved aside, and the log goes on.
#[test]
fn a_torn_last_line_is_repaired_and_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), LogOptions::default()).unwrap();
    write(&log, &record(json!({})));
    drop(log);
    let path = dir.path().join("audit.jsonl");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(b"{\"seq\":3,\"pr").unwrap();
    drop(file);
    assert_eq!(
        all_segments(dir.path()).integrity,
        Integrity::Torn { at: at(4) }
    );
    let log = open(dir.path(), LogOptions::default()).unwrap();
    log.seal("answered").unwrap();
    assert_eq!(all_segments(dir.path()).integrity, Integrity::Whole);
    let lines = lines(dir.path());
    assert_eq!(lines[3]["kind"], "resumed");
    assert_eq!(lines[3]["torn_bytes"], 12);
    let torn = std::fs::read_to_string(dir.path().join("audit.torn")).unwrap();
    assert_eq!(torn, "{\"seq\":3,\"pr\n");
}

#[test]
fn a_log_that_is_broken_is_not_added_to() {
    let dir = tempfile::tempdir().unwrap();
    sealed(dir.path(), 2);
    let path = dir.path().join("audit.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let edited = text.replacen("\"n\":0", "\"n\":9", 1);
    std::fs::write(&path, &edited).unwrap();
    let refused = open(dir.path(), LogOptions::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the audit log is broken: line 2 of audit.jsonl was edited"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), edited);
}

/// An empty file that nobody began after the end is none of the log's.
#[test]
fn an_empty_file_behind_the_seal_is_a_break() {
    let dir = tempfile::tempdir().unwrap();
    sealed(dir.path(), 1);
    assert_eq!(all_segments(dir.path()).integrity, Integrity::Whole);
    std::fs::write(dir.path().join(segment_name(1)), "").unwrap();
    let found = all_segments(dir.path()).integrity;
    assert!(
        matches!(&found, Integrity::Broken(LogDefect::Foreign { at, .. }) if at.segment == 1),
        "{found}"
    );
}

/// What is written to a file that nobody finds is recorded for nobody.
#[test]
fn a_log_that_is_removed_or_replaced_takes_no_more_lines() {
    for (what, max_segment_bytes, harm) in [
        ("removed", 1 << 20, "audit.jsonl"),
        ("replaced", 1 << 20, "audit.jsonl"),
        ("removed", 600, "audit.jsonl"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path(), small(max_segment_bytes)).unwrap();
        for n in 0..3 {
            write(&log, &record(json!({ "n": n })));
        }
        assert_eq!(
            dir.path().join(segment_name(1)).exists(),
            max_segment_bytes == 600
        );
        let path = dir.path().join(harm);
        std::fs::remove_file(&path).unwrap();
        if what == "replaced" {
            std::fs::write(&path, "").unwrap();
        }
        let call = record(json!({ "n": 4 }));
        let refused = log.decided(&call.asked()).unwrap_err();
        assert!(
            refused.to_string().contains("removed or replaced"),
            "{what}: {refused}"
        );
        // Nobody can make it good again.
        assert!(log.decided(&call.asked()).is_err(), "{what}");
        assert!(log.seal("answered").is_err(), "{what}");
    }
}

/// Starts this test program again as one that writes until it is ended.
fn writer(dir: &Path, before: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!(
            "{before} exec \"$0\" --exact audit::child_that_writes --ignored --nocapture"
        ))
        .arg(program)
        .env("AUDIT_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
#[ignore = "the other program of a test, which has no descriptor left"]
fn child_without_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Some(dir) = std::env::var_os("AUDIT_DIR") else {
        return;
    };
    let options = LogOptions {
        sync_after: Duration::from_millis(1),
        durable: true,
        ..small(64 * 1024)
    };
    let log = open(Path::new(&dir), options).unwrap();
    let call = record(json!({ "path": "a.txt" }));
    write(&log, &call);
    let few = Rlimit {
        current: Some(64),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let others: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    // Each decision is brought to the disk, and by the thread for it as well.
    for _ in 0..20 {
        write(&log, &call);
        std::thread::sleep(Duration::from_millis(5));
    }
    log.sync().unwrap();
    // A file that is full needs a descriptor for the next one. Nothing else of the log does.
    let long = record(json!({ "content": "x".repeat(60_000) }));
    let error = log.decided(&long.asked()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(24), "{error}");
    drop(others);
    write(&log, &long);
    let sealed = log.seal("answered").unwrap();
    assert_eq!(sealed.tally.calls, 22);
    println!("sealed");
}

#[test]
fn a_log_is_written_and_synced_without_a_free_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "audit::child_without_descriptors",
            "--ignored",
            "--nocapture",
        ])
        .env("AUDIT_DIR", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("sealed"), "{text}");
    let found = all_segments(dir.path());
    assert_eq!((found.integrity, found.segments), (Integrity::Whole, 2));
}

#[test]
#[ignore = "the other program of the tests that end one"]
fn child_that_writes() {
    let Some(dir) = std::env::var_os("AUDIT_DIR") else {
        return;
    };
    let log = open(Path::new(&dir), small(256 * 1024)).unwrap();
    let record = record(json!({ "content": "x".repeat(900) }));
    loop {
        let Ok(call) = log.decided(&record.asked()) else {
            std::process::exit(3);
        };
        if log
            .record(&CallRecord {
                call,
                ..record.clone()
            })
            .is_err()
        {
            std::process::exit(4);
        }
    }
}

/// Killed fifty times in the middle of writing, and what is there is whole up to the
/// last line each time.
#[test]
fn a_kill_leaves_whole_lines_and_at_most_one_torn_one() {
    let mut dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..50 {
        if round % 5 == 0 {
            // A longer log takes each further program longer to read.
            dir = tempfile::tempdir().unwrap();
            before = 0;
        }
        let mut child = writer(dir.path(), "").spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(600);
        let bytes = || -> u64 {
            let files = std::fs::read_dir(dir.path()).unwrap();
            files.map(|f| f.unwrap().metadata().unwrap().len()).sum()
        };
        while bytes() < before + 20_000 + round * 137 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = all_segments(dir.path());
        assert!(
            matches!(
                found.integrity,
                Integrity::Unsealed | Integrity::Torn { .. }
            ),
            "round {round}: {found:?}"
        );
        let now = bytes();
        assert!(now > before, "round {round}: nothing was written");
        before = now;
    }
    open(dir.path(), LogOptions::default())
        .unwrap()
        .seal("killed")
        .unwrap();
    assert_eq!(all_segments(dir.path()).integrity, Integrity::Whole);
}

/// A file that may not grow any more: the writer is told, and no half line stays.
#[test]
fn a_full_disk_is_reported_and_leaves_no_half_line() {
    let dir = tempfile::tempdir().unwrap();
    // In blocks of 512 bytes; the signal would end the writer before it is told.
    let status = writer(dir.path(), "trap '' XFSZ; ulimit -f 20;")
        .status()
        .unwrap();
    assert!(matches!(status.code(), Some(3 | 4)), "{status}");
    let found = all_segments(dir.path());
    assert_eq!(found.integrity, Integrity::Unsealed);
    assert!(found.lines > 2);
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
    Truncate(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    use prop::sample::Index;
    prop_oneof![
        (any::<Index>(), 1..=255u8).prop_map(|(at, with)| Damage::Flip(at, with)),
        any::<Index>().prop_map(Damage::Remove),
        any::<(Index, Index)>().prop_map(|(a, b)| Damage::Swap(a, b)),
        any::<(Index, Index)>().prop_map(|(a, b)| Damage::Repeat(a, b)),
        any::<Index>().prop_map(Damage::Truncate),
    ]
}

fn damaged(log: &[u8], damage: &Damage) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    match damage {
        Damage::Flip(at, with) => {
            let mut all = log.to_vec();
            all[at.index(log.len())] ^= with;
            return all;
        }
        Damage::Truncate(at) => return log[..at.index(log.len())].to_vec(),
        Damage::Remove(at) => {
            lines.remove(at.index(lines.len()));
        }
        Damage::Swap(a, b) => {
            let all = lines.len();
            lines.swap(a.index(all), b.index(all));
        }
        Damage::Repeat(from, to) => {
            let line = lines[from.index(lines.len())];
            lines.insert(to.index(lines.len() + 1), line);
        }
    }
    lines.concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is done to a sealed log, it is not whole any more; and a log that is not sealed
    /// never becomes one.
    #[test]
    fn any_damage_to_a_sealed_log_shows(damage in damage()) {
        static LOG: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
            let dir = tempfile::tempdir().unwrap();
            sealed(dir.path(), 6);
            std::fs::read(dir.path().join("audit.jsonl")).unwrap()
        });
        let other = damaged(&LOG, &damage);
        let found = verify(&other[..]).unwrap();
        if other == *LOG {
            prop_assert_eq!(found.integrity, Integrity::Whole);
        } else {
            prop_assert_ne!(found.integrity, Integrity::Whole);
        }
    }
}
