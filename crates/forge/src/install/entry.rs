//! The entry of a client: the command that starts our server, in the client's own format.

use sandbox_names::loader_variables::is_loader_variable;
use serde_json::{Map, Value, json};

use super::clients::McpClient;

/// Seconds that a client waits for a call: longer than a person has for an answer by default
/// (`approval.timeout_s`, 300).
const TOOL_TIMEOUT_S: u64 = 360;

/// Keys that a person or the client changes without the server becoming another one.
const PREFERENCES: [&str; 3] = ["enabled", "timeout", "tool_timeout_sec"];

/// Keys of the variables of a server, in the formats of all clients.
const VARIABLES: [&str; 3] = ["env", "environment", "envs"];

/// Returns the variables that an existing entry sets, and `true` for those that lead forge.
pub(super) fn variables(entry: &Value) -> impl Iterator<Item = (&str, &Value, bool)> {
    let all = VARIABLES
        .iter()
        .filter_map(|key| entry.get(key)?.as_object());
    all.flatten().map(|(name, value)| {
        let leads = name.starts_with("FORGE_") || name == "PATH" || is_loader_variable(name);
        (name.as_str(), value, leads)
    })
}

/// The command line that starts our server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerCommand {
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// Variables that name forge's own directories, if they are not the defaults: clients pass on
    /// little of their environment.
    pub(crate) env: Vec<(String, String)>,
}

/// One server in the words of one client, in the order in which people read them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerEntry {
    pub(crate) section: &'static str,
    pub(crate) name: String,
    pub(crate) keys: Vec<(&'static str, Value)>,
}

impl ServerEntry {
    pub(crate) fn new(client: McpClient, server: &ServerCommand) -> Self {
        let program = json!(server.program);
        let arguments = json!(server.arguments);
        let mut keys = match client {
            McpClient::Claude | McpClient::Vscode | McpClient::Cursor | McpClient::McpJson => vec![
                ("type", json!("stdio")),
                ("command", program),
                ("args", arguments),
            ],
            McpClient::Zed | McpClient::Gemini | McpClient::ClaudeDesktop | McpClient::Windsurf => {
                vec![("command", program), ("args", arguments)]
            }
            McpClient::Cline => vec![
                ("type", json!("stdio")),
                ("command", program),
                ("args", arguments),
                ("timeout", json!(TOOL_TIMEOUT_S)),
            ],
            McpClient::Opencode => {
                let words = std::iter::once(&server.program).chain(&server.arguments);
                vec![
                    ("type", json!("local")),
                    ("command", words.cloned().collect()),
                    ("enabled", json!(true)),
                    ("timeout", json!(TOOL_TIMEOUT_S * 1000)),
                ]
            }
            McpClient::Codex => vec![
                ("command", program),
                ("args", arguments),
                ("tool_timeout_sec", json!(TOOL_TIMEOUT_S)),
            ],
            McpClient::Goose => vec![
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
            keys.push((client.variables_key(), Value::Object(env)));
        }
        ServerEntry {
            section: client.section(),
            name: server.name.clone(),
            keys,
        }
    }

    /// Returns the keys as one value.
    pub(crate) fn value(&self) -> Value {
        let pairs = self.keys.iter();
        Value::Object(
            pairs
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        )
    }

    /// `true` if the existing entry starts the same server. Other keys belong to the client or the
    /// user, but for variables that lead forge elsewhere.
    pub(crate) fn is_like(&self, there: &Value) -> bool {
        let sets_variables = self.keys.iter().any(|(key, _)| VARIABLES.contains(key));
        let is_led = !sets_variables && variables(there).any(|(.., leads)| leads);
        !is_led
            && self.keys.iter().all(|(key, value)| {
                PREFERENCES.contains(key) && there.get(key).is_some()
                    || there.get(key) == Some(value)
            })
    }
}
