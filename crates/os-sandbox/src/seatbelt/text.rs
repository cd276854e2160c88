//! Writes rules. Its input is text of this crate: constants, numbers, names of parameters, and
//! expressions made by `pattern`, all of them printable ASCII.

/// A profile under construction.
pub(super) struct ProfileText(String);

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProfileAction {
    Allow,
    Deny,
}

impl ProfileText {
    pub(super) fn new(tag: &str) -> ProfileText {
        let default = if tag.is_empty() {
            "(deny default)".to_owned()
        } else {
            format!("(deny default (with message \"{tag}\"))")
        };
        ProfileText(format!("(version 1)\n{default}\n"))
    }

    /// Writes a comment line.
    pub(super) fn section(&mut self, name: &str) {
        self.0.push_str("\n; ");
        self.0.push_str(name);
        self.0.push('\n');
    }

    /// Writes one rule. Writes nothing without a filter, because the rule would apply to
    /// everything: that is [`ProfileText::always`].
    pub(super) fn rule(&mut self, action: ProfileAction, operations: &str, filters: &[String]) {
        if filters.is_empty() {
            return;
        }
        self.open(action, operations);
        for filter in filters {
            self.0.push_str("\n  ");
            self.0.push_str(filter);
        }
        self.0.push_str(")\n");
    }

    /// Writes one rule for everything.
    pub(super) fn always(&mut self, action: ProfileAction, operations: &str) {
        self.open(action, operations);
        self.0.push_str(")\n");
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn open(&mut self, action: ProfileAction, operations: &str) {
        self.0.push_str(match action {
            ProfileAction::Allow => "(allow ",
            ProfileAction::Deny => "(deny ",
        });
        self.0.push_str(operations);
    }
}

/// Returns a filter of this kind for each of the names.
pub(super) fn named(kind: &str, names: &[&str]) -> Vec<String> {
    names
        .iter()
        .map(|name| format!("({kind} \"{name}\")"))
        .collect()
}

/// Returns the filter for a parameter's directory and everything below it.
pub(super) fn subpath(parameter: &str) -> String {
    format!("(subpath (param \"{parameter}\"))")
}

/// Returns the filter for exactly the path of a parameter.
pub(super) fn literal(parameter: &str) -> String {
    format!("(literal (param \"{parameter}\"))")
}
