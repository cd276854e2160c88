//! The answer "always" to a question about a host.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandbox_config::Project;

use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::output::escape::{escape, escape_lines};
use crate::output::prompt::{Prompt, RuleWriter};
use crate::output::prompt_terminal::PromptTerminal;
use crate::state::rules_file::RulesFile;

/// Writes the rule of a person who answers a question about a host with "always": the same line as
/// `forge allow host:NAME`, shown as a difference before.
#[derive(Debug)]
struct HostRuleWriter {
    file: RulesFile,
    /// The workers that keep to a list of hosts of their own, whatever the person's rules name.
    listed_workers: BTreeSet<String>,
}

/// Returns the writer for a project; `None` without a home directory.
pub(crate) fn host_rule_writer(
    project: &Project,
    ambient: &Ambient,
) -> Option<Arc<dyn RuleWriter>> {
    let dir = project.dir().to_owned();
    let file = RulesFile::new(dir, ambient.personal_rules()?);
    let workers = project.workers().unwrap_or_default();
    let listed = workers
        .iter()
        .filter(|worker| worker.declaration().declares_network());
    Some(Arc::new(HostRuleWriter {
        file,
        listed_workers: listed.map(|worker| worker.name().to_owned()).collect(),
    }))
}

impl RuleWriter for HostRuleWriter {
    fn write(
        &self,
        rules: &[String],
        workers: &[String],
        prompt: &Prompt<'_>,
        terminal: &mut PromptTerminal,
    ) -> std::io::Result<bool> {
        let failed = |terminal: &mut PromptTerminal, error: &CliError| {
            let text = format!("{}\n", escape_lines(error.message()));
            terminal.write(&text).map(|()| false)
        };
        loop {
            let (old, new) = match self.file.addition(rules) {
                Ok(change) => change,
                Err(error) => return failed(terminal, &error),
            };
            if new != old {
                if !prompt.confirm(&self.file.diff(&old, &new), terminal)? {
                    terminal.write("nothing is written\n")?;
                    return Ok(false);
                }
                match self.file.replace(&old, &new) {
                    Ok(true) => {}
                    // Another program has changed it, so the change is shown again.
                    Ok(false) => continue,
                    Err(error) => return failed(terminal, &error),
                }
            }
            terminal.write(&format!("written: {}\n", self.file.shown()))?;
            if let Some(worker) = workers
                .iter()
                .find(|one| self.listed_workers.contains(*one))
            {
                terminal.write(&format!(
                    "note: worker {} keeps to its own `network.allow`, so it asks again in the \
                     next run\n",
                    escape(worker)
                ))?;
            }
            return Ok(true);
        }
    }
}
