//! `forge image build`: collects the content, plans the image to its last byte, and gives it to the
//! engine or writes it into a file.

mod file;
mod report;

use forge_node::PROTOCOL;
use forge_runtime::containers::ProgramBundle;
use forge_runtime::containers::image::{
    BaseArchive, ImageBuild, ImageError, NODE_LABEL, PlannedImage, VERSION_LABEL,
};
use os_sandbox_docker::{Engine, ImageName};

use crate::cli::{BuildArgs, ImageAction, ImageArgs};
use crate::commands::prelude::*;
use crate::setup::engine;

/// The command of a container of the image.
const NODE: [&str; 3] = ["node", "serve", "--stdio"];
/// Largest base, in bytes; no user starts a larger one for a command.
const MAX_BASE_BYTES: u64 = 32 << 30;
/// The file that lists the mappings of this process.
const MAPS: &str = "/proc/self/maps";

pub(crate) fn run(args: &ImageArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let ImageAction::Build(args) = &args.action;
    build(args, ambient)
}

/// The base image by the user's name for it, and its known properties.
struct BaseImage {
    name: ImageName,
    image: os_sandbox_docker::Image,
}

fn build(args: &BuildArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let name = named("--tag", &args.tag)?;
    if name.tagged().is_none() {
        let message =
            format!("--tag: `{name}` says which image it is, and cannot be given to another");
        return Err(CliError::usage(message).hint("write NAME:TAG"));
    }
    let base = args.base.as_deref().map(|base| named("--base", base));
    let base = base.transpose()?;
    let output = args.output_file.as_ref().map(|file| {
        let from = ambient.global.directory.clone().unwrap_or_default();
        from.join(file)
    });
    if let Some(file) = &output {
        file::check(file)?;
    }
    let program = own_program()?;
    // Nothing else needs one.
    let engine = match base.is_some() || (output.is_none() && !args.dry_run) {
        true => Some(engine::reach(ambient)?),
        false => None,
    };
    let below = match (&engine, base) {
        (Some(engine), Some(name)) => Some(found(engine, name)?),
        (_, _) => None,
    };
    let build = ImageBuild::new(program, &NODE)
        .label(VERSION_LABEL, env!("CARGO_PKG_VERSION"))
        .label(NODE_LABEL, &PROTOCOL.to_string());
    if args.dry_run {
        return report::plan(&ambient.global, &build, &name, below.as_ref());
    }
    let build = match (&engine, &below) {
        (Some(engine), Some(below)) => {
            if !ambient.global.quiet && !ambient.global.json {
                let (name, id) = (&below.name, below.image.id());
                stderr::print(format_args!("reading {name} ({id})"));
            }
            let base = read(engine, below)?;
            build.on(base).map_err(|error| failed(&error))?
        }
        (_, _) => build,
    };
    let planned = build.plan(&name).map_err(|error| failed(&error))?;
    match (&output, &engine) {
        (Some(file), _) => file::write(file, &planned)?,
        (None, Some(engine)) => load(engine, &name, &planned)?,
        (None, None) => {}
    }
    let (below, output) = (below.as_ref(), output.as_deref());
    report::built(&ambient.global, &build, &planned, &name, below, output)
}

/// Returns this program with its libraries.
pub(crate) fn own_program() -> Result<ProgramBundle, CliError> {
    let own = std::env::current_exe()
        .map_err(|error| CliError::negative("image", format!("where is forge? {error}")))?;
    // Other systems than Linux have no such file, and their program runs in no container.
    let maps = std::fs::read_to_string(MAPS).unwrap_or_default();
    ProgramBundle::of(&own, &maps).map_err(|error| failed(&error.into()))
}

fn named(flag: &str, text: &str) -> Result<ImageName, CliError> {
    ImageName::parse(text).map_err(|error| {
        let failure = CliError::usage(format!("{flag}: {error}"));
        failure.maybe_hint(error.hint())
    })
}

fn found(engine: &Engine, name: ImageName) -> Result<BaseImage, CliError> {
    match engine
        .image(&name)
        .map_err(|error| engine::failed(&error))?
    {
        Some(image) => Ok(BaseImage { name, image }),
        None => {
            let message = format!("the container engine has no image `{name}`");
            Err(CliError::negative("image.base", message).hint(
                "bring it there first (`docker pull`, `docker load`, `docker import`); forge fetches none",
            ))
        }
    }
}

fn read(engine: &Engine, below: &BaseImage) -> Result<BaseArchive, CliError> {
    let spool = tempfile::tempfile().map_err(|error| spooled(&error.to_string()))?;
    let spool = engine
        .save_image(&below.image, spool, MAX_BASE_BYTES)
        .map_err(|error| match error.kind() {
            os_sandbox::ErrorKind::Io => spooled(&error.to_string()),
            _ => engine::failed(&error),
        })?;
    BaseArchive::read(below.image.id(), spool).map_err(|error| failed(&error))
}

fn spooled(why: &str) -> CliError {
    let message = format!("the base cannot be kept while it is read: {why}");
    CliError::negative("image", message)
        .hint("TMPDIR names the directory for it, which needs room for the whole image")
}

/// Loads the image into the engine, and reads the result back.
fn load(engine: &Engine, name: &ImageName, planned: &PlannedImage<'_>) -> Result<(), CliError> {
    let (reader, writer) = std::io::pipe().map_err(|error| failed(&ImageError::Write(error)))?;
    let (loaded, written) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| planned.write(std::io::BufWriter::new(writer)).map(drop));
        let loaded = engine.load_images(reader);
        (loaded, writing.join())
    });
    match written {
        // An engine that reads no further has said why.
        Ok(Ok(()) | Err(ImageError::Write(_))) => {}
        Ok(Err(error)) => return Err(failed(&error)),
        Err(_) => {
            return Err(CliError::negative("image", "the image was not written"));
        }
    }
    loaded.map_err(|error| engine::failed(&error))?;
    let there = engine.image(name).map_err(|error| engine::failed(&error))?;
    let id = there.map(|image| image.id().to_owned()).unwrap_or_default();
    // By its configuration or by its manifest, as its store is.
    if id == planned.id() || id == planned.manifest() {
        Ok(())
    } else {
        let message =
            format!("the container engine took the image, and `{name}` is another one there");
        Err(CliError::negative("image", message))
    }
}

fn failed(error: &ImageError) -> CliError {
    let code = match error {
        ImageError::Base(_) => "image.base",
        _ => "image",
    };
    let failure = CliError::negative(code, error.to_string());
    match error {
        ImageError::Program(_) => failure.hint(
            "an image is made of a forge for Linux: run `forge image build -o FILE` there, and \
             `docker load -i FILE` here",
        ),
        ImageError::Changed => failure.hint("start again"),
        _ => failure,
    }
}
