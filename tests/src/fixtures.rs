//! Where the real blocks and Geth's vectors are.

use std::{
    env,
    path::{Path, PathBuf},
};

/// A folder of the fixtures, `None` if they are not on this machine: the test that asked then says
/// so with [`skipped`] and ends.
///
/// They are looked for in `$PRESTATE_FIXTURES`, else in `../shared/fixtures` beside the workspace.
pub fn folder(name: &str) -> Option<PathBuf> {
    let folder = root().join(name);
    folder.is_dir().then_some(folder)
}

/// Prints that a suite did not run, and why.
///
/// # Panics
/// With `CI=true`: there the fixtures have to be present.
pub fn skipped(suite: &str) {
    let root = root();
    let reason = format!("{suite}: no fixtures in {}", root.display());
    let ci = env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
    assert!(!ci, "{reason}, and in CI they must be there");
    println!("skipped {reason} (set PRESTATE_FIXTURES to where they are)");
}

/// The folder of the workspace's `Cargo.toml`.
pub fn workspace() -> &'static Path {
    // `tests/` is a member right below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn root() -> PathBuf {
    env::var_os("PRESTATE_FIXTURES")
        .map_or_else(|| workspace().join("../shared/fixtures"), PathBuf::from)
}
