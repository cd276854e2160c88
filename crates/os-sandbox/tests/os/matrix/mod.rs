//! The matrix: every case of `fixtures/confinement` under every enforcer, at each Landlock version
//! up to this kernel's, and the page that says the same.

pub(crate) mod expect;
pub(crate) mod page;
pub(crate) mod policy;
#[cfg(target_os = "linux")]
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod scene;
pub(crate) mod sound;
#[cfg(target_os = "linux")]
pub(crate) mod user;

use expect::Fixtures;

/// What is wrong with the fixtures, against themselves and against plans for assumed hosts, and
/// with the page.
pub(crate) fn complaints() -> Vec<String> {
    let fixtures = match Fixtures::read() {
        Ok(fixtures) => fixtures,
        Err(error) => return vec![error],
    };
    let mut out = sound::complaints(&fixtures);
    out.extend(page::complaints(&fixtures));
    if let Some(root) = sound::checkout() {
        let page = std::fs::read_to_string(root.join("docs/mechanisms.md")).unwrap_or_default();
        if page != page::page(&fixtures) {
            out.push("docs/mechanisms.md is out of date: run `cargo xtask docs`".to_owned());
        }
    }
    out
}
