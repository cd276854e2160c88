//! Questions of a running command about hosts, at a client that can ask its user and at others.

use std::sync::Arc;

use forge_tools::{
    CallFailure, CommandRunner, CommandSpec, ExitReport, Processes, RunningCommand, Verdict,
};
use os_sandbox::{Exit, NamedHosts, Network, Policy, Stream};
use sandbox_network::{AskHost, Host};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::approvals::{accept, is_question, nobody, showing};
use super::*;
use crate::support::{Always, Counting};

/// Commands that reach for a host and print the answer; without a broker, so that they run anywhere.
#[derive(Debug)]
struct Reaching;

impl CommandRunner for Reaching {
    fn place(&self) -> &'static str {
        "os"
    }

    fn is_confined(&self) -> bool {
        true
    }

    fn start(&self, _: CommandSpec) -> Result<Box<dyn RunningCommand>, CallFailure> {
        Ok(Box::new(ReachingCommand(None)))
    }

    fn start_asking(
        &self,
        _: CommandSpec,
        ask: Arc<dyn AskHost>,
    ) -> Result<Box<dyn RunningCommand>, CallFailure> {
        Ok(Box::new(ReachingCommand(Some(ask))))
    }
}

struct ReachingCommand(Option<Arc<dyn AskHost>>);

impl RunningCommand for ReachingCommand {
    fn killer(&self) -> Result<Box<dyn FnOnce() + Send>, CallFailure> {
        Ok(Box::new(|| ()))
    }

    fn wait(
        self: Box<Self>,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<ExitReport, CallFailure> {
        let host = Host::parse("a.org").unwrap();
        let answer = self
            .0
            .map(|ask| Handle::current().block_on(ask.ask(&host, 443)));
        sink(Stream::Stdout, format!("{answer:?}").as_bytes());
        Ok(ExitReport::new(Exit::Code(0)))
    }
}

fn toolbox(next: &Counting) -> Toolbox {
    let hosts = Network::Hosts(NamedHosts::new(["b.org"]));
    let policy = Policy::builder().network(hosts).build().unwrap();
    Toolbox::builder()
        .processes(Processes::started_by(Reaching, policy))
        .gate(Always(Verdict::Allow))
        .approver(next.clone())
        .build()
        .unwrap()
}

fn shell() -> Value {
    call(1, "shell", json!({"command": "curl a.org"}))
}

fn printed(answer: &Value) -> &Value {
    &answer["result"]["structuredContent"]["stdout"]
}

#[test]
fn a_client_that_asks_while_the_call_waits_asks_about_hosts() {
    run(async {
        for (decision, expected) in [("allow_once", "Some(Once)"), ("deny", "Some(No)")] {
            let next = nobody();
            let mut client = Client::of(toolbox(&next));
            let mut opening = initialize("2025-11-25");
            opening["params"]["capabilities"] = json!({"elicitation": {}});
            client.ask(&opening).await;
            client.send(initialized().to_string()).await;
            let question = client.ask(&shell()).await;
            let params = &question["params"];
            let message = params["message"].as_str().unwrap();
            for text in [
                "Allow `curl a.org` to reach a.org:443?",
                "allow_once  this command reaches it, until the command ends",
            ] {
                assert!(message.contains(text), "no {text:?}: {message}");
            }
            // No stored preference may answer.
            let choices = &params["requestedSchema"]["properties"]["decision"]["enum"];
            assert_eq!(choices, &json!(["allow_once", "deny"]));
            // Time enough for a person to read.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let reply = json!({
                "jsonrpc": "2.0", "id": question["id"], "result": accept(decision),
            });
            let done = client.ask(&reply).await;
            assert_eq!(printed(&done), expected, "{done}");
            assert_eq!(next.asked(), 0);
            client.hang_up().await;
        }
    });
}

/// A question in the result of the call would have the client start the command again.
#[test]
fn other_clients_leave_the_question_to_the_next_approver() {
    run(async {
        for request in [showing(shell()), modern(shell())] {
            let next = nobody();
            let mut client = Client::of(toolbox(&next));
            let done = client.ask(&request).await;
            assert!(!is_question(&done), "{done}");
            assert_eq!(printed(&done), "Some(Unanswered)", "{done}");
            assert_eq!(next.asked(), 1);
            client.hang_up().await;
        }
    });
}
