//! Preferences are merged, not met: defaults < user file < project file < `FORGE__…` < `-c`.
//! figment does the layering; the location of the value that won comes from our own tree.

use std::collections::BTreeMap;

use figment::Figment;
use figment::providers::Serialized;
use serde::{Deserialize, Serialize};

use crate::syntax::text::ConfigOrigin;
use crate::syntax::yaml::YamlNode;

/// The merged preferences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Preferences {
    pub(crate) name: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) entry: String,
    pub(crate) worker_paths: Vec<String>,
}

/// The keys that are preferences; everything else is authority.
pub(crate) const KEYS: [&str; 4] = ["name", "model", "entry", "worker_paths"];

/// The layers as they are found, with the location of each value.
#[derive(Debug)]
pub(crate) struct Layers {
    figment: Figment,
    origins: BTreeMap<String, ConfigOrigin>,
}

impl Layers {
    pub(crate) fn new() -> Layers {
        let defaults = Preferences {
            name: None,
            model: None,
            entry: "main".into(),
            worker_paths: vec!["workers".into(), ".workers".into()],
        };
        let origins = KEYS.map(|key| (key.to_owned(), ConfigOrigin::built_in()));
        Layers {
            figment: Figment::from(Serialized::defaults(defaults)),
            origins: origins.into(),
        }
    }

    /// Lays one value over the earlier ones. A value of the wrong type is left out: the reader
    /// reports it.
    pub(crate) fn set(&mut self, key: &str, node: &YamlNode) {
        let Some(value) = plain(node) else { return };
        let one = Serialized::default(key, value);
        self.figment = std::mem::take(&mut self.figment).merge(one);
        self.origins.insert(key.to_owned(), node.span.origin());
    }

    /// Returns the merged values, and the location of each.
    pub(crate) fn finish(self) -> (Preferences, BTreeMap<String, ConfigOrigin>) {
        // Only values of the right type were laid in, so this cannot fail; a default is the
        // answer that widens nothing.
        (self.figment.extract().unwrap_or_default(), self.origins)
    }
}

fn plain(node: &YamlNode) -> Option<figment::value::Value> {
    if let Some(text) = node.as_str() {
        return Some(text.into());
    }
    let texts: Option<Vec<&str>> = node.as_list()?.iter().map(YamlNode::as_str).collect();
    Some(texts?.into())
}
