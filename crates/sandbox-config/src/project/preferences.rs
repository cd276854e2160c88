//! Preferences are merged, not met: defaults < user file < project file < `FORGE__…` < `-c`.
//! figment does the layering and remembers which layer won; the line comes from our own tree.

use std::collections::BTreeMap;

use figment::providers::Serialized;
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde::{Deserialize, Serialize};

use crate::syntax::text::{ConfigOrigin, Layer};
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
    origins: BTreeMap<(String, &'static str), ConfigOrigin>,
}

impl Layers {
    pub(crate) fn new() -> Layers {
        let defaults = Preferences {
            name: None,
            model: None,
            entry: "main".into(),
            worker_paths: vec!["workers".into(), ".workers".into()],
        };
        Layers {
            figment: Figment::from(Serialized::defaults(defaults)),
            origins: BTreeMap::new(),
        }
    }

    /// Lays one value over the earlier ones. A value of the wrong type is left out: the reader
    /// reports it.
    pub(crate) fn set(&mut self, key: &str, node: &YamlNode) {
        let layer = node.span.layer();
        let Some(value) = plain(node) else { return };
        let origin = node.span.origin();
        let one = SingleValue {
            layer,
            at: origin.to_string(),
            key: key.to_owned(),
            value,
        };
        self.figment = std::mem::take(&mut self.figment).merge(one);
        self.origins.insert((key.to_owned(), layer.word()), origin);
    }

    /// Returns the merged values, and the location of each.
    pub(crate) fn finish(self) -> (Preferences, BTreeMap<String, ConfigOrigin>) {
        let origins = KEYS
            .iter()
            .map(|key| {
                let won = self
                    .figment
                    .find_metadata(key)
                    .map(|found| found.name.clone());
                let origin = won.and_then(|layer| {
                    let found = self
                        .origins
                        .iter()
                        .find(|((known, word), _)| known == key && *word == layer);
                    found.map(|(_, origin)| origin.clone())
                });
                (
                    (*key).to_owned(),
                    origin.unwrap_or_else(ConfigOrigin::built_in),
                )
            })
            .collect();
        // Only values of the right type were laid in, so this cannot fail; a default is the
        // answer that widens nothing.
        (self.figment.extract().unwrap_or_default(), origins)
    }
}

/// A layer with one value, so that figment's metadata names exactly its place.
struct SingleValue {
    layer: Layer,
    at: String,
    key: String,
    value: figment::value::Value,
}

impl Provider for SingleValue {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.layer.word()).source(self.at.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let dict = Dict::from([(self.key.clone(), self.value.clone())]);
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

fn plain(node: &YamlNode) -> Option<figment::value::Value> {
    if let Some(text) = node.as_str() {
        return Some(text.into());
    }
    let texts: Option<Vec<&str>> = node.as_list()?.iter().map(YamlNode::as_str).collect();
    Some(texts?.into())
}
