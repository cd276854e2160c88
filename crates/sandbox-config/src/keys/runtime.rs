//! Sections about the runners of calls and the record of runs.

use crate::grant::execution::ExecutionMode;
use crate::syntax::key_table::shape::SECRET;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::{MeetRule, key_table};
use crate::syntax::word::ConfigWord;

key_table! {
    pub(crate) static EXECUTION = "execution", "`execution` has", blank;
    keys {
        /// Where hazardous calls run: `local_only` and `prefer_local` on this host, `prefer_docker`
        /// in a container or, if a person agrees, here; `docker_required` puts every call into a
        /// container.
        mode: ExecutionMode::SHAPE, default("prefer_local"),
            stricter(&["local_only", "prefer_local", "prefer_docker", "docker_required"]);
        /// The runners that may be chosen for hazardous calls.
        runners: NonEmpty(&Words(&["os", "docker"], &[])), default("[os, docker]"),
            user_limit(MeetRule::Only);
    }
    foreign {
        "runner" => "use `runners:`, a list",
    }
    example "\
execution:
  mode: prefer_docker
  runners: [os, docker]
";
}

key_table! {
    pub(crate) static LOG = "log", "`log` has", blank;
    keys {
        /// Another spelling of `runs_dir`.
        dir: Text, last_layer_wins, trust("when it leaves the project");
        /// Whether what models see and say is kept; the audit is kept in any case.
        transcripts: Bool, default("true"), last_layer_wins;
        /// Texts that become placeholders in what models see and in what is kept of a run; of eight
        /// bytes or more.
        redact: List(&Like(&SECRET)), default("[]"), unites;
    }
    example "\
log:
  dir: ./runs
  transcripts: false
  redact: [the name of the customer]
";
}
