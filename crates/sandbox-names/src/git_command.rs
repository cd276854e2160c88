//! The files that a command in git's configuration, or in an agent's settings, may run: git gives the
//! command to a shell, in the top directory of the working tree.

use std::collections::HashSet;

/// The most directories of one command that its words are read from.
const MAX_DIRECTORIES: usize = 8;
/// The most words that the braces of one word stand for.
const MAX_EXPANDED: usize = 64;

/// Returns the paths that the words of a command can be, as a shell reads them: with quotes, after
/// `cd` and `-C`, behind an option or a variable, in braces. A variable or an inner command before a
/// `/` is taken for the top directory. Patterns, and parts of names from variables, are not read.
///
/// ```
/// let paths = sandbox_names::named_paths("bash \"$HOME/.tool/line.sh\"");
/// assert!(paths.contains(&"~/.tool/line.sh".to_owned()));
/// ```
#[must_use]
pub fn named_paths(line: &str) -> Vec<String> {
    let mut found = NamedPaths::default();
    found.command(line);
    found.paths
}

#[derive(Default)]
struct NamedPaths {
    paths: Vec<String>,
    known: HashSet<String>,
    /// The directories in which the command may be by now.
    directories: Vec<String>,
}

impl NamedPaths {
    fn command(&mut self, line: &str) {
        let mut inner = Vec::new();
        let plain = without_quotes(line, &mut inner);
        let words = plain.split(|c: char| c.is_whitespace() || ";|&()<>".contains(c));
        let mut before = "";
        for word in words.filter(|word| !word.is_empty()) {
            for word in expanded(word) {
                self.word(before, &word);
            }
            before = word;
        }
        // A text in quotes may be a path with blanks in it, or the command of an inner shell, whose
        // words are above.
        for text in &inner {
            self.add(text);
        }
    }

    fn word(&mut self, before: &str, word: &str) {
        let attached = word.strip_prefix('-').and_then(|rest| {
            let mut letters = rest.chars();
            letters.next().filter(char::is_ascii_alphanumeric)?;
            Some(letters.as_str())
        });
        self.add(word);
        for part in attached.into_iter().chain(word.split(['=', ':', ',', '@'])) {
            self.add(part.trim_start_matches('-'));
        }
        if before == "-m" {
            let module = word.replace('.', "/");
            self.add(&format!("{module}.py"));
            self.add(&format!("{module}/__main__.py"));
        }
        let directory = match before {
            "cd" | "pushd" | "-C" | "--directory" => Some(word),
            _ => word
                .strip_prefix("-C")
                .or(word.strip_prefix("--directory=")),
        };
        if let Some(directory) = directory.filter(|directory| !directory.is_empty()) {
            let within = self
                .directories
                .iter()
                .map(|above| format!("{above}/{directory}"));
            let within: Vec<String> = within.chain([directory.to_owned()]).collect();
            self.directories.extend(within);
            self.directories.truncate(MAX_DIRECTORIES);
        }
    }

    fn add(&mut self, path: &str) {
        if path.is_empty() {
            return;
        }
        let within = self
            .directories
            .iter()
            .map(|directory| format!("{directory}/{path}"));
        let within: Vec<String> = match path.starts_with(['/', '~', '-']) {
            true => Vec::new(),
            false => within.collect(),
        };
        for path in [path.to_owned()].into_iter().chain(within) {
            if self.known.insert(path.clone()) {
                self.paths.push(path);
            }
        }
    }
}

/// Removes quotes and escapes, and replaces variables and inner commands: by `.` before a `/`, else
/// by a blank. The words of inner commands follow at the end. `inner`: the texts in quotes.
fn without_quotes(line: &str, inner: &mut Vec<String>) -> String {
    let (mut out, mut behind) = (String::new(), String::new());
    let mut quoted: Option<(char, usize)> = None;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        match (c, quoted) {
            ('"' | '\'', None) => quoted = Some((c, out.len())),
            (_, Some((mark, from))) if c == mark => {
                inner.push(out[from..].to_owned());
                quoted = None;
            }
            ('\\', _) => {}
            ('$' | '`', _) => {
                let (replaced, end) = substituted(c, after);
                rest = &after[end..];
                let goes_on = rest.trim_start_matches(['"', '\'']).starts_with('/');
                match (goes_on, replaced) {
                    (true, "HOME" | "{HOME}") => out.push('~'),
                    (true, _) => out.push('.'),
                    (false, _) => out.push(' '),
                }
                behind.push(' ');
                behind.push_str(replaced);
            }
            _ => out.push(c),
        }
    }
    let behind = behind.replace(['"', '\'', '`', '$', '{', '}'], " ");
    out + &behind
}

/// Returns the text that a `$` or a backquote replaces, and where it ends.
fn substituted(mark: char, after: &str) -> (&str, usize) {
    let end = match (mark, after.chars().next()) {
        ('`', _) => after.find('`').map(|end| end + 1),
        (_, Some('(')) => closed(after, '(', ')'),
        (_, Some('{')) => closed(after, '{', '}'),
        _ => after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_'),
    };
    let end = end.unwrap_or(after.len());
    (&after[..end], end)
}

/// Returns the place behind the mark that closes the first one.
fn closed(text: &str, opens: char, closes: char) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == opens) - i32::from(c == closes);
        (depth == 0).then_some(at + c.len_utf8())
    })
}

/// Returns the words that the braces of a word stand for.
fn expanded(word: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut left = vec![word.to_owned()];
    while let Some(word) = left.pop() {
        let braces = word.find('{').zip(word.find('}'));
        match braces.filter(|(start, end)| start < end && word[*start..*end].contains(',')) {
            Some((start, end)) if done.len() + left.len() < MAX_EXPANDED => {
                let parts = word[start + 1..end].split(',');
                left.extend(parts.map(|part| [&word[..start], part, &word[end + 1..]].concat()));
            }
            _ => done.push(word),
        }
    }
    done.reverse();
    done
}

#[cfg(test)]
mod tests {
    use super::named_paths;

    /// Commands that run `sc/f`. `sc/./f` is the same file.
    #[test]
    fn every_spelling_names_the_file() {
        for line in [
            "sc/f",
            "sh sc/f x",
            "\"sc/f\" x",
            "s\"c/\"f",
            "s\\c/f",
            "$PWD/sc/f",
            "\"$PWD\"/sc/f",
            "\"$PWD/sc/f\"",
            "${PWD}/sc/f",
            "\"$(git rev-parse --show-toplevel)/sc/f\"",
            "$(git rev-parse --show-toplevel)/sc/f",
            "`pwd`/sc/f",
            "$(dirname $(git rev-parse --absolute-git-dir))/sc/f",
            "\"`pwd`\"/sc/f",
            "echo $(sc/f)",
            "echo `sc/f`",
            "${X:-sc/f}",
            "ssh -Fsc/f",
            "ssh -F sc/f",
            "make -fsc/f",
            "make -Csc -f f",
            "make -C sc -f f",
            "make --directory=sc -f f",
            "node -rsc/f",
            "node --require=sc/f",
            "sed -fsc/f",
            "vim -Ssc/f",
            "cd sc && ./f",
            "cd s; cd ../sc; sh f",
            "f() { cd sc; . ./f; }; f",
            "f() { . sc/f; }; f",
            "cd \"$(git rev-parse --show-toplevel)/sc\" && ./f",
            "PYTHONPATH=/usr:sc/f x",
            "X=sc/f x",
            "s{c,d}/f",
            "{a,sc}/{x,f}",
            "sh -c 'exec sc/f'",
            "curl --data @sc/f",
            "x>/dev/null;sc/f&",
        ] {
            let paths = named_paths(line);
            let plain = |path: &String| {
                let mut names: Vec<&str> = Vec::new();
                for name in path.split('/') {
                    match name {
                        "." => {}
                        ".." => drop(names.pop()),
                        name => names.push(name),
                    }
                }
                names.join("/")
            };
            assert!(
                paths.iter().any(|path| plain(path) == "sc/f"),
                "{line}: {paths:?}"
            );
        }
        let paths = named_paths("python3 -m sc.f");
        assert!(paths.contains(&"sc/f.py".to_owned()), "{paths:?}");
        let paths = named_paths("'a b/c' x");
        assert!(paths.contains(&"a b/c".to_owned()), "{paths:?}");
    }

    #[test]
    fn no_text_is_too_much() {
        for line in [
            "$",
            "`",
            "${",
            "$(",
            "{,",
            "}{",
            "-",
            "-é",
            "'",
            "\\",
            "cd",
            "$é/x",
            "{a,b}".repeat(30).as_str(),
        ] {
            let paths = named_paths(line);
            assert!(paths.len() <= 512, "{line}: {}", paths.len());
        }
        let deep = "cd a; ".repeat(40) + "x";
        assert!(named_paths(&deep).len() < 100_000);
    }
}
