//! Settings of a person's tools in commands with a preset: those that make installs safer or lead them
//! to the right place are there, and no credential is.

use std::fs;
use std::time::{Duration, Instant};

use super::exec::mechanisms;
use crate::support::{Ran, World, forge_program, ran};

/// A preset, a file of the person with its text, what a command prints, and what is in that.
const ROWS: [(&str, &str, &str, &str, &[&str]); 7] = [
    (
        "node",
        ".npmrc",
        "registry=https://me:secret@npm.example.com/\n//npm.example.com/:_authToken=secret\n\
         ignore-scripts=true\n@own:registry=https://own.example.com/\n_password=secret\n",
        "cat $npm_config_globalconfig; echo $npm_config_registry $YARN_REGISTRY",
        &[
            "ignore-scripts=true",
            "@own:registry=https://own.example.com/",
            "https://npm.example.com/ https://npm.example.com/",
        ],
    ),
    (
        "node",
        ".npmrc",
        "ignore-scripts = true\nprefix=HOME/.npm-global\n",
        "cat $npm_config_globalconfig",
        &["ignore-scripts = true", "prefix=~/.npm-global"],
    ),
    (
        "node",
        ".yarnrc",
        "registry \"https://me:secret@yarn.example.com/\"\n",
        "echo $YARN_REGISTRY",
        &["https://yarn.example.com/"],
    ),
    (
        "python",
        ".config/pip/pip.conf",
        "[global]\nindex-url = https://me:secret@pip.example.com/simple\nonly-binary = :all:\n\
         extra-index-url =\n    https://me:secret@more.example.com/simple\npassword = secret\n",
        "cat $PIP_CONFIG_FILE; echo $PIP_INDEX_URL",
        &[
            "only-binary = :all:",
            "    https://more.example.com/simple",
            "https://pip.example.com/simple",
        ],
    ),
    (
        "node",
        "x",
        "",
        "env",
        &["pnpm_config_store_dir=~/.local/share/pnpm/store"],
    ),
    ("python", "x", "", "env", &["PIP_RETRIES=1"]),
    (
        "rust",
        "x",
        "",
        "cat $SSL_CERT_FILE $PIP_CERT",
        &["BEGIN CERTIFICATE"],
    ),
];

struct Scene(World);

impl Scene {
    fn new() -> Scene {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
        let home = world.outside().join("home");
        fs::create_dir_all(home.join(".config/pip")).unwrap();
        fs::write(
            home.join("company.pem"),
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        let key = "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n";
        fs::write(home.join("key.pem"), key).unwrap();
        Scene(world)
    }

    fn forge(&self, args: &[&str]) -> Ran {
        let home = self.0.outside().join("home");
        let mut command = self.0.command(forge_program(), args);
        command
            .env("SSL_CERT_FILE", home.join("company.pem"))
            .env("PIP_CERT", home.join("key.pem"));
        ran(command.output().unwrap())
    }
}

#[test]
fn safe_settings_are_there_and_no_credential() {
    let scene = Scene::new();
    let home = scene.0.outside().join("home");
    for (preset, file, text, script, expected) in ROWS {
        let text = text.replace("HOME", home.to_str().unwrap());
        fs::write(home.join(file), text).unwrap();
        for mechanism in mechanisms(&scene.0) {
            let args = ["exec", "--mechanism", mechanism, "--preset", preset, "--"];
            let ended = scene.forge(&[&args[..], &["sh", "-c", script]].concat());
            for text in expected {
                let is_there = ended.stdout.contains(text);
                assert!(
                    is_there,
                    "{mechanism} {script} {text}: {}{}",
                    ended.stdout, ended.stderr
                );
            }
            assert!(
                !ended.stdout.contains("secret"),
                "{script}: {}",
                ended.stdout
            );
        }
        fs::remove_file(home.join(file)).unwrap();
    }
}

#[test]
fn every_address_of_the_person_is_allowed() {
    for (preset, file, text, hosts) in [
        (
            "node",
            ".npmrc",
            "registry=https://a.example/\n@own:registry=https://b.example/\n",
            &["a.example", "b.example"][..],
        ),
        (
            "node",
            ".yarnrc",
            "registry \"https://c.example/\"\n",
            &["c.example"],
        ),
        (
            "python",
            ".config/pip/pip.conf",
            "[global]\nextra-index-url = https://d.example/x https://e.example/y\n",
            &["d.example", "e.example"],
        ),
    ] {
        let scene = Scene::new();
        fs::write(scene.0.outside().join("home").join(file), text).unwrap();
        for host in hosts {
            let host = format!("host:{host}");
            let told = scene.forge(&["explain", "--preset", preset, &host]);
            assert!(
                told.stdout
                    .lines()
                    .next()
                    .is_some_and(|line| line.ends_with(": allow")),
                "{file} {host}: {}",
                told.stdout
            );
        }
    }
}

/// Without a setting no host is allowed, and the first refusal names the one that was tried.
#[test]
fn a_refusal_names_the_host_at_once() {
    let scene = Scene::new();
    for mechanism in mechanisms(&scene.0) {
        for preset in ["node", "python", "rust"] {
            let script = "curl -sS https://registry.example/; getent hosts other.example; exit 1";
            let since = Instant::now();
            let ended = scene.forge(&[
                "exec",
                "--mechanism",
                mechanism,
                "--preset",
                preset,
                "--",
                "sh",
                "-c",
                script,
            ]);
            assert!(since.elapsed() < Duration::from_secs(20), "{mechanism}");
            ended.says(&["connect registry.example:443 (no rule names it)"]);
            let offered = scene.forge(&["allow", "--last"]);
            let all = format!("{}{}", offered.stdout, offered.stderr);
            assert!(
                all.contains("host:registry.example:443"),
                "{mechanism}: {all}"
            );
        }
    }
}

#[test]
fn an_installed_program_is_found() {
    let scene = Scene::new();
    for mechanism in mechanisms(&scene.0) {
        let preset = ["exec", "--mechanism", mechanism, "--preset", "python", "--"];
        let install = "mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho it runs\\n' > ~/.local/bin/tool; \
                       chmod +x ~/.local/bin/tool";
        scene
            .forge(&[&preset[..], &["sh", "-c", install]].concat())
            .code(0);
        let ended = scene.forge(&[&preset[..], &["tool"]].concat());
        assert_eq!(ended.stdout, "it runs\n", "{mechanism}: {}", ended.stderr);
    }
}
