//! Opening by path needs the ambient authority, said out loud.

use file_sandbox::{Mode, Mount, SandboxPath};

fn main() {
    let _ = Mount::open_ambient(SandboxPath::root(), "/etc", Mode::ReadOnly);
}
