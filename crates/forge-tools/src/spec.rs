//! The description of a tool for models, gates and MCP clients.
//!
//! Nothing here is optional, so a tool that says nothing about its risk does not
//! compile.

use serde::Serialize;
use serde_json::{Value, json};

use crate::output::{Field, OutputSchema};
use crate::params::{Params, ToolArguments};

sandbox_names::word_enum! {
    /// The worst that a tool can do.
    ///
    /// ```
    /// use forge_tools::Risk;
    /// assert_eq!(Risk::Exec.as_str(), "exec");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Risk {
        /// Reads files that the worker may read.
        ReadOnly = "read_only",
        /// Changes files that the worker may write.
        WritesWorkspace = "writes_workspace",
        /// Changes files outside the workspace, in places that were granted.
        WritesFs = "writes_fs",
        /// Talks to other machines.
        Network = "network",
        /// Runs programs.
        Exec = "exec",
    }
    /// The word used in configuration and records.
    pub fn as_str
}

impl Risk {
    /// Every level, mildest first.
    pub const ALL: [Risk; 5] = [
        Risk::ReadOnly,
        Risk::WritesWorkspace,
        Risk::WritesFs,
        Risk::Network,
        Risk::Exec,
    ];

    /// `true` if a call goes ahead without any rule about it.
    pub fn is_safe_by_default(self) -> bool {
        match self {
            Risk::ReadOnly | Risk::WritesWorkspace => true,
            Risk::WritesFs | Risk::Network | Risk::Exec => false,
        }
    }
}

sandbox_names::display!(Risk = as_str());

sandbox_names::word_enum! {
    /// Where a tool would rather be executed.
    ///
    /// ```
    /// assert_eq!(forge_tools::PreferredRunner::Local.as_str(), "local");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PreferredRunner {
        /// In this process, or in a confined child of it.
        Local = "local",
        /// In a container.
        Docker = "docker",
    }
    /// The word used in configuration and records.
    pub fn as_str
}

/// The four hints of the Model Context Protocol, all of them always stated (the
/// protocol's defaults assume the worst of a tool that is silent).
///
/// ```
/// let read = forge_tools::Annotations::READ;
/// assert!(read.read_only && !read.open_world);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Changes nothing.
    #[serde(rename = "readOnlyHint")]
    pub read_only: bool,
    /// May destroy existing content.
    #[serde(rename = "destructiveHint")]
    pub destructive: bool,
    /// Repeating a call has no further effect.
    #[serde(rename = "idempotentHint")]
    pub idempotent: bool,
    /// Reaches beyond the worker's mounts.
    #[serde(rename = "openWorldHint")]
    pub open_world: bool,
}

impl Annotations {
    /// A tool that only looks.
    pub const READ: Annotations = Annotations {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
    };
    /// A tool that may overwrite, with an equal outcome when repeated.
    pub const OVERWRITE: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: true,
        open_world: false,
    };
    /// A tool that may do anything its sandbox permits.
    pub const RUN: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: false,
    };
}

/// A tool's self-description.
///
/// ```
/// use forge_tools::{Risk, Spec};
/// assert_eq!(Spec::looks("ping", "Answers pong.").risk, Risk::ReadOnly);
/// ```
#[derive(Debug, Clone)]
pub struct Spec {
    /// snake_case, `[a-z_]{1,64}`.
    pub name: String,
    /// Other spellings that models use; accepted, never advertised.
    pub aliases: &'static [&'static str],
    /// For the model; names no mount.
    pub description: String,
    /// The arguments.
    pub params: Params,
    /// The structured result; `None` if the text is everything.
    pub output: Option<OutputSchema>,
    /// The worst it can do.
    pub risk: Risk,
    /// Where it would rather run.
    pub preferred_runner: PreferredRunner,
    /// `true` if it is useless without a network.
    pub needs_network: bool,
    /// The tool's own default for "a person has to agree", used where neither a
    /// per-tool nor a per-risk setting speaks.
    pub requires_permission: bool,
    /// Hints for MCP clients.
    pub annotations: Annotations,
}

impl Spec {
    /// A tool that only looks at files.
    pub fn looks(name: &str, description: &str) -> Self {
        Spec {
            name: name.to_owned(),
            aliases: &[],
            description: description.to_owned(),
            params: Params::default(),
            output: None,
            risk: Risk::ReadOnly,
            preferred_runner: PreferredRunner::Local,
            needs_network: false,
            requires_permission: false,
            annotations: Annotations::READ,
        }
    }

    /// A tool that changes files of the workspace, and may destroy existing content.
    pub fn changes(name: &str, description: &str) -> Self {
        Spec {
            risk: Risk::WritesWorkspace,
            annotations: Annotations::OVERWRITE,
            ..Spec::looks(name, description)
        }
    }

    sandbox_names::setters! {
        /// With a structured result of these fields.
        output(fields: impl IntoIterator<Item = Field>) = Some(OutputSchema::new(fields));
        /// With other spellings.
        aliases(aliases: &'static [&'static str]) = aliases;
    }

    /// With the parameters that the fields of `A` are.
    pub fn arguments<A: ToolArguments>(mut self) -> Self {
        self.params = A::params();
        self
    }

    /// Marks a tool that keeps existing content.
    pub fn adds_only(mut self) -> Self {
        self.annotations.destructive = false;
        self
    }

    /// Marks a tool whose repetition has a further effect.
    pub fn not_idempotent(mut self) -> Self {
        self.annotations.idempotent = false;
        self
    }

    /// Returns `true` if `name` means this tool, in either spelling.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// The description as one JSON object, as `forge tools list --json` prints it.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "input_schema": self.params.to_json_schema(),
            "output_schema": self.output.as_ref().map(OutputSchema::to_json_schema),
            "risk_level": self.risk,
            "preferred_runner": self.preferred_runner,
            "needs_network": self.needs_network,
            "requires_permission": self.requires_permission,
            "annotations": self.annotations,
        })
    }
}
