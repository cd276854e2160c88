//! The async face: each call runs on a blocking thread, and only so many at a time.
//!
//! A network or cloud directory can take minutes to answer. Such calls wait on tokio's blocking
//! threads instead of its worker threads, and the bound limits the number of blocking threads in
//! use.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::{Error, ErrorReason, Verb};
use crate::sandbox::FileSandbox;

/// A [`FileSandbox`] for async code (feature `tokio`).
///
/// A dropped call stops waiting, but its operation runs to the end, so a write is still all or
/// nothing.
///
/// ```
/// use file_sandbox::{AsyncFiles, ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = AsyncFiles::new(FileSandbox::new(vec![data])?, 8);
///
/// let path = SandboxPath::parse("/data/a.md")?;
/// let to = path.clone();
/// files.run(move |files| files.write(&to, "hello", Default::default())).await?;
/// let text = files.run(move |files| files.read(&path, Default::default())).await?;
/// assert_eq!(text.content, "hello");
///
/// let outside = SandboxPath::parse("/etc/passwd")?;
/// let denied = files.run(move |files| files.read(&outside, Default::default())).await;
/// assert_eq!(denied.unwrap_err().kind(), ErrorKind::OutsideSandbox);
/// # Ok::<(), file_sandbox::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsyncFiles {
    files: FileSandbox,
    free: Arc<Semaphore>,
}

impl AsyncFiles {
    /// At most `calls` (but at least one) are under way at once; further ones wait their turn.
    #[must_use]
    pub fn new(files: FileSandbox, calls: usize) -> Self {
        let free = Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS)));
        Self { files, free }
    }

    /// The sandbox itself.
    #[must_use]
    pub fn files(&self) -> &FileSandbox {
        &self.files
    }

    /// Runs operations on a thread that may wait. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Those of the operations; `IO` if the runtime is shutting down.
    pub async fn run<T: Send + 'static>(
        &self,
        operations: impl FnOnce(&FileSandbox) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = |source: std::io::Error| {
            let verb = Verb::Access;
            Error::new("/", ErrorReason::Io { verb, source })
        };
        let turn = self.free.clone().acquire_owned().await;
        let turn = turn.map_err(|_| gone(std::io::ErrorKind::Interrupted.into()))?;
        let files = self.files.clone();
        let task = tokio::task::spawn_blocking(move || {
            // The permit belongs to the operation and not to its caller: a dropped call still
            // counts.
            let _turn = turn;
            operations(&files)
        });
        match task.await {
            Ok(answer) => answer,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(gone(std::io::ErrorKind::Interrupted.into())),
            },
        }
    }
}
