//! Hand-written cases: what a profile answers, and what is refused as not understood.

use seatbelt_eval::{Error, Host, Profile, Subject, Target};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    profile: Vec<Judged>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    name: String,
    text: String,
    #[serde(default)]
    parameters: Vec<(String, String)>,
    /// `operation subject answer`, subjects as in [`subject`].
    ask: Vec<[String; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    text: String,
    #[serde(default)]
    parameters: Vec<(String, String)>,
    why: String,
}

fn cases() -> Cases {
    toml::from_str(include_str!("cases.toml")).expect("the table of cases")
}

fn parse(text: &str, parameters: &[(String, String)]) -> Result<Profile, Error> {
    let given: Vec<(&str, &[u8])> = parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    Profile::parse(text, &given)
}

/// `/path`, `dir:/path`, `/path+extension`, `unix:/path`, `loopback:80`, `other:80`, `AF_UNIX/0`, `call:P/1`,
/// `same`, `foreign`, `-`, `name:NAME`, or a name.
fn subject(text: &str) -> Subject {
    let number = |text: &str| text.parse().expect("a number");
    if let Some(path) = text.strip_prefix("dir:") {
        return Subject::directory(path);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return Subject::UnixSocket(path.into());
    }
    if let Some(name) = text.strip_prefix("name:") {
        return Subject::name(name);
    }
    if let Some(call) = text.strip_prefix("call:") {
        let (policy, at) = call.split_once('/').expect("a call");
        return Subject::Call {
            policy: policy.into(),
            number: at.parse().expect("a number"),
        };
    }
    for (prefix, host) in [("loopback:", Host::Loopback), ("other:", Host::Other)] {
        if let Some(port) = text.strip_prefix(prefix) {
            return Subject::Address {
                host,
                port: number(port),
            };
        }
    }
    match text {
        "same" => return Subject::Process(Target::SameSandbox),
        "foreign" => return Subject::Process(Target::Other),
        "-" => return Subject::Nothing,
        _ => {}
    }
    if let Some((domain, protocol)) = text.split_once('/')
        && domain.starts_with("AF_")
    {
        return Subject::Socket {
            domain: domain.into(),
            protocol: number(protocol).into(),
        };
    }
    match (text.starts_with('/'), text.split_once('+')) {
        (true, Some((path, extension))) => Subject::Path {
            path: path.into(),
            extensions: vec![extension.into()],
            directory: false,
        },
        (true, None) => Subject::path(text),
        (false, _) => Subject::name(text),
    }
}

#[test]
fn what_profiles_answer() {
    for case in cases().profile {
        let profile = parse(&case.text, &case.parameters)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        for [operation, on, want] in &case.ask {
            let got = match profile.allows(operation, &subject(on)) {
                Ok(true) => "allow",
                Ok(false) => "deny",
                Err(Error::Ambiguous { .. }) => "ambiguous",
                Err(error) => panic!("{}: {operation} {on}: {error}", case.name),
            };
            assert_eq!(got, want, "{}: {operation} {on}", case.name);
        }
    }
}

#[test]
fn what_is_not_understood_is_an_error() {
    for case in cases().refused {
        let error = parse(&case.text, &case.parameters)
            .err()
            .unwrap_or_else(|| panic!("understood: {}", case.text));
        assert!(
            error.to_string().contains(&case.why),
            "{}\n{error}",
            case.text
        );
    }
}

#[test]
fn operations_above_others_are_not_asked_about() {
    let profile = parse("(version 1) (deny default)", &[]).expect("a profile");
    for operation in ["file-read*", "file*", "default", "teleport"] {
        assert!(profile.allows(operation, &Subject::path("/a")).is_err());
    }
}

#[test]
fn the_message_of_denials() {
    let text = r#"(version 1) (deny default (with message "run-1"))"#;
    assert_eq!(
        parse(text, &[]).expect("a profile").message(),
        Some("run-1")
    );
}
