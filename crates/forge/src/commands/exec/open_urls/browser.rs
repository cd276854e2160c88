//! The person's browser.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};

/// Opens a URL with the first program in `BROWSER` that starts, or else with that of the desktop. No
/// shell reads the URL. `failed` is called later, on another thread, if the program fails.
///
/// `BROWSER` is a list of commands with `:` between them; `%s` in one stands for the URL, which is
/// otherwise its last argument.
/// <https://manpages.debian.org/stable/sensible-utils/sensible-browser.1.en.html>
pub(super) fn open(
    browser: Option<&str>,
    url: &str,
    failed: impl FnOnce(ExitStatus) + Send + 'static,
) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for line in browser.unwrap_or("xdg-open:open").split(':') {
        match command(line, url).map(|mut command| command.spawn()) {
            Some(Ok(mut child)) => {
                std::thread::spawn(move || {
                    if let Ok(status) = child.wait()
                        && !status.success()
                    {
                        failed(status);
                    }
                });
                return Ok(());
            }
            Some(Err(error)) => last = error,
            None => {}
        }
    }
    Err(last)
}

/// Returns one command of the list; `None` for an empty one.
fn command(line: &str, url: &str) -> Option<Command> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next()?);
    let words: Vec<&str> = words.collect();
    command.args(words.iter().map(|word| word.replace("%s", url)));
    if !line.contains("%s") {
        command.arg(url);
    }
    // A group of its own: Ctrl-C is for the command inside.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_list() {
        let url = "https://example.com/?a=%s";
        for (line, words) in [
            ("firefox", Some(vec!["firefox", url])),
            (
                " firefox  --new-tab ",
                Some(vec!["firefox", "--new-tab", url]),
            ),
            ("open %s -a Safari", Some(vec!["open", url, "-a", "Safari"])),
            (
                "w3m -T=%s",
                Some(vec!["w3m", "-T=https://example.com/?a=%s"]),
            ),
            ("", None),
        ] {
            let made = command(line, url).map(|command| {
                let words = [command.get_program()]
                    .into_iter()
                    .chain(command.get_args());
                words
                    .map(|word| word.to_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
            });
            let words = words.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(made, words, "{line}");
        }
    }
}
