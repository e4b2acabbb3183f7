//! Real blocks: archived, the archive reopened, and every byte rendered from it compared with what
//! is rendered from the block just replayed.

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
use std::{env, ops::ControlFlow, path::Path, sync::Arc};
use tempfile::TempDir;

/// Real blocks to replay: every so many, for the sake of a build without optimisation. All of them
/// with `PRESTATE_ALL_FIXTURES`.
const STEP: usize = 4;

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
    let blocks = fresh_blocks(&folder);
    assert!(blocks.len() > 10);
    let chain = ChainId { chain_id: 1, genesis_hash: B256::ZERO };
    let archive = TempDir::new().unwrap();
    let (mut writer, reader) = Archive::create(archive.path(), chain, &options()).unwrap();
    for Fresh { facts, codes } in &blocks {
        writer.append(facts, codes, true).unwrap();
    }
    drop((writer, reader));
    let (_writer, reader) = Archive::open(archive.path(), chain, &options()).unwrap();
    for Fresh { facts, codes } in &blocks {
        let kept = reader.facts(&facts.summary.block.hash).unwrap().unwrap();
        assert_eq!(&kept, facts);
        let kept_codes = codes_of(&reader, &kept);
        assert!(render(&kept, &kept_codes) == render(facts, codes), "{}", facts.summary.block);
    }
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}
