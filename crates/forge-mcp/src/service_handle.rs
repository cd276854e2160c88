//! The present service. A configuration that changes while a client is connected takes effect
//! without a restart, and the client is notified.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::{Service, advertise};

/// A service that may be replaced while it is being served. Clones share the service.
///
/// Calls under way end with the service they began with; later ones get the new one.
///
/// ```
/// use forge_mcp::{ServiceHandle, Service};
/// use forge_tools::Toolbox;
/// let live = ServiceHandle::new(Service::Broken { message: "forge.yaml:3:1: unknown key".into() });
/// // The person corrects the file.
/// live.replace(Toolbox::builder().build().unwrap());
/// ```
#[derive(Clone)]
pub struct ServiceHandle {
    current: Arc<watch::Sender<ServiceState>>,
    changes: bool,
}

/// One state of a [`ServiceHandle`].
#[derive(Clone)]
pub(super) struct ServiceState {
    pub(super) service: Service,
    /// Which policy this is, of all that this process has had.
    pub(super) policy: u64,
    /// Which list of tools this is.
    list: u64,
}

impl ServiceHandle {
    /// Starts with `service`.
    pub fn new(service: impl Into<Service>) -> Self {
        ServiceHandle::with(service.into(), true)
    }

    /// A service that is never replaced, so that clients need not listen for it.
    pub(super) fn fixed(service: Service) -> Self {
        ServiceHandle::with(service, false)
    }

    fn with(service: Service, changes: bool) -> Self {
        let (current, _) = watch::channel(ServiceState {
            service,
            policy: 0,
            list: 0,
        });
        ServiceHandle {
            current: Arc::new(current),
            changes,
        }
    }

    /// Serves `service` from now on. Agreements under the old one are forgotten; the handles of
    /// long results that it gave out stay valid. Clients that asked for it are notified if the list
    /// of tools differs.
    pub fn replace(&self, service: impl Into<Service>) {
        let service = service.into();
        self.current.send_modify(|current| {
            if let (Service::Tools(old), Service::Tools(new)) = (&current.service, &service) {
                new.follow(old);
            }
            let same_list = advertised(&current.service) == advertised(&service);
            *current = ServiceState {
                service,
                policy: current.policy + 1,
                list: current.list + u64::from(!same_list),
            };
        });
    }

    sandbox_names::getters! {
        pub(super) changes: bool = changes;
        pub(super) current: ServiceState = current.borrow().clone();
    }

    pub(super) fn lists(&self) -> ToolListWatch {
        let mut watch = self.current.subscribe();
        let seen = watch.borrow_and_update().list;
        ToolListWatch { watch, seen }
    }
}

/// Tells of each new list of tools.
pub(super) struct ToolListWatch {
    watch: watch::Receiver<ServiceState>,
    seen: u64,
}

impl ToolListWatch {
    /// Waits for the next service; for ever, once it cannot be replaced any more.
    pub(super) async fn next(&mut self) {
        loop {
            let list = self.watch.borrow_and_update().list;
            if list != self.seen {
                self.seen = list;
                return;
            }
            if self.watch.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

fn advertised(service: &Service) -> Value {
    // A list that cannot be serialised cannot be sent either.
    serde_json::to_value(advertise::list(service)).unwrap_or_default()
}
