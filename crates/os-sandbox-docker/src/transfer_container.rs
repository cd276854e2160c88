//! A container that never starts. The archive interface reads and writes the content of its mounts,
//! and no program of its image runs.

use super::container::has_status;
use super::engine::Engine;
use bollard::models::{ContainerCreateBody, HostConfig, Mount};
use bollard::query_parameters::DownloadFromContainerOptionsBuilder;
use futures_util::StreamExt as _;
use os_sandbox::Error;
use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

/// Bound on the time in which an engine makes a container or sends a small file.
const MADE_WITHIN: Duration = Duration::from_secs(60);
/// Program of the container, which never starts.
const NOTHING: &str = "/os-sandbox/nothing";
/// Bound on an archive with one small file, headers and padding included.
const MAX_AROUND_BYTES: usize = 64 << 10;

/// A container that exists and never starts. Dropping it removes the container.
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
        // A container that stays has our labels; the next broker removes it once this process is
        // gone.
        let _next_time = self.engine.remove_container(&self.id);
    }
}

/// Makes a container. The inner error is the engine's answer if it refuses.
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

/// Returns the content of the first file at a path; `None` if the path does not exist or the file
/// has another size.
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
        Err(error) if has_status(&error, &[404]) => return Ok(None),
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
