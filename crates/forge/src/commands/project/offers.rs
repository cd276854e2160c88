//! The rules that `forge allow --last` offers for what the last run was refused: hosts, directories
//! and programs. A refusal that no rule lifts is listed with the reason, and the key that a person
//! can write by hand.
//!
//! Entry point: [`Offers::new`].

use std::collections::BTreeSet;
use std::path::Path;

use os_sandbox::Denial;
use sandbox_config::Project;
use sandbox_network::HostPattern;

use crate::commands::exec::denials::with_program;
use crate::commands::exec::hints::{OwnPatterns, key_hint};
use crate::commands::exec::proposals::{NoGrant, RuleOffers};
use crate::commands::log::refused::{CUT_RECORD, RefusedAttempts};
use crate::commands::prelude::*;

/// Bound on the refusals without an offer that are printed; the JSON has all.
const MAX_ROWS: usize = 50;

/// The offers for one run.
pub(super) struct Offers {
    /// The refusals of a host are not listed.
    offers: RuleOffers,
    own: OwnPatterns,
    addresses: BTreeSet<(HostPattern, String)>,
    more: bool,
    lacks_reads: bool,
    is_cut: bool,
}

impl Offers {
    pub(super) fn new(refused: &RefusedAttempts, project: &Project, ambient: &Ambient) -> Offers {
        let home = ambient.home.as_deref();
        let mut offers = RuleOffers::new(&refused.denials, &refused.of_workers, project, home);
        let hosts = refused.hosts.iter().map(|host| format!("host:{host}"));
        let hosts = hosts.map(|rule| (rule, Vec::new()));
        offers.offered.splice(0..0, hosts);
        Offers {
            offers,
            own: OwnPatterns::of(project, None),
            addresses: refused.addresses.clone(),
            more: refused.more,
            lacks_reads: refused.lacks_reads,
            is_cut: refused.is_cut,
        }
    }

    pub(super) fn rules(&self) -> Vec<String> {
        let offered = self.offers.offered.iter();
        offered.map(|(rule, _)| rule.clone()).collect()
    }

    /// Prints the rules with their numbers, then what no rule lifts. With `only_without`, the rules
    /// are shown elsewhere.
    pub(super) fn print(&self, only_without: bool) -> Result<(), CliError> {
        let RuleOffers { offered, without } = &self.offers;
        let is_known = |(_, why): &(Denial, NoGrant)| *why != NoGrant::UnknownName;
        let lacks_offers = offered.is_empty() && self.addresses.is_empty();
        let is_whole = !self.is_cut && !self.more;
        if is_whole && lacks_offers && !only_without && without.iter().all(is_known) {
            print_line("the last run of this project was refused nothing that a rule could allow")?;
        }
        let numbered = offered.iter().enumerate().filter(|_| !only_without);
        for (number, (rule, lifts)) in numbered {
            let cause = match lifts.as_slice() {
                [] => String::new(),
                [one] => format!("  ({})", with_program(one)),
                [first, rest @ ..] => {
                    format!("  ({}; and {} more)", with_program(first), rest.len())
                }
            };
            print_line(format!(
                "{}  {}{}",
                number + 1,
                escape(rule),
                escape(&cause)
            ))?;
        }
        for (address, host) in &self.addresses {
            // An answer of a name server must not become a rule unread.
            stderr::print(format!(
                "not offered: {host} leads to {address}, in another network than the internet; if that \
                 is yours: forge allow host:{address}"
            ));
        }
        for (denial, why) in without.iter().take(MAX_ROWS) {
            let key = self.key(denial, why).map(|key| format!("; {key}"));
            let text = format!(
                "not offered: {}: {why}{}",
                with_program(denial),
                key.unwrap_or_default()
            );
            stderr::print(escape(&text));
        }
        if without.len() > MAX_ROWS {
            let count = without.len() - MAX_ROWS;
            stderr::print(format!("not offered: {count} more (--json lists them)"));
        }
        if self.is_cut {
            stderr::print(format_args!("note: {CUT_RECORD}"));
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
        let offered = self.offers.offered.iter().flat_map(|(rule, lifts)| {
            let lifts = lifts.iter();
            lifts.map(move |denial| json!({ "denial": denial, "rule": rule }))
        });
        let without = self.offers.without.iter().map(|(denial, why)| {
            json!({ "denial": denial, "why_not": why.to_string(), "by_hand": self.key(denial, why) })
        });
        json!({
            "project": project.to_string_lossy(),
            "refused": self.rules(),
            "denials": offered.chain(without).collect::<Vec<_>>(),
            "more_denials": self.more,
            "cut": self.is_cut,
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
