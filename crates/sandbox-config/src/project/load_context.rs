//! What every part of the walk over a project shares: where mistakes go, which widening keys were
//! met, and the sources that the load was given.

use std::path::{Path, PathBuf};

use crate::project::sources::Sources;
use crate::project::trust::PrivilegedSetting;
use crate::project::trust_rules::{TrustRule, Untrusted};
use crate::project::user_limits::{UserKeyRole, role};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::Reports;
use crate::syntax::text::{ConfigOrigin, Layer, Span};

pub(crate) struct LoadContext<'s> {
    pub(crate) reports: Reports,
    pub(crate) widening: Vec<PrivilegedSetting>,
    /// What needs no yes while a directory is empty.
    pub(crate) empty_places: Vec<PrivilegedSetting>,
    pub(crate) sources: &'s Sources,
    /// The project directory, canonical.
    pub(crate) dir: &'s Path,
    /// `sandbox.root`, where zones lie below one.
    pub(crate) ephemeral_root: Option<PathBuf>,
    /// Where `network` stands.
    pub(crate) network_at: Option<ConfigOrigin>,
    /// Names that rules give to tools and that are no tool's.
    pub(crate) named_workers: Vec<(String, Span)>,
}

impl<'s> LoadContext<'s> {
    pub(crate) fn new(sources: &'s Sources, dir: &'s Path) -> LoadContext<'s> {
        LoadContext {
            reports: Reports::default(),
            widening: Vec::new(),
            empty_places: Vec::new(),
            sources,
            dir,
            ephemeral_root: None,
            network_at: None,
            named_workers: Vec::new(),
        }
    }

    /// Whether a widening key may have its effect. What a person says for this run always may, and
    /// a preference of their own. Besides, a user file only limits, so what stands there and still
    /// widens is what a project asked for.
    pub(crate) fn agreed(
        &mut self,
        rule: &'static TrustRule,
        key: &str,
        value: &str,
        span: &Span,
    ) -> bool {
        self.agreed_with(rule, key, value, "", span)
    }

    /// Notes what a yes to this key would be, which nobody needs to give now.
    pub(crate) fn needs_no_yes_yet(
        &mut self,
        rule: &'static TrustRule,
        key: &str,
        value: &str,
        span: &Span,
    ) {
        match span.layer() {
            Layer::Default | Layer::Environment | Layer::CommandLine | Layer::User => {}
            Layer::Project => self.empty_places.push(PrivilegedSetting::new(
                self.dir,
                rule,
                key.to_owned(),
                value.to_owned(),
                "",
                span,
                &self.sources.trust,
            )),
        }
    }

    /// The same for a key whose meaning depends on what stands around it: a yes is bound to both.
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
        let widening = PrivilegedSetting::new(
            self.dir,
            rule,
            key.to_owned(),
            value.to_owned(),
            context,
            span,
            &self.sources.trust,
        );
        let trusted = widening.is_trusted();
        self.widening.push(widening);
        if !trusted {
            let amount = if rule.shows_value() {
                format!(" ({value})")
            } else {
                String::new()
            };
            let text = format!(
                "`{key}` {}{amount}, and you have not agreed to that",
                rule.why()
            );
            let diagnostic = match rule.untrusted() {
                Untrusted::Refused => Diagnostic::error(DiagnosticCode::Untrusted, text),
                Untrusted::Ignored(instead) => {
                    Diagnostic::warning(DiagnosticCode::Untrusted, format!("{text}: {instead}"))
                }
            };
            let help = "if you trust this project: `forge trust`, or `--trust` for one run";
            self.reports.add(diagnostic.at(span).help(help));
        }
        trusted
    }
}

fn is_preference(key: &str) -> bool {
    // Of one item of a list the list is meant.
    let list = key.split_once('[').map_or(key, |(list, _)| list);
    let names: Vec<&str> = list.split('.').collect();
    matches!(role(&names), Some(UserKeyRole::Preference))
}
