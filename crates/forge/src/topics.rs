//! The pages of `forge help TOPIC`. The error codes are a closed list: a debug build refuses any
//! other.

use std::fmt::Write as _;

use crate::exit;

/// The topics, in the order in which they are listed.
pub(crate) const TOPICS: [(&str, &str); 5] = [
    ("exit-codes", "what each exit code means"),
    ("errors", "every error code of --json"),
    ("paths", "what workers see, and where it is on the host"),
    (
        "approvals",
        "what happens unasked, what is asked, what never happens",
    ),
    ("security", "what is enforced, by what, and what is not"),
];

/// The codes of errors that are not in a project or worker file.
const CODES: &str = "\
answer.unfit an answer that does not fit its schema
approve.answered another terminal has answered the request
approve.queue the queue of requests cannot be used
approve.unknown no such request waits, or not any more
approval.blocked a rule blocked a call, and --fail-on blocked was given
approval.denied a person refused a call, and --fail-on denied was given
approval.unanswered a call needed an approval that nobody could give
client.exists a client's settings hold another server of that name
client.file a client's settings cannot be read or written
client.syntax a client's settings do not parse
clean.incomplete some of what is ephemeral could not be removed
clean.refused a directory that must not be emptied
config mistakes in the configuration; the first one's own code is in `error`
config.tool_name two tools of one name
engine no container engine answers, or it would not
exec the command could not be started
git git, or the place of what is staged, failed
git.credentials a repository requires credentials, or rejected them
git.damaged a staged commit that is no longer what it was, or cannot be read
git.limit git took too long, or had too much to carry
git.moved a branch is not where it was when the files were staged
git.not_agreed a push that a person did not agree to, or that cannot be shown whole
git.not_found no such repository or branch, or a staged commit that is gone meanwhile
git.rejected a repository did not take a push
git.unknown no staged commit of that id, or more than one
git.unreachable the server of a repository does not answer
guards.incomplete not everywhere could be looked for protected or hidden names, or required guards were kept in part
image the image could not be built
image.base an image that forge cannot be put upon
image.output the image's file cannot be written
init the first files of a project could not be written
init.exists a file that `forge init` would write is there already
interrupted forge was stopped by a signal
isolation.unavailable required isolation is not available on this host
limit a limit ended the run
log.run no run of that name, or more than one
log.unreadable an audit log cannot be read
mcp the MCP connection failed
man the manual pages could not be written
model.credentials a key is missing, or its provider does not take it
model.incompatible a worker that does not run on this model
model.missing no model is configured
model.no_prices a limit on money, and a model whose prices nobody named
model.out_of_tokens an answer was cut off at its longest
model.playbook the playbook cannot be used
model.refused the model refused
model.rejected the provider does not take the request, or sends no answer
model.unknown a model that this forge cannot run
model.unreachable a provider cannot be reached, also after trying again
mount.unavailable a directory of the project cannot be opened
network.parent_proxy the environment names no proxy that named hosts can be reached through
node another forge asked for what cannot be had here, or is none
policy the mounts make no policy for commands
receipt the receipt could not be written
quarantine the quarantine cannot be read or changed
quarantine.changed a file that was changed since it was moved to the quarantine, so that nothing was moved back
quarantine.occupied a path in which something is again, so that nothing was moved back
quarantine.unknown a path from which nothing was moved to the quarantine
record a run could not be recorded
preset a preset cannot be used or written
preset.home a kept home directory cannot be read or removed
preset.home_in_use a command uses the home directory that is to be removed
preset.home_unknown no home directory is kept for the project
review a review cannot be read or changed
review.changed a path changed in the project since the run started, so that nothing was applied
review.held another forge works on the review, or its run has not ended
review.limit the changes of a run are more than a review can hold
review.unknown no such review, or a path or hunk that its run did not change
run.answered the run ended with an answer: there is nothing to go on with
run.changed the configuration of the run has changed since it started
run.held another program still works on the run
run.transcript the run has no transcript, or one that nothing can go on from
run.attachment a file that the worker does not take
run.failed the run ended without an answer
run.input what the worker is to do cannot be read
run.output the answer's file cannot be written
run.schema a JSON Schema that cannot be used
run.subject neither a directory nor a worker of that name
runtime forge could not start its own machinery
signals forge could not listen for signals
start.link a link of the project leads to the start directory, out of the project
state the state directory cannot be used
stdout the result could not be written
terminal the terminal could not be read
trust.store what was agreed to cannot be believed or read
tool.failed a tool call failed; its own code is in the result
usage arguments that cannot be used
worker.exists a worker file that is there already
worker.not_delegated a worker that may not be called by its caller
worker.not_written the worker file could not be written";

/// Every code with its meaning, sorted.
pub(crate) fn codes() -> Vec<(&'static str, &'static str)> {
    let of_files = sandbox_config::DiagnosticCode::ALL
        .iter()
        .map(|code| (code.as_str(), code.meaning()));
    let own = CODES.lines().filter_map(|line| line.split_once(' '));
    let mut all: Vec<_> = own.chain(of_files).collect();
    all.sort_unstable();
    all
}

/// `true` if `code` is in the closed list.
pub(crate) fn is_code(code: &str) -> bool {
    codes().iter().any(|(known, _)| *known == code)
}

/// One topic's text.
pub(crate) fn text(topic: &str) -> Option<String> {
    Some(match topic {
        "exit-codes" => exit::TABLE.to_owned(),
        "errors" => errors(),
        "paths" => PATHS.to_owned(),
        "approvals" => APPROVALS.to_owned(),
        "security" => SECURITY.to_owned(),
        _ => return None,
    })
}

fn errors() -> String {
    let mut text = "\
With --json, a failure is one line on standard error:
  {\"error\": {\"code\", \"message\", \"file\", \"line\", \"column\", \"help\"}}
Mistakes in configuration files come with `errors`, all of them, beside the first.

Codes:
"
    .to_owned();
    for (code, meaning) in codes() {
        let _ = writeln!(text, "  {code:<24} {meaning}");
    }
    text
}

const PATHS: &str = "\
A worker sees sandbox paths, never those of the host: the mount `data` is /data, for
file tools and, where the sandbox has mounts of its own, for commands too. A project
of one directory (`sandbox.root`) is /.

In the project file, host paths of zones are
  mode: sandboxed   below `sandbox.root` (.sandbox): ephemeral, `forge clean` empties it
                    (another root only with `forge clean --root DIR`)
  mode: direct      below the project, or absolute; `~` and ${VAR} are expanded

A path outside of every mount is refused as outside, and so is a link that leads out.
Names of `sandbox.protect` are never written, names of `sandbox.hide` are shown as
absent, at any depth. `forge explain /data/a.md --write` says what holds and why.";

const APPROVALS: &str = "\
Two questions, and the stricter answer holds:
  the tool   a matching shell rule, else `approval.require_user_permission`, else
             `…_by_risk`, else what the tool itself says, else the default: reading
             and writing go ahead, running and the network are asked
  the mount  `approval: { read, write, delete }` of the zone; zones ask for writing
             and deleting unless they say otherwise

preApproved happens unasked, ask asks a person, blocked never happens, in no mode.
`approval.mode` turns what is left as ask: tool leaves it, auto says yes, deny says no,
manual asks for everything that changes something.

A person is asked on the terminal, and shown everything whole; Enter, an unknown key
and silence (`approval.timeout_s`) are a no. `forge approve` answers from another
terminal: it lists what waits in this project, `forge approve ID` shows one and asks,
`--watch` stays. Requests of processes without a terminal come there while somebody
watches, or with --approver queue, and those of `forge mcp` in any case.

After a yes to a command forge names the rule that would keep it. `forge allow 'npm test *'`
writes it into a file of your own for this project, which workers cannot reach; it turns
an ask about a command into a yes, and lifts no block. `forge allow --list`, `--remove`.

What leaves through git is asked once more, when it does: `forge stage push` shows all of
it on the terminal and takes no yes from anywhere else.

Where nobody can be asked (no terminal, CI, and nobody watches; or --no-input,
FORGE_NO_INPUT) an ask is a refusal, and the exit code is 3. --approve all answers yes
and never lifts a block. --approver host leaves it to the program that started forge.
Workers can only be stricter than the project, and callees than their callers.";

const SECURITY: &str = "\
What a worker may do is a meet: the project, every caller above it, and its own file.
Nothing a worker declares gives it more than its caller holds.

File tools open every name below an open directory, follow no link out of a mount, and
check before they act. Commands run under the kernel: namespaces, or Landlock and
seccomp; on macOS Seatbelt. `forge doctor` says what this host keeps, `forge doctor
--prove` tries to break it, `forge exec --receipt` writes down what was enforced.

Without an OS sandbox `exec` refuses, and commands of workers are asked of a person,
each one. Keys of a project that widen (the network, pre-approved commands, directories
outside) have no effect until `forge trust`.

Suffixes, sizes and approvals bind file tools and not commands: a command that may run
may write whatever its mounts allow.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_and_every_topic_has_a_text() {
        let codes = codes();
        for pair in codes.windows(2) {
            assert_ne!(pair[0].0, pair[1].0);
        }
        assert!(is_code("usage") && is_code("config.syntax") && !is_code("nonsense"));
        for (topic, _) in TOPICS {
            assert!(text(topic).is_some(), "{topic}");
        }
    }
}
