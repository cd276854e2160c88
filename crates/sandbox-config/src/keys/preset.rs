//! Presets: the needs of known programs, for `forge exec --preset`.

use crate::keys::UNPROTECTABLE;
use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{
    BASE_URL, DATE, HEADER, HOST, HTTPS_ORIGIN, KeyPattern, LINE, PLACEHOLDER, PRESET_NAME,
    PROGRAM, VARIABLE, ValueShape,
};
use crate::syntax::word::{ConfigWord, words};

const LINES: ValueShape = List(&Like(&LINE));
const HOSTS: ValueShape = List(&Like(&HOST));
const NAMES: ValueShape = List(&Like(&PRESET_NAME));

words! {
    /// The way in which commands get state of a program that is in the home directory.
    ///
    /// ```
    /// assert_eq!(sandbox_config::StateMode::Share.to_string(), "share");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StateMode {
        /// They read and write it, after the person's yes.
        Share = "share",
        /// They read it, after the person's yes if it has contents of the person's.
        Read = "read",
        /// Their home directory starts with a copy of it, after the person's yes.
        Copy = "copy",
    }
}

words! {
    /// The name of the host or of the user that commands see.
    ///
    /// ```
    /// assert_eq!(sandbox_config::SeenName::Host.to_string(), "host");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SeenName {
        /// A neutral one.
        Sandbox = "sandbox",
        /// The one outside.
        Host = "host",
    }
}

key_table! {
    pub(crate) static PRESET = "preset", "presets have";
    keys {
        /// Name of the preset, which is also the name of its file without `.yaml`.
        preset: Like(&PRESET_NAME), required("");
        /// The program, in one line.
        about: Like(&LINE), required("");
        /// Presets that this one includes.
        extends: NAMES, default("[]");
        /// The version of the program that the preset was tried with.
        verified: Section(&VERIFIED);
        /// Programs that the preset is for. `inner_sandbox` applies to them only. forge never
        /// applies a preset because of a command's name.
        commands: List(&Like(&PROGRAM)), default("[]");
        /// Programs and directories that commands may read and execute: a name, which is looked up in
        /// your `PATH`, or a path that begins with `/` or `~/`. Those that do not exist are left out.
        programs: LINES, default("[]");
        /// Files and directories in your home directory that the program keeps.
        state: List(&Section(&PRESET_STATE)), default("[]");
        /// Hosts by group. `api` and `login` are reachable; the others only with `--host-group`.
        hosts: Section(&PRESET_HOSTS);
        /// Origins whose URLs commands may open in your browser, such as those of a login:
        /// `https://example.com`. Others are refused.
        open_urls: List(&Like(&HTTPS_ORIGIN)), default("[]");
        /// Settings of your tools from which forge takes the hosts of package registries.
        registries: List(&Section(&REGISTRY)), default("[]");
        /// Environment variables.
        env: Section(&PRESET_ENV);
        /// Keys that stay outside where commands have a network of their own: they get a placeholder,
        /// and forge puts the key in its place on the way to one server.
        credentials: List(&Section(&PRESET_CREDENTIAL)), default("[]");
        /// Arguments and variables that turn off the program's own sandbox, which cannot work inside
        /// another one. They are left out if forge confines nothing.
        inner_sandbox: Section(&INNER_SANDBOX);
        /// Names that commands see as outside, because the program encrypts or keys files by them.
        identity: Section(&PRESET_IDENTITY);
        /// Names that are added to `sandbox.protect`.
        protect: LINES, default("[]");
        /// Names that are added to `sandbox.unprotect`.
        unprotect: List(&Words(&UNPROTECTABLE, &[])), default("[]");
        /// Facts that the person should know, one line each.
        notes: LINES, default("[]");
    }
    foreign {
        "name" => "did you mean `preset:`?",
        "network" | "allow" => "use `hosts:`",
        "mounts" | "paths" => "use `state:`",
    }
}

key_table! {
    pub(crate) static VERIFIED = "verified", "`verified` has";
    keys {
        /// Name of the program.
        tool: Like(&LINE), required("");
        /// Its version.
        version: Like(&LINE), required("");
        /// Day of the trial.
        date: Like(&DATE), required("");
        /// The extent of the trial.
        how: Like(&LINE);
    }
}

key_table! {
    pub(crate) static PRESET_STATE = "preset_state", "entries of `state` have";
    keys {
        /// File or directory of your home directory: `~/…`.
        path: Like(&LINE), required("");
        /// `share`: commands read and write it, after your yes. `read`: they read it, after your yes if
        /// it `holds` something. `copy`: after your yes, the home directory of the commands starts
        /// with a copy of the file.
        mode: StateMode::SHAPE, required("");
        /// Contents that the question names: `tokens`, `history`, `settings`, `hooks`.
        holds: List(&Words(&HOLDS, &[])), default("[]");
        /// With `share`: names in it that commands do not change, because your own programs execute or
        /// obey them.
        protect: LINES, default("[]");
    }
}

/// The contents of state.
pub(crate) const HOLDS: [&str; 4] = ["tokens", "history", "settings", "hooks"];

key_table! {
    pub(crate) static PRESET_HOSTS = "preset_hosts", "`hosts` has";
    keys {
        /// Hosts that the program works with.
        api: HOSTS, default("[]");
        /// Hosts of a login.
        login: HOSTS, default("[]");
        /// Hosts from which the program updates itself.
        update: HOSTS, default("[]");
        /// Hosts that the program reports its use to.
        telemetry: HOSTS, default("[]");
    }
}

key_table! {
    pub(crate) static REGISTRY = "registry", "entries of `registries` have";
    keys {
        /// Environment variable that contains the address. Commands get it with the address that
        /// is found, without a user name and a password.
        env: Like(&VARIABLE);
        /// Files with the setting, which are read in this order: `~/…`, or relative to the project.
        files: LINES, default("[]");
        /// Names of the setting in the files. `*` matches any text.
        keys: LINES, default("[]");
        /// Environment variable with the path of a file: commands get a copy of the first of your own
        /// files that is there, with the settings of `keys` and `keep` alone, without user names and
        /// passwords.
        copy: Like(&VARIABLE);
        /// Names of further settings that the copy has. `*` matches any text.
        keep: LINES, default("[]");
    }
}

key_table! {
    pub(crate) static PRESET_ENV = "preset_env", "`env` has";
    keys {
        /// Variables of yours that contain keys: commands get them after your yes.
        keys: List(&Like(&VARIABLE)), default("[]");
        /// Variables of yours that commands get.
        pass: List(&Like(&VARIABLE)), default("[]");
        /// Variables with a value.
        set: Map(KeyPattern::Like(&VARIABLE), &Text), default("{}");
    }
}

key_table! {
    pub(crate) static PRESET_CREDENTIAL = "preset_credential", "entries of `credentials` have";
    keys {
        /// Variable of `env.keys` with the key. Commands get the placeholder in it.
        key: Like(&VARIABLE), required("");
        /// Base URL of the server that the key is for: `https://…`, or `http://` on the loopback.
        /// Your own value of `base_url` replaces it.
        server: Like(&BASE_URL), required("");
        /// Variable in which the program reads the base URL of the server. Without it the program speaks
        /// TLS to the server's own name, which has to be one, and the key stays outside with
        /// `--terminate-tls` alone.
        base_url: Like(&VARIABLE);
        /// Header with the key. In `authorization` it follows `Bearer` or `token`, or is the password of
        /// `Basic`.
        header: Like(&HEADER), required("");
        /// Text in place of the key. It looks like a key of this kind, and is not one.
        placeholder: Like(&PLACEHOLDER), required("");
        /// Arguments for a program of `commands` that does not read the variable. They are put before
        /// those of the command line, with the base URL in place of `{base_url}`, which they need.
        args: List(&Text), default("[]");
    }
}

key_table! {
    pub(crate) static PRESET_IDENTITY = "preset_identity", "`identity` has";
    keys {
        /// Name of the host: with `host` that of this machine. Landlock alone always shows that.
        hostname: SeenName::SHAPE, default("sandbox");
        /// Name of the user, in `/etc/passwd`, `USER` and `LOGNAME`: with `host` yours. Landlock alone
        /// always shows that of `/etc/passwd`.
        user: SeenName::SHAPE, default("sandbox");
    }
}

key_table! {
    pub(crate) static INNER_SANDBOX = "inner_sandbox", "`inner_sandbox` has";
    keys {
        /// Arguments that are put before those of the command line.
        args: List(&Text), default("[]");
        /// Variables with a value.
        env: Map(KeyPattern::Like(&VARIABLE), &Text), default("{}");
    }
}
