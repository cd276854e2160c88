//! Certificate authorities of the person's variables, where commands could change them: forge sends no
//! key to a server that they vouch for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::support::{World, forge_program, ran};

/// The consumers: keys that stay outside by a base URL and by TLS that ends at forge, a model, git.
const CONSUMERS: [(&str, &[&str]); 4] = [
    (
        "base_url",
        &["exec", "--preset", "by-url", "--share", "--", "true"],
    ),
    (
        "terminated TLS",
        &[
            "exec",
            "--preset",
            "by-tls",
            "--share",
            "--terminate-tls",
            "--",
            "true",
        ],
    ),
    ("model", &["run", "--model", "mine:m", "main", "go"]),
    ("git", &["run", "main", "go"]),
];

fn world() -> World {
    let world = World::new(&[
        (
            "forge.yaml",
            "sandbox: { root: . }\nmodel: scripted:play.yaml\n\
             git: { repositories: ['https://127.0.0.1:1/x.git'] }\n",
        ),
        (
            "play.yaml",
            "version: 1\nworkers:\n  main: [{ say: done }]\n",
        ),
        (
            "workers/main.worker",
            "---\nname: main\ngit: { repositories: ['https://127.0.0.1:1/x.git'] }\n---\nGo.\n",
        ),
        ("ca/ca.crt", ""),
    ]);
    let config = world.outside().join("home/.config/forge");
    fs::create_dir_all(config.join("presets")).unwrap();
    let provider = "providers: { mine: { wire: openai-chat, base_url: 'https://127.0.0.1:1', \
                    api_key_env: TEST_API_KEY } }\n";
    fs::write(config.join("config.yaml"), provider).unwrap();
    let by_url = ("by-url", "127.0.0.1:1", "base_url: TEST_BASE_URL, ");
    for (name, server, more) in [by_url, ("by-tls", "b.example", "")] {
        let preset = format!(
            "preset: {name}\nabout: a test\ncommands: [sh]\nhosts: {{ api: [\"a.example:443\"] }}\n\
             env: {{ keys: [TEST_API_KEY] }}\ncredentials:\n  - {{ key: TEST_API_KEY, \
             server: \"https://{server}\", {more}header: x-api-key, placeholder: sk-placeholder }}\n"
        );
        fs::write(config.join(format!("presets/{name}.yaml")), preset).unwrap();
    }
    let own = world.outside().join("own");
    fs::create_dir_all(own.join("dir")).unwrap();
    fs::write(own.join("ca.crt"), "").unwrap();
    fs::create_dir(own.join("linked-dir")).unwrap();
    symlink(world.project().join("ca/ca.crt"), own.join("link.crt")).unwrap();
    symlink(world.project().join("ca"), own.join("through")).unwrap();
    symlink("../link.crt", own.join("linked-dir/0123abcd.0")).unwrap();
    world
}

#[test]
fn no_key_goes_to_a_server_whose_authority_a_command_could_write() {
    let world = world();
    let (project, own) = (world.project(), world.outside().join("own"));
    let places: [(&str, PathBuf, bool); 10] = [
        ("SSL_CERT_FILE", project.join("ca/ca.crt"), false),
        ("SSL_CERT_FILE", "ca/ca.crt".into(), false),
        ("SSL_CERT_FILE", project.join("ca/made-later.crt"), false),
        ("SSL_CERT_FILE", own.join("link.crt"), false),
        ("SSL_CERT_FILE", own.join("through/ca.crt"), false),
        ("SSL_CERT_FILE", own.join("ca.crt"), true),
        ("SSL_CERT_DIR", project.join("ca"), false),
        (
            "SSL_CERT_DIR",
            format!(
                "{}:{}",
                own.join("dir").display(),
                project.join("ca").display()
            )
            .into(),
            false,
        ),
        ("SSL_CERT_DIR", own.join("linked-dir"), false),
        ("SSL_CERT_DIR", own.join("dir"), true),
    ];
    for (consumer, args) in CONSUMERS {
        for (variable, path, is_own) in &places {
            // git gets the file alone.
            if consumer == "git" && *variable == "SSL_CERT_DIR" {
                continue;
            }
            let args = [&["--trust"], args].concat();
            let mut forge = world.command(forge_program(), &args);
            let ran = ran(forge
                .env("TEST_API_KEY", "sk-real-0123456789-of-the-person")
                .env(variable, path)
                .output()
                .unwrap());
            // A file that the command itself would trust is read before.
            let whys = [
                &format!("{variable} vouches for"),
                "made-later.crt: No such file",
            ];
            let is_refused = ran.code != 0 && whys.iter().any(|why| ran.stderr.contains(why));
            let all = format!(
                "{consumer}, {variable}={}: {}\n{}",
                path.display(),
                ran.code,
                ran.stderr
            );
            assert_eq!(is_refused, !is_own, "{all}");
        }
    }
}
