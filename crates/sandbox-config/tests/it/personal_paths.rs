//! Lines of a person's rules that show directories.

use std::path::{Path, PathBuf};

use os_sandbox::Access;
use sandbox_config::{
    ExtraDirs, PersonalRules, Project, ReservedPath, Sources, WithoutDirectories, load,
};

/// A project, a home directory and the person's rules.
struct Setting {
    root: tempfile::TempDir,
}

impl Setting {
    fn new(dirs: &[&str]) -> Setting {
        let root = tempfile::tempdir().unwrap();
        for dir in dirs.iter().chain(&["home", "project", "rules"]) {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        Setting { root }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn load(&self, lines: &str) -> Project {
        let project = self.at("project");
        let file = self.at("rules").join(PersonalRules::file_name(&project));
        let lines = lines.replace('@', &self.at("").display().to_string());
        std::fs::write(file, lines).unwrap();
        let mut sources = Sources::new(project);
        sources.without_directories = WithoutDirectories::WholeDirectory;
        sources.home = Some(self.at("home"));
        sources.personal_rules = Some(self.at("rules"));
        sources.out_of_reach = vec![ReservedPath::new(self.at("state"), "the state", "X")];
        load(&sources).unwrap()
    }

    fn warnings(&self, lines: &str) -> Vec<String> {
        let root = self.at("").display().to_string();
        let project = self.load(lines);
        let warnings = project.warnings().iter();
        warnings
            .map(|one| one.message().replace(&root, "@"))
            .collect()
    }
}

#[test]
fn directories_are_shown_as_the_lines_say() {
    let setting = Setting::new(&["a/inner", "b", "tools"]);
    let lines = "read:@a\nread:@a/inner\nwrite:@a/inner\nread:@b\nwrite:@b/\nprograms:@tools\n";
    let project = setting.load(lines);
    let dirs = ExtraDirs {
        home: None,
        state: project.personal_dirs().to_vec(),
    };
    let shown: Vec<(&Path, bool)> = dirs
        .state
        .iter()
        .map(|dir| (dir.host.as_path(), dir.writable))
        .collect();
    let expected = [
        (&*setting.at("a"), false),
        (&*setting.at("a/inner"), true),
        (&*setting.at("b"), true),
    ];
    assert_eq!(shown, expected);
    let policy = project.ceiling().policy_with_dirs(&dirs).unwrap();
    let policy = policy.at_host_paths().unwrap();
    for (path, access, expected) in [
        ("a/x", Access::READ, true),
        ("a/x", Access::WRITE, false),
        ("a/inner/x", Access::WRITE, true),
        ("b/x", Access::WRITE, true),
        // Names that are protected and hidden anywhere stay so.
        ("b/.env", Access::READ, false),
        ("b/.git/hooks/x", Access::WRITE, false),
        ("b/.bashrc", Access::WRITE, false),
        ("tools/x", Access::EXECUTE, true),
        ("tools/x", Access::WRITE, false),
        ("project/x", Access::WRITE, true),
        ("c", Access::READ, false),
    ] {
        assert_eq!(policy.allows(setting.at(path), access), expected, "{path}");
    }
    // Not a part of what workers hold.
    let of_workers = project.ceiling().policy().unwrap();
    assert!(!of_workers.allows(setting.at("a/x"), Access::READ));
}

#[test]
fn a_line_that_cannot_be_used_has_no_effect() {
    let setting = Setting::new(&["a", "state/runs", ".ssh", "repo/.git/hooks", "project/sub"]);
    std::os::unix::fs::symlink(setting.at("a"), setting.at("link")).unwrap();
    std::fs::write(setting.at("file"), "").unwrap();
    for (line, why) in [
        ("read:@link", "it leads through a link to @a"),
        (
            "read:@gone",
            "it cannot be opened: No such file or directory (os error 2)",
        ),
        ("read:@file", "it is not a directory"),
        ("read:/proc/self", "it leads through a link"),
        ("read:/sys", "it is a directory of the system"),
        ("read:@home", "it holds the home directory"),
        (
            "read:@project/sub",
            "it is in @project, a directory of the project",
        ),
        (
            "read:@state/runs",
            "it is not apart from the state, which no command may reach",
        ),
        ("read:@.ssh", "it lies in a hidden name"),
        ("write:@repo/.git/hooks", "it lies in a protected name"),
    ] {
        let warnings = setting.warnings(line);
        let [warning] = warnings.as_slice() else {
            panic!("{line}: {warnings:?}");
        };
        let expected = format!("`{line}` has no effect: {why}");
        assert!(warning.starts_with(&expected), "{warning}");
        assert_eq!(setting.load(line).personal_dirs(), [], "{line}");
    }
    // It can be read, and git's other names in it can be written.
    assert_eq!(setting.warnings("read:@repo/.git/hooks"), [""; 0]);
    let git = setting.load("write:@repo/.git");
    let protect = &git.personal_dirs()[0].protect;
    assert!(protect.contains(&"/hooks".to_owned()), "{protect:?}");
}

#[test]
fn lines_are_absolute_paths_of_a_bounded_number() {
    for line in [
        "read:a",
        "write:",
        "programs:~/bin",
        "read:/a/../b",
        "read:/a\u{202e}b",
    ] {
        assert!(PersonalRules::parse("x.rules", line).is_err(), "{line}");
    }
    let lines = |count: usize| -> String {
        let lines = (0..count).map(|number| format!("read:/a/{number}\n"));
        lines.collect()
    };
    let rules = PersonalRules::parse("x.rules", &lines(64)).unwrap();
    assert_eq!(rules.iter().next().unwrap().0, "read:/a/0");
    let error = PersonalRules::parse("x.rules", &lines(65))
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.to_string().contains("more than 64 directories"),
        "{error}"
    );
    let none = PersonalRules::parse("x.rules", "").unwrap();
    let text = none.with(Path::new("/p"), &["write:/a/b/".into()]).unwrap();
    assert!(text.ends_with("\nwrite:/a/b\n"), "{text}");
    let rules = PersonalRules::parse("x.rules", &text).unwrap();
    assert!(!rules.without("write:/a/b").unwrap().contains("/a/b"));
}
