//! Any packet is a question, an error with an answer, or ignored; every answer is a well-formed
//! message with the question's bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/broker/resolver/dns.rs"]
mod dns;
#[expect(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/host.rs"]
mod host;

use dns::{Answer, NoQuestion};

fuzz_target!(|packet: &[u8]| {
    let (question, answer) = match dns::parse(packet) {
        Ok(question) => (question, Answer::Address([198, 18, 1, 0].into())),
        Err(NoQuestion::Answer(question, answer)) => (question, answer),
        Err(NoQuestion::Ignore) => return,
    };
    if let Some(name) = &question.name {
        let _ = dns::reverse_address(name);
    }
    let message = question.answer(&answer);
    assert!(message.len() <= 512, "{message:?}");
    assert_eq!(message[..2], packet[..2]);
    // An answer is never answered.
    assert_eq!(dns::parse(&message), Err(NoQuestion::Ignore));
});
