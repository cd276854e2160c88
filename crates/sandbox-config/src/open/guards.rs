//! Guards are written for what a project declares as a mount. A command that is shown a part of it
//! only (`restrict: /.git`) must meet the same guards, so here they are put as seen from the part:
//! `.git/hooks` becomes `hooks` there, and a part that lies in a guarded name is guarded as a whole.

use crate::grant::mount::Mount;

/// What guards mean inside one mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Guards {
    /// What is held lies in a guarded name, or is one.
    pub(crate) everything: bool,
    /// Guards of which a beginning has been passed on the way to the part, without it.
    pub(crate) inside: Vec<String>,
}

/// Guards of commands count at any depth, which is the stricter reading of a leading `/`.
pub(crate) fn anywhere(pattern: &str) -> String {
    pattern.trim_start_matches('/').to_owned()
}

impl Guards {
    pub(crate) fn on<'p>(mount: &Mount, patterns: impl IntoIterator<Item = &'p String>) -> Guards {
        let way: Vec<&str> = mount.part_names().collect();
        let mut guards = Guards {
            everything: false,
            inside: Vec::new(),
        };
        for pattern in patterns {
            let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
            for start in 0..way.len() {
                let passed = way.len().saturating_sub(start).min(names.len());
                let fits = names
                    .iter()
                    .zip(way.iter().skip(start))
                    .all(|(pattern, name)| fits(pattern, name));
                if !fits {
                    continue;
                }
                match names.get(passed..) {
                    Some([]) | None => guards.everything = true,
                    Some(rest) => guards.inside.push(rest.join("/")),
                }
            }
        }
        guards
    }
}

/// Whether a name fits a pattern with `*` for any text; case does not matter.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_as_the_file_tools_read_them() {
        for (pattern, name, expected) in [
            (".env*", ".env.local", true),
            (".env*", ".envrc", true),
            ("*.pem", "KEY.PEM", true),
            ("*.pem", "pem", false),
            ("a*b*c", "axxbyc", true),
            ("a*b*c", "abxc", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
            (".git", ".GIT", true),
            ("ab*bc", "abc", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
