//! Writes rules. Its input is text of this crate: constants, numbers, names of parameters, and
//! expressions made by `pattern`, all of them printable ASCII.

/// A profile under construction.
pub(super) struct ProfileText(String);

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

    /// Writes one rule that allows. Writes nothing without a filter, because the rule would apply to
    /// everything: that is [`ProfileText::allow_all`].
    pub(super) fn allow(&mut self, operations: &str, filters: &[impl AsRef<str>]) {
        self.rule("allow", operations, filters);
    }

    /// Writes one rule that denies. Writes nothing without a filter.
    pub(super) fn deny(&mut self, operations: &str, filters: &[impl AsRef<str>]) {
        self.rule("deny", operations, filters);
    }

    /// Writes a rule that allows everything.
    pub(super) fn allow_all(&mut self, operations: &str) {
        self.0.push_str(&format!("(allow {operations})\n"));
    }

    /// Writes a rule that denies everything.
    pub(super) fn deny_all(&mut self, operations: &str) {
        self.0.push_str(&format!("(deny {operations})\n"));
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn rule(&mut self, action: &str, operations: &str, filters: &[impl AsRef<str>]) {
        if filters.is_empty() {
            return;
        }
        self.0.push_str(&format!("({action} {operations}"));
        for filter in filters {
            self.0.push_str("\n  ");
            self.0.push_str(filter.as_ref());
        }
        self.0.push_str(")\n");
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
