//! `fixtures/name-patterns.tsv`, for file tools: the table that every other enforcer is held to.

use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};

fn rows() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    include_str!("../../../../fixtures/name-patterns.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut cells = line.split('\t');
            let mut next = || cells.next().unwrap();
            (next(), next(), next() == "yes")
        })
}

#[test]
fn a_pattern_means_the_same_to_file_tools() {
    for (pattern, path, covers) in rows() {
        let mount = || Mount::memory(SandboxPath::root(), Mode::ReadWrite);
        let at = SandboxPath::parse(&format!("/{path}")).unwrap();

        let protected = FileSandbox::new(vec![mount().protect([pattern]).unwrap()]).unwrap();
        let written = protected.write(&at, "x", Default::default());
        let refused = written.map_err(|error| error.kind()).err();
        assert_eq!(
            refused,
            covers.then_some(ErrorKind::ReadOnly),
            "protect {pattern} {path}"
        );

        let hidden = FileSandbox::new(vec![mount().hide([pattern]).unwrap()]).unwrap();
        let written = hidden.write(&at, "x", Default::default());
        assert_eq!(written.is_err(), covers, "hide {pattern} {path}");
        assert_eq!(
            hidden.read(&at, Default::default()).is_err(),
            covers,
            "hide {pattern} {path}"
        );
    }
}
