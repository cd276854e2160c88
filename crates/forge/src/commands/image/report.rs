//! The texts about an image: before and after it is made.

use std::fmt::Write as _;
use std::path::Path;

use forge_runtime::containers::image::{ImageBuild, LayerContent, LayerEntry, PlannedImage};
use os_sandbox_docker::ImageName;

use super::{BaseImage, failed};
use crate::commands::prelude::*;

/// `--dry-run`: everything but the bytes.
pub(super) fn plan(
    global: &Global,
    build: &ImageBuild,
    name: &ImageName,
    below: Option<&BaseImage>,
) -> Result<ExitKind, CliError> {
    // Its name depends on a base that was not read.
    let planned = match below {
        None => Some(build.plan(name).map_err(|error| failed(&error))?),
        Some(_) => None,
    };
    let entries = build.entries();
    let mut text = String::new();
    let _ = writeln!(text, "image        {name}");
    let _ = writeln!(text, "base         {}", of_base(below));
    let _ = writeln!(
        text,
        "entry point  {}",
        escape(&build.entrypoint().join(" "))
    );
    for (label, value) in build.labels() {
        let _ = writeln!(text, "label        {label}={value}");
    }
    match &planned {
        Some(planned) => {
            let _ = writeln!(text, "id           {}", planned.id());
        }
        None => text.push_str("id           known when the base was read\n"),
    }
    text.push('\n');
    for entry in &entries {
        let _ = writeln!(
            text,
            "{:04o}  /{}{}",
            entry.mode(),
            escape(entry.path()),
            of_content(entry)
        );
    }
    let object = json!({
        "name": name.as_str(),
        "dry_run": true,
        "id": planned.as_ref().map(PlannedImage::id),
        "manifest": planned.as_ref().map(PlannedImage::manifest),
        "base": base_json(below),
        "entrypoint": build.entrypoint(),
        "labels": build.labels(),
        "files": entries.iter().map(entry_json).collect::<Vec<Value>>(),
    });
    print_result(global, &object, text.trim_end())
}

/// Describes the image.
pub(super) fn built(
    global: &Global,
    build: &ImageBuild,
    planned: &PlannedImage<'_>,
    name: &ImageName,
    below: Option<&BaseImage>,
    output: Option<&Path>,
) -> Result<ExitKind, CliError> {
    let place = match output {
        Some(file) => format!("written to {}", escape_path(file)),
        None => "loaded".to_owned(),
    };
    let text = format!(
        "{name} {place}\nid     {}\nbase   {}\nlayer  {} ({} bytes)",
        planned.id(),
        of_base(below),
        planned.layer(),
        planned.layer_bytes(),
    );
    let object = json!({
        "name": name.as_str(),
        "dry_run": false,
        "id": planned.id(),
        "manifest": planned.manifest(),
        "base": base_json(below),
        "entrypoint": build.entrypoint(),
        "labels": build.labels(),
        "layer": {"digest": planned.layer(), "bytes": planned.layer_bytes()},
        "loaded": output.is_none(),
        "output": output.map(|file| file.to_string_lossy()),
    });
    print_result(global, &object, &text)
}

fn of_base(below: Option<&BaseImage>) -> String {
    match below {
        Some(below) => format!("{}, which is {}", below.name, below.image.id()),
        None => "none (scratch)".to_owned(),
    }
}

fn base_json(below: Option<&BaseImage>) -> Value {
    below.map_or(
        Value::Null,
        |below| json!({"name": below.name.as_str(), "id": below.image.id()}),
    )
}

fn of_content(entry: &LayerEntry) -> String {
    match entry.content() {
        LayerContent::Directory => "/".to_owned(),
        LayerContent::Text(text) => format!("  ({} bytes)", text.len()),
        LayerContent::Copied(file) => format!("  from {}", escape_path(file)),
        LayerContent::Link(target) => format!("  -> {}", escape(target)),
    }
}

fn entry_json(entry: &LayerEntry) -> Value {
    let (kind, from) = match entry.content() {
        LayerContent::Directory => ("directory", None),
        LayerContent::Text(_) => ("file", None),
        LayerContent::Copied(file) => ("file", Some(file.to_string_lossy().into_owned())),
        LayerContent::Link(target) => ("link", Some(target.clone())),
    };
    let mode = format!("{:04o}", entry.mode());
    json!({"path": format!("/{}", entry.path()), "mode": mode, "kind": kind, "from": from})
}
