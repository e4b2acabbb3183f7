//! What is older than the archive, what is read from the node's state, and the archive by itself.

use crate::{
    equality::{Compared, compare},
    http::call,
    node::Node,
    workload::Workload,
};
use alloy_primitives::{B256, U256};
use prestate_store::{Archive, ArchiveOptions, ChainId};
use serde_json::json;
use std::{
    path::Path,
    process::{Command, Output},
};

fn prestate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prestate-reth"))
        .arg("prestate")
        .args(args)
        .args(["--log.file.max-files", "0"])
        .output()
        .unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A node without an archive, then one with an archive that begins at the head and is filled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_blocks_are_filled_in_and_carried_to_another_archive() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start_in(folder.path(), &["--prestate.no-archive"]).await.unwrap();
    let (mut workload, deploying) = Workload::deploy(200);
    let mut blocks = vec![node.commit(&deploying).await];
    for _ in 0..12 {
        let txs = workload.block();
        blocks.push(node.commit(&txs).await);
    }
    drop(node);

    let archive = folder.path().join("archive");
    let flags =
        [&*format!("--prestate.datadir={}", archive.display()), "--prestate.backfill=1..1000"];
    let node = Node::start_in(folder.path(), &flags).await.unwrap();
    // The node lost what it had in memory only.
    let kept = node.host.head().unwrap().number;
    blocks.truncate(kept as usize);
    assert!(kept > 5, "the node kept {kept} blocks");
    let lane = node.lane().await;
    let inside = &node.launched.prestate;
    let backfill = || inside.pipeline_status().and_then(|status| status.backfill);
    node.wait(|| backfill().is_some_and(|progress| progress.finished)).await;
    let progress = backfill().unwrap();
    assert_eq!((progress.written, progress.failed), (kept, 0), "{progress:?}");
    let mut sum = Compared::default();
    for block in &blocks {
        compare(node.http, lane, &block.hash.to_string(), &mut sum).await;
    }
    println!("compared with the node's own tracer after a back-fill: {sum:?}");
    assert_eq!(sum.blocks, blocks.len());
    let status = call(lane, "prestate_status", json!([])).await.unwrap();
    assert_eq!(status["problems"], json!([]), "{status}");

    let info = prestate(&["info", text(&archive)]);
    let said = String::from_utf8_lossy(&info.stdout).into_owned();
    let all = said.contains("blocks    1 (0x") && said.contains(&format!(") to {kept} (0x"));
    assert!(info.status.success() && all, "{said}");
    drop(node);

    // Read, checked, carried to another archive, and given back to the file system.
    let chain = Archive::describe(&archive).unwrap().chain;
    carried(folder.path(), &archive, chain, kept);
}

fn carried(folder: &Path, archive: &Path, chain: ChainId, last: u64) {
    assert!(prestate(&["verify", text(archive)]).status.success());
    let file = folder.join("blocks");
    let exported = prestate(&["export", text(archive), "1", &last.to_string(), text(&file)]);
    assert!(exported.status.success(), "{exported:?}");
    let again = prestate(&["export", text(archive), "1", "2", text(&file)]);
    assert!(!again.status.success(), "a file that is there is not written over");
    let other = folder.join("other");
    drop(Archive::create(&other, chain, &ArchiveOptions::default()).unwrap());
    let imported = prestate(&["import", text(&other), text(&file)]);
    assert!(imported.status.success(), "{imported:?}");
    assert!(prestate(&["compact", text(&other)]).status.success());
    let options = ArchiveOptions::default();
    let [one, two] =
        [archive, &*other].map(|path| Archive::open_read_only(path, &options).unwrap());
    for number in 1..=last {
        let hash = one.canonical_hash(number).unwrap().unwrap();
        assert_eq!(two.canonical_hash(number).unwrap(), Some(hash));
        assert_eq!(one.facts(&hash).unwrap(), two.facts(&hash).unwrap());
    }
    drop((one, two));
    let nowhere = prestate(&["verify", text(&folder.join("nowhere"))]);
    assert!(!nowhere.status.success());
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("nowhere"), "{nowhere:?}");
}

/// Many slots in no order, some asked twice and some never set, are what the node says one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_slots_at_once_are_those_asked_one_by_one() {
    let mut node = Node::start(&["--prestate.no-archive"]).await;
    let lane = node.lane().await;
    let (mut workload, deploying) = Workload::deploy(100);
    node.commit(&deploying).await;
    let store = workload.store;
    let txs: Vec<_> =
        (0..4).map(|part| workload.store(store, 60, part * 60, 1_000 * (part + 1))).collect();
    let block = node.commit(&txs).await;
    let slot = |number: u64| B256::from(U256::from(number));
    // 7 and 300 have no common divisor: every slot once, then some again.
    let slots: Vec<_> = (0..300).chain([3, 299, 3]).map(|at: u64| slot(at * 7 % 300)).collect();
    let params = json!([block.hash, { store.to_string(): slots }]);
    let many = call(lane, "prestate_getStorage", params).await.unwrap();
    let values = many["storage"].as_object().unwrap().values().next().unwrap();
    let mut set = 0;
    for number in 0..300 {
        let slot = slot(number);
        let params = json!([store, slot, "latest"]);
        let single = call(node.http, "eth_getStorageAt", params).await.unwrap();
        assert_eq!(values[slot.to_string()], single, "slot {slot}");
        set += usize::from(single != json!(B256::ZERO));
    }
    assert_eq!(set, 240);
}
