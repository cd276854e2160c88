//! `${VAR}`, `${VAR:-default}` and a leading `~` in host paths; nothing else is expanded, and
//! `$VAR` is a mistake.
//! Variables first, then `~`.

use std::path::Path;

/// Variables with the person's name, or with a place.
const PLACES: [&str; 5] = ["HOME", "LOGNAME", "PWD", "TMPDIR", "USER"];

/// A host path with its variables replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExpandedPath {
    pub(crate) text: String,
    /// A variable of the environment whose value became a name in the path. Commands see the names of
    /// directories, and the value can be a secret. A variable at the start with an absolute path is
    /// left out: a person is asked about the place that it leads to.
    pub(crate) variable: Option<String>,
}

/// Expands a host path as written in a config file.
pub(crate) fn expand(
    text: &str,
    env: &[(String, String)],
    home: Option<&Path>,
) -> Result<ExpandedPath, String> {
    let mut expanded = variables(text, env)?;
    let rest = match expanded.text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        Some(_) => return Err("`~user` is not expanded; write the path out".into()),
        None => return Ok(expanded),
    };
    let home = home.ok_or("`~` needs a home directory, and none is known")?;
    let home = home.to_str().ok_or("the home directory is not UTF-8")?;
    expanded.text = format!("{home}{rest}");
    Ok(expanded)
}

/// Returns the refusal of a component `$NAME`: a directory of that name is hardly meant.
fn refuse_shell_variable(text: &str) -> Result<(), String> {
    let is_word = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    let mut names = text.split('/').filter_map(|part| part.strip_prefix('$'));
    match names.find(|name| is_word(name)) {
        Some("HOME") => Err("`$HOME` is not expanded; write `~`".into()),
        Some(name) => Err(format!("`${name}` is not expanded; write `${{{name}}}`")),
        None => Ok(()),
    }
}

fn variables(text: &str, env: &[(String, String)]) -> Result<ExpandedPath, String> {
    refuse_shell_variable(text)?;
    let mut out = String::new();
    let mut variable = None;
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let body = &rest[start + 2..];
        let end = body.find('}').ok_or("`${` without `}`")?;
        let (name, default) = match body[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&body[..end], None),
        };
        if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
            return Err(format!("`${{{name}}}` is not a variable's name"));
        }
        // As in sh: `:-` covers a variable that is set to nothing, too.
        let value = env
            .iter()
            .rev()
            .find(|(key, value)| key == name && !(value.is_empty() && default.is_some()))
            .map(|(_, value)| value.as_str());
        let is_place = PLACES.contains(&name) || name.starts_with("XDG_");
        let is_start = |value: &str| out.is_empty() && value.starts_with('/');
        if value.is_some_and(|value| !(is_place || is_start(value))) {
            variable = Some(name.to_owned());
        }
        let Some(value) = value.or(default) else {
            return Err(format!("the variable `{name}` is not set"));
        };
        out.push_str(value);
        rest = &body[end + 1..];
    }
    out.push_str(rest);
    Ok(ExpandedPath {
        text: out,
        variable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_then_tilde() {
        let env = [
            ("A".to_owned(), "/a".to_owned()),
            ("EMPTY".to_owned(), String::new()),
            ("TILDE".to_owned(), "~/t".to_owned()),
        ];
        let home = Some(Path::new("/home/u"));
        for (text, expected) in [
            ("${A}/x", Ok("/a/x")),
            ("${B:-~/.b}/x", Ok("/home/u/.b/x")),
            ("${EMPTY:-d}", Ok("d")),
            ("${TILDE}", Ok("/home/u/t")),
            ("~", Ok("/home/u")),
            ("x/~", Ok("x/~")),
            ("x$A", Ok("x$A")),
            ("$RECYCLE.BIN", Ok("$RECYCLE.BIN")),
            ("${NONE:-$A}", Ok("$A")),
            ("$A", Err("`$A` is not expanded; write `${A}`")),
            ("./x/$A/y", Err("`$A` is not expanded; write `${A}`")),
            ("$HOME/x", Err("`$HOME` is not expanded; write `~`")),
            ("${B}", Err("the variable `B` is not set")),
            ("${A", Err("`${` without `}`")),
            ("${}", Err("`${}` is not a variable's name")),
            (
                "~root/x",
                Err("`~user` is not expanded; write the path out"),
            ),
        ] {
            let got = expand(text, &env, home);
            let got = got.map(|expanded| expanded.text);
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
        }
        assert!(expand("~/x", &env, None).is_err());
    }

    #[test]
    fn a_value_that_becomes_a_name_is_noted() {
        let set = ["SECRET=s3", "DATA=/data", "XDG_CACHE_HOME=c", "USER=u"];
        let env = set.map(|text| text.split_once('=').unwrap());
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (text, expected) in [
            ("x${SECRET}", Some("SECRET")),
            ("./out/${SECRET}", Some("SECRET")),
            ("${SECRET}", Some("SECRET")),
            ("${SECRET:-d}", Some("SECRET")),
            ("${DATA}/${SECRET}", Some("SECRET")),
            ("x${DATA}", Some("DATA")),
            ("${DATA}/x", None),
            ("${NONE:-d}/x", None),
            ("${XDG_CACHE_HOME}/${USER}", None),
            ("~/x", None),
        ] {
            let got = expand(text, &env, Some(Path::new("/home/u"))).unwrap();
            assert_eq!(got.variable.as_deref(), expected, "{text}");
        }
    }
}
