//! A text is no authority: a mount takes a directory handle, or a path with the authority to open it.

use file_sandbox::{Mode, Mount, SandboxPath};

fn main() {
    let _ = Mount::new(SandboxPath::root(), "/etc", Mode::ReadOnly);
}
