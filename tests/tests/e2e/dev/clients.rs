//! cast, viem, ethers and web3.py: each sends transactions, waits for them, reads logs and state,
//! and subscribes. They are installed from their registries with the versions of
//! `tests/clients`, once, into `$PRESTATE_CLIENTS` or `target/clients`; who cannot be installed is
//! named.

use super::server::Server;
use prestate_tests::fixtures::workspace;
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

const FILES: [&str; 6] = [
    "package.json",
    "package-lock.json",
    "requirements.txt",
    "viem.mjs",
    "ethers.mjs",
    "web3_client.py",
];

fn folder() -> PathBuf {
    let folder = env::var_os("PRESTATE_CLIENTS")
        .map_or_else(|| workspace().join("target/clients"), PathBuf::from);
    fs::create_dir_all(&folder).expect("the folder can be made");
    for file in FILES {
        let copied = fs::copy(workspace().join("tests/clients").join(file), folder.join(file));
        copied.expect("the folder can be written to");
    }
    folder
}

/// Runs a command to its end; `Err` is its last words.
fn run(command: &mut Command) -> Result<String, String> {
    let ran = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() {
        return Ok(text(&ran.stdout));
    }
    Err(format!("{}\n{}\n{}", ran.status, text(&ran.stdout), text(&ran.stderr)))
}

/// The folder with the npm packages in it.
fn npm() -> Result<&'static Path, &'static str> {
    static READY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let ready = READY.get_or_init(|| {
        let folder = folder();
        let lock = fs::read(folder.join("package-lock.json")).expect("it was copied");
        let stamp = folder.join("node_modules/.installed");
        if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
            return Ok(folder);
        }
        let args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        run(Command::new("npm").args(args).current_dir(&folder))?;
        fs::write(stamp, lock).map_err(|error| error.to_string())?;
        Ok(folder)
    });
    ready.as_deref().map_err(String::as_str)
}

/// A Python with the packages.
fn python() -> Result<PathBuf, String> {
    let folder = folder();
    let wanted = fs::read(folder.join("requirements.txt")).expect("it was copied");
    let (venv, stamp) = (folder.join("venv"), folder.join("venv/.installed"));
    let python = venv.join("bin/python");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let args = ["-m", "pip", "install", "--quiet", "--requirement", "requirements.txt"];
    run(Command::new(&python).args(args).current_dir(&folder))?;
    fs::write(stamp, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

fn skipped(client: &str, reason: &str) {
    println!("skipped: {client} cannot be installed here: {reason}");
}

fn artefact() -> PathBuf {
    workspace().join("etc/contracts/out/Token.json")
}

fn script(client: &str, program: &Path, file: PathBuf) {
    let server = Server::start([] as [&str; 0]);
    let mut command = Command::new(program);
    command.arg(file).args([server.url(), server.ws_url()]).arg(artefact());
    match run(&mut command) {
        Ok(said) => println!("{client}: {}", said.trim()),
        Err(failure) => panic!("{client}: {failure}"),
    }
}

#[test]
fn viem() {
    match npm() {
        Ok(folder) => script("viem", Path::new("node"), folder.join("viem.mjs")),
        Err(reason) => skipped("viem", reason),
    }
}

#[test]
fn ethers() {
    match npm() {
        Ok(folder) => script("ethers", Path::new("node"), folder.join("ethers.mjs")),
        Err(reason) => skipped("ethers", reason),
    }
}

#[test]
fn web3_py() {
    match python() {
        Ok(python) => script("web3.py", &python, folder().join("web3_client.py")),
        Err(reason) => skipped("web3.py", &reason),
    }
}

#[test]
fn cast() {
    let folder = match npm() {
        Ok(folder) => folder,
        Err(reason) => return skipped("cast", reason),
    };
    // The package for this machine; its launcher would need install scripts.
    let packages = fs::read_dir(folder.join("node_modules/@foundry-rs")).expect("it is installed");
    let binary = packages
        .filter_map(|package| Some(package.ok()?.path().join("bin/cast")))
        .find(|binary| binary.is_file());
    let Some(binary) = binary else {
        return skipped("cast", "there is no package for this machine");
    };
    let server = Server::start([] as [&str; 0]);
    let cast = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(args).env("ETH_RPC_URL", server.url()).current_dir(folder);
        run(&mut command).unwrap_or_else(|failure| panic!("cast {args:?}: {failure}"))
    };
    let key = "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba";
    let to = "0x00000000000000000000000000000000000E7A04";
    assert_eq!(cast(&["chain-id"]).trim(), "31337");
    let blob = folder.join("blob.txt");
    fs::write(&blob, "a blob").expect("the folder can be written to");
    let blob = blob.to_str().expect("a path of text");
    let proxy = "0x4e59b44847b379578588920cA78FbF26c0B4956C";
    let send = |more: &[&str]| -> Value {
        let sent = cast(&[&["send", "--private-key", key, "--json"], more].concat());
        let receipt: Value = serde_json::from_str(&sent).expect("a receipt");
        assert_eq!(receipt["status"], "0x1", "{more:?}: {receipt}");
        receipt
    };
    for (kind, args) in [
        ("0x0", &[to, "--value", "1", "--legacy"][..]),
        ("0x1", &[to, "--value", "1", "--legacy", "--access-list"]),
        ("0x2", &[to, "--value", "1ether"]),
        ("0x3", &[to, "--blob", "--path", blob]),
        ("0x4", &[to, "--auth", proxy]),
    ] {
        let receipt = send(args);
        assert_eq!(receipt["type"], kind, "{args:?}");
    }
    assert_eq!(cast(&["balance", to]).trim(), "1000000000000000002");

    let artefact: Value =
        serde_json::from_slice(&fs::read(artefact()).expect("it is there")).expect("JSON");
    let init = artefact["bytecode"].as_str().expect("code");
    let arguments = cast(&["abi-encode", "f(string,string,uint256)", "Cast", "CST", "1000"]);
    let init = format!("{init}{}", arguments.trim().trim_start_matches("0x"));
    let token = send(&["--create", &init])["contractAddress"].as_str().expect("new").to_owned();
    let moved = send(&[&token, "transfer(address,uint256)", to, "7"]);
    assert_eq!(cast(&["call", &token, "balanceOf(address)(uint256)", to]).trim(), "7");
    let logs = cast(&["logs", "--json", "--from-block", "0", "--address", &token]);
    let logs: Value = serde_json::from_str(&logs).expect("logs");
    assert_eq!(logs[1]["transactionHash"], moved["transactionHash"]);
    assert_eq!(logs.as_array().map(Vec::len), Some(2), "the supply and the transfer");
    let sender = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";
    let gas = cast(&["estimate", "--from", sender, &token, "transfer(address,uint256)", to, "1"]);
    assert!(gas.trim().parse::<u64>().is_ok_and(|gas| (21_000..60_000).contains(&gas)), "{gas}");
    cast(&["rpc", "dev_reorg", "1"]);
    cast(&["rpc", "dev_mine"]);
    assert_eq!(cast(&["nonce", sender]).trim(), "8");
    let head = server.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(cast(&["block", "latest", "--field", "hash"]).trim(), head["hash"]);
    println!("cast: five types of transactions, a contract, logs");
}

/// The compiled contracts that the program embeds are what their sources compile to.
#[test]
fn contracts_are_what_their_sources_compile_to() {
    let from = workspace().join("etc/contracts");
    let to = folder().join("contracts");
    for part in ["", "src", "out"] {
        fs::create_dir_all(to.join(part)).expect("the folder can be made");
        for file in fs::read_dir(from.join(part)).expect("it is there") {
            let file = file.expect("it is there").path();
            if file.is_file() {
                let name = file.file_name().expect("a file has a name");
                fs::copy(&file, to.join(part).join(name)).expect("the folder can be written to");
            }
        }
    }
    let args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    if let Err(reason) = run(Command::new("npm").args(args).current_dir(&to)) {
        return skipped("solc", &reason);
    }
    run(Command::new("node").args(["build.js", "--check"]).current_dir(&to)).expect("the same");
}
