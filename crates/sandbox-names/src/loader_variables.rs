//! Variables that make a loader, a shell, an interpreter, a build tool or a pager run code of the
//! variable's choosing. No command inherits them, and a project that sets one needs consent.

#[rustfmt::skip]
const PREFIXES: &[&str] = &[
    "LD_", "DYLD_", "PYTHON", "GIT_", "BASH_FUNC_", "PERL5", "RUBY", "GCONV_", "MALLOC_",
    "JAVA_TOOL", "GLIBC_", "LUA_", "PIP_", "UV_", "NPM_CONFIG_", "YARN_", "CARGO_BUILD_", "COR_",
    "CORECLR_", "FZF_", "OPENSSL_",
];

/// Beginnings and ends, for names with a target, a language or a program in the middle.
const AFFIXES: &[(&str, &str)] = &[
    ("CARGO_TARGET_", "_RUNNER"),
    ("CARGO_TARGET_", "_LINKER"),
    ("CARGO_TARGET_", "_RUSTFLAGS"),
    ("CMAKE_", "_LAUNCHER"),
    ("", "_PAGER"),
    ("", "_EDITOR"),
    ("", "_ASKPASS"),
];

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "BASH_ENV", "ENV", "ZDOTDIR", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "CDPATH",
    "PROMPT_COMMAND", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "NODE_OPTIONS",
    "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_REPL_EXTERNAL_MODULE", "PERLLIB", "PERL_MB_OPT",
    "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "MAVEN_OPTS", "GRADLE_OPTS", "ANT_OPTS",
    "SBT_OPTS", "CLASSPATH", "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_SHARED_STORE", "R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "R_ENVIRON_USER", "RUSTC",
    "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOC", "RUSTFLAGS", "RUSTDOCFLAGS",
    "CARGO_ENCODED_RUSTFLAGS", "CARGO_ENCODED_RUSTDOCFLAGS", "GOFLAGS", "GOENV",
    "CMAKE_TOOLCHAIN_FILE", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "PHPRC", "PHP_INI_SCAN_DIR",
    "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS", "LESSOPEN", "LESSCLOSE",
    "MANPAGER", "EDITOR", "VISUAL", "PAGER", "BROWSER", "VIMINIT", "EXINIT", "GVIMINIT",
    "EMACSLOADPATH", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH", "RSYNC_RSH", "CVS_RSH", "SVN_SSH",
    "HGRCPATH", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "GTK_MODULES", "QT_PLUGIN_PATH",
    "GIO_EXTRA_MODULES",
];

/// `true` if a variable of this name makes programs run code. Case does not matter: npm reads its
/// own in any.
///
/// ```
/// use sandbox_names::loader_variables::is_loader_variable;
/// assert!(is_loader_variable("LD_PRELOAD") && is_loader_variable("npm_config_script_shell"));
/// assert!(!is_loader_variable("LANG"));
/// ```
#[must_use]
pub fn is_loader_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let between = |(before, after): &(&str, &str)| {
        name.len() > before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
    };
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || AFFIXES.iter().any(between)
        || NAMES.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_by_beginning_and_end() {
        for (name, expected) in [
            ("MAKEFLAGS", true),
            ("CARGO_BUILD_RUSTC_WRAPPER", true),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", true),
            ("CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER", true),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_HOME", false),
            ("npm_config_script_shell", true),
            ("NPM_CONFIG_SCRIPT_SHELL", true),
            ("Npm_Config_shell", true),
            ("npm_lifecycle_event", false),
            ("PIP_INDEX_URL", true),
            ("DOTNET_STARTUP_HOOKS", true),
            ("DOTNET_CLI_HOME", false),
            ("SSH_ASKPASS", true),
            ("_PAGER", false),
            ("CC", false),
            ("MAKE", false),
            ("LANG", false),
        ] {
            assert_eq!(is_loader_variable(name), expected, "{name}");
        }
    }
}
