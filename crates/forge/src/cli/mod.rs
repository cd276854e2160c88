//! Arguments. What they mean is in the commands.

mod run;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::{self, Failure};
use crate::install::{Client, Scope};
use crate::listen::Place;

pub(crate) use run::{FailOn, Run};

/// Tools for AI workers, fenced.
#[derive(Debug, Parser)]
#[command(
    name = "forge",
    version,
    after_long_help = exit::TABLE,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The same with one command only: to set up all of them takes most of the time until a client has
/// its first answer, and clients start a server often.
#[derive(Debug, Parser)]
#[command(
    name = "forge",
    subcommand_required = true,
    disable_help_subcommand = true
)]
struct Serving {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: ServingCommand,
}

#[derive(Debug, Subcommand)]
enum ServingCommand {
    Mcp(Mcp),
}

impl Cli {
    /// What the arguments of this process mean.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        Cli::of(std::env::args_os().collect())
    }

    fn of(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        // Whatever is not understood is said by who knows all commands.
        if arguments.iter().any(|word| word == "mcp")
            && let Ok(Serving { global, command }) = Serving::try_parse_from(&arguments)
        {
            let ServingCommand::Mcp(mcp) = command;
            return Ok(Cli {
                global,
                command: Command::Mcp(mcp),
            });
        }
        Cli::try_parse_from(arguments)
    }

    /// Whether failures are for programs.
    pub(crate) fn wants_json(&self) -> bool {
        let by_format = if let Command::Check(check) = &self.command {
            check.format == Some(CheckFormat::Json)
        } else {
            false
        };
        self.global.json || self.global.streams() || by_format
    }

    /// Makes one of what can be said in two ways, and refuses what the command does not do.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        match self.global.output {
            Some(Output::Json) => self.global.json = true,
            Some(Output::StreamJson) if !matches!(self.command, Command::Run(_)) => {
                return Err(Failure::usage(
                    "--output stream-json is for `forge run` only",
                ));
            }
            Some(Output::StreamJson | Output::Text) | None => {}
        }
        Ok(())
    }
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Start here instead of in the working directory.
    #[arg(id = "start", short = 'C', value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,
    /// Read this project file instead of looking for one.
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,
    /// Read no project file, even if there is one.
    #[arg(long, global = true)]
    pub(crate) no_config: bool,
    /// Set one configuration key for this run.
    #[arg(short = 'c', value_name = "KEY=VALUE", global = true)]
    pub(crate) set: Vec<String>,
    /// The same as -c sandbox.root=DIR.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) sandbox_root: Option<String>,
    /// Accept the project's widening keys for this run.
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Never ask anything.
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Print one JSON object instead of text; the same as --output json.
    #[arg(long, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", global = true)]
    pub(crate) output: Option<Output>,
    /// Whether there are colours; by default on a terminal, and as NO_COLOR and CLICOLOR_FORCE say.
    #[arg(long, value_name = "WHEN", global = true)]
    pub(crate) color: Option<Colors>,
    /// Print no progress and no warnings.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print all that is known of what goes on.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
}

impl Global {
    /// Whether what happens is written as it happens, for programs.
    pub(crate) fn streams(&self) -> bool {
        self.output == Some(Output::StreamJson)
    }
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// One object.
    Json,
    /// `forge run`: one object a line as things happen, the result last (see `forge schema events`).
    StreamJson,
}

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colors {
    /// On a terminal that has them.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List, show and answer what waits for approval in this project.
    Approve(Approve),
    /// Check the project file and every worker; run nothing.
    Check(Check),
    /// Empty the ephemeral zones.
    Clean(Clean),
    /// Print what completes forge's command line in a shell.
    Completions(Completions),
    /// Show what holds, key by key, and who said it.
    Config(Config),
    /// Say what this machine can enforce, and how to get what is missing.
    Doctor(Doctor),
    /// Run one command, confined as the project says.
    Exec(Exec),
    /// Say what would be decided about a path, a host, a tool or a command, and by which rule.
    Explain(Explain),
    /// Explain a command or a topic: exit-codes, errors, paths, approvals, security.
    Help(Help),
    /// Write a first project file and a first worker.
    Init(Init),
    /// Show the runs that are kept: what was asked, what was decided and why.
    Log(Log),
    /// Write the manual pages into a directory.
    Man(Man),
    /// Serve the tools to any MCP client, on standard input and output.
    Mcp(Mcp),
    /// Run a worker, and the workers that it calls.
    Run(Box<Run>),
    /// Print the JSON Schema of project, worker or playbook files, of audit records, transcripts or events.
    Schema(Schema),
    /// List or call the tools, as a worker sees them.
    Tools(Tools),
    /// Agree to the keys of this project that widen what its workers may do.
    Trust(Trust),
    /// List the workers, show one with all that it holds, or begin a new one.
    Worker(Worker),
}

/// `forge approve`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge approve
  forge approve --watch
  forge approve 019a7
  forge approve 019a7c1f3e2-5f0c9d213b7e9a44-10cf2d680b1e77aa --allow

Requests come from every forge process of yours in this project. Without an ID they are
listed; with one, the request is shown whole and asked about, or only shown where there is
no terminal. The first answer counts. A yes on the command line needs the whole ID, which
ends in a digest of what is agreed to.")]
pub(crate) struct Approve {
    /// The request, or how its ID begins.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Yes, this call.
    #[arg(long, requires = "id", conflicts_with_all = ["run", "deny"])]
    pub(crate) allow: bool,
    /// Yes, and the same call again until its process ends.
    #[arg(long, requires = "id", conflicts_with = "deny")]
    pub(crate) run: bool,
    /// No.
    #[arg(long, requires = "id")]
    pub(crate) deny: bool,
    /// Why not; the model is told.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) reason: Option<String>,
    /// Stay, and ask about each request as it comes.
    #[arg(long, conflicts_with = "id")]
    pub(crate) watch: bool,
}

/// `forge check`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge check
  forge check workers/*.worker
  forge check --format github
  forge -C examples/dep-audit check --trust

The mount table and the delegation tree go to standard output, findings to standard
error; with json, sarif and github everything is on standard output. The exit code is 0
without mistakes (warnings do not count), 1 with mistakes in what was loaded, and 2 if a
file could not be loaded.")]
pub(crate) struct Check {
    /// Report what is found in these files only; the whole project is looked at anyway.
    #[arg(value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    /// How findings are written; `--json` is short for json.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<CheckFormat>,
}

/// The formats of `forge check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people.
    Text,
    /// One object: mounts, workers, tree, findings.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Workflow commands that annotate a pull request.
    Github,
}

/// `forge clean`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge clean --dry-run
  forge clean
  forge clean --root scratch

What lies in the zones below `sandbox.root` is removed; the zones' own directories, and
everything else, stay. A root that is not `.sandbox` must be typed as well, since anybody
may have written the project file. Links are removed, never followed. Projects in direct mode, and
those that are not made of zones, have nothing ephemeral.")]
pub(crate) struct Clean {
    /// Count, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The directory that is meant, where `sandbox.root` is not `.sandbox`.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) root: Option<std::path::PathBuf>,
}

/// `forge completions`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge completions bash > ~/.local/share/bash-completion/completions/forge
  forge completions zsh > ~/.zfunc/_forge
  forge completions fish > ~/.config/fish/completions/forge.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// `forge man`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge man ~/.local/share/man/man1

One page a command, forge.1 and forge-COMMAND.1. The directory is made if it is not there;
pages of these names in it are replaced.")]
pub(crate) struct Man {
    /// Where the pages go.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// `forge explain`
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["subject", "command"]),
    after_long_help = "\
Examples:
  forge explain /workspace/notes.md --write
  forge explain shell
  forge explain host:example.com:443
  forge explain --as 'main > formatter' /data/a.csv
  forge explain --worker main -- git log -1

The decision is one of allow, ask, block and outside. Nothing is run and nothing is made.
A command in one word, as in -- 'git log | wc -l', is a whole line, as a model writes it."
)]
pub(crate) struct Explain {
    /// A sandbox path, a host (`host:NAME[:PORT]`, or a name with a dot or a port), or a tool.
    #[arg(value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// For this worker, started by a person; without it for the entry worker.
    #[arg(long, value_name = "WORKER", conflicts_with = "chain")]
    pub(crate) worker: Option<String>,
    /// For the last of these workers, each called by the one before it.
    #[arg(long = "as", value_name = "A>B>C")]
    pub(crate) chain: Option<String>,
    /// Whether the path may be written (else: read).
    #[arg(long, conflicts_with_all = ["delete", "command"])]
    pub(crate) write: bool,
    /// Whether the path may be deleted.
    #[arg(long, conflicts_with = "command")]
    pub(crate) delete: bool,
    /// A command and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `forge help`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge help exit-codes
  forge help errors
  forge help tools call")]
pub(crate) struct Help {
    /// A topic (exit-codes, errors, paths, approvals, security), or a command.
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
}

/// `forge worker`
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(subcommand)]
    pub(crate) action: WorkerAction,
}

/// What to do with the workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerAction {
    /// Every worker, and what it holds when a person starts it.
    #[command(after_long_help = "Examples:\n  forge worker list\n  forge worker list --json")]
    List,
    /// One worker: what it holds and why, its tools, whom it calls.
    #[command(
        after_long_help = "Examples:\n  forge worker show main\n  forge worker show main --tree"
    )]
    Show {
        /// The worker.
        #[arg(value_name = "NAME")]
        name: String,
        /// Everybody whom it comes to call, too.
        #[arg(long)]
        tree: bool,
    },
    /// Write a worker file that asks for nothing yet, and print its path.
    #[command(after_long_help = "\
Examples:
  forge worker new formatter --description 'Formats data files'

The file goes to the first directory of `worker_paths`. One that is there is never
overwritten.")]
    New {
        /// Its name: lower-case letters, digits, `_` and `-`, a letter first.
        #[arg(value_name = "NAME")]
        name: String,
        /// What it is for; what its callers are told.
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
}

/// `forge config`
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Everything that holds, as a project file that means the same.
    #[command(after_long_help = "\
Examples:
  forge config show
  forge config show --origin
  FORGE__NETWORK=true forge config show --json

Weakest first: built-in values, your own file, the project file, FORGE__KEY variables,
-c KEY=VALUE. Preferences (name, model, entry, worker_paths) come from the strongest; of
everything else your own file says what holds at most.")]
    Show {
        /// With the layer, file, line and column of each value.
        #[arg(long)]
        origin: bool,
    },
    /// The files that are read.
    Path,
    /// The value of one key, or a whole section.
    #[command(after_long_help = "\
Examples:
  forge config get limits.max_turns
  forge config get sandbox.zones --json")]
    Get {
        /// A dotted key: sandbox.mode
        #[arg(value_name = "KEY")]
        key: String,
    },
}

/// `forge doctor`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge doctor
  forge doctor --prove
  forge doctor --mcp
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
pub(crate) struct Doctor {
    /// Try to break each promise from inside, as a command of this project would.
    #[arg(long)]
    pub(crate) prove: bool,
    /// Say whether an MCP client can use this project, and what to look out for.
    #[arg(long, conflicts_with = "prove")]
    pub(crate) mcp: bool,
    /// Ask a model for a tool call, and say what came of it.
    #[arg(long, value_name = "PROVIDER:MODEL", num_args = 0..=1, conflicts_with_all = ["prove", "mcp"])]
    pub(crate) model: Option<Option<String>>,
}

/// A mechanism that `exec` can be told to use.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MechanismName {
    /// Namespaces by bubblewrap, Landlock and seccomp inside.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
}

/// `forge exec`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge exec -- make test
  forge exec --read-only -- grep -rn TODO .
  forge exec --receipt receipt.json -- ./build.sh

Without a project file the working directory is all that the command may change.
The exit code is the command's own; 124 to 127 as env and docker use them.")]
pub(crate) struct Exec {
    /// Run under what this worker holds instead of what the project holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Nothing may be written.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Use this mechanism, or fail.
    #[arg(long, value_name = "NAME")]
    pub(crate) mechanism: Option<MechanismName>,
    /// End the command, and everything it started, after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Write what was really enforced to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// Run without any OS sandbox: the command can do whatever you can.
    #[arg(long, conflicts_with = "mechanism")]
    pub(crate) no_os_sandbox: bool,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What is approved without a question.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApproveAll {
    /// Everything that may be allowed is allowed. Never lifts a block.
    All,
}

/// How calls are approved; shared by `run` and `tools call`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Approval")]
pub(crate) struct Approval {
    /// Answer every question with yes. Never lifts a block.
    #[arg(long, value_name = "WHAT")]
    pub(crate) approve: Option<ApproveAll>,
    /// Short for `--approve all`.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Who is asked instead of whoever sits at the terminal.
    #[arg(long, value_name = "WHO", conflicts_with_all = ["approve", "yes"])]
    pub(crate) approver: Option<ApproverName>,
    /// Let commands run without any OS sandbox, each one asked of a person.
    #[arg(long)]
    pub(crate) no_os_sandbox: bool,
}

/// `forge init`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge init
  forge init --yes my-project
  forge init --zones data:./data:ro,reports:./reports

On a terminal the proposal is shown and asked about. Nothing is overwritten.")]
pub(crate) struct Init {
    /// The project's directory; the working directory if left out.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// One directory to work in, and no commands.
    #[arg(long, conflicts_with = "zones")]
    pub(crate) minimal: bool,
    /// These directories: NAME:PATH or NAME:PATH:MODE, with ro or rw.
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    pub(crate) zones: Vec<String>,
    /// Write what is proposed, without asking.
    #[arg(long, conflicts_with_all = ["minimal", "zones"])]
    pub(crate) yes: bool,
}

/// `forge log`
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    pub(crate) action: LogAction,
}

/// What to do with the runs that are kept.
#[derive(Debug, Subcommand)]
pub(crate) enum LogAction {
    /// The runs, the newest first, and what they came to.
    #[command(after_long_help = "\
Examples:
  forge log list
  forge log list --worker main --since 2h")]
    List {
        /// Runs of this worker (`mcp` and `tools-call` for those commands).
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
        /// Runs that began since then: 2h, 3d, 2026-11-21, 2026-11-21T18:40:05Z.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
    },
    /// Every call of a run with its reasons.
    #[command(after_long_help = "\
Examples:
  forge log show last
  forge log show main_1795 --denied
  forge log show last --follow

RUN is the beginning of a name or of an id of `forge log list`, or `last`. Whatever a
model wrote is shown with its control characters escaped. With --follow and --json each
call is an object on a line of its own.")]
    Show {
        /// The run.
        #[arg(value_name = "RUN", default_value = "last")]
        run: String,
        #[command(flatten)]
        selection: Selection,
        /// Go on for as long as the run does.
        #[arg(short, long)]
        follow: bool,
    },
    /// Whether the logs are what was written; exit code 1 if one is not.
    #[command(after_long_help = "\
Examples:
  forge log verify
  forge log verify last --json

A log is whole if every line holds the hash of the one before it, up to the seal. The
hash of the seal (`head`) changes with any byte: kept elsewhere, it shows also that a
whole log was written anew.")]
    Verify {
        /// The run; all of them if left out.
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
    /// The calls of a run for other programs.
    #[command(after_long_help = "\
Examples:
  forge log export last > calls.csv
  forge log export last --format otel | curl -d @- …

otel is one line a call: a request of OTLP's trace service, in JSON, with one span.")]
    Export {
        /// The run.
        #[arg(value_name = "RUN", default_value = "last")]
        run: String,
        /// The form.
        #[arg(long, value_name = "FORMAT", default_value = "csv")]
        format: LogFormat,
        #[command(flatten)]
        selection: Selection,
    },
}

/// Which calls of a log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which calls")]
pub(crate) struct Selection {
    /// Those that a rule, a person, or nobody's being there stopped.
    #[arg(long)]
    pub(crate) denied: bool,
    /// Those since then: 2h, 3d, 2026-11-21, 2026-11-21T18:40:05Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Those of this tool.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Those of this worker.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
}

/// The forms of `forge log export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A table with a head, one row a call.
    Csv,
    /// Spans of OpenTelemetry, one line a call.
    Otel,
}

/// `forge mcp`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  forge mcp
  forge -C ~/project mcp --worker reader
  forge mcp --http 127.0.0.1:8123
  forge mcp --http unix:/run/user/1000/forge.sock
  forge mcp install codex

A project file that does not validate still starts the server; every call then
answers with the mistake."
)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) action: Option<McpAction>,
    /// Serve what this worker holds instead of what the entry worker holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Who answers, where the client cannot ask its user.
    #[arg(long, value_name = "WHO")]
    pub(crate) approver: Option<ApproverName>,
    /// Serve over HTTP: on an address of this machine, to whoever has the token, or on a
    /// Unix socket (unix:PATH), to this user.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<Place>,
}

/// What to do beside serving.
#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Print, or with --write put into its settings, what a client needs to start this server.
    Install(Install),
}

/// `forge mcp install`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge mcp install claude
  forge mcp install codex --write
  forge mcp install zed --worker reader --name forge-reader --write

The server is started for the project of this directory, from wherever the client runs it;
-C, --config, -c and --sandbox-root are kept. With --write the settings are replaced as a
whole, everything else in them stays as it was, and the difference is printed. Settings that
do not parse, and links, are left alone.")]
pub(crate) struct Install {
    /// The client.
    #[arg(value_name = "CLIENT")]
    pub(crate) client: Client,
    /// Put it into the client's settings.
    #[arg(long)]
    pub(crate) write: bool,
    /// Whose settings; which is usual differs by client.
    #[arg(long, value_name = "SCOPE", conflicts_with = "file")]
    pub(crate) scope: Option<Scope>,
    /// These settings instead of where the client keeps them by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What the client calls the server.
    #[arg(long, value_name = "NAME", default_value = "forge")]
    pub(crate) name: String,
    /// Put it in the place of another server of that name.
    #[arg(long, requires = "write")]
    pub(crate) replace: bool,
    /// Serve what this worker holds instead of what the entry worker holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Who answers, where the client cannot ask its user.
    #[arg(long, value_name = "WHO")]
    pub(crate) approver: Option<ApproverName>,
}

/// Who stands in for a terminal.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApproverName {
    /// The program that started us, with prompts of its own.
    Host,
    /// Whoever runs `forge approve` in this project; a call waits for them.
    Queue,
}

/// A kind of file that has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaOf {
    /// One line of an audit log.
    Audit,
    /// golem-forge.config.yaml
    Config,
    /// One line of `forge run --output stream-json`.
    Events,
    /// A playbook, the file behind `scripted:FILE`.
    Playbook,
    /// One line of the transcript of a run.
    Transcript,
    /// The front matter of *.worker files.
    Worker,
}

/// `forge schema`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge schema config > .forge/config.schema.json
  forge schema worker | jq '.properties | keys'

Draft 2020-12. A schema knows keys, types and words; what depends on directories,
other files or trust only `forge check` finds.")]
pub(crate) struct Schema {
    /// Whose schema.
    #[arg(value_name = "FILE")]
    pub(crate) of: SchemaOf,
}

/// `forge tools`
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(subcommand)]
    pub(crate) action: ToolsAction,
}

/// What to do with the tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsAction {
    /// The tools that a worker sees.
    List {
        /// As this worker sees them.
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
    },
    /// Call one, through the same checks and records as a model's call.
    #[command(after_long_help = "\
Examples:
  forge tools call list_files '{\"path\": \"/\"}'
  forge tools call read_file '{\"path\": \"/workspace/a.md\"}' --json")]
    Call {
        /// The tool.
        #[arg(value_name = "NAME")]
        name: String,
        /// Its arguments, as one JSON object.
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
        /// On behalf of this worker.
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
        #[command(flatten)]
        approval: Approval,
    },
}

/// `forge trust`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge trust --show
  forge trust

What is agreed to is bound to exactly the keys and values shown; if one changes, forge
asks again. It is kept in the state directory, outside the project.")]
pub(crate) struct Trust {
    /// Show the keys and change nothing.
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    pub(crate) show: bool,
    /// Take the agreement back.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,
    /// Agree without being asked.
    #[arg(long)]
    pub(crate) yes: bool,
}
