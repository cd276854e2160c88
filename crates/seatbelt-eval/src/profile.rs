//! A profile: its rules in order, and their evaluation.

use crate::Error;
use crate::filter::{self, Filter, Parameters};
use crate::operations::{self, About};
use crate::sexpr::{self, Node};
use crate::subject::Subject;

/// A profile that was understood completely.
///
/// ```
/// use seatbelt_eval::{Profile, Subject};
///
/// let text = "(version 1) (deny default) (allow process-fork)";
/// let profile = Profile::parse(text, &[])?;
/// assert!(profile.allows("process-fork", &Subject::Nothing)?);
/// # Ok::<(), seatbelt_eval::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Profile {
    rules: Vec<Rule>,
    message: Option<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    allow: bool,
    operation: &'static str,
    /// One of them has to match; none means: always.
    filters: Vec<Filter>,
}

impl Profile {
    /// Reads a profile with its parameters. It must begin with `(version 1)` and
    /// `(deny default)`.
    ///
    /// # Errors
    /// For anything that is not completely understood.
    pub fn parse(text: &str, parameters: &[(&str, &[u8])]) -> Result<Profile, Error> {
        let given = Parameters::new(parameters)?;
        let forms = sexpr::parse(text)?;
        let [version, default, rules @ ..] = forms.as_slice() else {
            return Err(Error::Syntax {
                what: "neither version nor default",
                at: 0,
            });
        };
        if version.to_string() != "(version 1)" {
            return Err(unknown("version", version));
        }
        let message = default_message(default)?;
        let mut profile = Profile {
            rules: Vec::new(),
            message,
        };
        for rule in rules {
            profile.rule(rule, &given)?;
        }
        given.all_used()?;
        Ok(profile)
    }

    /// Returns `true` if a process may do this. An error where the two readings of the language
    /// differ.
    ///
    /// # Errors
    /// If the operation is not known, or is a parent of others (`file-read*`), which no process
    /// performs; or if the readings differ.
    pub fn allows(&self, operation: &str, subject: &Subject) -> Result<bool, Error> {
        let above_others = matches!(
            operation,
            "file*" | "file-read*" | "file-write*" | "process*" | "network*"
        );
        let known = operations::find(operation).filter(|_| !above_others);
        let (operation, _) = known.ok_or_else(|| Error::Unknown {
            what: "operation",
            text: operation.to_owned(),
        })?;
        let levels = operations::upwards(operation);
        let by_order = self
            .rules
            .iter()
            .rev()
            .find(|rule| levels.contains(&rule.operation) && rule.matches(subject))
            .is_some_and(|rule| rule.allow);
        let by_operation = levels
            .iter()
            .find_map(|level| {
                self.rules
                    .iter()
                    .rev()
                    .find(|rule| rule.operation == *level && rule.matches(subject))
            })
            .is_some_and(|rule| rule.allow);
        if by_order != by_operation {
            return Err(Error::Ambiguous {
                operation: operation.to_owned(),
                subject: subject.to_string(),
                by_order,
                by_operation,
            });
        }
        Ok(by_order)
    }

    /// The text that the kernel logs with each denial.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn rule(&mut self, node: &Node, given: &Parameters<'_>) -> Result<(), Error> {
        let Node::List(items) = node else {
            return Err(unknown("rule", node));
        };
        let Some((Node::Symbol(action), rest)) = items.split_first() else {
            return Err(unknown("rule", node));
        };
        let allow = match action.as_str() {
            "allow" => true,
            "deny" => false,
            _ => return Err(unknown("rule", node)),
        };
        let mut operations: Vec<(&'static str, About)> = Vec::new();
        let mut filters = rest;
        while let [Node::Symbol(name), left @ ..] = filters {
            let known = operations::find(name).ok_or_else(|| Error::Unknown {
                what: "operation",
                text: name.clone(),
            })?;
            operations.push(known);
            filters = left;
        }
        if operations.is_empty() {
            return Err(unknown("rule", node));
        }
        for (operation, about) in operations {
            self.rules.push(Rule {
                allow,
                operation,
                filters: filters
                    .iter()
                    .map(|one| filter::parse(one, about, given))
                    .collect::<Result<_, _>>()?,
            });
        }
        Ok(())
    }
}

impl Rule {
    fn matches(&self, subject: &Subject) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(subject))
    }
}

/// `(deny default)`, perhaps with a message for the log.
fn default_message(node: &Node) -> Result<Option<String>, Error> {
    let Node::List(items) = node else {
        return Err(unknown("default", node));
    };
    match items.as_slice() {
        [Node::Symbol(action), Node::Symbol(default), rest @ ..]
            if action == "deny" && default == "default" =>
        {
            match rest {
                [] => Ok(None),
                [Node::List(modifier)] => match modifier.as_slice() {
                    [Node::Symbol(with), Node::Symbol(message), Node::Text(text)]
                        if with == "with" && message == "message" =>
                    {
                        Ok(Some(text.clone()))
                    }
                    _ => Err(unknown("modifier", &rest[0])),
                },
                _ => Err(unknown("default", node)),
            }
        }
        _ => Err(unknown("default", node)),
    }
}

fn unknown(what: &'static str, node: &Node) -> Error {
    Error::Unknown {
        what,
        text: node.to_string(),
    }
}
