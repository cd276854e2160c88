//! Reads the job, has birdcage start the launcher, waits for it.

use birdcage::process::{Command, Stdio};
use birdcage::{Birdcage, Exception, Sandbox};
use os_sandbox::birdcage::{BirdcageJob, FD_IMAGE, FD_JOB, MAX_BYTES, Right};
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

pub(crate) fn run() -> Result<ExitCode, String> {
    let job = read().map_err(|error| format!("could not read the job: {error}"))?;
    let job =
        BirdcageJob::parse(&job).ok_or("did not understand the job; is it of another build?")?;
    let mut cage = Birdcage::new();
    if job.host_network {
        cage.add_exception(Exception::Networking)
            .map_err(|error| format!("could not open the network: {error}"))?;
    }
    for (right, path) in job.exceptions {
        let shown = path.display().to_string();
        let exception = match right {
            Right::Read => Exception::Read(path),
            Right::Write => Exception::WriteAndRead(path),
            Right::Execute => Exception::ExecuteAndRead(path),
        };
        cage.add_exception(exception)
            .map_err(|error| format!("could not show {shown}: {error}"))?;
    }
    // By its descriptor, which birdcage hands on: nothing of ours is shown inside.
    let mut command = Command::new(format!("/proc/self/fd/{FD_IMAGE}"));
    command
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    let mut child = cage
        .spawn(command)
        .map_err(|error| format!("could not start: {error}"))?;
    // The first process of the namespace: with it, everything in there has ended.
    let status = child
        .wait()
        .map_err(|error| format!("could not wait: {error}"))?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn read() -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/self/fd/{FD_JOB}"))?
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
