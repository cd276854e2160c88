//! Options of `forge doctor`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge doctor
  forge doctor --prove
  forge doctor --mcp
  forge doctor --git
  forge doctor --model ollama:qwen3:8b
  forge doctor --json

With --mcp the server is started as a client starts it, with the settings that `forge mcp
install` writes: both eras of the protocol, the list of tools, one call that reads. The exit
code is 0 if it works, whatever is warned of, and 1 if it does not.

With --model a model is asked for one tool call, in a stream and in one piece; without a name,
the model that `forge run` would take. The exit code is 0 if the way that runs use it works,
4 if the provider does not take the key, and 1 otherwise.

With --prove the exit code is 0 if everything held, and 6 if something got through
or nothing could be proved.")]
pub(crate) struct DoctorArgs {
    /// Try to break each promise from inside, as a command of this project would.
    #[arg(long)]
    pub(crate) prove: bool,
    /// Say whether an MCP client can use this project, and what to look out for.
    #[arg(long, conflicts_with = "prove")]
    pub(crate) mcp: bool,
    /// Ask a model for a tool call, and say what came of it.
    #[arg(long, value_name = "PROVIDER:MODEL", num_args = 0..=1, conflicts_with_all = ["prove", "mcp"])]
    pub(crate) model: Option<Option<String>>,
    /// Run a container as calls of this project would, and say what is in the way.
    #[arg(long, conflicts_with_all = ["prove", "mcp", "model"])]
    pub(crate) docker: bool,
    /// Say whether the repositories of this project can be worked with, and what is in the way.
    #[arg(long, conflicts_with_all = ["prove", "mcp", "model", "docker"])]
    pub(crate) git: bool,
}
