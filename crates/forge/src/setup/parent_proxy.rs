//! `--parent-proxy`: named hosts are reached through the proxy that the environment names.

use os_sandbox::{ContactOutcome, Enforcement, Network, ParentProxySetting, Policy};
use sandbox_network::ParentProxy;

use crate::ambient::Ambient;
use crate::exit::CliError;

/// Variables that name a proxy, the first that is set counts. Lower case is the older spelling.
const VARIABLES: [&str; 6] = [
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "http_proxy",
    "HTTP_PROXY",
];

const EXCEPTIONS: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Returns `true` if forge reads a variable of this name.
pub(crate) fn reads(name: &str) -> bool {
    VARIABLES.contains(&name) || EXCEPTIONS.contains(&name)
}

/// Returns a policy whose named hosts are reached through the proxy of the environment.
pub(crate) fn through_parent(policy: Policy, ambient: &Ambient) -> Result<Policy, CliError> {
    if !matches!(policy.network(), Network::Hosts(_)) {
        return Err(error(
            "--parent-proxy has no effect: the command reaches no hosts by name",
            "name them: forge exec --host HOST, or `network.allow`",
        ));
    }
    Ok(policy.with_parent_proxy(from_environment(ambient)?))
}

/// Returns the proxy that the environment names.
pub(crate) fn from_environment(ambient: &Ambient) -> Result<ParentProxySetting, CliError> {
    setting(|name| ambient.var(name))
}

/// Returns the hint for a command that failed to reach a host directly, where the environment names a
/// proxy.
pub(crate) fn hint(done: &Enforcement, policy: &Policy, ambient: &Ambient) -> Option<String> {
    let contacts = done.contacts.iter();
    let mut failed = contacts.filter(|one| one.outcome == ContactOutcome::Failed);
    let is_direct = matches!(policy.network(), Network::Hosts(hosts) if hosts.parent().is_none());
    let mut names = VARIABLES.into_iter();
    let name = names.find(|name| ambient.var(name).is_some())?;
    (is_direct && failed.next().is_some()).then(|| {
        format!("hint: {name} is set; reach hosts through that proxy: forge exec --parent-proxy")
    })
}

fn setting<'v>(var: impl Fn(&str) -> Option<&'v str>) -> Result<ParentProxySetting, CliError> {
    let first = |names: &[&'static str]| {
        let mut names = names.iter();
        names.find_map(|name| Some((*name, var(name)?)))
    };
    let (_, exceptions) = first(&EXCEPTIONS).unwrap_or_default();
    if exceptions.split([',', ' ']).any(|entry| entry == "*") {
        return Err(error(
            "missing parent proxy: NO_PROXY excludes every host",
            "remove `*` from it, or leave --parent-proxy out",
        ));
    }
    let Some((name, url)) = first(&VARIABLES) else {
        return Err(error(
            "missing parent proxy: HTTPS_PROXY, ALL_PROXY and HTTP_PROXY are not set",
            "set one, or leave --parent-proxy out",
        ));
    };
    // No text repeats the URL: a password can be in it.
    let wrong = |name: &str, problem: &sandbox_network::HostError| {
        error(&format!("invalid {name}: {problem}"), problem.help())
    };
    let parent = ParentProxy::from_variables(url, "").map_err(|problem| wrong(name, &problem))?;
    ParentProxy::from_variables(url, exceptions).map_err(|problem| wrong("NO_PROXY", &problem))?;
    Ok(ParentProxySetting::new(parent.address(), url, exceptions))
}

fn error(text: &str, hint: &str) -> CliError {
    CliError::misuse("network.parent_proxy", text).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &'static str)]) -> Result<ParentProxySetting, CliError> {
        setting(|name| {
            let mut variables = variables.iter();
            variables.find_map(|(known, value)| (*known == name).then_some(*value))
        })
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_proxy() {
        for (variables, address) in [
            (&[("HTTP_PROXY", "a.example:1")][..], "a.example:1"),
            (
                &[("HTTP_PROXY", "a.example:1"), ("ALL_PROXY", "b.example:2")],
                "b.example:2",
            ),
            (
                &[
                    ("all_proxy", "b.example:2"),
                    ("HTTPS_PROXY", "http://c.example"),
                ],
                "c.example:80",
            ),
            (
                &[
                    ("HTTPS_PROXY", "c.example:3"),
                    ("https_proxy", "d.example:4"),
                ],
                "d.example:4",
            ),
        ] {
            assert_eq!(read(variables).unwrap().address(), address);
        }
        let both = read(&[("http_proxy", "a.example:1"), ("NO_PROXY", "b.example")]).unwrap();
        assert_eq!(both.exceptions(), "b.example");
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_without_its_password() {
        const USABLE: &str = "http://me:s3cret@a.example:1";
        for variables in [
            &[][..],
            &[("HTTPS_PROXY", "https://me:s3cret@a.example:1")],
            &[("ALL_PROXY", "socks5h://me:s3cret@a.example:1")],
            &[("HTTPS_PROXY", "http://me:s3cret@a b:1")],
            &[("HTTPS_PROXY", USABLE), ("no_proxy", "a..b")],
            &[("HTTPS_PROXY", USABLE), ("NO_PROXY", "x, *")],
        ] {
            let error = format!("{:?}", read(variables).unwrap_err());
            assert!(!error.contains("s3cret"), "{error}");
        }
        let setting = read(&[("HTTPS_PROXY", USABLE)]).unwrap();
        assert!(!format!("{setting:?}").contains("s3cret"));
    }
}
