//! The degree of the reports about one command, and the objects that it touched.

/// The attempts of a command that are reported.
///
/// ```
/// assert_eq!(os_sandbox::ReportLevel::default(), os_sandbox::ReportLevel::Refused);
/// assert!(os_sandbox::ReportLevel::Off < os_sandbox::ReportLevel::Full);
/// ```
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ReportLevel {
    /// None.
    Off,
    /// Refused attempts to change files and to use the network.
    #[default]
    Refused,
    /// Refused reads and executions too, and the objects that the command touched. Every open of a
    /// file takes some microseconds longer.
    Full,
}

/// The objects that a command touched: each once in a list, in the order of the first calls. Paths
/// are those of the policy, without links. Calls on open descriptors are not looked at, nor are
/// calls that ask for attributes only (`stat`, `access`, `readlink`), and what the kernel opens for
/// an execution: interpreters and loaders.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Touched {
    /// Files that were opened for reading, and directories that were listed.
    pub read: Vec<String>,
    /// Files that were opened for writing, and names that were made, changed or removed.
    pub written: Vec<String>,
    /// Programs that were executed.
    pub executed: Vec<String>,
    /// Addresses and local sockets that were connected to.
    pub connected: Vec<String>,
    /// `true` if the bound was reached, and later objects are not listed.
    pub more: bool,
}
