//! Any bytes as a transcript: it is damage that names a line, or a run that can be gone on from, or
//! that says why not. What going on adds behind it is a transcript again, with nothing left open.
#![no_main]

use std::sync::Arc;

use forge_runtime::transcript::{
    History, NotResumable, ResumeRecord, Transcript, TranscriptWriter, read,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let transcript = match read(bytes) {
        Ok(transcript) => transcript,
        Err(damage) => {
            assert!((1..=lines as u64).contains(&damage.line));
            assert!(!damage.problem.to_string().is_empty());
            return;
        }
    };
    let read_bytes = transcript.sound_bytes + transcript.torn_bytes;
    assert_eq!(read_bytes, bytes.len() as u64);
    let sound = &bytes[..transcript.sound_bytes as usize];
    assert!(sound.ends_with(b"\n"));
    for same_model in [true, false] {
        match History::of(&transcript, same_model) {
            Ok(past) => goes_on(&transcript, sound, &past),
            Err(NotResumable::Answered) => {
                let entry = transcript.entry().expect("a worker that answered");
                assert!(entry.end.as_ref().is_some_and(|end| end.is_answer()));
            }
        }
    }
});

/// As a program that goes on does: its line, then the results that were not kept.
fn goes_on(transcript: &Transcript, sound: &[u8], past: &History) {
    let writer = TranscriptWriter::new(sound.to_vec(), Arc::default()).behind(transcript);
    let line = ResumeRecord {
        forge: "0.0.0".to_owned(),
        model_flag: None,
        basis: transcript.basis().clone(),
        answer_schema: None,
        accepted: Vec::new(),
        interrupted: Vec::new(),
    };
    writer.resumed(line).expect("memory does not fail");
    past.keep(&writer).expect("memory does not fail");
    let after = read(&*writer.into_inner()).expect("what was added fits");
    let again = History::of(&after, true).expect("nobody answered");
    assert!(again.interrupted().is_empty());
    assert_eq!(again.used(), past.used());
}
