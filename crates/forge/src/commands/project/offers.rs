//! The rules that `forge allow --last` offers for what the last run was refused: hosts, directories
//! and programs. A refusal that no rule lifts is listed with the reason, and the key that a person
//! can write by hand.
//!
//! Entry point: [`Offers::new`].

use std::path::Path;

use os_sandbox::Denial;
use sandbox_config::Project;
use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::commands::exec::denials::with_program;
use crate::commands::exec::hints::{OwnPatterns, key_hint};
use crate::commands::exec::proposals::{NoGrant, offer_rules};
use crate::commands::log::refused::RefusedAttempts;
use crate::exit::CliError;
use crate::output::escape::escape;
use crate::output::stderr;
use crate::output::stdout::print_line;

/// Bound on the refusals without an offer that are printed; the JSON has all.
const MAX_ROWS: usize = 50;

/// A rule, and the refusals that it lifts. Those of a host are not listed.
struct Offer {
    rule: String,
    lifts: Vec<Denial>,
}

/// The offers for one run.
pub(super) struct Offers {
    offers: Vec<Offer>,
    without: Vec<(Denial, NoGrant)>,
    own: OwnPatterns,
    more: bool,
    lacks_reads: bool,
}

impl Offers {
    pub(super) fn new(refused: &RefusedAttempts, project: &Project, ambient: &Ambient) -> Offers {
        let hosts = refused.hosts.iter().map(|host| Offer {
            rule: format!("host:{host}"),
            lifts: Vec::new(),
        });
        let mut offers = Offers {
            offers: hosts.collect(),
            without: Vec::new(),
            own: OwnPatterns::of(project, None),
            more: refused.more,
            lacks_reads: refused.lacks_reads,
        };
        let (of_worker, typed): (Vec<Denial>, Vec<Denial>) = refused
            .denials
            .iter()
            .cloned()
            .partition(|denial| refused.of_workers.contains(denial));
        let rules = offer_rules(&typed, project, ambient.home.as_deref());
        offers.without.extend(rules.without);
        let offered = rules.offered.into_iter();
        let offered = offered.map(|(rule, lifts)| Offer { rule, lifts });
        offers.offers.extend(offered);
        let of_worker = of_worker.into_iter();
        offers
            .without
            .extend(of_worker.map(|denial| (denial, NoGrant::OfWorker)));
        offers
    }

    pub(super) fn rules(&self) -> Vec<String> {
        self.offers.iter().map(|offer| offer.rule.clone()).collect()
    }

    /// Prints the rules with their numbers, then what no rule lifts. With `only_without`, the rules
    /// are shown elsewhere.
    pub(super) fn print(&self, only_without: bool) -> Result<(), CliError> {
        if self.offers.is_empty() && !only_without {
            print_line("the last run of this project was refused nothing that a rule could allow")?;
        }
        let numbered = self.offers.iter().enumerate().filter(|_| !only_without);
        for (number, offer) in numbered {
            let cause = match offer.lifts.as_slice() {
                [] => String::new(),
                [one] => format!("  ({})", with_program(one)),
                [first, rest @ ..] => {
                    format!("  ({}; and {} more)", with_program(first), rest.len())
                }
            };
            print_line(format!(
                "{}  {}{}",
                number + 1,
                escape(&offer.rule),
                escape(&cause)
            ))?;
        }
        for (denial, why) in self.without.iter().take(MAX_ROWS) {
            let key = self.key(denial, why).map(|key| format!("; {key}"));
            let text = format!(
                "not offered: {}: {why}{}",
                with_program(denial),
                key.unwrap_or_default()
            );
            stderr::print(escape(&text));
        }
        if let Some(count) = self
            .without
            .len()
            .checked_sub(MAX_ROWS)
            .filter(|count| *count > 0)
        {
            stderr::print(format!("not offered: {count} more (--json lists them)"));
        }
        if self.more {
            stderr::print("note: more was refused than a run records");
        }
        if self.lacks_reads {
            stderr::print("note: refused reads are only recorded with `forge exec --trace=full`");
        }
        Ok(())
    }

    pub(super) fn to_json(&self, project: &Path) -> Value {
        let offered = self.offers.iter().flat_map(|offer| {
            let lifts = offer.lifts.iter();
            lifts.map(|denial| json!({ "denial": denial, "rule": offer.rule }))
        });
        let without = self.without.iter().map(|(denial, why)| {
            json!({ "denial": denial, "why_not": why.to_string(), "by_hand": self.key(denial, why) })
        });
        json!({
            "project": project.to_string_lossy(),
            "refused": self.rules(),
            "denials": offered.chain(without).collect::<Vec<_>>(),
            "more_denials": self.more,
            "without_reads": self.lacks_reads,
        })
    }

    /// Returns the key that a person can write by hand.
    fn key(&self, denial: &Denial, why: &NoGrant) -> Option<String> {
        match why {
            NoGrant::Policy | NoGrant::NoEffect(_) => key_hint(denial, &self.own),
            _ => None,
        }
    }
}
