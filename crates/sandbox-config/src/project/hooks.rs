//! Variables that make a loader, a shell or an interpreter run code of the variable's choosing.
//! os-sandbox never passes them on and refuses a policy that says so; here it is said where it
//! stands.

const PREFIXES: [&str; 11] = [
    "LD_",
    "DYLD_",
    "PYTHON",
    "GIT_",
    "BASH_FUNC_",
    "PERL5",
    "RUBY",
    "GCONV_",
    "MALLOC_",
    "JAVA_TOOL",
    "GLIBC_",
];

const NAMES: [&str; 24] = [
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "IFS",
    "CDPATH",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "PERLLIB",
    "PERL_MB_OPT",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "LUA_INIT",
    "LUA_PATH",
    "LUA_CPATH",
    "R_PROFILE",
    "RUSTC_WRAPPER",
    "EDITOR",
    "VISUAL",
    "PAGER",
];

pub(crate) fn is_hook(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

#[cfg(all(test, feature = "process"))]
mod tests {
    use super::*;

    /// The list stands twice, because this crate can be built without os-sandbox.
    #[test]
    fn what_is_refused_here_is_refused_there() {
        let ordinary = ["CC", "NODE_ENV", "LANG", "CARGO_HOME", "PERL"];
        for name in PREFIXES.iter().chain(&NAMES).chain(&ordinary) {
            let environment = os_sandbox::Environment::clean().pass(*name);
            let policy = os_sandbox::Policy::builder().env(environment).build();
            assert_eq!(policy.is_err(), is_hook(name), "{name}");
        }
    }
}
