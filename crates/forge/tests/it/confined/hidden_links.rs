//! A hidden name that is a link: a mount cannot cover a link, so the file that it leads to is hidden.

use super::exec::mount_layers;
use crate::support::{Ran, World};

const PREPARE: &str = "git init -q; mkdir -p config certs sshd .vscode node_modules/x; \
    for name in dev t chain vs example tracked modified; do echo secret-$name > config/$name; done; \
    echo secret-id > sshd/id; echo secret-env > sshd/.env; echo secret-x > node_modules/x/env; \
    printf -- '-----BEGIN PRIVATE KEY-----\nsecret-key\n-----END PRIVATE KEY-----\n' > certs/k.key; \
    printf -- '-----BEGIN CERTIFICATE-----\nsecret-cert\n-----END CERTIFICATE-----\n' > certs/c.crt; \
    ln -s config/dev .env; ln -s certs/k.key key.pem; ln -s sshd .ssh; ln -s config/t my.token; \
    ln -s config/chain first; ln -s first .env.local; ln -s ../config/vs .vscode/.env; \
    ln -s certs/c.crt cert.pem; ln -s config/example .env.example; ln -s config/tracked .env.prod; \
    ln -s config/modified .env.test; ln -s node_modules/x/env .env.x; ln -s nowhere .env.none; \
    ln -s config/example .env.template; \
    git add config/tracked config/modified; git commit -qm one; echo more >> config/modified";

/// The link, the file or directory that it leads to, the file to read, and a part of its content.
const HIDDEN: [[&str; 4]; 7] = [
    [".env", "config/dev", "", "secret-dev"],
    ["key.pem", "certs/k.key", "", "secret-key"],
    [".ssh", "sshd", "/id", "secret-id"],
    ["my.token", "config/t", "", "secret-t"],
    [".env.local", "config/chain", "", "secret-chain"],
    [".vscode/.env", "config/vs", "", "secret-vs"],
    [".env.test", "config/modified", "", "secret-modified"],
];

/// Certificates, templates, files that git has, and dependencies.
const READ: [[&str; 2]; 4] = [
    ["cert.pem", "secret-cert"],
    [".env.example", "secret-example"],
    [".env.prod", "secret-tracked"],
    [".env.x", "secret-x"],
];

fn world(hide: &str) -> World {
    let world = World::new(&[]);
    world.shell(PREPARE);
    world.write("forge.yaml", &format!("sandbox: {{ root: ., {hide} }}\n"));
    world
}

fn exec(world: &World, mechanism: &str, script: &str) -> Ran {
    let flags = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
    world.forge(&flags)
}

#[test]
fn what_a_hidden_link_leads_to_is_hidden() {
    let world = world("hide: [\"*.token\"]");
    for mechanism in mount_layers(&world) {
        for [link, target, file, secret] in HIDDEN {
            for name in [link, target] {
                let script = format!("cat {name}{file} && echo evil > {name}{file}");
                let ran = exec(&world, mechanism, &script);
                assert_ne!(ran.code, 0, "{mechanism}: {name}");
                assert!(!ran.stdout.contains(secret), "{mechanism}: {name}: {ran:?}");
            }
            let text = std::fs::read_to_string(world.project().join(format!("{target}{file}")));
            assert!(text.unwrap().contains(secret), "{mechanism}: {target}");
        }
        for [name, content] in READ {
            let ran = exec(&world, mechanism, &format!("cat {name}"));
            assert!(ran.stdout.contains(content), "{mechanism}: {name}: {ran:?}");
        }
        let flags = ["exec", "--json", "--mechanism", mechanism, "--", "true"];
        let receipt = world.forge(&flags).stdout;
        for [_, target, ..] in HIDDEN {
            let told = receipt.contains(&format!("/project/{target}\""));
            assert!(told, "{mechanism}: {target}: {receipt}");
        }
        // git and programs that read the whole project pass them.
        exec(
            &world,
            mechanism,
            "echo 1 > new && git add new && git status --porcelain && rm new",
        )
        .code(0);
        assert!(
            !world.project().join(".os-sandbox-quarantine").exists(),
            "{mechanism}"
        );
    }
}

#[test]
fn what_is_shown_is_not_hidden_by_a_link() {
    let world = world("");
    for mechanism in mount_layers(&world) {
        for [link, _, file, secret] in [HIDDEN[0], HIDDEN[2], HIDDEN[4]] {
            let name = format!("{link}{file}");
            let show = "sandbox.show=[.env*,.ssh]";
            let flags = [
                "exec",
                "-c",
                show,
                "--mechanism",
                mechanism,
                "--",
                "cat",
                &name,
            ];
            let ran = world.forge(&flags);
            assert!(ran.stdout.contains(secret), "{mechanism}: {link}: {ran:?}");
        }
    }
}

/// A link to the project itself, or to a directory around another mount, cannot be hidden.
#[test]
fn what_cannot_be_hidden_is_told() {
    let world = world("");
    world.shell("ln -sfn . .ssh");
    for mechanism in mount_layers(&world) {
        let flags = [
            "exec",
            "--json",
            "--mechanism",
            mechanism,
            "--",
            "cat",
            ".ssh/config/vs",
        ];
        let ran = world.forge(&flags);
        assert!(ran.stdout.contains(".ssh leads to"), "{mechanism}: {ran:?}");
        assert!(ran.stdout.contains("can be read"), "{mechanism}: {ran:?}");
    }
}
