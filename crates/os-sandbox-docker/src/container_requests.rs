//! Settings that all requests for containers have, and text in the form that engines take.

use bollard::models::{HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig};
use os_sandbox::{Error, ErrorKind};
use std::ffi::OsStr;

/// Returns the text as UTF-8, because requests to an engine are JSON, which has no other text.
pub(super) fn text(text: &OsStr, what: &str) -> Result<String, Error> {
    text.to_str().map(str::to_owned).ok_or_else(|| {
        ErrorKind::Invalid.error(format!(
            "{what} is not UTF-8, which containers need: {text:?}"
        ))
    })
}

/// Returns what every started container has in common: no capabilities, namespaces of its own, and
/// nothing that stays behind it.
pub(super) fn separate_host_config() -> HostConfig {
    HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        privileged: Some(false),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // The engine removes the container even if the broker is gone.
        auto_remove: Some(true),
        // The broker reads the output as it arrives; the engine stores no copy.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        ..HostConfig::default()
    }
}

/// Switches off the check that an image may have.
pub(super) fn no_health_check() -> Option<HealthConfig> {
    Some(HealthConfig {
        test: Some(vec!["NONE".to_owned()]),
        ..HealthConfig::default()
    })
}
