//! What the crate does, from outside.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod anything;
mod attenuation;
mod bad_input;
mod bounds;
mod discovery;
mod dumps;
mod execution;
mod facts;
mod fixtures;
mod foreign;
mod fronts;
mod layers;
mod lineage;
mod migration;
mod nested;
mod network;
mod own_dirs;
mod own_sandbox;
mod pages;
mod personal_paths;
mod places;
mod presets;
mod providers;
mod restrict;
mod schemas;
mod settings;
mod support;
mod trust;
mod user_file;
mod worker_keys;
mod workers;

#[cfg(feature = "files")]
mod directories;
#[cfg(all(feature = "files", feature = "process"))]
mod every_front_end;
#[cfg(all(feature = "files", feature = "process"))]
mod git;
mod guard_patterns;
mod guarded_ways;
#[cfg(feature = "process")]
mod parts;
#[cfg(feature = "process")]
mod policies;
mod review;
