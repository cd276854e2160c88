//! Approvals by the person at a client of 2026-07-28: the question is the result of the
//! call, which is made again with the answer.

use std::fs;

use forge_mcp::{Service, ServiceHandle};
use forge_tools::{ApprovalAnswer, Gate, GateRequest, Judgement, Toolbox, Verdict, VerdictReason};
use serde_json::{Value, json};

use super::*;
use crate::support::{Always, Counting};

/// Nobody but the client answers.
pub(super) fn nobody() -> Counting {
    Counting::new(ApprovalAnswer::Unanswered {
        reason: "nobody is there".into(),
    })
}

/// Everything is asked, of `next` if not of the client.
pub(super) fn asks(world: &World, next: &Counting) -> Toolbox {
    world
        .builder()
        .gate(Always(Verdict::Ask))
        .approver(next.clone())
        .build()
        .unwrap()
}

pub(super) fn write(id: i64, content: &str) -> Value {
    let arguments = json!({"path": "/out/a.md", "content": content});
    call(id, "write_file", arguments)
}

/// From a client that can show forms.
pub(super) fn showing(request: Value) -> Value {
    let mut request = modern(request);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {"form": {}}});
    request
}

/// The same call again, with what the person said.
pub(super) fn again(mut request: Value, id: i64, question: &Value, answer: Value) -> Value {
    request["id"] = json!(id);
    request["params"]["requestState"] = question["result"]["requestState"].clone();
    request["params"]["inputResponses"] = json!({"approval": answer});
    request
}

pub(super) fn accept(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

pub(super) fn is_question(answer: &Value) -> bool {
    answer["result"]["resultType"] == "input_required"
}

pub(super) fn written(world: &World) -> Option<String> {
    fs::read_to_string(world.host.path().join("out/a.md")).ok()
}

/// Time enough for a person to read.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

#[test]
fn the_question_shows_everything_and_its_answer_counts_once() {
    run_in_no_time(async {
        let world = World::new();
        let next = nobody();
        let mut client = Client::of(asks(&world, &next));
        let mut asked = client.ask(&showing(write(1, "hello\u{1b}[2J\n"))).await;
        let state = asked["result"]["requestState"].take();
        let message = asked["result"]["inputRequests"]["approval"]["params"]["message"].take();
        insta::assert_snapshot!(message.as_str().unwrap(), @r#"
        Allow write_file /out/a.md?
        tool      write_file
                  path = /out/a.md
                  content = (shown below)
        would     write /out/a.md
        runner    local
        network   off
        asked     the test says so (built in)
                  --- (new file)
                  +++ /out/a.md
                  @@ -0,0 +1 @@
                  +hello\x1b[2J

        allow_once  this call, as it is shown
        allow_run   also every further write_file with exactly these arguments and this difference (write /out/a.md), until this server ends, for 30 minutes at most
        deny        not at all
        "#);
        insta::assert_snapshot!(asked, @r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"approval":{"method":"elicitation/create","params":{"mode":"form","message":null,"requestedSchema":{"type":"object","properties":{"decision":{"type":"string","enum":["allow_once","allow_run","deny"],"default":"deny"}},"required":["decision"]}}}},"requestState":null}}"#);
        assert_eq!(written(&world), None);

        asked["result"]["requestState"] = state;
        a_while().await;
        let request = showing(write(1, "hello\u{1b}[2J\n"));
        let answer = again(request, 2, &asked, accept("allow_once"));
        let done = client.ask(&answer).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(written(&world).unwrap(), "hello\u{1b}[2J\n");

        let replayed = client.ask(&answer).await;
        assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
        let anew = client.ask(&showing(write(3, "other\n"))).await;
        assert!(is_question(&anew), "{anew}");
        assert_eq!(next.asked(), 0);
        client.hang_up().await;
    });
}

#[test]
fn whatever_is_no_agreement_is_a_refusal() {
    run_in_no_time(async {
        for answer in [
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "decline", "content": {"decision": "allow_once"}}),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"decision": "yes"}}),
            json!({"action": "accept", "content": {"decision": ["allow_once"]}}),
            json!({"action": "agree", "content": {"decision": "allow_once"}}),
            json!("allow_once"),
            Value::Null,
            accept("deny"),
        ] {
            let world = World::new();
            let mut client = Client::of(asks(&world, &nobody()));
            let request = showing(write(1, "x"));
            let asked = client.ask(&request).await;
            a_while().await;
            let refused = client.ask(&again(request, 2, &asked, answer.clone())).await;
            let structure = &refused["result"]["structuredContent"];
            assert_eq!(structure["code"], "DENIED", "{answer} {refused}");
            assert_eq!(
                structure["message"],
                "This call of write_file was denied by a person at the client.",
                "{answer}"
            );
            assert_eq!(written(&world), None, "{answer}");
            client.hang_up().await;
        }
    });
}

#[test]
fn a_state_is_good_for_its_own_call_alone() {
    run_in_no_time(async {
        let world = World::new();
        let mut client = Client::of(asks(&world, &nobody()));
        let mut stranger = Client::of(asks(&world, &nobody()));
        let request = showing(write(1, "x"));
        let own = client.ask(&request).await;
        let foreign = stranger.ask(&request).await;
        let state = own["result"]["requestState"].as_str().unwrap();
        a_while().await;

        let agreed = again(request.clone(), 2, &own, accept("allow_once"));
        let with = |path: &[&str], value: Value| {
            let mut changed = agreed.clone();
            let at = path.iter().fold(&mut changed, |at, key| &mut at[*key]);
            *at = value;
            changed
        };
        let flipped: String = state
            .char_indices()
            .map(|(index, c)| match (index == state.len() / 2, c) {
                (true, 'A') => 'B',
                (true, _) => 'A',
                (false, c) => c,
            })
            .collect();
        for wrong in [
            with(&["params", "arguments", "content"], json!("y")),
            with(&["params", "arguments", "path"], json!("/out/b.md")),
            with(&["params", "arguments", "durable"], json!(true)),
            with(&["params", "name"], json!("append_file")),
            with(&["params", "requestState"], json!(flipped)),
            with(&["params", "requestState"], json!("")),
            with(&["params", "requestState"], json!("rs1.x.y")),
            again(request.clone(), 2, &foreign, accept("allow_once")),
        ] {
            let refused = client.ask(&wrong).await;
            assert_eq!(refused["error"]["code"], -32602, "{wrong} {refused}");
        }
        assert_eq!(written(&world), None);
        // And none of that has used it up.
        let done = client.ask(&agreed).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        client.hang_up().await;
        stranger.hang_up().await;
    });
}

#[test]
fn a_state_ends_after_five_minutes_and_with_the_policy() {
    run_in_no_time(async {
        let world = World::new();
        let live = ServiceHandle::new(asks(&world, &nobody()));
        let mut client = Client::live(&live);
        let request = showing(write(1, "x"));
        let late = client.ask(&request).await;
        tokio::time::sleep(Duration::from_secs(301)).await;
        let old = client.ask(&request).await;
        a_while().await;
        for asked in [late, old] {
            let refused = client
                .ask(&again(request.clone(), 2, &asked, accept("allow_once")))
                .await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            live.replace(asks(&world, &nobody()));
            // The second one is of the policy before.
        }
        assert_eq!(written(&world), None);
        client.hang_up().await;
    });
}

/// What was agreed to is what was shown.
#[test]
fn a_file_that_changed_meanwhile_is_asked_about_again() {
    run_in_no_time(async {
        let world = World::new();
        fs::write(world.host.path().join("out/a.md"), "one\n").unwrap();
        let mut client = Client::of(asks(&world, &nobody()));
        let request = showing(write(1, "two\n"));
        let first = client.ask(&request).await;
        fs::write(world.host.path().join("out/a.md"), "precious\n").unwrap();
        a_while().await;
        let second = client
            .ask(&again(request.clone(), 2, &first, accept("allow_once")))
            .await;
        assert!(is_question(&second), "{second}");
        assert!(second.to_string().contains("-precious"), "{second}");
        a_while().await;
        let done = client
            .ask(&again(request, 3, &second, accept("allow_once")))
            .await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        client.hang_up().await;
    });
}

#[test]
fn a_state_without_its_answer_is_asked_again() {
    run_in_no_time(async {
        let world = World::new();
        let mut client = Client::of(asks(&world, &nobody()));
        let request = showing(write(1, "x"));
        let first = client.ask(&request).await;
        for responses in [json!({}), json!({"other": accept("allow_once")})] {
            let mut half = again(request.clone(), 2, &first, Value::Null);
            half["params"]["inputResponses"] = responses;
            let refused = client.ask(&half).await;
            let second = client.ask(&request).await;
            assert!(
                is_question(&refused) || refused["error"]["code"] == -32602,
                "{refused}"
            );
            assert!(is_question(&second), "{second}");
            assert_ne!(
                second["result"]["requestState"],
                first["result"]["requestState"]
            );
        }
        // An answer to nothing is no answer.
        let mut bare = request;
        bare["params"]["inputResponses"] = json!({"approval": accept("allow_once")});
        assert!(is_question(&client.ask(&bare).await));
        assert_eq!(written(&world), None);
        client.hang_up().await;
    });
}

#[test]
fn for_this_run_means_the_same_call_for_half_an_hour() {
    run_in_no_time(async {
        let world = World::new();
        let live = ServiceHandle::new(asks(&world, &nobody()));
        let mut client = Client::live(&live);
        let request = showing(write(1, "x"));
        for ends in ["time", "policy"] {
            let asked = client.ask(&request).await;
            a_while().await;
            let answer = again(request.clone(), 2, &asked, accept("allow_run"));
            let done = client.ask(&answer).await;
            assert_eq!(done["result"]["isError"], false, "{done}");

            let more = client.ask(&request).await;
            assert_eq!(more["result"]["isError"], false, "{more}");
            // What was shown is not what it would be now.
            let host = world.host.path().join("out/a.md");
            std::fs::write(&host, "of a person").unwrap();
            let changed = client.ask(&request).await;
            assert!(is_question(&changed), "{changed}");
            std::fs::write(&host, "x").unwrap();
            // The same for a client that cannot be asked: it is the person's word.
            let more = client.ask(&modern(write(3, "x"))).await;
            assert_eq!(more["result"]["isError"], false, "{more}");
            let other = client.ask(&showing(write(4, "y"))).await;
            assert!(is_question(&other), "{other}");

            match ends {
                "time" => tokio::time::sleep(Duration::from_secs(1800)).await,
                _ => live.replace(asks(&world, &nobody())),
            }
            let anew = client.ask(&request).await;
            assert!(is_question(&anew), "{ends} {anew}");
        }
        client.hang_up().await;
    });
}

#[test]
fn two_questions_are_answered_in_any_order() {
    run_in_no_time(async {
        let world = World::new();
        let mut client = Client::of(asks(&world, &nobody()));
        let request = |id, name: &str| {
            let path = format!("/out/{name}.md");
            showing(call(
                id,
                "write_file",
                json!({"path": path, "content": name}),
            ))
        };
        let first = client.ask(&request(1, "a")).await;
        let second = client.ask(&request(2, "b")).await;
        a_while().await;
        for (id, name, asked, crossed) in [(4, "b", &second, &first), (3, "a", &first, &second)] {
            let wrong = again(request(id, name), id, crossed, accept("allow_once"));
            assert_eq!(client.ask(&wrong).await["error"]["code"], -32602);
            let right = again(request(id, name), id, asked, accept("allow_once"));
            let done = client.ask(&right).await;
            assert_eq!(done["result"]["isError"], false, "{done}");
        }
        client.hang_up().await;
    });
}

/// Who cannot be asked, or not about everything, leaves it to the next approver, whose
/// refusal says how to grant.
#[test]
fn what_the_client_cannot_be_asked_goes_to_the_next() {
    run_in_no_time(async {
        let incapable = [json!({}), json!({"elicitation": {"url": {}}})];
        for capabilities in incapable {
            let world = World::new();
            let next = nobody();
            let mut client = Client::of(asks(&world, &next));
            let mut request = showing(write(1, "x"));
            request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
            let refused = client.ask(&request).await;
            let structure = &refused["result"]["structuredContent"];
            assert_eq!(structure["code"], "APPROVAL_REQUIRED", "{refused}");
            assert!(refused.to_string().contains("nobody is there"), "{refused}");
            assert_eq!(next.asked(), 1);
            client.hang_up().await;
        }

        let world = World::new();
        let next = nobody();
        let mut client = Client::of(asks(&world, &next));
        let long = json!({"path": format!("/out/{}.md", "a/".repeat(4000)), "content": "x"});
        let refused = client.ask(&showing(call(1, "write_file", long))).await;
        assert!(!is_question(&refused), "{refused}");
        client.hang_up().await;

        let toolbox = world
            .builder()
            .gate(Always(Verdict::Ask))
            .approver(next.clone())
            .build()
            .unwrap();
        let mut client = Client::of(toolbox);
        let long = json!({"pattern": "x".repeat(8192)});
        let refused = client.ask(&showing(call(1, "search_files", long))).await;
        assert_eq!(
            refused["result"]["structuredContent"]["code"], "APPROVAL_REQUIRED",
            "{refused}"
        );
        client.hang_up().await;
    });
}

/// Nothing is offered for longer than one call, and a client that answers by itself does
/// not count as a person.
struct OnlyAPerson;

impl Gate for OnlyAPerson {
    fn judge(&self, _: &GateRequest<'_>) -> Judgement {
        let mut judgement = Judgement::new(Verdict::Ask, VerdictReason::new("nothing confines it"));
        judgement.only_a_person = true;
        judgement
    }
}

#[test]
fn what_only_a_person_may_answer_is_not_answered_by_a_setting() {
    run_in_no_time(async {
        let world = World::new();
        let next = nobody();
        let toolbox = world
            .builder()
            .gate(OnlyAPerson)
            .approver(next.clone())
            .build()
            .unwrap();
        let mut client = Client::of(Service::from(toolbox));
        let request = showing(write(1, "x"));
        let asked = client.ask(&request).await;
        assert!(!asked.to_string().contains("allow_run"), "{asked}");
        let at_once = client
            .ask(&again(request.clone(), 2, &asked, accept("allow_once")))
            .await;
        assert_eq!(at_once["result"]["isError"], true, "{at_once}");
        assert_eq!(next.asked(), 1);

        let asked = client.ask(&request).await;
        a_while().await;
        let done = client
            .ask(&again(request.clone(), 3, &asked, accept("allow_run")))
            .await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        // It was for this call all the same.
        assert!(is_question(&client.ask(&request).await));
        client.hang_up().await;
    });
}

#[test]
fn a_client_that_refuses_by_itself_is_asked_last() {
    run_in_no_time(async {
        let world = World::new();
        let next = Counting::new(ApprovalAnswer::AllowOnce {
            by: "the queue".into(),
        });
        let mut client = Client::of(asks(&world, &next));
        let request = showing(write(1, "x"));
        for _ in 0..2 {
            let asked = client.ask(&request).await;
            let decline = json!({"action": "decline"});
            let refused = client
                .ask(&again(request.clone(), 2, &asked, decline))
                .await;
            let text = refused.to_string();
            assert!(text.contains("perhaps nobody saw the question"), "{text}");
            assert_eq!(next.asked(), 0);
        }
        let done = client.ask(&request).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(next.asked(), 1);
        client.hang_up().await;
    });
}
