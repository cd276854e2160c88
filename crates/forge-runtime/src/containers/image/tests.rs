//! Images without an engine: the same twice, whole, and on top of others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use os_sandbox_docker::ImageName;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NODE: [&str; 3] = ["node", "serve", "--stdio"];

/// The smallest file that passes for a static program.
fn program(dir: &Path, more: &[u8]) -> ProgramBundle {
    let mut bytes = b"\x7fELF\x02\x01".to_vec();
    bytes.resize(64, 0);
    bytes[18] = 62;
    bytes[54] = 56;
    bytes.extend(more);
    let file = dir.join("forge");
    std::fs::write(&file, bytes).unwrap();
    ProgramBundle::of(&file, "").unwrap()
}

fn name(text: &str) -> ImageName {
    ImageName::parse(text).unwrap()
}

/// An image's id and its archive.
fn made(build: &ImageBuild) -> (String, Vec<u8>) {
    let name = name("forge-sandbox:1");
    let planned = build.plan(&name).unwrap();
    (planned.id(), planned.write(Vec::new()).unwrap())
}

fn small() -> (String, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    made(&ImageBuild::new(program(dir.path(), b"small"), &NODE))
}

fn kept(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        assert!(found.insert(path, bytes).is_none(), "one name twice");
    }
    found
}

/// What `docker load` and other tools go by, with every digest compared.
fn checked(id: &str, archive: &[u8]) -> (Value, Vec<Vec<u8>>) {
    let files = files(archive);
    let parsed = |path: &str| -> Value { serde_json::from_slice(&files[path]).unwrap() };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let bytes = &files[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(archive::digest(bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes.clone()
    };
    let manifest: Value =
        serde_json::from_slice(&blob(&parsed("index.json")["manifests"][0])).unwrap();
    let config = blob(&manifest["config"]);
    assert_eq!(archive::digest(&config), id);
    let layers: Vec<Vec<u8>> = manifest["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(blob)
        .collect();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let of_docker = &parsed("manifest.json")[0];
    assert_eq!(
        of_docker["Config"],
        format!("blobs/{}", id.replace(':', "/"))
    );
    for (at, layer) in layers.iter().enumerate() {
        let digest = archive::digest(layer);
        assert_eq!(config["rootfs"]["diff_ids"][at], json!(digest));
        assert_eq!(
            of_docker["Layers"][at],
            format!("blobs/{}", digest.replace(':', "/"))
        );
    }
    assert_eq!(parsed("oci-layout")["imageLayoutVersion"], "1.0.0");
    (config, layers)
}

#[test]
fn the_same_forge_is_the_same_image_and_another_is_not() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = made(&ImageBuild::new(program(one.path(), b"x"), &NODE));
    let later = program(other.path(), b"x");
    let old = std::time::SystemTime::UNIX_EPOCH;
    File::open(later.parts()[0].host())
        .unwrap()
        .set_modified(old)
        .unwrap();
    let second = made(&ImageBuild::new(later, &NODE));
    assert_eq!(first.0, second.0);
    assert!(first.1 == second.1, "the archives differ");

    let changed = made(&ImageBuild::new(program(other.path(), b"y"), &NODE));
    assert_ne!(first.0, changed.0);
    let labelled = ImageBuild::new(program(one.path(), b"x"), &NODE).label("a", "b");
    assert_ne!(first.0, made(&labelled).0);
}

#[test]
fn an_archive_holds_what_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let build = ImageBuild::new(program(dir.path(), b""), &NODE).label(VERSION_LABEL, "1.2.3");
    let (id, archive) = made(&build);
    let (config, layers) = checked(&id, &archive);
    assert_eq!(
        config["config"]["Entrypoint"],
        json!(["/.forge/forge", "node", "serve", "--stdio"])
    );
    assert_eq!(config["config"]["Labels"][VERSION_LABEL], "1.2.3");
    assert_eq!(config["architecture"], "amd64");
    let inside = files(&layers[0]);
    let names: Vec<&str> = inside.keys().map(String::as_str).collect();
    let expected = [
        ".forge/",
        ".forge/forge",
        "etc/",
        "etc/group",
        "etc/passwd",
        "tmp/",
        "work/",
    ];
    assert_eq!(names, expected);
}

/// This test is linked dynamically, where tests are.
#[test]
#[cfg(target_os = "linux")]
fn a_program_with_libraries_finds_them() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let program = ProgramBundle::of(&std::env::current_exe().unwrap(), &maps).unwrap();
    let build = ImageBuild::new(program.clone(), &NODE);
    let entries = build.entries();
    let holds = |path: &str| entries.iter().any(|entry| entry.path() == path);
    for part in program.parts() {
        assert!(holds(&format!(".forge/{}", part.name())), "{}", part.name());
    }
    let mut sorted: Vec<&str> = entries.iter().map(LayerEntry::path).collect();
    sorted.dedup();
    assert_eq!(sorted.len(), entries.len());
    for entry in &entries {
        if let Some((above, _)) = entry.path().rsplit_once('/') {
            assert!(holds(above), "{} has no directory above it", entry.path());
        }
        if let LayerContent::Link(target) = entry.content() {
            assert!(holds(target.trim_start_matches('/')), "{target}");
        }
    }
}

#[test]
fn on_a_base_everything_else_stays() {
    let (below, archive) = small();
    let dir = tempfile::tempdir().unwrap();
    let base = || BaseArchive::read(&below, kept(&archive)).unwrap();
    let build = |more: &[u8]| {
        ImageBuild::new(program(dir.path(), more), &["x"])
            .on(base())
            .unwrap()
    };
    let (id, on_top) = made(&build(b"a"));
    let (config, layers) = checked(&id, &on_top);
    assert_eq!(layers.len(), 2);
    assert_eq!(layers[0], checked(&below, &archive).1[0]);
    assert_eq!(files(&layers[1]).len(), 2, "only forge");
    assert_eq!(config["config"]["User"], "1000:1000");
    assert_eq!(config["config"]["WorkingDir"], "/work");
    assert_eq!(
        config["config"]["Entrypoint"],
        json!(["/.forge/forge", "x"])
    );
    assert_eq!(config["config"]["Labels"][BASE_LABEL], json!(below));
    assert_eq!(config["history"].as_array().unwrap().len(), 2);
    assert_eq!(made(&build(b"a")).0, id);
    assert_ne!(made(&build(b"b")).0, id);
    // The same layer twice is in the archive once.
    let twice = ImageBuild::new(program(dir.path(), b"a"), &["y"]);
    let twice = twice
        .on(BaseArchive::read(&id, kept(&on_top)).unwrap())
        .unwrap();
    let (id, archive) = made(&twice);
    assert_eq!(checked(&id, &archive).1.len(), 3);
}

/// Other files, or none.
type Changes<'a> = &'a [(&'a str, Option<&'a [u8]>)];

/// An archive with these files instead, or without them.
fn with(archive: &[u8], changes: Changes<'_>) -> Vec<u8> {
    let mut files = files(archive);
    for (path, bytes) in changes {
        match bytes {
            Some(bytes) => files.insert((*path).to_owned(), bytes.to_vec()),
            None => files.remove(*path),
        };
    }
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, path, bytes.as_slice())
            .unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn a_base_that_is_not_what_it_says_is_refused() {
    let (id, archive) = small();
    let config = format!("blobs/{}", id.replace(':', "/"));
    let layer = archive::digest(&checked(&id, &archive).1[0]);
    let layer = format!("blobs/{}", layer.replace(':', "/"));
    let other_id = format!("sha256:{}", "0".repeat(64));
    let rows: [(&str, Changes<'_>, &str); 9] = [
        (&other_id, &[], "another image"),
        (&id, &[("manifest.json", None)], "is not in its archive"),
        (&id, &[("manifest.json", Some(b"{"))], "no list that parses"),
        (&id, &[("manifest.json", Some(b"[]"))], "lists no image"),
        (
            &id,
            &[("manifest.json", Some(b"[{\"Config\": 1}]"))],
            "no configuration",
        ),
        (
            &id,
            &[(
                "manifest.json",
                Some(b"[{\"Config\": \"../../../etc/passwd\"}]"),
            )],
            "is not in its archive",
        ),
        (&id, &[(&config, None)], "is not in its archive"),
        (&id, &[(&config, Some(b"{}"))], "another image"),
        (
            &id,
            &[(&layer, Some(b"something else"))],
            "not what it says",
        ),
    ];
    for (id, changes, says) in rows {
        let error = BaseArchive::read(id, kept(&with(&archive, changes))).unwrap_err();
        assert!(matches!(error, ImageError::Base(_)), "{error:?}");
        assert!(
            error.to_string().contains(says),
            "{error} instead of {says}"
        );
    }
}

#[test]
fn a_base_for_another_processor_is_refused() {
    let (id, archive) = small();
    let base = BaseArchive::read(&id, kept(&archive)).unwrap();
    let error = base.fits("arm64").unwrap_err().to_string();
    assert!(
        error.contains("linux on amd64") && error.contains("linux on arm64"),
        "{error}"
    );
}

#[test]
fn a_name_with_a_digest_is_given_to_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let build = ImageBuild::new(program(dir.path(), b""), &NODE);
    let error = build
        .plan(&name(&format!("sha256:{}", "0".repeat(64))))
        .unwrap_err();
    assert!(error.to_string().contains("cannot be another"), "{error}");
}

#[test]
fn a_program_that_changes_meanwhile_makes_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let build = ImageBuild::new(program(dir.path(), b"before"), &NODE);
    let name = name("a:1");
    let planned = build.plan(&name).unwrap();
    program(dir.path(), b"after!");
    let error = planned.write(Vec::new()).unwrap_err();
    assert!(matches!(error, ImageError::Changed), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is wrong with an archive: an answer, no panic.
    #[test]
    fn any_archive_has_an_answer(
        cut in 0usize..20_000,
        at in 0usize..12_000,
        byte in any::<u8>(),
    ) {
        let (id, mut archive) = small();
        let at = at % archive.len();
        archive[at] = byte;
        archive.truncate(cut);
        let _ = BaseArchive::read(&id, kept(&archive));
    }
}
