//! The shared context of all readers of a project: the sink of mistakes, the privileged settings so
//! far, and the sources of the load.

use std::path::{Path, PathBuf};

use crate::grant::network::HostLine;
use crate::loading::expand::{ExpandedPath, expand};
use crate::loading::sources::Sources;
use crate::loading::trust::PrivilegedSetting;
use crate::loading::trust_rules::{TrustRule, Untrusted};
use crate::loading::user_limits::role;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{MappingFields, Reports};
use crate::syntax::key_table::{KeyTable, UserKeyRole};
use crate::syntax::text::{ConfigOrigin, Layer, Span};
use crate::syntax::yaml::YamlNode;

pub(crate) struct LoadContext<'s> {
    pub(crate) reports: Reports,
    pub(crate) sources: &'s Sources,
    /// The project directory, canonical.
    pub(crate) dir: &'s Path,
    pub(crate) facts: LoadFacts,
    /// Names in rules about tools that are not names of tools.
    pub(crate) named_workers: Vec<(String, Span)>,
}

/// Facts that readers note, and that the project keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadFacts {
    pub(crate) privileged: Vec<PrivilegedSetting>,
    /// Settings that need no yes while a directory is empty.
    pub(crate) empty_places: Vec<PrivilegedSetting>,
    /// `sandbox.root`, where zones lie below one.
    pub(crate) ephemeral_root: Option<PathBuf>,
    /// Location of `network`.
    pub(crate) network_at: Option<ConfigOrigin>,
    /// The patterns of `network`.
    pub(crate) network_lines: Vec<HostLine>,
}

impl<'s> LoadContext<'s> {
    pub(crate) fn new(sources: &'s Sources, dir: &'s Path) -> LoadContext<'s> {
        LoadContext {
            reports: Reports::default(),
            sources,
            dir,
            facts: LoadFacts::default(),
            named_workers: Vec::new(),
        }
    }

    pub(crate) fn report(&mut self, finding: Diagnostic) {
        self.reports.add(finding);
    }

    /// Reports the mistake that is read in place of a value.
    pub(crate) fn refuse<T>(&mut self, mistake: Diagnostic) -> Option<T> {
        self.reports.refuse(mistake)
    }

    /// Returns the text of a path with its variables and a leading `~` replaced.
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        Ok(self.expand_path(text)?.text)
    }

    /// As [`expand`](Self::expand), with the variable that a person has to agree to.
    pub(crate) fn expand_path(&self, text: &str) -> Result<ExpandedPath, String> {
        expand(text, &self.sources.env, self.sources.home.as_deref())
    }

    /// Opens a section; reports its unknown keys.
    pub(crate) fn open<'n>(
        &mut self,
        node: &'n YamlNode,
        path: &str,
        keys: &'static KeyTable,
    ) -> Option<MappingFields<'n>> {
        MappingFields::open(&mut self.reports, node, path, keys)
    }

    /// Returns `true` if a privileged setting may have its effect. A setting of the user for this
    /// run always may, and so may a preference of theirs. Besides, a user file only limits, so a
    /// value from it that still widens is one that the project asked for.
    pub(crate) fn agreed(
        &mut self,
        rule: &'static TrustRule,
        key: &str,
        value: &str,
        span: &Span,
    ) -> bool {
        self.agreed_with(rule, key, value, "", span)
    }

    /// As [`agreed`](Self::agreed), about the value of a key.
    pub(crate) fn agreed_key(
        &mut self,
        rule: &'static TrustRule,
        section: &MappingFields<'_>,
        key: &'static str,
        value: &str,
    ) -> bool {
        self.agreed(rule, &section.dotted(key), value, section.span_of(key))
    }

    /// Notes the setting that a yes would cover; the yes is not needed now.
    pub(crate) fn needs_no_yes_yet(
        &mut self,
        rule: &'static TrustRule,
        key: &str,
        value: &str,
        span: &Span,
    ) {
        match span.layer() {
            Layer::Default | Layer::Environment | Layer::CommandLine | Layer::User => {}
            Layer::Project => {
                let setting = self.setting(rule, key, value, "", span);
                self.facts.empty_places.push(setting);
            }
        }
    }

    fn setting(
        &self,
        rule: &'static TrustRule,
        key: &str,
        value: &str,
        context: &str,
        span: &Span,
    ) -> PrivilegedSetting {
        let trust = &self.sources.trust;
        let (key, value) = (key.to_owned(), value.to_owned());
        PrivilegedSetting::new(self.dir, rule, key, value, context, span, trust)
    }

    /// As [`LoadContext::agreed`] for a key whose meaning depends on other keys: a yes is bound to
    /// both.
    pub(crate) fn agreed_with(
        &mut self,
        rule: &'static TrustRule,
        key: &str,
        value: &str,
        context: &str,
        span: &Span,
    ) -> bool {
        match span.layer() {
            Layer::Default | Layer::Environment | Layer::CommandLine => return true,
            Layer::User if is_preference(key) => return true,
            Layer::User | Layer::Project => {}
        }
        let privileged = self.setting(rule, key, value, context, span);
        let trusted = privileged.is_trusted();
        self.facts.privileged.push(privileged);
        if !trusted {
            let amount = match rule.shows_value() {
                true => format!(" ({value})"),
                false => String::new(),
            };
            let why = rule.why();
            let text = format!("`{key}` {why}{amount}, and you have not agreed to that");
            let diagnostic = match rule.untrusted() {
                Untrusted::Refused => DiagnosticCode::Untrusted.error(text),
                Untrusted::Ignored(instead) => {
                    DiagnosticCode::Untrusted.warning(format!("{text}: {instead}"))
                }
            };
            let help = self.sources.trust_help();
            self.reports.add(diagnostic.at(span).help(help));
        }
        trusted
    }
}

fn is_preference(key: &str) -> bool {
    // Of one item of a list the list is meant.
    let list = key.split_once('[').map_or(key, |(list, _)| list);
    let names: Vec<&str> = list.split('.').collect();
    matches!(role(&names), Some((_, UserKeyRole::Preference)))
}
