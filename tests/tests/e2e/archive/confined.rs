//! Disks that are read-only or full, and permissions that are missing. They take a mount namespace
//! or another user; where this machine grants neither, the test says so and ends.

use super::{NO_RESERVE, Sample, bad_input::commands, contents};
use crate::program::{binary, succeeds};
use std::{
    fs::{self, Permissions},
    io::ErrorKind,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    process::{Command, Output},
};
use tempfile::TempDir;

/// Runs a script that may mount, in a namespace of its own; `None`, with the reason printed, where
/// that is not allowed. `$1` is the program.
fn mounting(script: &str, args: &[&str]) -> Option<Output> {
    let may =
        Command::new("unshare").args(["-rm", "sh", "-c", "mount -t tmpfs none /mnt"]).output();
    match may {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            println!("skipped: no mounts here: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Err(error) => {
            println!("skipped: no mounts here: unshare: {error}");
            return None;
        }
    }
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-euc", script, "sh"]).arg(binary()).args(args);
    Some(command.output().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reading goes on; what would write says so.
#[test]
fn a_read_only_disk() {
    let sample = Sample::of(1..=3);
    let before = contents(sample.path());
    let (dir, out) = (sample.text(), sample.beside("out"));
    let script = r#"
        prestate=$1 dir=$2; shift 2
        mount --bind "$dir" "$dir"; mount -o remount,ro,bind "$dir"
        code=0; "$prestate" "$@" || code=$?; exit $code"#;
    for args in commands(&dir, &out) {
        let mut all = vec![dir.as_str()];
        all.extend(&args);
        let Some(ran) = mounting(script, &all) else { return };
        let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
        let writes = matches!(args[1], "prune" | "compact") || args.contains(&"--engine");
        if writes {
            assert_eq!((ran.status.code(), stdout.as_str()), (Some(2), ""), "{args:?} {stderr}");
            assert!(stderr.contains(&dir) && stderr.contains("Read-only file system"), "{stderr}");
        } else {
            assert_eq!((ran.status.code(), stderr.as_str()), (Some(0), ""), "{args:?} {stdout}");
        }
    }
    assert_eq!(contents(sample.path()), before);
}

/// The disk fills up in the middle: what was committed is there, and the archive is whole.
#[test]
fn a_full_disk() {
    let source = Sample::of(1..=3000);
    let out = source.beside("out");
    succeeds(["archive", "export", &source.text(), "--to", &out, "--segment-blocks", "100"]);
    let small = TempDir::new().unwrap();
    let disk = small.path().to_str().unwrap();
    // The import is made to end half-way; what it left is then verified with room again, and gone
    // on with.
    let script = r#"
        prestate=$1 disk=$2 out=$3; shift 3
        mount -t tmpfs -o size=900k none "$disk"
        code=0; "$prestate" archive import "$disk/archive" --from "$out" "$@" || code=$?
        echo "exit $code"
        mount -o remount,size=64m "$disk"
        "$prestate" archive verify --engine "$disk/archive"
        "$prestate" archive import "$disk/archive" --from "$out" "$@"
        "$prestate" archive verify "$disk/archive""#;
    let mut args = vec![disk, &out];
    args.extend(NO_RESERVE);
    let Some(ran) = mounting(script, &args) else { return };
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{stdout} {stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    assert!(stderr.contains(disk) && stderr.contains("No space left on device"), "{stderr}");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[0], "exit 2", "{stdout}");
    assert!(lines[1].ends_with("all is well"), "{stdout}");
    assert!(lines[2].starts_with("3000 blocks, "), "{stdout}");
    assert!(lines[3].starts_with("3000 blocks, 3000 of them canonical"), "{stdout}");
}

/// An export to a full disk names the object; the manifest never lists what is not there.
#[test]
fn an_export_to_a_full_disk() {
    let source = Sample::of(1..=3000);
    let small = TempDir::new().unwrap();
    let disk = small.path().to_str().unwrap();
    let script = r#"
        prestate=$1 disk=$2 dir=$3; shift 3
        mount -t tmpfs -o size=200k none "$disk"
        code=0; "$prestate" archive export "$dir" --to "$disk/out" --segment-blocks 100 || code=$?
        echo "exit $code"; test ! -e "$disk/out/manifest.json"
        mount -o remount,size=64m "$disk"
        "$prestate" archive export "$dir" --to "$disk/out" --segment-blocks 100
        "$prestate" archive import "$disk/copy" --from "$disk/out" "$@""#;
    let mut args = vec![disk];
    let dir = source.text();
    args.push(&dir);
    args.extend(NO_RESERVE);
    let Some(ran) = mounting(script, &args) else { return };
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{stdout} {stderr}");
    assert!(stderr.contains("segments/") && stderr.contains("No space left on device"), "{stderr}");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[0], "exit 2", "{stdout}");
    // What was written before the disk was full is not written again.
    assert!(!lines[1].ends_with(" 0 were there"), "{stdout}");
    assert!(lines[2].starts_with("3000 blocks, 3000 of them new"), "{stdout}");
}

/// Root may ignore permissions, so as root the program is run as nobody.
#[test]
fn missing_permissions() {
    let sample = Sample::of(1..=3);
    let (dir, out) = (sample.text(), sample.beside("out"));
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let run = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args);
        if root {
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    match run(&["--version"]) {
        Err(error) if root && error.kind() == ErrorKind::PermissionDenied => {
            println!("skipped: this is root, and nobody cannot run {}", binary().display());
            return;
        }
        ran => assert!(ran.unwrap().status.success()),
    }
    // Nobody may come in, so that only what is meant stands in the way.
    fs::set_permissions(sample.folder.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(sample.path(), Permissions::from_mode(0o755)).unwrap();
    let store = sample.path().join("archive.redb");
    let before = contents(sample.path());
    let refused = |what: &str| {
        for args in commands(&dir, &out) {
            let ran = run(&args).unwrap();
            let stderr = text(&ran.stderr);
            assert_eq!((ran.status.code(), text(&ran.stdout).as_str()), (Some(2), ""), "{stderr}");
            assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
            assert!(stderr.contains(what) && stderr.contains("Permission denied"), "{stderr}");
        }
    };
    fs::set_permissions(&store, Permissions::from_mode(0o000)).unwrap();
    refused(store.to_str().unwrap());
    fs::set_permissions(&store, Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(sample.path(), Permissions::from_mode(0o000)).unwrap();
    refused(&dir);
    fs::set_permissions(sample.path(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(contents(sample.path()), before);
    assert!(!fs::exists(&out).unwrap());
}
