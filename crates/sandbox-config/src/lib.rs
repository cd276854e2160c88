//! Project and worker files: mounts, policy, and grants that only narrow.
