use prestate_tests::fixtures::workspace;
use serde_json::Value;
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// The program, built by the cargo that runs the tests, with its profile.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--offline", "--package", "prestate", "--bin", "prestate"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built = build.current_dir(workspace()).output().expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let messages = String::from_utf8(built.stdout).expect("messages are text");
        let mut executable = messages.lines().filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            Some(PathBuf::from(message["executable"].as_str()?))
        });
        executable.next_back().expect("the package has a program")
    })
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program to its end in the workspace's folder.
pub(crate) fn prestate<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    prestate_in(args, [])
}

/// As [`prestate`], with more in its environment.
pub(crate) fn prestate_in<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    variables: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> Ran {
    let mut command = Command::new(binary());
    let ran = command.args(args).envs(variables).current_dir(workspace()).output();
    let Output { status, stdout, stderr } = ran.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// As [`prestate`], for runs that have to succeed in silence on standard error.
pub(crate) fn succeeds<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let ran = prestate(args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    ran.stdout
}
