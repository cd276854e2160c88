//! Transcripts: what is written is what is read, wherever it was cut, and a run that goes on from
//! there comes to the same end without making a call twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use forge_runtime::transcript::{
    FORMAT, History, NotResumable, ResumeRecord, RunFingerprint, TranscriptHeader,
};
use forge_runtime::transcript::{SCHEMA, TranscriptWriter, read};
use forge_runtime::{Message, Observer, Playbook, RunOutcome, RunReport, ScriptedModel, Session};
use forge_tools::Redactor;
use sandbox_config::{Project, Sources, TrustedSettings, load};
use serde_json::{Value, json};
use tempfile::TempDir;

const PLAYBOOK: &str = "
version: 1
workers:
  main:
    - say: Both, then the report.
      calls:
        - { tool: append_file, args: { path: /workspace/log, content: 'a' } }
        - { tool: append_file, args: { path: /workspace/log, content: 'b' } }
        - { tool: child, args: { input: 'c' } }
      usage: { input_tokens: 10, output_tokens: 5 }
    - calls:
        - { tool: read_file, args: { path: /workspace/log }, as: log }
      usage: { input_tokens: 20, output_tokens: 5 }
    - say: 'It says {{ results.log.content }}'
      usage: { input_tokens: 30, output_tokens: 5 }
  child:
    - calls:
        - { tool: append_file, args: { path: /workspace/log, content: '{{ input }}' } }
      usage: { input_tokens: 100, output_tokens: 50 }
    - say: appended
      usage: { input_tokens: 100, output_tokens: 50 }
";

struct World {
    dir: TempDir,
}

/// Written to by a run, and read by the test.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("workers")).unwrap();
        let sandbox = "sandbox: { zones: [{ name: workspace, mode: rw }] }\n";
        for (name, front) in [("main", "workers: [child]\n"), ("child", sandbox)] {
            let text = format!("---\nname: {name}\ndescription: d\n{front}---\nGo.\n");
            std::fs::write(dir.path().join(format!("workers/{name}.worker")), text).unwrap();
        }
        let config = "\
sandbox:
  mode: direct
  zones: { workspace: { path: ./workspace, approval: { write: preApproved } } }
";
        std::fs::write(dir.path().join("golem-forge.config.yaml"), config).unwrap();
        World { dir }
    }

    fn project(&self) -> Project {
        let mut sources = Sources::new(self.dir.path());
        sources.trust = TrustedSettings::Given;
        load(&sources).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("workspace/log")).unwrap_or_default()
    }

    fn basis(&self, project: &Project) -> RunFingerprint {
        let worker = project.worker("main").unwrap();
        let grant = project.entry_grant(&worker).unwrap();
        let others = project.workers().unwrap();
        RunFingerprint::of(
            "scripted:test",
            &worker,
            &grant,
            &others,
            &Redactor::default(),
        )
    }

    /// Runs it from the beginning, or from where `past` leaves off; what was written.
    fn run(&self, before: Option<&[u8]>) -> (RunReport, Vec<u8>) {
        let project = self.project();
        let worker = project.worker("main").unwrap();
        let out = Shared::default();
        let redactor = Arc::new(Redactor::new([("TOKEN", "hunter2hunter2")]));
        let mut writer = TranscriptWriter::new(out.clone(), redactor);
        let conversation = if let Some(before) = before {
            let transcript = read(before).unwrap();
            let past = History::of(&transcript, true).unwrap();
            let sound = usize::try_from(transcript.sound_bytes).unwrap();
            out.0.lock().unwrap().extend_from_slice(&before[..sound]);
            writer = writer.behind(&transcript);
            writer
                .resumed(ResumeRecord {
                    forge: "test".into(),
                    model_flag: None,
                    basis: self.basis(&project),
                    answer_schema: None,
                    accepted: Vec::new(),
                    interrupted: Vec::new(),
                })
                .unwrap();
            past.keep(&writer).unwrap();
            past.conversation()
        } else {
            writer
                .begin(TranscriptHeader {
                    format: FORMAT,
                    forge: "test".into(),
                    name: "main_1-1".into(),
                    project: "/p".into(),
                    worker: "main".into(),
                    file: None,
                    model_flag: Some("p:m".into()),
                    input: "go with hunter2hunter2".into(),
                    attached: Vec::new(),
                    answer_schema: None,
                    basis: self.basis(&project),
                })
                .unwrap();
            forge_runtime::Conversation::asked("go with hunter2hunter2")
        };
        let model = ScriptedModel::new("test", Playbook::parse(PLAYBOOK).unwrap());
        let writer = Arc::new(writer);
        let session = Session::builder(model)
            .workers(project.workers().unwrap())
            .observer(Arc::clone(&writer) as Arc<dyn Observer>)
            .build();
        let grant = project.entry_grant(&worker).unwrap();
        let report = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(session.resume(&worker, grant, conversation));
        assert!(writer.failure().is_none());
        let written = out.0.lock().unwrap().clone();
        (report, written)
    }
}

fn lines(written: &[u8]) -> Vec<Value> {
    let lines = written.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// Each call has one result, right behind its turn and in the order of the calls.
fn assert_well_formed(messages: &[Message], what: &str) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::ToolResult(result) => {
                assert_eq!(open.first(), Some(&result.id.as_str()), "{what}");
                open.remove(0);
            }
            Message::Input { .. } => assert!(open.is_empty(), "{what}"),
            Message::Model { calls, .. } => {
                assert!(open.is_empty(), "{what}");
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
        }
    }
    assert!(open.is_empty(), "{what}");
}

#[test]
fn what_is_written_is_what_is_read() {
    let world = World::new();
    let (report, written) = world.run(None);
    assert_eq!(
        report.end,
        RunOutcome::Answered {
            answer: "It says abc".into()
        }
    );
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for line in lines(&written) {
        let complaints: Vec<String> = validator
            .iter_errors(&line)
            .map(|error| error.to_string())
            .collect();
        assert!(complaints.is_empty(), "{line}: {complaints:?}");
    }
    let text = String::from_utf8(written.clone()).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("[redacted: TOKEN "), "{text}");

    let transcript = read(&written[..]).unwrap();
    assert_eq!(transcript.begin.worker, "main");
    assert_eq!((transcript.torn_bytes, transcript.runs.len()), (0, 2));
    let (entry, child) = (&transcript.runs[&1], &transcript.runs[&2]);
    assert_eq!(
        (child.above, child.workers.join(" > ").as_str()),
        (Some(1), "main > child")
    );
    assert_eq!((entry.turns, entry.calls, entry.usage.total()), (3, 4, 75));
    assert_eq!((child.turns, child.calls, child.usage.total()), (2, 1, 300));
    assert_eq!(entry.end, Some(report.end));
    assert!(entry.instructions.contains("Go.") && !entry.tools.is_empty());
    assert_well_formed(&entry.messages, "the entry worker");
    assert_eq!(
        History::of(&transcript, true).unwrap_err(),
        NotResumable::Answered
    );
}

/// Wherever the program was killed: what is there is read, and can be gone on with or says why
/// not.
#[test]
fn every_beginning_of_a_transcript_can_be_gone_on_with() {
    let world = World::new();
    let (_, written) = world.run(None);
    let first = written.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let last = lines(&written).len();
    let near_a_line = |end: usize| {
        let near = &written[end.saturating_sub(2)..(end + 2).min(written.len())];
        near.contains(&b'\n')
    };
    for end in (0..=written.len()).filter(|end| near_a_line(*end) || end % 997 == 0) {
        let found = read(&written[..end]);
        if end < first {
            assert_eq!(
                found.unwrap_err().to_string(),
                "line 1: it is empty",
                "{end}"
            );
            continue;
        }
        let found = found.unwrap_or_else(|damage| panic!("{end}: {damage}"));
        let whole = written[..end].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(found.lines, u64::try_from(whole).unwrap());
        assert_eq!(
            found.sound_bytes + found.torn_bytes,
            u64::try_from(end).unwrap()
        );
        match History::of(&found, true) {
            Ok(past) => {
                let conversation = past.conversation();
                assert_well_formed(conversation.messages(), &end.to_string());
                assert!(!conversation.messages().is_empty());
            }
            Err(NotResumable::Answered) => assert_eq!(whole, last),
        }
    }
}

/// Killed behind each line, and gone on with: no call whose result was kept is made again, and
/// the model is told of those whose was not.
#[test]
fn a_run_that_goes_on_makes_no_call_again() {
    let reference = World::new();
    let (_, written) = reference.run(None);
    let ends: Vec<usize> = (0..written.len())
        .filter(|at| written[*at] == b'\n')
        .collect();
    for (n, end) in ends.iter().enumerate().take(ends.len() - 1) {
        let before = &written[..=*end];
        let kept = lines(before);
        let at = format!("behind line {} {}", n + 1, kept[n]);
        let world = World::new();
        // What had been done when the program was killed.
        let done: String = kept
            .iter()
            .filter(|line| line["kind"] == "came" && line["result"]["tool"] == "append_file")
            .zip(["a", "b", "c"])
            .map(|(_, letter)| letter)
            .collect();
        std::fs::create_dir(world.dir.path().join("workspace")).unwrap();
        std::fs::write(world.dir.path().join("workspace/log"), &done).unwrap();
        let transcript = read(before).unwrap();
        let past = History::of(&transcript, true).unwrap();
        let interrupted = past.interrupted().to_vec();
        for call in &interrupted {
            let line = json!({"kind": "call", "run": 1, "id": call.id});
            let begun = kept.iter().any(|kept| {
                kept["kind"] == line["kind"] && kept["run"] == 1 && kept["id"] == line["id"]
            });
            assert_eq!(call.begun, begun, "{at}");
        }
        let (report, after) = world.run(Some(before));
        assert!(report.end.is_answer(), "{at}: {:?}", report.end);
        // Nothing twice; what was interrupted, this playbook does not make again.
        let log = world.log();
        assert!(log.starts_with(&done), "{at}: {log} after {done}");
        let mut letters: Vec<char> = log.chars().collect();
        letters.dedup();
        assert_eq!(letters.len(), log.len(), "{at}: {log}");
        let made_later = 3 - done.len() - interrupted.len().min(3 - done.len());
        assert!(log.len() <= done.len() + made_later + 1, "{at}: {log}");

        let both = read(&after[..]).unwrap_or_else(|damage| panic!("{at}: {damage}"));
        assert_eq!(both.resumed.len(), 1, "{at}");
        assert_well_formed(&both.runs[&1].messages, &at);
        // Nothing that was used is forgotten.
        let used = past.used();
        assert!(report.turns > used.turns || report.turns >= 3, "{at}");
        assert!(report.tokens >= used.usage.total(), "{at}");
        let chains: BTreeMap<u64, &Vec<String>> = both
            .runs
            .iter()
            .map(|(run, found)| (*run, &found.workers))
            .collect();
        assert_eq!(chains[&1].len(), 1, "{at}");
    }
}

/// What cannot stand where it stands.
#[test]
fn damage_is_named_with_its_line() {
    let world = World::new();
    let (_, written) = world.run(None);
    let whole = lines(&written);
    let find = |kind: &str| whole.iter().position(|line| line["kind"] == kind).unwrap();
    let model = whole
        .iter()
        .position(|line| line["message"]["role"] == "model")
        .unwrap();
    let told_first = whole
        .iter()
        .position(|line| line["kind"] == "told" && line["run"] == 1)
        .unwrap();
    let swapped = |a: usize, b: usize| {
        let mut lines = whole.clone();
        lines.swap(a, b);
        lines
    };
    let without = |at: usize| {
        let mut lines = whole.clone();
        lines.remove(at);
        lines
    };
    let with = |at: usize, pointer: &str, value: Value| {
        let mut lines = whole.clone();
        *lines[at].pointer_mut(pointer).unwrap() = value;
        lines
    };
    let rows = [
        (without(0), 1, "it does not say which run it is of"),
        (
            with(0, "/format", json!(2)),
            1,
            "it is in version 2 of the format, and this forge reads 1",
        ),
        (
            with(0, "/basis", json!(null)),
            1,
            "not a line of a transcript",
        ),
        (swapped(0, 1), 1, "it does not say which run it is of"),
        (without(find("started")), 2, "this worker had not begun"),
        (
            with(find("started"), "/run", json!(7)),
            2,
            "its callers are not those of its number",
        ),
        (
            with(find("started"), "/workers", json!(["a", "b"])),
            2,
            "its callers are not those of its number",
        ),
        (without(model), model + 1, "the model made no such call"),
        (
            with(find("call"), "/id", json!("x")),
            find("call") + 1,
            "the model made no such call",
        ),
        (
            with(find("came"), "/result/id", json!("x")),
            find("came") + 1,
            "the model made no such call",
        ),
        (
            with(find("told"), "/id", json!("x")),
            find("told") + 1,
            "the call was not over",
        ),
        (without(find("came")), told_first, "the call was not over"),
        (
            with(find("turn"), "/kind", json!("turned")),
            find("turn") + 1,
            "not a line of a transcript",
        ),
        (
            with(find("turn"), "/run", json!(9)),
            find("turn") + 1,
            "this worker had not begun",
        ),
    ];
    for (lines, line, text) in rows {
        let mut bytes = Vec::new();
        for line in &lines {
            bytes.extend_from_slice(line.to_string().as_bytes());
            bytes.push(b'\n');
        }
        let damage = read(&bytes[..]).unwrap_err();
        assert_eq!(
            damage.line,
            u64::try_from(line).unwrap(),
            "{text}: {damage}"
        );
        assert!(
            damage.problem.to_string().starts_with(text),
            "{damage} is not {text}"
        );
    }
    let damage = read(&b"\n"[..]).unwrap_err();
    assert!(
        damage
            .to_string()
            .starts_with("line 1: not a line of a transcript"),
        "{damage}"
    );
    let long = vec![b' '; forge_runtime::transcript::MAX_LINE_BYTES];
    assert_eq!(
        read(&long[..]).unwrap_err().to_string(),
        "line 1: it is longer than 33554432 bytes"
    );
}

/// A transcript that cannot be written stops what would have to stand in it.
#[test]
fn nothing_is_done_that_cannot_be_kept() {
    use forge_runtime::transcript::TranscriptRecorder;

    /// Full after so many lines.
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Ok(bytes.len())
                }
                None => Err(std::io::ErrorKind::StorageFull.into()),
            }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let (_, written) = World::new().run(None);
    let whole = lines(&written);
    // Without the first line, which this test does not write.
    let begins: Vec<usize> = (1..whole.len())
        .filter(|at| whole[*at]["kind"] == "call")
        .collect();
    for room in 0..whole.len() {
        let world = World::new();
        let project = world.project();
        let worker = project.worker("main").unwrap();
        let writer = Arc::new(TranscriptWriter::new(Full(room), Arc::default()));
        let recorder =
            TranscriptRecorder::new(Arc::new(forge_tools::NoRecord), Arc::clone(&writer));
        let model = ScriptedModel::new("test", Playbook::parse(PLAYBOOK).unwrap());
        let session = Session::builder(model)
            .workers(project.workers().unwrap())
            .observer(Arc::clone(&writer) as Arc<dyn Observer>)
            .recorder(Arc::new(recorder))
            .build();
        let grant = project.entry_grant(&worker).unwrap();
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(session.run(&worker, grant, "go"));
        let begun = begins.iter().filter(|at| **at - 1 < room).count();
        assert!(world.log().len() <= begun, "{room}: {}", world.log());
    }
}

mod anything {
    use proptest::prelude::*;

    use super::*;

    fn of_a_run() -> &'static [u8] {
        static WRITTEN: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        WRITTEN.get_or_init(|| World::new().run(None).1)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Lines taken out, put elsewhere, put in twice, edited: it is damage, or something that a
        /// run can go on from with one result for each call; never a panic.
        #[test]
        fn a_transcript_that_somebody_edited_is_not_believed(
            edits in prop::collection::vec((0..4u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        ) {
            let mut lines: Vec<Vec<u8>> = of_a_run()
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            for (edit, at, to) in edits {
                if lines.is_empty() {
                    break;
                }
                let at = at.index(lines.len());
                match edit {
                    0 => {
                        lines.remove(at);
                    }
                    1 => {
                        let line = lines[at].clone();
                        lines.insert(to.index(lines.len()), line);
                    }
                    2 => {
                        let to = to.index(lines.len());
                        lines.swap(at, to);
                    }
                    _ => {
                        let byte = to.index(lines[at].len());
                        lines[at][byte] = lines[at][byte].wrapping_add(1);
                    }
                }
            }
            let bytes = lines.concat();
            if let Ok(transcript) = read(&bytes[..])
                && let Ok(past) = History::of(&transcript, true)
            {
                assert_well_formed(past.conversation().messages(), "edited");
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes[..]);
        }
    }
}
