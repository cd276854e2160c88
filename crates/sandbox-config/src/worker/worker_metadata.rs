//! Properties of a worker besides its rights: the models it runs on, its possible input, and data
//! that is carried along.

use serde_json::{Map, Value as Json};

use crate::grant::attachments::{ATTACHMENTS, AttachmentPolicy};
use crate::loading::load_context::LoadContext;
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::yaml::{YamlNode, YamlValue};
use crate::worker::Worker;

#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerMetadata {
    /// Empty: any.
    compatible_models: Vec<String>,
    attachments: AttachmentPolicy,
    allow_empty_input: bool,
    license: Option<String>,
    metadata: Map<String, Json>,
}

impl Worker {
    /// Returns `true` if it runs on `model` (`provider:model`): one of `compatible_models` fits, or
    /// none is given.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # std::fs::write(dir.path().join("workers/w.worker"),
    /// #     "---\ncompatible_models: [\"anthropic:*\"]\n---\nWork.\n").unwrap();
    /// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// let worker = project.worker("w").unwrap();
    /// assert!(worker.runs_on("anthropic:claude"));
    /// assert!(!worker.runs_on("openai:gpt"));
    /// ```
    #[must_use]
    pub fn runs_on(&self, model: &str) -> bool {
        let patterns = &self.properties.compatible_models;
        patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern, model))
    }

    sandbox_names::getters! {
        /// The patterns of models that it runs on; empty: any.
        pub compatible_models: &[String] = &properties.compatible_models;
        /// Returns the limits on attachments to its input.
        pub attachment_policy: &AttachmentPolicy = &properties.attachments;
        /// Returns `true` if others may call it with nothing to do.
        pub allows_empty_input: bool = properties.allow_empty_input;
        /// `license`, as written; it has no effect.
        pub license: Option<&str> = properties.license.as_deref();
        /// `metadata`, as written; it has no effect.
        pub metadata: &Map<String, Json> = &properties.metadata;
    }
}

/// The keys of a worker file.
pub(crate) fn properties(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> WorkerMetadata {
    let properties = WorkerMetadata {
        compatible_models: compatible_models(context, top),
        attachments: attachments(&mut context.reports, top),
        allow_empty_input: top
            .boolean(&mut context.reports, "allow_empty_input")
            .unwrap_or(false),
        license: top
            .string(&mut context.reports, "license")
            .map(str::to_owned),
        metadata: metadata(context, top),
    };
    if let (Some(entry), Some(model)) = (top.get("model"), text(top, "model"))
        && !properties.compatible_models.is_empty()
        && !properties
            .compatible_models
            .iter()
            .any(|pattern| fits(pattern, model))
    {
        let message = format!("`model: {model}` is none of its own `compatible_models`");
        context.report(DiagnosticCode::BadValue.at(&entry.node.span, message));
    }
    properties
}

fn attachments(reports: &mut Reports, top: &MappingFields<'_>) -> AttachmentPolicy {
    let mut policy = AttachmentPolicy::default();
    if let Some(section) = top.section(reports, "attachment_policy", &ATTACHMENTS) {
        policy.read(reports, &section);
    }
    policy
}

fn text<'n>(top: &MappingFields<'n>, key: &'static str) -> Option<&'n str> {
    top.get(key)?.node.as_str()
}

fn compatible_models(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> Vec<String> {
    let list = top
        .strings(&mut context.reports, "compatible_models")
        .unwrap_or_default();
    for (pattern, node) in &list {
        if pattern.trim().is_empty() {
            context.report(
                DiagnosticCode::BadValue
                    .at(&node.span, "an empty pattern fits no model")
                    .help("for example `anthropic:*`"),
            );
        }
    }
    list.into_iter()
        .map(|(pattern, _)| pattern.to_owned())
        .collect()
}

fn metadata(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> Map<String, Json> {
    let Some(entry) = top.get("metadata") else {
        return Map::new();
    };
    if let YamlValue::Null = entry.node.value {
        context.report(fields::wrong_type(&entry.node, "metadata", "a mapping"));
        return Map::new();
    }
    fields::free_mapping(&mut context.reports, &entry.node, "metadata")
        .unwrap_or_default()
        .into_iter()
        .map(|entry| (entry.key.clone(), json(&entry.node)))
        .collect()
}

/// A value as it is carried along. The parser bounds how deep it goes.
fn json(node: &YamlNode) -> Json {
    match &node.value {
        YamlValue::Null => Json::Null,
        YamlValue::Bool(value) => Json::from(*value),
        YamlValue::Int(number) => Json::from(*number),
        YamlValue::Float(number) => Json::from(*number),
        YamlValue::Str(text) => Json::from(text.as_str()),
        YamlValue::List(items) => items.iter().map(json).collect(),
        YamlValue::Map(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), json(&entry.node)))
            .collect::<Map<String, Json>>()
            .into(),
    }
}

/// `*` matches any characters, `?` one.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if the last star takes one character more.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            Some(_) | None => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (p, t) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything:at-all", true),
            ("anthropic:*", "anthropic:claude-1", true),
            ("anthropic:*", "anthropic", false),
            ("*:gpt-?", "openai:gpt-5", true),
            ("*:gpt-?", "openai:gpt-50", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("", "", true),
            ("", "a", false),
            ("scripted:play.yaml", "scripted:playXyaml", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
        // No pattern takes long, however many stars it has.
        assert!(!fits(&"*a".repeat(500), &"b".repeat(5_000)));
    }
}
