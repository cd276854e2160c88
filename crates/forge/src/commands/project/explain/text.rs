//! An explanation as text and as JSON.

use sandbox_config::Verdict;

use crate::commands::prelude::*;
use crate::commands::project::explain::explanation::{
    ExpectedEnforcement, ExplainedDecision, Explanation,
};
use crate::output::describe::{self, TextLayout};
use crate::output::escape::escape;

impl Explanation {
    pub(super) fn as_text(&self, verbose: bool, layout: TextLayout) -> String {
        let who = match self.who.as_slice() {
            [] => "the project".to_owned(),
            names => names.join(" > "),
        };
        let word = self.decision.word();
        let line = format!("{} for {}: {word}", escape(&self.shown), escape(&who));
        let line = layout.wrap(&line, "");
        // The decision ends the line.
        let mut text = match line.trim_end().strip_suffix(word) {
            Some(before) => format!("{before}{}\n", layout.paint(word, self.decision.tone())),
            None => line,
        };
        let mut reason = self.why.text.clone();
        if let Some(origin) = &self.why.origin {
            reason.push_str(&format!("  ({origin})"));
        }
        text.push_str(&layout.wrap(&reason, "  "));
        for line in self.why.why.iter().chain(&self.note) {
            text.push_str(&layout.wrap(line, "  "));
        }
        text.push_str("\nfrom the project down\n");
        text.push_str(&describe::table(&self.answer_rows(), "  ", layout));
        match verbose {
            true => text.push_str(&self.limits_as_text(layout)),
            false => text.push_str(&self.limits_in_short()),
        }
        text
    }

    /// Returns a row for each link of the chain.
    fn answer_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for (index, answer) in self.answers.iter().enumerate() {
            let origin = answer.origin.as_ref().map(ToString::to_string);
            rows.push(vec![
                answer.who.clone(),
                describe::word(answer.verdict).to_owned(),
                answer.rule.clone(),
                origin.unwrap_or_default(),
            ]);
            if let Some(narrowed) = index.checked_sub(1).and_then(|at| self.narrowed.get(at))
                && !narrowed.is_empty()
                && let Some(row) = rows.last_mut()
            {
                row.push(format!("narrower: {}", narrowed.join(", ")));
            }
        }
        // Reasons beside the rules of the links, such as a name or the risk of the call.
        let verdict = match self.decision {
            ExplainedDecision::Judged(verdict) => verdict,
            ExplainedDecision::Outside => Verdict::Block,
        };
        if self
            .answers
            .last()
            .is_some_and(|last| last.verdict != verdict)
        {
            rows.push(vec![
                "this call".to_owned(),
                self.decision.word().to_owned(),
                self.why.text.clone(),
                self.why.origin.clone().unwrap_or_default(),
            ]);
        }
        rows
    }

    fn limits_in_short(&self) -> String {
        let more = !self.held_to.is_empty() || self.enforcement.is_some();
        match &self.enforcement {
            Some(ExpectedEnforcement::Impossible(why)) => {
                format!("\nnot enforced: {}\n", escape(why))
            }
            _ if more => "\n-v: the limits of this call, and what enforces them\n".to_owned(),
            _ => String::new(),
        }
    }

    /// Describes the further restrictions of the grant and their enforcement.
    fn limits_as_text(&self, layout: TextLayout) -> String {
        let mut text = String::new();
        if !self.held_to.is_empty() {
            text.push_str("\nheld to\n");
            let rows: Vec<Vec<String>> = self
                .held_to
                .iter()
                .map(|(name, value)| vec![(*name).to_owned(), value.clone()])
                .collect();
            text.push_str(&describe::table(&rows, "  ", layout));
        }
        match &self.enforcement {
            None => {}
            Some(ExpectedEnforcement::Planned(plan)) => {
                text.push_str("\nenforced by\n");
                for line in plan.to_string().lines() {
                    text.push_str(&format!("  {}\n", escape(line)));
                }
            }
            Some(ExpectedEnforcement::Impossible(why)) => {
                text.push_str(&format!("\nnot enforced: {}\n", escape(why)));
            }
        }
        text
    }

    pub(super) fn as_json(&self) -> Value {
        let chain: Vec<Value> = self
            .answers
            .iter()
            .enumerate()
            .map(|(index, answer)| {
                let narrowed = index.checked_sub(1).and_then(|at| self.narrowed.get(at));
                json!({
                    "who": answer.who,
                    "layer": self.layers.get(index).unwrap_or(&"worker"),
                    "says": describe::word(answer.verdict),
                    "rule": answer.rule,
                    "origin": answer.origin.as_ref().map(describe::origin_json),
                    "narrowed": narrowed,
                })
            })
            .collect();
        let mut object = json!({
            "subject": { "kind": self.kind, "text": self.shown },
            "as": self.who,
            "decision": self.decision.word(),
            "rule": {
                "text": self.why.text,
                "origin": self.why.origin,
                "why": self.why.why,
            },
            "note": self.note,
            "chain": chain,
            "held_to": self.held_to.iter().map(|(name, value)| (name.replace(' ', "_"), json!(value)))
                .collect::<serde_json::Map<_, _>>(),
        });
        object["enforced_by"] = match &self.enforcement {
            None => Value::Null,
            Some(ExpectedEnforcement::Planned(plan)) => json!({
                "mechanism": plan.backend().to_string(),
                "lines": plan.to_string().lines().collect::<Vec<_>>(),
            }),
            Some(ExpectedEnforcement::Impossible(why)) => json!({ "mechanism": null, "why": why }),
        };
        object
    }
}
