//! A container that is never started: what is in its mounts can be read and written by the archive
//! interface, and nothing of its image runs.

use super::engine::Engine;
use bollard::models::{ContainerCreateBody, HostConfig, Mount};
use bollard::query_parameters::DownloadFromContainerOptionsBuilder;
use futures_util::StreamExt as _;
use os_sandbox::Error;
use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

/// How long an engine may take to make one, or to give out a small file.
const MADE_WITHIN: Duration = Duration::from_secs(60);
/// What is never started.
const NOTHING: &str = "/os-sandbox/nothing";
/// What stands around a small file in an archive.
const MAX_AROUND_BYTES: usize = 64 << 10;
const NOT_FOUND: u16 = 404;

/// One that is there. Dropping it takes it away.
#[derive(Debug)]
pub(super) struct TransferContainer {
    engine: Engine,
    id: String,
}

impl TransferContainer {
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for TransferContainer {
    fn drop(&mut self) {
        // What stays has our name on it, and is removed when we are gone.
        let _next_time = self.engine.remove_container(&self.id);
    }
}

/// Makes one; what the engine says of it, if it does not.
pub(super) fn carrier(
    engine: &Engine,
    image: &str,
    mounts: Vec<Mount>,
    labels: HashMap<String, String>,
) -> Result<Result<TransferContainer, bollard::errors::Error>, Error> {
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(vec![NOTHING.to_owned()]),
        entrypoint: Some(Vec::new()),
        network_disabled: Some(true),
        labels: Some(labels),
        host_config: Some(HostConfig {
            mounts: Some(mounts),
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let client = engine.client().clone();
    let made = engine.answered(MADE_WITHIN, async move {
        client.create_container(None, body).await
    })?;
    Ok(made.map(|made| TransferContainer {
        engine: engine.clone(),
        id: made.id,
    }))
}

/// The first file at a path, if there is one of that size.
pub(super) fn fetch_file(
    engine: &Engine,
    id: &str,
    path: &str,
    bytes: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let (client, id) = (engine.client().clone(), id.to_owned());
    let options = DownloadFromContainerOptionsBuilder::new()
        .path(path)
        .build();
    let fetched = engine.answered(MADE_WITHIN, async move {
        let mut pieces = client.download_from_container(&id, Some(options)).boxed();
        let mut all = Vec::new();
        while let Some(piece) = pieces.next().await {
            all.extend_from_slice(&piece?);
            if all.len() > MAX_AROUND_BYTES {
                break;
            }
        }
        Ok(all)
    })?;
    let archive = match fetched {
        Ok(archive) => archive,
        Err(bollard::errors::Error::DockerResponseServerError {
            status_code: NOT_FOUND,
            ..
        }) => return Ok(None),
        Err(error) => return Err(engine.failed("give out a file", &error)),
    };
    let mut archive = tar::Archive::new(archive.as_slice());
    let Ok(mut entries) = archive.entries() else {
        return Ok(None);
    };
    let Some(Ok(mut entry)) = entries.next() else {
        return Ok(None);
    };
    let mut out = Vec::new();
    let read = (&mut entry).take(bytes).read_to_end(&mut out);
    Ok((read.is_ok() && entry.size() == bytes).then_some(out))
}
