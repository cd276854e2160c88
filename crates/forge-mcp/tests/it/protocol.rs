//! Every message of a conversation against the published JSON schema of its revision, kept in
//! `fixtures/mcp/schema`. forge's own tests of the wire include this file as well.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

/// Revisions before the oldest of these are held to that one: what a server says here is in all
/// of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Revision {
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    fn of(version: &str) -> Self {
        match version {
            "2026-07-28" => Revision::V2026_07_28,
            "2025-11-25" => Revision::V2025_11_25,
            _ => Revision::V2025_06_18,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    fn schema(self) -> &'static Schema {
        static SCHEMAS: OnceLock<Mutex<HashMap<Revision, &'static Schema>>> = OnceLock::new();
        let mut schemas = SCHEMAS.get_or_init(Mutex::default).lock().unwrap();
        schemas
            .entry(self)
            .or_insert_with(|| Box::leak(Box::new(Schema::read(self))))
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy)]
enum Side {
    Client,
    Server,
}

struct Schema {
    revision: Revision,
    whole: Value,
    /// Where the definitions are: the drafts have two names for the place.
    place: &'static str,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Schema {
    fn read(revision: Revision) -> Self {
        let path = format!(
            "{}/../../fixtures/mcp/schema/{}.json",
            env!("CARGO_MANIFEST_DIR"),
            revision.name()
        );
        let whole: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let place = match whole.get("$defs") {
            Some(_) => "$defs",
            None => "definitions",
        };
        Schema {
            revision,
            whole,
            place,
            compiled: Mutex::default(),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.whole[self.place].get(name).is_some()
    }

    /// The members of a union, or the definition itself.
    fn members(&self, union: &str) -> Vec<String> {
        match self.whole[self.place][union]["anyOf"].as_array() {
            None => vec![union.to_owned()],
            Some(members) => members
                .iter()
                .filter_map(|member| member["$ref"].as_str()?.rsplit('/').next())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// What `side` may send with this method.
    fn of_method(&self, side: Side, kind: &str, method: &str) -> Option<String> {
        let union = format!("{side:?}{kind}");
        if !self.has(&union) {
            return None;
        }
        self.members(&union)
            .into_iter()
            .find(|name| self.whole[self.place][name]["properties"]["method"]["const"] == method)
    }

    /// What answers this method, whoever asks.
    fn result_of(&self, method: &str) -> Option<String> {
        let request = [Side::Client, Side::Server]
            .into_iter()
            .find_map(|side| self.of_method(side, "Request", method))?;
        let result = request.replace("Request", "Result");
        Some(match self.has(&result) {
            true => result,
            false => "EmptyResult".to_owned(),
        })
    }

    /// The definition of the error with this code, where it has one of its own.
    fn of_error(&self, code: &Value) -> Option<String> {
        let definitions = self.whole[self.place].as_object()?;
        definitions
            .iter()
            .find(|(_, definition)| {
                let parts = definition["properties"]["error"]["allOf"].as_array();
                parts.is_some_and(|parts| {
                    parts
                        .iter()
                        .any(|part| part["properties"]["code"]["const"] == *code)
                })
            })
            .map(|(name, _)| name.clone())
    }

    fn check(&self, name: &str, value: &Value) -> Vec<String> {
        let mut compiled = self.compiled.lock().unwrap();
        let validator = compiled.entry(name.to_owned()).or_insert_with(|| {
            let schema = json!({
                "$schema": self.whole["$schema"],
                "$ref": format!("#/{}/{name}", self.place),
                self.place: self.whole[self.place],
            });
            Arc::new(jsonschema::validator_for(&schema).unwrap())
        });
        let validator = Arc::clone(validator);
        drop(compiled);
        validator
            .iter_errors(value)
            .map(|error| format!("{name} of {}: {error}", self.revision.name()))
            .collect()
    }

    /// Everything wrong with `message`, which answers `method` if it is an answer.
    fn complaints(&self, side: Side, message: &Value, method: Option<&str>) -> Vec<String> {
        if let Some(method) = message["method"].as_str() {
            let kind = match message.get("id") {
                Some(_) => "Request",
                None => "Notification",
            };
            return match self.of_method(side, kind, method) {
                Some(name) => self.check(&name, message),
                None => vec![format!(
                    "no {kind} `{method}` of a {side:?} is in {}",
                    self.revision.name()
                )],
            };
        }
        let first_of = |names: [&'static str; 2]| match self.has(names[0]) {
            true => names[0],
            false => names[1],
        };
        if let Some(error) = message.get("error") {
            let general = first_of(["JSONRPCErrorResponse", "JSONRPCError"]);
            let mut wrong = self.check(general, message);
            // Errors that may come of anything are defined without what surrounds them.
            if let Some(name) = self.of_error(&error["code"]) {
                wrong.extend(self.check(&name, message));
            }
            return wrong;
        }
        let Some(result) = message.get("result") else {
            return vec!["neither a question nor an answer".to_owned()];
        };
        let general = first_of(["JSONRPCResultResponse", "JSONRPCResponse"]);
        let mut wrong = self.check(general, message);
        let asks_back = result["resultType"] == "input_required";
        match method.and_then(|method| self.result_of(method)) {
            Some(_) if asks_back && self.has("InputRequiredResult") => {
                wrong.extend(self.check("InputRequiredResult", result));
            }
            Some(name) => wrong.extend(self.check(&name, result)),
            None => wrong.push(format!("an answer to {method:?}, which has none")),
        }
        wrong
    }
}

/// One conversation: which revision it is in, and what was asked and is not answered yet.
#[derive(Default)]
pub(crate) struct Protocol {
    settled: Option<Revision>,
    /// By id, in the order asked: tests use an id twice.
    of_client: HashMap<String, VecDeque<Asked>>,
    of_server: HashMap<String, VecDeque<Asked>>,
}

struct Asked {
    revision: Revision,
    method: String,
    /// What is wrong with the question itself.
    wrong: Vec<String>,
}

impl Asked {
    /// What is wrong with `answer` to this.
    fn complaints(&self, answer: &Value) -> Vec<String> {
        let schema = self.revision.schema();
        let mut wrong = schema.complaints(Side::Server, answer, Some(&self.method));
        let granted = answer.get("result").is_some() && answer["result"]["isError"] != true;
        if granted && !self.wrong.is_empty() {
            wrong.push(format!("granted to {:?}", self.wrong));
        }
        wrong
    }
}

impl Protocol {
    /// Takes note of what the client said. A test may say what it likes; what comes of it is
    /// judged by the answer.
    pub(crate) fn sent(&mut self, message: &Value) {
        // Many libraries write an absent member as null, and servers take it as that.
        let mut message = message.clone();
        if let Some(members) = message.as_object_mut()
            && members.get("params").is_some_and(Value::is_null)
        {
            members.remove("params");
        }
        let message = &message;
        let version = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let revision = match version.as_str() {
            Some(version) => Revision::of(version),
            None => self.settled.unwrap_or(Revision::V2025_11_25),
        };
        let Some(id) = message.get("id") else {
            return;
        };
        if message.get("result").or(message.get("error")).is_some() {
            // What comes too late is no answer to anything.
            if let Some(open) = self.of_server.get_mut(&id.to_string()) {
                open.pop_front();
            }
            return;
        }
        let asked = Asked {
            revision,
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            wrong: revision.schema().complaints(Side::Client, message, None),
        };
        let open = self.of_client.entry(id.to_string()).or_default();
        open.push_back(asked);
    }

    /// What is wrong with what the server said: by the schema, or because it gave somebody what
    /// they had not asked for in the words of the schema.
    pub(crate) fn received(&mut self, message: &Value) -> Vec<String> {
        if let Some(version) = message["result"]["protocolVersion"].as_str() {
            self.settled = Some(Revision::of(version));
        }
        // Without a handshake there is but one.
        let ours = self.settled.unwrap_or(Revision::V2026_07_28);
        let id = message["id"].to_string();
        if let Some(method) = message["method"].as_str() {
            if message.get("id").is_some() {
                let asked = Asked {
                    revision: ours,
                    method: method.to_owned(),
                    wrong: Vec::new(),
                };
                self.of_server.entry(id).or_default().push_back(asked);
            }
            return ours.schema().complaints(Side::Server, message, None);
        }
        let Some(open) = self.of_client.get_mut(&id) else {
            return ours.schema().complaints(Side::Server, message, None);
        };
        // Whoever uses an id twice has to take an answer for one to the other.
        let fits = open
            .iter()
            .position(|asked| asked.complaints(message).is_empty());
        match open.remove(fits.unwrap_or_default()) {
            Some(asked) => asked.complaints(message),
            None => ours.schema().complaints(Side::Server, message, None),
        }
    }
}
