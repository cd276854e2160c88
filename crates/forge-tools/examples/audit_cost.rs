//! What the audit costs a call: `cargo run --release -p forge-tools --example audit_cost`.
//!
//! The mean over many calls of `file_exists`, without records and with the log on disk.

use std::io::Write as _;
use std::time::{Duration, Instant};

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, cap_std};
use forge_tools::audit::{AuditLog, LogOptions};
use forge_tools::{Call, NoRecord, Toolbox, ToolboxBuilder};
use serde_json::json;

const CALLS: u32 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("audit-cost-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let measured = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    let (without, with) = measured?;
    writeln!(
        std::io::stdout().lock(),
        "a call without records: {without:.1?}, with the log: {with:.1?}, the audit: {:.1?}",
        with.saturating_sub(without)
    )?;
    Ok(())
}

fn measure(dir: &std::path::Path) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    let data = dir.join("data");
    std::fs::create_dir(&data)?;
    let open = |path: &std::path::Path| {
        cap_std::fs::Dir::open_ambient_dir(path, cap_std::ambient_authority())
    };
    let builder = || -> Result<ToolboxBuilder, Box<dyn std::error::Error>> {
        let mount = Mount::open_ambient(
            SandboxPath::parse("/data")?,
            &data,
            Mode::ReadOnly,
            cap_std::ambient_authority(),
        )?;
        Ok(Toolbox::builder().files(FileSandbox::new(vec![mount])?))
    };
    let without = each(&builder()?.recorder(NoRecord).build()?)?;
    let log = AuditLog::open(open(dir)?, LogOptions::default())?;
    let with = each(&builder()?.recorder(log).build()?)?;
    Ok((without, with))
}

fn each(toolbox: &Toolbox) -> Result<Duration, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(runtime.block_on(async {
        let call = || toolbox.call(Call::new("file_exists", json!({ "path": "/data/a.md" })));
        for _ in 0..CALLS / 10 {
            call().await;
        }
        let start = Instant::now();
        for _ in 0..CALLS {
            call().await;
        }
        start.elapsed() / CALLS
    }))
}
