//! The excess of one grant over another, in words for people: how `forge check` and `forge explain`
//! show that a call narrows.

use crate::grant::Grant;
use crate::grant::mount::Mount;
use crate::grant::verdict::Operation;

impl Grant {
    /// Returns the rights that this grant holds and `less` does not, one right a line; with config
    /// words.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use sandbox_config::{load, Declaration, Mode, Sources, ZoneDeclaration};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let wish = Declaration::zones([ZoneDeclaration::new("workspace", Mode::ReadOnly)]);
    /// let child = project.ceiling().child(&wish).unwrap();
    /// assert_eq!(project.ceiling().excess_over(&child), ["no cache", "workspace rw → ro"]);
    /// assert!(child.excess_over(&child).is_empty());
    /// ```
    #[must_use]
    pub fn excess_over(&self, less: &Grant) -> Vec<String> {
        let mut list = Vec::new();
        for held in self.mounts() {
            match less.mount(held.name()) {
                None => list.push(format!("no {}", held.name())),
                Some(mount) => of_mount(held, mount, &mut list),
            }
        }
        if self.network() != less.network() {
            list.push(format!("network {}", less.network()));
        }
        let ports = (self.published_ports(), less.published_ports());
        if !ports.0.is_empty() && ports.0 != ports.1 {
            list.push(match ports.1.is_empty() {
                true => "no published ports".to_owned(),
                false => format!("published ports {}", ports.1),
            });
        }
        match (self.shell(), less.shell()) {
            (Some(_), None) => list.push("no shell".to_owned()),
            (Some(held), Some(rules)) => {
                for own in rules.lists.iter().skip(held.lists.len()) {
                    match own.rules.len() {
                        0 => {}
                        1 => list.push("1 shell rule of its own".to_owned()),
                        many => list.push(format!("{many} shell rules of its own")),
                    }
                    let others = own.default;
                    list.extend(others.map(|verdict| format!("other commands {verdict}")));
                }
            }
            (None, _) => {}
        }
        for held in self.repositories() {
            match less.repository(held.address()) {
                None => list.push(format!("no repository {}", held.name())),
                Some(one) if one.access() != held.access() => {
                    let (before, after) = (held.access(), one.access());
                    list.push(format!("repository {} {before} → {after}", held.name()));
                }
                Some(_) => {}
            }
        }
        if less.tools() != self.tools()
            && let Some(tools) = less.tools()
        {
            let names: Vec<&str> = tools.iter().map(String::as_str).collect();
            list.push(format!("only the tools {}", names.join(", ")));
        }
        if self.approval() != less.approval() {
            list.push("a person is asked about more".to_owned());
        }
        if self.limits() != less.limits() {
            list.push("tighter limits".to_owned());
        }
        list
    }
}

fn of_mount(held: &Mount, mount: &Mount, list: &mut Vec<String>) {
    let name = held.name();
    if held.mode() != mount.mode() {
        list.push(format!("{name} {} → {}", held.mode(), mount.mode()));
    }
    if held.host() != mount.host() {
        // As the caller sees it: for a worker that has it as `/` that says nothing.
        let outer = held.target().trim_end_matches('/');
        let place = match mount.host().strip_prefix(held.host()) {
            Ok(below) => format!("{outer}/{}", below.display()),
            Err(_) => mount.target().to_owned(),
        };
        list.push(format!("{name} only below {place}"));
    }
    if held.usable() && !mount.usable() {
        list.push(format!("{name} not used"));
    }
    for operation in Operation::ALL {
        let of = |mount: &Mount| mount.approval().verdict(operation);
        let (before, after) = (of(held), of(mount));
        if after > before {
            list.push(format!("{name} {operation} {before} → {after}"));
        }
    }
    if held.suffixes() != mount.suffixes()
        && let Some(suffixes) = mount.suffixes()
    {
        list.push(format!("{name} only {}", suffixes.join(" ")));
    }
    if held.max_file_bytes() != mount.max_file_bytes()
        && let Some(bytes) = mount.max_file_bytes()
    {
        list.push(format!("{name} files up to {bytes} bytes"));
    }
}
