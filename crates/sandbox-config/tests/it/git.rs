//! `git`: which repositories there are, whoever spells them how, who may say so, and what is said
//! of mistakes.

use sandbox_config::{CredentialSource, Mode, Project, Sources, TrustedSettings, load};

use crate::support::{CONFIG, Scratch, codes};

/// As the program that loads takes addresses apart, in small.
fn judge(text: &str) -> Result<String, String> {
    let rest = match text.split_once("://") {
        Some(("file", _)) => return Ok(text.to_owned()),
        Some(("https" | "ssh", rest)) => rest,
        Some(_) => return Err("only file, https and ssh are used".to_owned()),
        None => match text.split_once('/') {
            Some((owner, name)) if !owner.contains(':') => {
                let name = name.trim_end_matches(".git");
                return Ok(format!("https://github.com/{owner}/{name}.git"));
            }
            _ => return Err("write owner/name".to_owned()),
        },
    };
    match rest.contains(' ') {
        true => Err("it holds a space".to_owned()),
        false => Ok(text.to_lowercase()),
    }
}

fn sources(scratch: &Scratch) -> Sources {
    Sources {
        repository_check: Some(judge),
        env: vec![("PLACE".into(), "remotes".into())],
        home: Some(scratch.path().join("home")),
        ..scratch.sources()
    }
}

fn trusted(scratch: &Scratch) -> Project {
    let sources = Sources {
        trust: TrustedSettings::Given,
        ..sources(scratch)
    };
    load(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn rows(scratch: &Scratch, project: &Project) -> Vec<String> {
    let row = |one: &sandbox_config::Repository| {
        let address = scratch.anonymous(one.address());
        format!("{} = {address} {}", one.name(), one.access())
    };
    project.ceiling().repositories().iter().map(row).collect()
}

#[test]
fn addresses_are_taken_from_the_project_on() {
    let scratch = Scratch::with_config(
        "git:\n  repositories:\n    - octo/reports\n    - { repo: 'https://Git.Example.com/x.git', access: ro }\n    - ./remotes/x.git\n    - ${PLACE:-.}/../other.git\n    - ./${PLACE}/y.git\n    - ~/z.git\n    - /srv/w.git\n",
    );
    // A variable makes no address of anything but a path.
    let mistakes = load(&sources(&scratch)).unwrap_err().to_string();
    assert!(
        mistakes.contains("variables stand in paths only"),
        "{mistakes}"
    );
    let text = std::fs::read_to_string(scratch.path().join(CONFIG)).unwrap();
    let text = text.replace("    - ${PLACE:-.}/../other.git\n", "");
    let scratch = scratch.file(CONFIG, text);
    insta::assert_snapshot!(rows(&scratch, &trusted(&scratch)).join("\n"), @r"
    octo/reports = https://github.com/octo/reports.git rw
    https://Git.Example.com/x.git = https://git.example.com/x.git ro
    ./remotes/x.git = file://<project>/remotes/x.git rw
    ./${PLACE}/y.git = file://<project>/remotes/y.git rw
    ~/z.git = file://<project>/home/z.git rw
    /srv/w.git = file:///srv/w.git rw
    ");
}

#[test]
fn all_mistakes_at_once_and_never_a_key() {
    let scratch = Scratch::with_config(
        "\
git:
  author: forge
  trailer: Assisted by forge
  allow_executable_config: yes
  repositories:
    - ext::sh -c id
    - https://me:hunter2@example.com/x.git
    - octo/reports
    - https://github.com/octo/reports.git
    - { repo: octo/style, acces: ro }
    - { access: ro }
    - remotes/x
    - --upload-pack=id
    - 7
  credentials:
    github.com: { token_env: GITHUB_TOKEN }
    'https://a.com': ghp_0123456789
    'https://b.com': { token: ghp_0123456789 }
    'https://c.com': { token_env: ghp-0123456789 }
    'https://d.com': { helper: [./steal] }
    'ssh://git@e.com': { token_env: TOKEN }
    'https://f.com': { agent: true }
",
    )
    .dir("remotes/x.git");
    let sources = Sources {
        trust: TrustedSettings::Given,
        ..sources(&scratch)
    };
    let shown = load(&sources).unwrap_err().to_string();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains("0123456789"), "{shown}");
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| {
            let line = line.trim_start();
            line.starts_with("error") || line.starts_with("-->") || line.starts_with("= help")
        })
        .collect();
    insta::assert_snapshot!(scratch.anonymous(&lines.join("\n")), @r#"
    error[config.bad_value]: `git.author` is not the author of a commit
      --> golem-forge.config.yaml:2:11
       = help: write `"name <address>"`, such as "forge <forge@localhost>"
    error[config.bad_value]: `git.trailer` is not a trailer of a commit
      --> golem-forge.config.yaml:3:12
       = help: write `assisted-by`, `none`, or one line such as "Reviewed-by: me"
    error[config.wrong_type]: `git.allow_executable_config` must be true or false, not a string
      --> golem-forge.config.yaml:4:28
       = help: write `true`
    error[config.bad_value]: `ext::sh -c id` is not the address of a repository: write owner/name
      --> golem-forge.config.yaml:6:7
       = help: write `owner/name` (at GitHub), `https://…`, `ssh://…`, or a path such as `./remotes/x.git`
    error[config.bad_value]: not the address of a repository: it holds credentials
      --> golem-forge.config.yaml:7:7
       = help: write the address without it, and name the variable of a token under `git.credentials`
    error[config.duplicate_key]: `https://github.com/octo/reports.git` is named twice
      --> golem-forge.config.yaml:9:7
       = help: remove one of them: one repository has one access
    error[config.unknown_key]: unknown key `acces`
       --> golem-forge.config.yaml:10:27
        = help: did you mean `access`?
    error[config.missing_key]: missing `git.repositories[5].repo`
       --> golem-forge.config.yaml:11:7
        = help: for example `repo: octo/reports`
    error[config.bad_value]: `--upload-pack=id` is not the address of a repository: it is empty, begins with `-` or holds control characters
       --> golem-forge.config.yaml:13:7
        = help: write `owner/name` (at GitHub), `https://…`, `ssh://…`, or a path such as `./remotes/x.git`
    error[config.wrong_type]: `git.repositories[8]` must be a repository, not a number
       --> golem-forge.config.yaml:14:7
        = help: write `octo/reports`, or `{ repo: octo/reports, access: ro }`
    error[config.bad_value]: `github.com` is not an origin: it begins with `https://` or `ssh://`
       --> golem-forge.config.yaml:16:5
        = help: write `"https://github.com"` or `"ssh://git@example.com"`
    error[config.wrong_type]: `git.credentials.https://a.com` must be a mapping, not a string
       --> golem-forge.config.yaml:17:22
        = help: for example `{ token_env: GITHUB_TOKEN }`
    error[config.foreign_key]: unknown key `token`
       --> golem-forge.config.yaml:18:24
        = help: keys stand in no file of forge's: name the variable that holds it, `credentials: { "https://github.com": { token_env: GITHUB_TOKEN } }`
    error[config.bad_value]: `git.credentials.https://c.com.token_env` is not a variable's name
       --> golem-forge.config.yaml:19:35
        = help: it names the variable that holds the key, such as GITHUB_TOKEN; a key itself stands in no file of forge's
    error[config.foreign_key]: unknown key `helper`
       --> golem-forge.config.yaml:20:24
        = help: a program that prints a key is named in your own file only: a file that came with a repository must not choose what runs
    error[config.no_effect]: `git.credentials.ssh://git@e.com`: ssh takes no tokens
       --> golem-forge.config.yaml:21:26
        = help: write `agent: true`
    error[config.no_effect]: `git.credentials.https://f.com`: an ssh agent is for `ssh://` only
       --> golem-forge.config.yaml:22:24
        = help: name the variable of a token: `token_env:`
    "#);
}

#[test]
fn what_came_with_a_repository_is_asked_about() {
    let config = "\
git:
  allow_executable_config: true
  repositories: [octo/reports, ./remotes/x.git, { repo: ../outside.git, access: ro }, ./way/y.git]
  credentials:
    'https://github.com': { token_env: GITHUB_TOKEN }
";
    let scratch = Scratch::with_config(config).link("/srv", "way");
    let project = load(&sources(&scratch)).unwrap();
    // Ignored: a directory of the project is all that is left.
    assert_eq!(
        rows(&scratch, &project),
        ["./remotes/x.git = file://<project>/remotes/x.git rw"]
    );
    assert!(!project.ceiling().allows_executable_config());
    assert_eq!(project.git().credentials(), []);
    assert_eq!(project.git().untrusted(), ["https://github.com"]);
    let asked: Vec<String> = project
        .privileged_settings()
        .iter()
        .map(|key| scratch.anonymous(&format!("{}: {}", key.key(), key.value())))
        .map(|line| {
            let above = scratch.path().parent().unwrap().display().to_string();
            line.replace(&above, "<above>")
        })
        .collect();
    insta::assert_snapshot!(asked.join("\n"), @r#"
    git.allow_executable_config: true
    git.repositories[octo/reports]: https://github.com/octo/reports.git rw
    git.repositories[../outside.git]: file://<above>/outside.git ro
    git.repositories[./way/y.git]: file:///srv/y.git rw
    git.credentials.https://github.com: the token in GITHUB_TOKEN for https://github.com
    "#);
    // What is ignored is not shown as if it held.
    let shown = project.settings().to_yaml(false);
    let (held, ignored) = shown.split_once("# ").unwrap();
    assert!(!held.contains("octo/reports"), "{shown}");
    assert!(!held.contains("outside.git"), "{shown}");
    assert!(!held.contains("GITHUB_TOKEN"), "{shown}");
    assert!(ignored.contains("octo/reports"), "{shown}");
    // A yes to `ro` is none to `rw`, and one to a variable is none to another.
    let hash = |name: &str| {
        let keys = project.privileged_settings().iter();
        let mut keys = keys.filter(|key| key.key().contains(name));
        keys.next().unwrap().hash().to_owned()
    };
    let trust = TrustedSettings::Store([hash("outside"), hash("github.com")].into());
    let agreed = |text: &str| {
        std::fs::write(scratch.path().join(CONFIG), text).unwrap();
        let sources = Sources {
            trust: trust.clone(),
            ..sources(&scratch)
        };
        let project = load(&sources).unwrap();
        (
            project.ceiling().repositories().len(),
            project.git().credentials().len(),
        )
    };
    assert_eq!(agreed(config), (2, 1));
    assert_eq!(agreed(&config.replace("access: ro", "access: rw")), (1, 1));
    assert_eq!(agreed(&config.replace("GITHUB_TOKEN", "HOME")), (2, 0));
}

/// Said for one run it needs nobody's yes; a worker of the project still has to ask for it.
#[test]
fn flags_and_variables_are_the_persons_own_voice() {
    let scratch = Scratch::with_config("name: p\n").file(
        "workers/main.worker",
        "---\nsandbox: none\ngit: { repositories: [{ repo: 'https://github.com/octo/a', access: ro }] }\n---\nWork.\n",
    );
    let mut sources = sources(&scratch);
    sources
        .overrides
        .push(("git.repositories".into(), "[octo/a]".into()));
    sources.overrides.push((
        "git.credentials.\"https://github.com\".token_env".into(),
        "TOKEN".into(),
    ));
    let project = load(&sources).unwrap();
    assert_eq!(project.ceiling().repositories().len(), 1);
    assert_eq!(
        project.git().credentials()[0].source(),
        &CredentialSource::Variable("TOKEN".into())
    );
    let worker = project.worker("main").unwrap();
    // The same repository in another spelling: this judge keeps `.git` apart from nothing.
    let refused = project.entry_grant(&worker);
    assert!(refused.is_err(), "another address is another repository");
}

#[test]
fn a_worker_gets_what_it_asks_for_and_its_caller_has() {
    let scratch = Scratch::with_config(
        "git: { repositories: [octo/a, { repo: octo/b, access: ro }, ./c.git] }\n",
    )
    .file(
        "workers/main.worker",
        "---\ngit: { repositories: ['https://github.com/octo/a.git', { repo: octo/b, access: ro }] }\nworkers: [less, more, other]\n---\nWork.\n",
    )
    .file(
        "workers/less.worker",
        "---\ngit: { repositories: [{ repo: octo/a, access: ro }] }\n---\nWork.\n",
    )
    .file(
        "workers/more.worker",
        "---\ngit: { repositories: [octo/b] }\n---\nWork.\n",
    )
    .file(
        "workers/other.worker",
        "---\ngit: { repositories: [./c.git] }\n---\nWork.\n",
    )
    .file("workers/none.worker", "---\nsandbox: none\n---\nWork.\n");
    let project = trusted(&scratch);
    let worker = |name: &str| project.worker(name).unwrap();
    let main = project.entry_grant(&worker("main")).unwrap();
    let rows = |grant: &sandbox_config::Grant| -> Vec<String> {
        let row = |one: &sandbox_config::Repository| format!("{} {}", one.name(), one.access());
        grant.repositories().iter().map(row).collect()
    };
    // Called as the project calls it, however it was asked for.
    assert_eq!(rows(&main), ["octo/a rw", "octo/b ro"]);
    let less = main.child(worker("less").declaration()).unwrap();
    assert_eq!(rows(&less), ["octo/a ro"]);
    assert_eq!(less.repositories()[0].access(), Mode::ReadOnly);
    assert!(
        main.excess_over(&less)
            .contains(&"repository octo/a rw → ro".to_owned())
    );
    let none = main.child(worker("none").declaration()).unwrap();
    assert_eq!(rows(&none), Vec::<String>::new());
    // The entry without a declaration has all of it.
    let undeclared = sandbox_config::Declaration::undeclared();
    assert!(main.child(&undeclared).unwrap().repositories().is_empty());
    let refused = main.child(worker("more").declaration()).unwrap_err();
    insta::assert_snapshot!(refused.for_person(), @r#"
    error[worker.exceeds_parent]: Child requests 'rw' on repository 'octo/b' but parent only has 'ro'
      --> workers/more.worker:2:23
       |
     2 | git: { repositories: [octo/b] }
       |                       ^^^^^^
      ::: golem-forge.config.yaml:1:39   'octo/b' is ro here
       = help: without `access` a worker asks for rw: write `{ repo: …, access: ro }`, or make it rw in the project config
    "#);
    insta::assert_snapshot!(refused.for_model(), @"Child requests 'rw' on repository 'octo/b' but parent only has 'ro'");
    let refused = main.child(worker("other").declaration()).unwrap_err();
    insta::assert_snapshot!(refused.for_person(), @r#"
    error[worker.exceeds_parent]: Child requests repository './c.git' but parent doesn't have it
      --> workers/other.worker:2:23
       |
     2 | git: { repositories: [./c.git] }
       |                       ^^^^^^^
       = note: Available repositories: octo/a, octo/b
       = help: list it under `git.repositories` of the project and of every caller
    "#);
    insta::assert_snapshot!(refused.for_model(), @r#"
    Child requests repository './c.git' but parent doesn't have it
    Available: octo/a, octo/b
    "#);
}

#[test]
fn what_the_persons_own_file_says_of_repositories_holds() {
    let scratch = Scratch::with_config(
        "git:\n  author: p <p@p>\n  repositories: [octo/a, { repo: 'https://github.com/octo/b.git' }, octo/c]\n  credentials: { 'https://github.com': { token_env: THEIRS } }\n",
    )
    .file(
        "user.yaml",
        "git:\n  author: me <me@me>\n  trailer: 'Signed-off-by: me'\n  repositories: ['https://github.com/octo/a.git', { repo: octo/b, access: ro }]\n  credentials: { 'https://github.com': { helper: [git-credential-store] } }\n",
    );
    let sources = Sources {
        trust: TrustedSettings::Given,
        user_file: Some(scratch.path().join("user.yaml")),
        ..sources(&scratch)
    };
    let project = load(&sources).unwrap();
    let git = project.git();
    assert_eq!(
        (git.author(), git.trailer()),
        ("p <p@p>", Some("Signed-off-by: me"))
    );
    assert_eq!(
        git.credentials()[0].source(),
        &CredentialSource::Helper(vec!["git-credential-store".into()])
    );
    assert_eq!(
        rows(&scratch, &project),
        [
            "octo/a = https://github.com/octo/a.git rw",
            "https://github.com/octo/b.git = https://github.com/octo/b.git ro",
        ]
    );
    let warned: Vec<&str> = project
        .warnings()
        .iter()
        .map(|one| one.code().as_str())
        .collect();
    // Two repositories, and the server.
    assert_eq!(warned, ["config.above_user_file"; 3]);
    // A flag that asks for more is refused.
    let mut asking = sources.clone();
    asking
        .overrides
        .push(("git.repositories".into(), "[octo/c]".into()));
    let mistakes = load(&asking).unwrap_err();
    assert!(codes(&mistakes).contains(&"config.above_user_file"));
}

#[test]
fn a_repository_that_workers_write_is_warned_of_and_one_of_forge_refused() {
    let scratch = Scratch::with_config(
        "sandbox: { mode: direct, zones: { desk: { path: ./desk }, seen: { path: ./seen, mode: ro } } }\ngit: { repositories: [./desk/x.git, ./seen/y.git, ./z.git] }\n",
    );
    let project = load(&sources(&scratch)).unwrap();
    let warned: Vec<&str> = project
        .warnings()
        .iter()
        .map(sandbox_config::Diagnostic::message)
        .collect();
    assert_eq!(
        warned,
        ["`./desk/x.git` lies in `desk`: who may write there changes it without a push"]
    );
    let mut sources = sources(&scratch);
    let own = scratch.path().join("z.git");
    let reach = sandbox_config::ReservedPath::new(own, "the cache", "here");
    sources.out_of_reach.push(reach);
    let mistakes = load(&sources).unwrap_err();
    assert_eq!(codes(&mistakes)[0], "config.own_directory", "{mistakes}");
}

#[test]
fn a_key_is_handed_to_no_command() {
    let scratch = Scratch::with_config(
        "shell: { default: ask, env: { pass: [LANG, MINE] } }\ngit: { credentials: { 'https://a.com': { token_env: MINE } } }\n",
    );
    let trusting = Sources {
        trust: TrustedSettings::Given,
        ..sources(&scratch)
    };
    let mistakes = load(&trusting).unwrap_err().to_string();
    assert!(
        mistakes.contains("`shell.env.pass` hands `MINE` to commands"),
        "{mistakes}"
    );
    // What you have not agreed to hands nothing to anybody.
    assert!(load(&sources(&scratch)).is_ok());
}
