//! A sandbox over two directories: what is allowed, what is denied, and what a child may keep.
//!
//! `cargo run -p file-sandbox --example quick`
#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::error::Error;

use file_sandbox::{FileSandbox, ListOptions, Mode, Mount, Restriction, SandboxPath};

fn main() -> Result<(), Box<dyn Error>> {
    let input = tempfile::tempdir()?;
    let output = tempfile::tempdir()?;
    std::fs::write(input.path().join("data.csv"), "a,b\n1,2\n")?;

    let authority = cap_std::ambient_authority();
    let files = FileSandbox::builder()
        .mount(Mount::open_ambient(
            SandboxPath::parse("/input")?,
            input.path(),
            Mode::ReadOnly,
            authority,
        )?)
        .mount(Mount::open_ambient(
            SandboxPath::parse("/output")?,
            output.path(),
            Mode::ReadWrite,
            authority,
        )?)
        .build()?;

    for entry in files
        .list(&SandboxPath::root(), ListOptions::new())?
        .entries
    {
        println!("/{} ({})", entry.name, entry.kind.as_str());
    }

    let text = files.read(&files.path("/input/data.csv")?, Default::default())?;
    let report = files.path("/output/reports/first.md")?;
    let written = files.write(&report, &text.content, Default::default())?;
    println!("Written {} characters to {report}", written.chars);

    for denied in [
        files
            .write(&files.path("/input/new.txt")?, "x", Default::default())
            .err(),
        files
            .read(&files.path("/input/date.csv")?, Default::default())
            .err(),
        files
            .read(&files.path("/etc/passwd")?, Default::default())
            .err(),
    ] {
        println!("\n{}", denied.ok_or("this should have been denied")?);
    }

    let child = files.restrict(&Restriction::new().keep(files.path("/output/reports")?))?;
    println!(
        "\nA child reads {:?} and nothing else.",
        child.readable_roots()
    );
    Ok(())
}
