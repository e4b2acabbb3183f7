//! A tree of real blocks: transfers, storage writes, creations and withdrawals, on a chain in
//! memory; and a host that shows it as badly as the seam's contract allows.

use crate::random::Random;
use alloy_consensus::{
    BlockBody, Header, SignableTransaction, TxLegacy, constants::EMPTY_OMMER_ROOT_HASH, proofs,
};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bloom, TxKind, U256, address, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use parking_lot::Mutex;
use prestate_diff::{Execution, replay};
use prestate_host::{
    Block, BundleSlice, ChainSpec, CommittedBlock, Host, HostError, HostInfo, Notification,
    Notifications, RecoveredBlock, StateError, StateReader, TxPlace, summary,
};
use prestate_host_embedded::{MemoryChain, state_root};
use prestate_store::ChainId;
use prestate_types::{AccountInfo, BlockRef, Codes, StateDiff};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::mpsc;

/// Whole state, as the model holds it.
pub(crate) type WorldState = BTreeMap<Address, (AccountInfo, BTreeMap<B256, B256>)>;

/// Writes its second word of input to the slot its first word names.
const STORE: Address = address!("0x00000000000000000000000000000000000057c0");
/// PUSH1 32 CALLDATALOAD PUSH0 CALLDATALOAD SSTORE STOP
const STORE_CODE: &str = "0x6020355f355500";
const SENDERS: u64 = 4;

/// A tree of blocks, all known to one chain in memory.
pub(crate) struct Tree {
    pub(crate) chain: Arc<MemoryChain>,
    pub(crate) genesis: BlockRef,
    notifications: Notifications,
    signers: Vec<PrivateKeySigner>,
    blocks: HashMap<B256, Leaf>,
}

/// A block with the state after it.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) at: BlockRef,
    pub(crate) parent: B256,
    pub(crate) state: Arc<WorldState>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

fn signer(index: u64) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&keccak256(index.to_be_bytes())).unwrap()
}

fn genesis(signers: &[PrivateKeySigner]) -> Genesis {
    let mut alloc = serde_json::Map::new();
    for signer in signers {
        let balance = serde_json::json!({ "balance": "0x3635c9adc5dea00000" });
        alloc.insert(signer.address().to_string(), balance);
    }
    alloc.insert(STORE.to_string(), serde_json::json!({ "balance": "0x0", "code": STORE_CODE }));
    serde_json::from_value(serde_json::json!({
        "config": {
            "chainId": 1337, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0, "terminalTotalDifficulty": 0,
            "terminalTotalDifficultyPassed": true, "shanghaiTime": 0
        },
        "difficulty": "0x0", "gasLimit": "0x1c9c380", "alloc": alloc,
    }))
    .unwrap()
}

impl Tree {
    pub(crate) fn new() -> Self {
        let signers: Vec<_> = (0..SENDERS).map(signer).collect();
        let genesis = genesis(&signers);
        let chain = Arc::new(MemoryChain::from_genesis(&genesis));
        let at = chain.head().unwrap();
        let state: WorldState = genesis
            .alloc
            .iter()
            .map(|(address, account)| {
                let code = account.code.as_ref();
                let info = AccountInfo {
                    balance: account.balance,
                    code_hash: code.map_or(prestate_types::KECCAK_EMPTY, keccak256),
                    ..AccountInfo::EMPTY
                };
                (*address, (info, BTreeMap::new()))
            })
            .collect();
        let root = Leaf { at, parent: B256::ZERO, state: Arc::new(state) };
        let notifications = chain.notifications().unwrap();
        Self { chain, genesis: at, notifications, signers, blocks: [(at.hash, root)].into() }
    }

    pub(crate) fn chain_id(&self) -> ChainId {
        ChainId { chain_id: 1337, genesis_hash: self.genesis.hash }
    }

    pub(crate) fn leaf(&self, hash: &B256) -> &Leaf {
        &self.blocks[hash]
    }

    /// Ancestors of a block, itself included, ascending from genesis.
    pub(crate) fn line(&self, tip: BlockRef) -> Vec<BlockRef> {
        let mut line = vec![tip];
        while line[line.len() - 1].number > 0 {
            let leaf = self.leaf(&line[line.len() - 1].hash);
            line.push(BlockRef::new(leaf.at.number - 1, leaf.parent));
        }
        line.reverse();
        line
    }

    /// What the block changed, by comparing whole states.
    pub(crate) fn difference(&self, hash: &B256) -> StateDiff {
        let leaf = self.leaf(hash);
        difference(&self.leaf(&leaf.parent).state, &leaf.state)
    }

    /// Makes a block on a parent; `salt` tells siblings apart. On top of the chain's head it
    /// becomes the head.
    pub(crate) fn grow(&mut self, parent: B256, salt: u64) -> BlockRef {
        let mut random = Random::new(salt);
        let below = self.chain.block(parent).unwrap().unwrap();
        let old = self.blocks[&parent].clone();
        let transactions: Vec<_> = {
            let mut nonces: HashMap<Address, u64> = HashMap::new();
            (0..random.below(4))
                .map(|_| self.transaction(&old.state, &mut nonces, &mut random))
                .collect()
        };
        let withdrawals = (0..random.below(2)).map(|index| Withdrawal {
            index,
            validator_index: index,
            address: Address::with_last_byte(random.below(9) as u8 + 0x80),
            amount: 1 + random.below(1_000_000),
        });
        let withdrawals = Withdrawals::new(withdrawals.collect());
        let header = Header {
            parent_hash: parent,
            number: below.number + 1,
            timestamp: below.timestamp + 12,
            gas_limit: below.gas_limit,
            beneficiary: Address::with_last_byte(0xbe),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            base_fee_per_gas: below
                .header()
                .next_block_base_fee(alloy_eips::eip1559::BaseFeeParams::ethereum()),
            transactions_root: proofs::calculate_transaction_root(&transactions),
            withdrawals_root: Some(proofs::calculate_withdrawals_root(&withdrawals)),
            extra_data: salt.to_be_bytes().into(),
            ..Header::default()
        };
        let body = BlockBody { transactions, ommers: Vec::new(), withdrawals: Some(withdrawals) };
        let draft = RecoveredBlock::try_recover(Block { header, body }).unwrap();
        let (header, state) = self.sealed(&draft, &old.state);
        let body = draft.body().clone();
        let block = RecoveredBlock::try_recover(Block { header, body }).unwrap();
        let at = summary(&block).block;
        self.chain.import(block).unwrap();
        self.blocks.insert(at.hash, Leaf { at, parent, state: Arc::new(state) });
        at
    }

    fn transaction(
        &self,
        state: &WorldState,
        nonces: &mut HashMap<Address, u64>,
        random: &mut Random,
    ) -> alloy_consensus::EthereumTxEnvelope<alloy_consensus::TxEip4844> {
        let signer = &self.signers[random.below(SENDERS) as usize];
        let from = signer.address();
        let nonce = nonces.entry(from).or_insert_with(|| state[&from].0.nonce);
        let word = |value: u64| B256::from(U256::from(value));
        let (to, input, value) = match random.below(4) {
            0 | 1 => {
                let slot = word(random.below(6));
                // A zero now and then, so that slots go away again.
                let input = [slot, word(random.below(4))].concat();
                (TxKind::Call(STORE), input, U256::ZERO)
            }
            2 => {
                let to = Address::with_last_byte(random.below(12) as u8 + 0x40);
                (TxKind::Call(to), Vec::new(), U256::from(1 + random.below(1 << 40)))
            }
            // Returns the one byte of code that it is given by its salt: PUSH1 x PUSH0 MSTORE8
            // PUSH1 1 PUSH0 RETURN
            _ => {
                let init = vec![0x60, random.below(3) as u8, 0x5f, 0x53, 0x60, 1, 0x5f, 0xf3];
                (TxKind::Create, init, U256::ZERO)
            }
        };
        let tx = TxLegacy {
            chain_id: Some(1337),
            nonce: *nonce,
            gas_price: 2_000_000_000,
            gas_limit: 120_000,
            to,
            value,
            input: input.into(),
        };
        *nonce += 1;
        let signature = signer.sign_hash_sync(&tx.signature_hash()).unwrap();
        tx.into_signed(signature).into()
    }

    /// Runs a block that lacks the results in its header, and puts them there.
    fn sealed(&self, draft: &RecoveredBlock, old: &WorldState) -> (Header, WorldState) {
        let execution = Execution { spec: self.chain.spec(), block: draft };
        let parent = self.chain.state_after(draft.parent_hash).unwrap();
        let each = |_, _: &Codes| ControlFlow::Continue(());
        let replayed = replay(execution, parent, &mut (), each).unwrap();
        let mut state = old.clone();
        for (address, account) in &replayed.finished.bundle.state {
            let Some(info) = &account.info else {
                state.remove(address);
                continue;
            };
            let entry = state.entry(*address).or_default();
            entry.0 =
                AccountInfo { nonce: info.nonce, balance: info.balance, code_hash: info.code_hash };
            for (slot, value) in &account.storage {
                if value.present_value.is_zero() {
                    entry.1.remove(&B256::from(*slot));
                } else {
                    entry.1.insert(B256::from(*slot), value.present_value.into());
                }
            }
        }
        let receipts: Vec<_> = replayed
            .finished
            .receipts
            .iter()
            .map(alloy_consensus::TxReceipt::with_bloom_ref)
            .collect();
        let accounts = state.iter().map(|(address, (info, storage))| {
            (*address, *info, storage.iter().map(|(slot, value)| (*slot, *value)).collect())
        });
        let header = Header {
            gas_used: replayed.finished.gas_used,
            logs_bloom: receipts.iter().fold(Bloom::ZERO, |bloom, r| bloom | r.logs_bloom),
            receipts_root: proofs::calculate_receipt_root(&receipts),
            state_root: state_root(accounts),
            ..draft.header().clone()
        };
        (header, state)
    }

    /// What the chain told since the last call.
    pub(crate) fn told(&mut self) -> Vec<Notification> {
        std::iter::from_fn(|| self.notifications.try_recv().ok()).collect()
    }

    /// What the chain told since the last call, as a node commits it that caught up: one bundle
    /// over all blocks.
    pub(crate) fn told_together(&mut self) -> Vec<CommittedBlock> {
        together(&self.told())
    }

    /// Passes on everything the chain told.
    pub(crate) fn tell(&mut self, host: &TestHost) {
        for notification in self.told() {
            host.send.try_send(notification).unwrap();
        }
    }

    /// Blocks on top of one another, told apart by salts from `salt` on.
    pub(crate) fn extend(&mut self, from: BlockRef, salt: u64, count: u64) -> BlockRef {
        (salt..salt + count).fold(from, |parent, salt| self.grow(parent.hash, salt))
    }

    /// A block as a node tells of it that does not know what it changed.
    pub(crate) fn committed(&self, hash: B256) -> CommittedBlock {
        let block = self.chain.block(hash).unwrap().unwrap();
        CommittedBlock { block, bundle: None }
    }
}

/// All blocks of some notifications under one bundle.
pub(crate) fn together(told: &[Notification]) -> Vec<CommittedBlock> {
    let new: Vec<_> = told.iter().flat_map(Notification::committed).collect();
    let mut bundle = (*new[0].bundle.as_ref().unwrap().bundle).clone();
    for block in &new[1..] {
        bundle.extend((*block.bundle.as_ref().unwrap().bundle).clone());
    }
    let bundle = Arc::new(bundle);
    let slice = |index| Some(BundleSlice { bundle: bundle.clone(), index });
    let blocks = new.iter().enumerate();
    let blocks = blocks
        .map(|(index, block)| CommittedBlock { block: block.block.clone(), bundle: slice(index) });
    blocks.collect()
}

fn difference(before: &WorldState, after: &WorldState) -> StateDiff {
    use prestate_types::{AccountDelta, SlotDelta};
    let addresses: HashSet<_> = before.keys().chain(after.keys()).collect();
    let none = BTreeMap::new();
    let accounts = addresses.into_iter().map(|address| {
        let (pre, post) = (before.get(address), after.get(address));
        let (old, new) = (pre.map_or(&none, |a| &a.1), post.map_or(&none, |a| &a.1));
        let slots: HashSet<_> = old.keys().chain(new.keys()).copied().collect();
        let value =
            |storage: &BTreeMap<B256, B256>, slot| storage.get(slot).copied().unwrap_or_default();
        let storage = slots.iter().map(|s| SlotDelta::new(*s, value(old, s), value(new, s)));
        let delta = AccountDelta {
            pre: pre.map(|a| a.0),
            post: post.map(|a| a.0),
            storage: storage.collect(),
            wiped: false,
        };
        (*address, delta)
    });
    StateDiff::from_unsorted(accounts.collect())
}

/// A session of the host: the tree's chain behind notifications that the test forwards, drops,
/// repeats and makes up.
#[derive(Debug)]
pub(crate) struct TestHost {
    pub(crate) chain: Arc<MemoryChain>,
    pub(crate) send: mpsc::Sender<Notification>,
    listener: Mutex<Option<Notifications>>,
    pub(crate) finalized: Mutex<Option<BlockRef>>,
    pub(crate) acks: Mutex<Vec<BlockRef>>,
    /// Blocks whose parent state cannot be read, by the parent's hash.
    pub(crate) unreadable: Mutex<HashSet<B256>>,
    /// Blocks whose parent state panics, by the parent's hash.
    pub(crate) explosive: Mutex<HashSet<B256>>,
    pub(crate) heads_panic: AtomicBool,
    /// Prints acknowledgements, for a parent process to read.
    pub(crate) loud: bool,
}

impl TestHost {
    pub(crate) fn new(chain: &Arc<MemoryChain>) -> Arc<Self> {
        Arc::new(Self::quiet(chain))
    }

    pub(crate) fn quiet(chain: &Arc<MemoryChain>) -> Self {
        let (send, listener) = mpsc::channel(4096);
        Self {
            chain: chain.clone(),
            send,
            listener: Mutex::new(Some(listener)),
            finalized: Mutex::default(),
            acks: Mutex::default(),
            unreadable: Mutex::default(),
            explosive: Mutex::default(),
            heads_panic: AtomicBool::new(false),
            loud: false,
        }
    }
}

impl Host for TestHost {
    fn info(&self) -> HostInfo {
        self.chain.info()
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        self.chain.spec()
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        assert!(!self.heads_panic.load(Ordering::Relaxed), "asked for the head");
        self.chain.head()
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        self.chain.safe()
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(*self.finalized.lock())
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        self.chain.earliest()
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        self.chain.canonical_hash(number)
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        self.chain.block(hash)
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        self.chain.transaction(hash)
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        assert!(!self.explosive.lock().contains(&hash), "state after {hash}");
        if self.unreadable.lock().contains(&hash) {
            return Err(StateError::Backend("not now".into()));
        }
        self.chain.state_after(hash)
    }

    fn notifications(&self) -> Option<Notifications> {
        self.listener.lock().take()
    }

    fn ack(&self, block: BlockRef) {
        if self.loud {
            println!("ack {} {}", block.number, block.hash);
        }
        self.acks.lock().push(block);
    }
}
