//! Files through directory handles: mounts, modes and limits that no path can talk its way around.
