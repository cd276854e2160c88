//! Progress of a call, to a client that asked to hear of it.

use std::time::Duration;

use forge_tools::Progress;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The interval of notices while nothing moves.
const EVERY: Duration = Duration::from_secs(1);

/// Tells how long the call has been running and how much it has given, each second and each
/// 64 KiB, until the other end of `until` is gone. Waits for its last word to be out, since
/// none may come after the answer.
pub(super) async fn report(
    context: &RequestContext<RoleServer>,
    progress: &Progress,
    mut until: oneshot::Receiver<()>,
) {
    let Some(token) = context.meta.get_progress_token() else {
        return;
    };
    let started = Instant::now();
    let mut last_ms = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = progress.stepped() => {}
            _ = &mut until => return,
        }
        let elapsed = started.elapsed();
        // Each number is larger than the last, even if the bytes come fast.
        last_ms = elapsed.as_millis().max(last_ms + 1);
        let message = match progress.bytes() {
            0 => format!("{} s", elapsed.as_secs()),
            bytes => format!("{} s, {} KiB of output", elapsed.as_secs(), bytes / 1024),
        };
        #[expect(clippy::cast_precision_loss, reason = "exact for 285 000 years")]
        let moved =
            ProgressNotificationParam::new(token.clone(), last_ms as f64).with_message(message);
        // The writer notices a client that is gone.
        if context.peer.notify_progress(moved).await.is_err() {
            return;
        }
    }
}
