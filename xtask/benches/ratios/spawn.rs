//! Starting a program under each mechanism, beside starting it plainly and beside bwrap alone.

use std::error::Error;
use std::hint::black_box;
use std::process::{self, Command};

use os_sandbox::{Backend, Exit, Plan, Policy, Requirement, Stdio, Support};

use crate::compare::{Measure, Outcome, Work, medians};

const ROUNDS: usize = 40;
const BATCH: u32 = 10;

/// What a broker may well have touched: page tables that a fork would have to copy.
const BROKER_BYTES: usize = 64 << 20;

const PROGRAM: &str = "/usr/bin/true";

const LANDLOCK: &str = "spawn, landlock + seccomp + init";
const BUBBLEWRAP: &str = "spawn, bubblewrap + landlock + seccomp";

/// bwrap by hand, with the namespaces that os-sandbox asks for and the least to stand on.
const BARE_BWRAP: &str = "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts \
    --unshare-cgroup-try --new-session --die-with-parent --cap-drop ALL --ro-bind /usr /usr \
    --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc \
    --dev /dev --tmpfs /tmp";

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let broker = vec![1u8; BROKER_BYTES];
    let support = Support::detect();
    let measures = vec![landlock(&support)?, bubblewrap(&support)?];
    black_box(&broker);
    Ok(measures)
}

fn landlock(support: &Support) -> Result<Measure, Box<dyn Error>> {
    let outcome = match plan(support, Backend::Landlock) {
        Err(why) => Outcome::NotHere(why),
        Ok(plan) => {
            let [ours, other] = medians(ROUNDS, BATCH, [confined(&plan), plain(PROGRAM, &[])])?;
            Outcome::Ratio {
                ours,
                other,
                other_name: "std::process::Command",
                target: Some(2.2),
            }
        }
    };
    Ok(Measure {
        name: LANDLOCK,
        outcome,
    })
}

fn bubblewrap(support: &Support) -> Result<Measure, Box<dyn Error>> {
    let outcome = match (plan(support, Backend::Bubblewrap), support.bubblewrap()) {
        (Err(why), _) => Outcome::NotHere(why),
        (Ok(_), None) => Outcome::NotHere("no bwrap".to_owned()),
        (Ok(plan), Some(bwrap)) => {
            let program = bwrap.path().to_string_lossy().into_owned();
            let arguments: Vec<&str> = BARE_BWRAP
                .split_whitespace()
                .chain(["--", PROGRAM])
                .collect();
            let [ours, other] = medians(
                ROUNDS,
                BATCH,
                [confined(&plan), plain(&program, &arguments)],
            )?;
            Outcome::Ratio {
                ours,
                other,
                other_name: "bwrap, same namespaces",
                target: Some(1.2),
            }
        }
    };
    Ok(Measure {
        name: BUBBLEWRAP,
        outcome,
    })
}

fn plan(support: &Support, backend: Backend) -> Result<Plan, String> {
    let policy = Policy::builder()
        .build()
        .map_err(|error| error.to_string())?;
    Plan::with_mechanism(&policy, support, Requirement::Enforce, backend)
        .map_err(|error| error.to_string())
}

fn confined(plan: &Plan) -> Work<'_> {
    Box::new(|| {
        let mut child = os_sandbox::Command::new(plan, PROGRAM)
            .stdout(Stdio::Null)
            .stderr(Stdio::Null)
            .spawn()?;
        match child.wait()? {
            Exit::Code(0) => Ok(()),
            other => Err(format!("{PROGRAM} ended with {other:?}").into()),
        }
    })
}

fn plain<'a>(program: &'a str, arguments: &'a [&'a str]) -> Work<'a> {
    Box::new(move || {
        let status = Command::new(program)
            .args(arguments)
            .stdin(process::Stdio::null())
            .stdout(process::Stdio::null())
            .stderr(process::Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{program}: {status}").into())
        }
    })
}
