//! A path of the host is no path of a sandbox: it has to be parsed as one first.

use std::path::Path;

fn main() -> Result<(), file_sandbox::Error> {
    let files = file_sandbox::FileSandbox::new(vec![])?;
    files.read(Path::new("/etc/passwd"), Default::default())?;
    Ok(())
}
