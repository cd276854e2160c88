//! `forge help`: the topics, and every command's own help.

use crate::cli::{Cli, Global, HelpArgs};
use crate::commands::prelude::*;
use crate::topics;

pub(crate) fn run(global: &Global, args: &HelpArgs) -> Result<ExitKind, CliError> {
    let text = match args.topic.as_slice() {
        [] => overview(),
        [word] if let Some(text) = topics::text(word) => text,
        words => of_command(words)?,
    };
    let text = text.trim_end();
    print_result(global, &json!({ "text": text }), text)
}

fn overview() -> String {
    let mut text = Cli::whole_command().render_long_help().to_string();
    text.push_str("\n\nTopics, each by `forge help TOPIC`:\n");
    for (name, about) in topics::TOPICS {
        text.push_str(&format!("  {name:<11} {about}\n"));
    }
    text
}

fn of_command(words: &[String]) -> Result<String, CliError> {
    let mut command = Cli::whole_command();
    let mut at = &mut command;
    for word in words {
        let known: Vec<String> = at
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            let topics = topics::TOPICS.iter().map(|(name, _)| (*name).to_owned());
            let names: Vec<String> = known.into_iter().chain(topics).collect();
            CliError::usage(format!("unknown command or topic `{word}`"))
                .hint(format!("there are: {}", names.join(", ")))
        })?;
    }
    Ok(at.render_long_help().to_string())
}
