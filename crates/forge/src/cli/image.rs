//! Options for images of containers.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) action: ImageAction,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageAction {
    /// Make an image that holds this forge, and give it to the container engine.
    Build(BuildArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/image_build.txt"))]
pub(crate) struct BuildArgs {
    /// What the image is called.
    #[arg(long, value_name = "NAME", default_value = "forge-sandbox:1")]
    pub(crate) tag: String,
    /// Put forge on top of this image of the engine, by name or by digest.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) base: Option<String>,
    /// Write an archive for `docker load` and tools for OCI layouts, and load nothing.
    #[arg(
        short,
        long = "output-file",
        value_name = "FILE",
        conflicts_with = "dry_run"
    )]
    pub(crate) output_file: Option<PathBuf>,
    /// Print what would be built.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
