//! Real blocks: archived by a process of its own, which is killed; and every byte rendered from the
//! archive it left compared with what is rendered from the block just replayed.

use crate::basics::options;
use alloy_primitives::B256;
use prestate_diff::{Execution, replay};
use prestate_host::ChainSpec;
use prestate_host_embedded::{block_paths, load_path};
use prestate_store::{Archive, ArchiveReader, ChainId, EncodedBlock};
use prestate_types::{BlockDiff, BlockFacts, Codes, GethOptions};
use prestate_wire::{
    CodeTable, CodeView, KnownCodes, RopeBuilder, TraceList, write_block_diff, write_geth_diff,
    write_transaction_diff,
};
use std::{
    env,
    io::{BufRead, BufReader},
    ops::ControlFlow,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};
use tempfile::TempDir;

/// Real blocks to replay: every so many, for the sake of a build without optimisation. All of them
/// with `PRESTATE_ALL_FIXTURES`.
const STEP: usize = 4;

const CHAIN: ChainId = ChainId { chain_id: 1, genesis_hash: B256::ZERO };
/// Tell the other process where to archive which blocks.
const CHILD_FOLDER: &str = "PRESTATE_TEST_ARCHIVE";
const CHILD_BLOCKS: &str = "PRESTATE_TEST_BLOCKS";
/// What it says once all are durable.
const ARCHIVED: &str = "all blocks are archived";

/// Facts and codes of a block as just computed.
struct Fresh {
    facts: BlockFacts,
    codes: Codes,
}

fn fresh_blocks(folder: &Path) -> Vec<Fresh> {
    let spec = ChainSpec::by_chain_id(1).unwrap();
    let step = if env::var_os("PRESTATE_ALL_FIXTURES").is_some() { 1 } else { STEP };
    let paths = block_paths(folder).unwrap();
    paths
        .iter()
        .step_by(step)
        .map(|path| {
            let file = load_path(path).unwrap();
            let parent = Arc::new(file.prestate);
            let mut txs = Vec::new();
            let execution = Execution { spec: &spec, block: &file.block };
            let mut replayed = replay(execution, parent.clone(), &mut (), |tx, _| {
                txs.push(tx);
                ControlFlow::Continue(())
            })
            .unwrap();
            replayed.bundle_diff(&parent).unwrap();
            Fresh { facts: replayed.facts(txs), codes: replayed.codes }
        })
        .collect()
}

/// All views of a block, one after the other.
fn render(facts: &BlockFacts, codes: &Codes) -> Vec<u8> {
    let table = CodeTable::new();
    let codes = KnownCodes::new(&table, codes);
    let mut out = RopeBuilder::new();
    for disable_code in [false, true] {
        for disable_storage in [false, true] {
            let options = GethOptions { disable_code, disable_storage };
            let mut list = TraceList::open(&mut out);
            for tx in &facts.txs {
                list.result(&mut out, &tx.hash);
                write_geth_diff(&mut out, tx, options, &codes).unwrap();
                list.end_entry(&mut out);
            }
            list.close(&mut out);
        }
    }
    let whole = BlockDiff { summary: facts.summary, diff: facts.fold() };
    for view in [CodeView::None, CodeView::Hash, CodeView::Full] {
        write_block_diff(&mut out, &whole, view, &codes).unwrap();
        for tx in &facts.txs {
            write_transaction_diff(&mut out, tx, view, &codes).unwrap();
        }
    }
    out.finish().to_vec()
}

fn codes_of(reader: &ArchiveReader, facts: &BlockFacts) -> Codes {
    let encoded = EncodedBlock::of_facts(facts).unwrap();
    let hashes = encoded.code_hashes().iter();
    hashes.map(|hash| (*hash, reader.code(hash).unwrap().unwrap())).collect()
}

/// The other process: archives the blocks, says so and waits to be killed.
#[test]
#[ignore = "run by real_blocks_render_the_same_from_the_archive"]
fn archive_and_wait() {
    let (Some(path), Some(folder)) = (env::var_os(CHILD_FOLDER), env::var_os(CHILD_BLOCKS)) else {
        println!("skipped: it is run by another test");
        return;
    };
    let (mut writer, _) = Archive::create(path, CHAIN, &options()).unwrap();
    for Fresh { facts, codes } in fresh_blocks(Path::new(&folder)) {
        writer.append(&facts, &codes, true).unwrap();
    }
    println!("{ARCHIVED}");
    loop {
        std::thread::park();
    }
}

#[test]
fn real_blocks_render_the_same_from_the_archive() {
    let folder = env::var_os("PRESTATE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        Into::into,
    );
    let folder = folder.join("mainnet");
    if !folder.is_dir() {
        assert!(!env::var("CI").is_ok_and(|ci| ci == "true"), "in CI they must be there");
        println!("skipped: no {} (set PRESTATE_FIXTURES)", folder.display());
        return;
    }
    let archive = TempDir::new().unwrap();
    let path = archive.path().join("archive");
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "fixtures::archive_and_wait", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, &path)
        .env(CHILD_BLOCKS, &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let archived = lines.map_while(Result::ok).find(|line| line.contains(ARCHIVED));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(archived.is_some(), "the process ended without having archived");

    let blocks = fresh_blocks(&folder);
    assert!(blocks.len() > 10);
    let (_writer, reader) = Archive::open(&path, CHAIN, &options()).unwrap();
    for Fresh { facts, codes } in &blocks {
        let kept = reader.facts(&facts.summary.block.hash).unwrap().unwrap();
        assert_eq!(&kept, facts);
        let kept_codes = codes_of(&reader, &kept);
        assert!(render(&kept, &kept_codes) == render(facts, codes), "{}", facts.summary.block);
    }
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}
