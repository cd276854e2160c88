//! The resolver of a confined network. It asks nobody outside: an allowed name has a synthetic
//! address, any other name does not exist. So a question cannot carry anything out.

mod dns;

use std::net::IpAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::context::ServiceContext;
use super::lock;
use super::names::AddressMeaning;
use super::record::Refusal;
use crate::host::{HostName, MAX_NAME};
use crate::pattern::LOOPBACK;
use crate::rules::Decision;
use dns::{Answer, NoQuestion, Question};

/// Most bytes of a question. Longer ones are cut off, and then not valid.
const MAX_QUESTION: usize = 4096;
/// Questions on one TCP connection.
const MAX_QUESTIONS: usize = 1000;

/// Answers questions over UDP until the service ends.
pub(super) async fn serve_udp(state: Arc<ServiceContext>, socket: UdpSocket) {
    let mut buffer = vec![0; MAX_QUESTION];
    loop {
        let received = tokio::select! {
            () = state.stopped() => return,
            received = socket.recv_from(&mut buffer) => received,
        };
        // An error is about an earlier answer whose client has gone.
        let Ok((length, client)) = received else {
            continue;
        };
        if let Some(answer) = respond(&state, &buffer[..length]) {
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

/// Answers the questions of one TCP connection (RFC 1035, section 4.2.2).
pub(super) async fn serve_tcp(state: &Arc<ServiceContext>, mut client: TcpStream) {
    let limit = state.shared.options.limits.handshake_timeout;
    for _ in 0..MAX_QUESTIONS {
        let exchange = async {
            let length = usize::from(client.read_u16().await.ok()?);
            if length > MAX_QUESTION {
                return None;
            }
            let mut message = vec![0; length];
            client.read_exact(&mut message).await.ok()?;
            let answer = respond(state, &message)?;
            let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
            client
                .write_all(&[&length[..], &answer].concat())
                .await
                .ok()
        };
        match timeout(limit, exchange).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// Returns the answer to a message. `None` if nothing may be answered.
fn respond(state: &ServiceContext, message: &[u8]) -> Option<Vec<u8>> {
    match dns::parse(message) {
        Ok(question) => Some(question.answer(&decide(state, &question))),
        Err(NoQuestion::Answer(question, answer)) => Some(question.answer(&answer)),
        Err(NoQuestion::Ignore) => None,
    }
}

fn decide(state: &ServiceContext, question: &Question<'_>) -> Answer {
    let Some(name) = &question.name else {
        // Its labels are ASCII with escapes already.
        let text: String = question.text.chars().take(MAX_NAME).collect();
        let reason = Refusal::Malformed("invalid host name".to_owned());
        state.refuse_name(&text, reason);
        return Answer::NameError;
    };
    if name.is_localhost() {
        return of_family(question.kind, LOOPBACK[0], Some(LOOPBACK[1]));
    }
    if let Some(address) = dns::reverse_address(name) {
        return name_of(state, question.kind, address);
    }
    // Names below `arpa` are about addresses; a program that asks for them reaches for no host.
    if name.as_str().ends_with(".arpa") {
        return Answer::NameError;
    }
    let reason = match state.shared.decide_name(name) {
        Decision::Allowed(_) => None,
        Decision::Denied(rule) => Some(Refusal::Denied(rule)),
        // The program reaches for a host that is allowed.
        Decision::Unlisted if is_service_of_allowed_host(state, name) => return Answer::NameError,
        // The question to a person comes at the connection, which has a port.
        Decision::Unlisted if state.questions.is_asking() => None,
        Decision::Unlisted => Some(Refusal::Unlisted),
    };
    if let Some(reason) = reason {
        state.refuse_name(name.as_str(), reason);
        return Answer::NameError;
    }
    synthetic(state, question.kind, name)
}

/// `true` for names of services of an allowed host, such as `_http._tcp.example.com` (RFC 8552).
fn is_service_of_allowed_host(state: &ServiceContext, name: &HostName) -> bool {
    let mut host = name.as_str();
    while let Some((_, rest)) = host.strip_prefix('_').and_then(|host| host.split_once('.')) {
        host = rest;
    }
    let is_allowed = |host| matches!(state.shared.decide_name(&host), Decision::Allowed(_));
    host != name.as_str() && HostName::parse(host).is_ok_and(is_allowed)
}

fn synthetic(state: &ServiceContext, kind: u16, name: &HostName) -> Answer {
    if ![dns::A, dns::AAAA, dns::ANY].contains(&kind) {
        return Answer::NoData;
    }
    let addresses = lock(&state.names).assign(name);
    match addresses {
        Some((v4, v6)) => {
            let v6 = state.gives_ipv6.then_some(v6.into());
            of_family(kind, v4.into(), v6)
        }
        None => {
            state.refuse_name(name.as_str(), Refusal::NamesFull);
            Answer::ServerFailure
        }
    }
}

fn of_family(kind: u16, v4: IpAddr, v6: Option<IpAddr>) -> Answer {
    match (kind, v6) {
        (dns::A | dns::ANY, _) => Answer::Address(v4),
        (dns::AAAA, Some(v6)) => Answer::Address(v6),
        _ => Answer::NoData,
    }
}

/// Returns the name of an address.
fn name_of(state: &ServiceContext, kind: u16, address: IpAddr) -> Answer {
    let name = if LOOPBACK.contains(&address) {
        HostName::parse("localhost").ok()
    } else {
        match lock(&state.names).meaning(address) {
            AddressMeaning::Name(name) => Some(name),
            AddressMeaning::Unassigned | AddressMeaning::Literal => None,
        }
    };
    match name {
        None => Answer::NameError,
        Some(name) if kind == dns::PTR || kind == dns::ANY => Answer::Name(name),
        Some(_) => Answer::NoData,
    }
}
