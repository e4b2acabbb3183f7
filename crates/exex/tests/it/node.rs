use alloy_eips::BlockNumHash;
use alloy_genesis::Genesis;
use clap::Parser;
use prestate_exex::{Prestate, PrestateArgs};
use prestate_types::BlockRef;
use reth_chain_state::{CanonicalInMemoryState, ExecutedBlock, NewCanonicalChain};
use reth_ethereum::{
    Block, BlockBody, EthPrimitives,
    chainspec::{Chain as ChainId, ChainSpec, ChainSpecBuilder},
    exex::{ExExEvent, ExExNotification},
    primitives::{Block as _, Header, RecoveredBlock},
};
use reth_execution_types::{Chain, ExecutionOutcome};
use reth_exex_test_utils::{TestExExHandle, test_exex_context_with_chain_spec};
use revm::database::{BundleState, states::reverts::Reverts};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// How long anything is waited for that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) type Executed = ExecutedBlock<EthPrimitives>;

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    args: PrestateArgs,
}

/// A node's database and channels, its chain in memory, and the extension over it.
pub(crate) struct Node {
    pub(crate) handle: TestExExHandle,
    pub(crate) prestate: Prestate,
    chain: CanonicalInMemoryState<EthPrimitives>,
    following: JoinHandle<eyre::Result<()>>,
}

fn spec() -> Arc<ChainSpec> {
    let genesis = Genesis { gas_limit: 30_000_000, ..Genesis::default() };
    let spec = ChainSpecBuilder::default().chain(ChainId::from_id(4242)).genesis(genesis);
    Arc::new(spec.paris_activated().build())
}

impl Node {
    pub(crate) async fn start(archive: &Path) -> Self {
        let spec = spec();
        let (mut ctx, handle) = test_exex_context_with_chain_spec(spec.clone()).await.unwrap();
        ctx.config.chain = spec;
        let chain = ctx.components.provider.canonical_in_memory_state();
        let folder = format!("--prestate.datadir={}", archive.display());
        let flags =
            ["node", "--prestate.http.disable", "--prestate.reserve=0", "--prestate.workers=1"];
        let args = Flags::parse_from(flags.into_iter().chain([&*folder])).args;
        let prestate = Prestate::new(args).unwrap();
        let following = tokio::spawn(prestate.clone().exex(ctx).await.unwrap());
        Self { handle, prestate, chain, following }
    }

    pub(crate) fn genesis(&self) -> RecoveredBlock<Block> {
        self.handle.genesis.clone()
    }

    /// Makes blocks canonical, and says so.
    pub(crate) async fn commit(&mut self, new: &[Executed]) {
        self.adopt(new, &[]);
        self.tell(ExExNotification::ChainCommitted { new: run(new) }).await;
    }

    /// Makes blocks canonical instead of others, without a word.
    pub(crate) fn adopt(&self, new: &[Executed], old: &[Executed]) {
        let (new, old) = (new.to_vec(), old.to_vec());
        let head = new.last().map(|block| block.recovered_block.clone_sealed_header());
        let change = match old.is_empty() {
            true => NewCanonicalChain::Commit { new },
            false => NewCanonicalChain::Reorg { new, old },
        };
        self.chain.update_chain(change);
        if let Some(head) = head {
            self.chain.set_canonical_head(head);
        }
    }

    pub(crate) fn finalize(&self, block: &Executed) {
        self.chain.set_finalized(block.recovered_block.clone_sealed_header());
    }

    pub(crate) async fn tell(&mut self, notification: ExExNotification) {
        self.handle.notifications_tx.send(notification).await.unwrap();
    }

    /// Waits for the node to be told that everything up to a block is done with.
    pub(crate) async fn finished(&mut self, block: BlockNumHash) {
        let expected = ExExEvent::FinishedHeight(block);
        let heard = async { while self.handle.events_rx.recv().await != Some(expected) {} };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        heard.unwrap_or_else(|_| panic!("{:?}", self.prestate.pipeline_status()));
    }

    /// Waits for one more event, whatever it says.
    pub(crate) async fn event(&mut self) -> BlockNumHash {
        let event = tokio::time::timeout(PATIENCE, self.handle.events_rx.recv()).await;
        let Some(ExExEvent::FinishedHeight(block)) = event.unwrap() else { panic!("no event") };
        block
    }

    /// Waits until the newest durable block is this one.
    pub(crate) async fn durable(&self, block: &Executed) {
        let at = at(block);
        let expected = Some(BlockRef::new(at.number, at.hash));
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.prestate.pipeline_status().and_then(|status| status.durable) != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{:?}", self.prestate.pipeline_status()));
    }

    pub(crate) fn is_following(&self) -> bool {
        !self.following.is_finished()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.following.abort();
        self.handle.runtime.graceful_shutdown_with_timeout(Duration::from_secs(5));
    }
}

/// A block without transactions; `extra` makes it another one.
pub(crate) fn child(parent: &RecoveredBlock<Block>, extra: u8) -> Executed {
    let header = Header {
        parent_hash: parent.hash(),
        number: parent.number + 1,
        timestamp: parent.timestamp + 12,
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(7),
        extra_data: vec![extra].into(),
        ..Header::default()
    };
    let block = Block::new(header, BlockBody::default()).seal_slow().try_recover().unwrap();
    Executed { recovered_block: Arc::new(block), ..Executed::default() }
}

/// Blocks on top of each other.
pub(crate) fn children(parent: &RecoveredBlock<Block>, extra: u8, count: usize) -> Vec<Executed> {
    let mut blocks = Vec::<Executed>::new();
    for _ in 0..count {
        let parent = blocks.last().map_or(parent, |block| &block.recovered_block);
        let block = child(parent, extra);
        blocks.push(block);
    }
    blocks
}

pub(crate) fn at(block: &Executed) -> BlockNumHash {
    block.recovered_block.num_hash()
}

/// Blocks committed together, as the node tells of them.
pub(crate) fn run(blocks: &[Executed]) -> Arc<Chain> {
    let bundle = BundleState {
        reverts: Reverts::new(vec![Vec::new(); blocks.len()]),
        ..BundleState::default()
    };
    let outcome = ExecutionOutcome {
        bundle,
        receipts: vec![Vec::new(); blocks.len()],
        first_block: blocks.first().map_or(0, |block| block.recovered_block.number),
        requests: Vec::new(),
    };
    let blocks = blocks.iter().map(|block| RecoveredBlock::clone(&block.recovered_block));
    Arc::new(Chain::new(blocks, outcome, BTreeMap::new()))
}
