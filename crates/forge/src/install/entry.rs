//! What a client is told: how our server is started, in the words of that client.

use serde_json::{Map, Value, json};

use super::clients::Client;

/// Seconds that a client waits for a call: longer than a person has for an answer by default
/// (`approval.timeout_s`, 300).
const TOOL_TIMEOUT_S: u64 = 360;

/// Keys that a person or the client changes without the server becoming another one.
const PREFERENCES: [&str; 3] = ["enabled", "timeout", "tool_timeout_sec"];

/// How our server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// What says where forge's own files are, where that is not the usual place: clients pass on
    /// little of their environment.
    pub(crate) env: Vec<(String, String)>,
}

/// One server in the words of one client, in the order in which people read them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) section: &'static str,
    pub(crate) name: String,
    pub(crate) keys: Vec<(&'static str, Value)>,
}

impl Entry {
    pub(crate) fn new(client: Client, server: &Server) -> Self {
        let program = json!(server.program);
        let arguments = json!(server.arguments);
        let mut keys = match client {
            Client::Claude | Client::Vscode | Client::Cursor | Client::McpJson => vec![
                ("type", json!("stdio")),
                ("command", program),
                ("args", arguments),
            ],
            Client::Zed | Client::Gemini | Client::ClaudeDesktop | Client::Windsurf => {
                vec![("command", program), ("args", arguments)]
            }
            Client::Cline => vec![
                ("type", json!("stdio")),
                ("command", program),
                ("args", arguments),
                ("timeout", json!(TOOL_TIMEOUT_S)),
            ],
            Client::Opencode => {
                let words = std::iter::once(&server.program).chain(&server.arguments);
                vec![
                    ("type", json!("local")),
                    ("command", words.cloned().collect()),
                    ("enabled", json!(true)),
                    ("timeout", json!(TOOL_TIMEOUT_S * 1000)),
                ]
            }
            Client::Codex => vec![
                ("command", program),
                ("args", arguments),
                ("tool_timeout_sec", json!(TOOL_TIMEOUT_S)),
            ],
            Client::Goose => vec![
                ("enabled", json!(true)),
                ("type", json!("stdio")),
                ("name", json!(server.name)),
                ("cmd", program),
                ("args", arguments),
                ("timeout", json!(TOOL_TIMEOUT_S)),
            ],
        };
        if !server.env.is_empty() {
            let pairs = server.env.iter();
            let env: Map<String, Value> = pairs
                .map(|(name, value)| (name.clone(), json!(value)))
                .collect();
            let key = match client {
                Client::Goose => "envs",
                Client::Opencode => "environment",
                Client::Claude
                | Client::Codex
                | Client::Vscode
                | Client::Cursor
                | Client::Zed
                | Client::Gemini
                | Client::ClaudeDesktop
                | Client::Windsurf
                | Client::Cline
                | Client::McpJson => "env",
            };
            keys.push((key, Value::Object(env)));
        }
        Entry {
            section: client.section(),
            name: server.name.clone(),
            keys,
        }
    }

    /// As one value.
    pub(crate) fn value(&self) -> Value {
        let pairs = self.keys.iter();
        Value::Object(
            pairs
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        )
    }

    /// Whether what is there starts the same server. What the client or a person added or chose
    /// is theirs.
    pub(crate) fn is_like(&self, there: &Value) -> bool {
        self.keys.iter().all(|(key, value)| {
            PREFERENCES.contains(key) && there.get(key).is_some() || there.get(key) == Some(value)
        })
    }
}
