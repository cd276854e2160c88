//! The hash of an open file.

use crate::backend::{AnyFile, BackendError, BackendFile as _};
use crate::cancellation::CancellationToken;
use crate::hash::{ContentHash, ContentHasher};

/// Bytes per read.
const CHUNK_BYTES: usize = 64 * 1024;

/// Of as many bytes as the file had when it was opened.
pub(crate) async fn hash_of(
    file: &AnyFile,
    size: u64,
    cancel: &CancellationToken,
) -> Result<ContentHash, BackendError> {
    let mut hasher = ContentHasher::new();
    let room = usize::try_from(size).unwrap_or(CHUNK_BYTES);
    let mut buffer = vec![0; room.clamp(1, CHUNK_BYTES)];
    let mut offset = 0;
    while offset < size {
        if cancel.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        let got = file.read_at(&mut buffer, offset).await?;
        if got == 0 {
            break;
        }
        hasher.take(&buffer[..got]);
        offset += got as u64;
    }
    Ok(hasher.finish())
}
