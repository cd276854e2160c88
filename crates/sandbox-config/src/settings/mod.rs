//! Readers of the sections that project and worker files share: from a tree to values of a grant.

pub(crate) mod confinement;
pub(crate) mod execution;
pub(crate) mod git;
pub(crate) mod git_leads;
pub(crate) mod network;
pub(crate) mod presets;
pub(crate) mod sections;
