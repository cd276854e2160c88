//! Each setting changes one part of the request to an engine.

use super::*;
use crate::containers::Containers;
use crate::name::ImageName;
use os_sandbox::Limits;
use serde_json::{Map, Value, json};

fn settings() -> Settings {
    Settings::new(ImageName::parse("debian:12").unwrap())
}

fn host() -> EngineHost {
    Containers::assumed().host().clone()
}

fn placed() -> Vec<LayoutEntry> {
    let host = |inside: &str, from: &str, writable| LayoutEntry {
        inside: inside.into(),
        what: LayoutContent::Host {
            from: from.into(),
            writable,
        },
    };
    let closed = |inside: &str, is_dir| LayoutEntry {
        inside: inside.into(),
        what: LayoutContent::Closed { is_dir },
    };
    vec![
        host("/work", "/home/me/project", true),
        host("/data", "/srv/a, b:c\n\"d'", false),
        host("/work/.git", "/home/me/project/.git", true),
        host("/work/.git/hooks", "/home/me/project/.git/hooks", false),
        closed("/work/.ssh", true),
        closed("/work/.env", false),
    ]
}

/// Returns the request, with the filter cut short.
fn asked(
    settings: Settings,
    host: EngineHost,
    policy: Policy,
) -> Result<(Value, ShownContainer), Error> {
    let mut private = PrivateFiles::at("/tmp/private");
    private.own.clone_from(&settings.mounts);
    let variables = [("HOME", HOME), ("PATH", "/bin"), ("TMPDIR", TMP)];
    let (body, shown) = config(ContainerSpec {
        bounds: EffectiveLimits::in_container(
            policy.limits(),
            &Containers::assumed_with(settings.clone(), host.clone()).support(),
        ),
        policy: &policy,
        settings: &settings,
        host: &host,
        digest: "sha256:0123",
        image_variables: &["PATH".to_owned(), "JAVA_HOME".to_owned()],
        user: User {
            uid: 1000,
            gid: 1000,
        },
        placed: &placed(),
        private: &private,
        program: OsStr::new("cat"),
        args: &["-n".into(), "a file".into()],
        variables: &variables
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        directory: WORK,
        stdin: false,
        labels: HashMap::from([("owner".to_owned(), "us".to_owned())]),
        joined_network: match policy.network() {
            Network::Hosts(_) => Some("container:abc".to_owned()),
            _ => None,
        },
    })?;
    let mut body = serde_json::to_value(body).unwrap();
    for option in body["HostConfig"]["SecurityOpt"].as_array_mut().unwrap() {
        if option.as_str().unwrap().starts_with("seccomp=") {
            *option = json!("seccomp=…");
        }
    }
    Ok((body, shown))
}

fn policy() -> Policy {
    Policy::builder().build().unwrap()
}

#[test]
fn everything_that_is_asked_for() {
    let (body, shown) = asked(settings(), host(), policy()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&sorted(body)).unwrap(), @r#"
    {
      "AttachStderr": true,
      "AttachStdin": false,
      "AttachStdout": true,
      "Cmd": [
        "-n",
        "a file"
      ],
      "Entrypoint": [
        "cat"
      ],
      "Env": [
        "HOME=/home/sandbox",
        "PATH=/bin",
        "TMPDIR=/tmp",
        "JAVA_HOME",
        "HOSTNAME"
      ],
      "Healthcheck": {
        "Test": [
          "NONE"
        ]
      },
      "HostConfig": {
        "AutoRemove": true,
        "CapDrop": [
          "ALL"
        ],
        "CgroupnsMode": "private",
        "Init": true,
        "IpcMode": "private",
        "LogConfig": {
          "Type": "none"
        },
        "Memory": 17179869184,
        "MemorySwap": 17179869184,
        "Mounts": [
          {
            "BindOptions": {
              "Propagation": "rprivate"
            },
            "ReadOnly": false,
            "Source": "/home/me/project",
            "Target": "/work",
            "Type": "bind"
          },
          {
            "BindOptions": {
              "NonRecursive": true,
              "Propagation": "rprivate"
            },
            "ReadOnly": true,
            "Source": "/srv/a, b:c\n\"d'",
            "Target": "/data",
            "Type": "bind"
          },
          {
            "BindOptions": {
              "Propagation": "rprivate"
            },
            "ReadOnly": false,
            "Source": "/home/me/project/.git",
            "Target": "/work/.git",
            "Type": "bind"
          },
          {
            "BindOptions": {
              "NonRecursive": true,
              "Propagation": "rprivate"
            },
            "ReadOnly": true,
            "Source": "/home/me/project/.git/hooks",
            "Target": "/work/.git/hooks",
            "Type": "bind"
          },
          {
            "BindOptions": {
              "NonRecursive": true,
              "Propagation": "rprivate"
            },
            "ReadOnly": true,
            "Source": "/tmp/private/directory",
            "Target": "/work/.ssh",
            "Type": "bind"
          },
          {
            "BindOptions": {
              "NonRecursive": true,
              "Propagation": "rprivate"
            },
            "ReadOnly": true,
            "Source": "/tmp/private/file",
            "Target": "/work/.env",
            "Type": "bind"
          }
        ],
        "NetworkMode": "none",
        "PidsLimit": 2048,
        "Privileged": false,
        "ReadonlyRootfs": true,
        "SecurityOpt": [
          "no-new-privileges:true",
          "seccomp=…"
        ],
        "ShmSize": 268435456,
        "Tmpfs": {
          "/home/sandbox": "rw,exec,nosuid,nodev,size=268435456,mode=0700,uid=1000,gid=1000",
          "/tmp": "rw,exec,nosuid,nodev,size=268435456,mode=1777,uid=1000,gid=1000"
        },
        "Ulimits": [
          {
            "Hard": 0,
            "Name": "core",
            "Soft": 0
          },
          {
            "Hard": 17179869184,
            "Name": "fsize",
            "Soft": 17179869184
          },
          {
            "Hard": 4096,
            "Name": "nofile",
            "Soft": 4096
          }
        ]
      },
      "Hostname": "sandbox",
      "Image": "sha256:0123",
      "Labels": {
        "owner": "us"
      },
      "OpenStdin": false,
      "StdinOnce": false,
      "Tty": false,
      "User": "1000:1000",
      "WorkingDir": "/work"
    }
    "#);
    assert_eq!(
        shown.to_string(),
        "debian:12 (sha256:0123) of engine 20.10.24, as 1000:1000, network none, 16 GiB, \
         2048 processes, root read-only"
    );
}

/// Sorts the fields, so that their order is stable.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Collects the paths at which two values differ.
fn differences(at: &str, one: &Value, other: &Value, out: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let of =
                    |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or(Value::Null);
                differences(&format!("{at}/{name}"), &of(one), &of(other), out);
            }
        }
        (one, other) if one != other => out.push(format!("{at}: {one} → {other}")),
        _ => {}
    }
}

#[test]
fn named_hosts_join_another_network() {
    let (with, shown) = asked(
        settings(),
        host(),
        policy()
            .with_network(Network::Hosts(os_sandbox::NamedHosts::new(["a.org"])))
            .unwrap(),
    )
    .unwrap();
    let (without, _) = asked(settings(), host(), policy()).unwrap();
    let mut changes = Vec::new();
    differences("", &without, &with, &mut changes);
    assert_eq!(
        changes,
        [
            "/HostConfig/NetworkMode: \"none\" → \"container:abc\"",
            "/Hostname: \"sandbox\" → null",
        ]
    );
    assert_eq!(shown.network, "none");
}

#[test]
fn each_setting_changes_one_thing() {
    type Change = fn(Settings, EngineHost) -> (Settings, EngineHost);
    let rows: &[(Change, Policy, &[&str])] = &[
        (|s, h| (s, h), policy(), &[]),
        (
            |s, h| (s.cpu_milli(1500), h),
            policy(),
            &["/HostConfig/NanoCpus: null → 1500000000"],
        ),
        (
            // The limit is at most the number of processors, and never zero.
            |s, h| (s.cpu_milli(64_000), EngineHost { cpus: Some(2), ..h }),
            policy(),
            &["/HostConfig/NanoCpus: null → 2000000000"],
        ),
        (
            |s, h| (s.cpu_milli(0), h),
            policy(),
            &["/HostConfig/NanoCpus: null → 10000000"],
        ),
        (
            |s, h| (s.memory_bytes(1 << 30), h),
            policy(),
            &[
                "/HostConfig/Memory: 17179869184 → 1073741824",
                "/HostConfig/MemorySwap: 17179869184 → 1073741824",
            ],
        ),
        (
            // The policy's own limit is lower.
            |s, h| (s.memory_bytes(1 << 60), h),
            policy(),
            &[],
        ),
        (
            |s, h| {
                (
                    s,
                    EngineHost {
                        memory_bytes: Some(8 << 30),
                        ..h
                    },
                )
            },
            policy(),
            &[
                "/HostConfig/Memory: 17179869184 → 7516192768",
                "/HostConfig/MemorySwap: 17179869184 → 7516192768",
            ],
        ),
        (
            |s, h| {
                (
                    s,
                    EngineHost {
                        limits_swap: false,
                        ..h
                    },
                )
            },
            policy(),
            &["/HostConfig/MemorySwap: 17179869184 → null"],
        ),
        (
            |s, h| (s.pids(64), h),
            policy(),
            &["/HostConfig/PidsLimit: 2048 → 64"],
        ),
        (
            |s, h| {
                (
                    s,
                    EngineHost {
                        limits_processes: false,
                        ..h
                    },
                )
            },
            policy(),
            &["/HostConfig/PidsLimit: 2048 → null"],
        ),
        (
            |s, h| (s.read_only_root(false), h),
            policy(),
            &["/HostConfig/ReadonlyRootfs: true → false"],
        ),
        (
            // The setting has an effect only if the policy grants a network.
            |s, h| (s.network("builds").unwrap(), h),
            policy(),
            &[],
        ),
        (
            |s, h| (s.network("builds").unwrap(), h),
            Policy::builder()
                .network(Network::Loopback)
                .build()
                .unwrap(),
            &[],
        ),
        (
            |s, h| (s.network("builds").unwrap(), h),
            Policy::builder()
                .network(Network::Unrestricted)
                .build()
                .unwrap(),
            &["/HostConfig/NetworkMode: \"none\" → \"builds\""],
        ),
        (
            |s, h| {
                (
                    s,
                    EngineHost {
                        filters: false,
                        ..h
                    },
                )
            },
            policy(),
            &[
                "/HostConfig/SecurityOpt: [\"no-new-privileges:true\",\"seccomp=…\"] → \
               [\"no-new-privileges:true\"]",
            ],
        ),
    ];
    let (before, _) = asked(settings(), host(), policy()).unwrap();
    for (change, policy, want) in rows {
        let (settings, host) = change(settings(), host());
        let (after, _) = asked(settings, host, policy.clone()).unwrap();
        let mut found = Vec::new();
        differences("", &before, &after, &mut found);
        assert_eq!(found, *want);
    }
}

#[test]
fn own_mounts_and_read_only_trees() {
    let settings = settings().mount("/opt/forge", "/.forge").unwrap();
    let newer = EngineHost {
        read_only_below: true,
        ..host()
    };
    let (body, _) = asked(settings, newer, policy()).unwrap();
    let mounts = body["HostConfig"]["Mounts"].as_array().unwrap();
    let own = mounts.last().unwrap();
    assert_eq!(
        (&own["Source"], &own["Target"]),
        (&json!("/opt/forge"), &json!("/.forge"))
    );
    for mount in mounts {
        let read_only = mount["ReadOnly"] == true;
        let options = &mount["BindOptions"];
        assert_eq!(options["Propagation"], "rprivate");
        assert_eq!(
            options["ReadOnlyForceRecursive"] == true,
            read_only,
            "{mount}"
        );
    }
}

#[test]
fn limits_of_one_process() {
    let limits = Limits {
        cpu: Some(Duration::from_millis(1500)),
        open_files: Some(64),
        file_bytes: None,
        ..Limits::default()
    };
    let policy = Policy::builder().limits(limits).build().unwrap();
    let (body, _) = asked(settings(), host(), policy).unwrap();
    assert_eq!(
        body["HostConfig"]["Ulimits"],
        json!([
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "cpu", "Soft": 2, "Hard": 2},
            {"Name": "nofile", "Soft": 64, "Hard": 64},
        ])
    );
}

#[test]
fn users() {
    let owner = |name: &str, uid: u32| Owner {
        name: name.to_owned(),
        uid,
        gid: uid + 1,
    };
    let (me, root) = (User { uid: 7, gid: 70 }, User { uid: 0, gid: 0 });
    for (owners, caller, rootless, want) in [
        (vec![], me, false, Ok("7:70")),
        (vec![], root, false, Ok("0:0")),
        (vec![owner("/a", 7)], me, false, Ok("7:70")),
        (vec![owner("/a", 7), owner("/b", 7)], me, false, Ok("7:70")),
        (vec![owner("/a", 9)], root, false, Ok("9:10")),
        (vec![owner("/a", 0)], root, false, Ok("0:0")),
        (vec![owner("/a", 7)], me, true, Ok("0:0")),
        (
            vec![owner("/a", 9)],
            me,
            false,
            Err("/a belongs to user 9, and the caller is user 7"),
        ),
        (
            vec![owner("/a", 0)],
            me,
            false,
            Err("/a belongs to user 0, and the caller is user 7"),
        ),
        (
            vec![owner("/a", 7), owner("/b", 9)],
            root,
            false,
            Err("/a belongs to user 7, and /b to user 9: a container has one user"),
        ),
    ] {
        let found = User::of(&owners, caller, rootless);
        let found = found
            .map(|user| user.to_string())
            .map_err(|error| error.to_string());
        assert_eq!(found, want.map(str::to_owned).map_err(str::to_owned));
    }
}

#[test]
fn what_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let error = text(OsStr::from_bytes(b"a\xff"), "an argument").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("an argument is not UTF-8"),
        "{error}"
    );
}
