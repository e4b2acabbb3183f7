#![expect(clippy::expect_used, reason = "a suite for tests: what fails is reported by a panic")]
//! The contract of [`Host`] as a suite that every host's own test calls.
//!
//! ```ignore
//! #[test]
//! fn replay_host_keeps_the_contract() {
//!     prestate_host::conformance::check(Arc::new(host), || {});
//! }
//! ```

use crate::{
    CommittedBlock, Host, Notifications, Outcome, ReaderDb, Receipts, RecoveredBlock, StateError,
    StateReader, TxPlace, check_header, evm_env, execute_block, execution_context, summary,
};
use alloy_consensus::transaction::SignerRecoverable;
use alloy_evm::eth::{EthBlockExecutor, EthEvmBuilder};
use alloy_primitives::{Address, B256, keccak256};
use prestate_types::{AccountInfo, BlockRef, KECCAK_EMPTY};
use revm::database::{BundleState, State, states::bundle_state::BundleRetention};
use std::{collections::BTreeSet, sync::Arc, thread};
use tokio::sync::mpsc::error::TryRecvError;

/// Blocks looked at, from the head down and from the earliest up.
const BLOCKS: usize = 64;

/// Holds a host against its contract, before and after `change`, which changes its chain (new
/// blocks, a reorg) or does nothing where a host cannot. Takes the host's notifications.
///
/// Where the state after a block's parent is there, the block is executed and held against its
/// header, and against the state after it where that is there too.
///
/// # Panics
/// The host breaks the contract; the message names the rule by its number.
pub fn check(host: Arc<dyn Host>, change: impl FnOnce()) {
    let mut stream = host.notifications();
    assert!(stream.is_some(), "rule 7: the stream of notifications is handed out once");
    one_listener(&*host);

    ask(&*host);
    let before = canonical(&*host);
    let fingerprints: Vec<_> = before.iter().map(|block| fingerprint(&*host, *block)).collect();
    change();
    for (block, known) in before.iter().zip(&fingerprints) {
        let now = fingerprint(&*host, *block);
        assert_eq!(now, *known, "rules 3 and 5: block {block} after the chain changed");
    }
    ask(&*host);
    if let Some(stream) = &mut stream {
        notified(&*host, stream);
    }
    from_many_threads(&host);
    acknowledge(&*host);
}

/// Rules 1, 2, 4 and 5, as the chain is now.
fn ask(host: &dyn Host) {
    let head = host.head().expect("rule 5: the head of a host at rest");
    let earliest = host.earliest().expect("rule 5: the earliest block of a host at rest");
    assert!(earliest.number <= head.number, "earliest {earliest} is above the head {head}");
    for (name, block) in [("safe", host.safe()), ("finalized", host.finalized())] {
        let block = block.expect("rule 5: an error means that the host could not look");
        if let Some(block) = block {
            assert!(block.number <= head.number, "{name} {block} is above the head {head}");
        }
    }
    let above = [head.number + 1, u64::MAX];
    for number in above {
        let hash = host.canonical_hash(number).expect("rule 5");
        assert_eq!(hash, None, "rule 5: number {number} is above the head {head}");
    }
    unknown(host);

    let blocks = canonical(host);
    assert_eq!(blocks.first(), Some(&earliest), "rule 1: the earliest block is canonical");
    assert_eq!(blocks.last(), Some(&head), "rule 1: the head is canonical");
    for at in blocks {
        let block = known(host, at);
        assert_eq!(summary(&block).block, at, "rule 1: the hash decides");
        assert_eq!(block.header().hash_slow(), at.hash, "rule 1: the hash is the header's");
        senders(&block);
        places(host, at, &block);
        execute(host, at, &block);
    }
}

/// The canonical blocks that are looked at, ascending; hosts of block files have gaps.
fn canonical(host: &dyn Host) -> Vec<BlockRef> {
    let (Ok(head), Ok(earliest)) = (host.head(), host.earliest()) else {
        panic!("rule 5: head and earliest of a host at rest");
    };
    let at = |number| {
        let hash = host.canonical_hash(number).expect("rule 5: a number of the chain");
        Some(BlockRef::new(number, hash?))
    };
    // Around both ends; what is between is alike.
    let span = BLOCKS as u64 * 1024;
    let low = earliest.number..=head.number.min(earliest.number.saturating_add(span));
    let high = earliest.number.max(head.number.saturating_sub(span))..=head.number;
    let mut blocks: BTreeSet<_> = low.filter_map(at).take(BLOCKS).collect();
    blocks.extend(high.rev().filter_map(at).take(BLOCKS));
    blocks.into_iter().collect()
}

fn known(host: &dyn Host, at: BlockRef) -> Arc<RecoveredBlock> {
    let block = host.block(at.hash).expect("rule 5: a canonical block");
    block.unwrap_or_else(|| panic!("rule 1: canonical block {at} is not known by its hash"))
}

fn unknown(host: &dyn Host) {
    let nobody = keccak256("no block and no transaction has this hash");
    assert!(matches!(host.block(nobody), Ok(None)), "rule 5: None for an unknown block");
    assert!(
        matches!(host.transaction(nobody), Ok(None)),
        "rule 5: None for an unknown transaction"
    );
    // Rule 2 lets a host find out at the first read.
    let read = host.state_after(nobody).and_then(|state| state.account(Address::ZERO));
    assert_eq!(read, Err(StateError::UnknownBlock(nobody)), "rule 2: state of an unknown block");
}

/// Rule 4.
fn senders(block: &RecoveredBlock) {
    let at = summary(block).block;
    let transactions = &block.body().transactions;
    assert_eq!(transactions.len(), block.senders().len(), "rule 4: senders of block {at}");
    for (index, (tx, sender)) in transactions.iter().zip(block.senders()).enumerate() {
        // Unchecked: before Homestead a high `s` is valid.
        let recovered = tx.recover_signer_unchecked().ok();
        assert_eq!(recovered, Some(*sender), "rule 4: block {at}, transaction {index}");
    }
}

fn places(host: &dyn Host, block: BlockRef, body: &RecoveredBlock) {
    for (index, tx) in body.body().transactions.iter().enumerate() {
        let place = host.transaction(*tx.tx_hash()).expect("rule 5: a canonical transaction");
        let expected = TxPlace { block, index: index as u64 };
        assert_eq!(place, Some(expected), "place of transaction {}", tx.tx_hash());
    }
}

/// Opens the state after a block, `None` where the host says by rule 2 that it is not there.
fn state(host: &dyn Host, hash: B256, number: u64) -> Option<Box<dyn StateReader>> {
    let opened = host.state_after(hash);
    // Pruning may show at the first read only.
    let read = opened.and_then(|state| state.account(Address::ZERO).map(|_| state));
    match read {
        Ok(state) => Some(state),
        Err(StateError::Pruned { requested, earliest }) => {
            assert_eq!(requested, number, "rule 2: the pruned block asked for");
            assert!(earliest > requested, "rule 2: pruned below {earliest}");
            None
        }
        Err(StateError::NotHeld(block)) => {
            assert_eq!(block.hash, hash, "rule 2: the block whose state is not held");
            None
        }
        Err(StateError::UnknownBlock(unknown)) => {
            assert_eq!(unknown, hash, "rule 2: the block that is not known");
            let block = host.block(hash).expect("rule 5");
            assert!(block.is_none(), "rule 2: block {hash} is known, its state says it is not");
            None
        }
        Err(error) => panic!("rule 2: state after block {hash}: {error}"),
    }
}

/// Rule 2: a block runs on the state after its parent and gives the state after itself.
fn execute(host: &dyn Host, at: BlockRef, block: &RecoveredBlock) {
    if at.number == 0 {
        return;
    }
    let Some(parent) = state(host, block.parent_hash, at.number - 1) else { return };
    let bundle = run(host, block, parent);
    let Some(after) = state(host, at.hash, at.number) else { return };
    let partial = is_partial(&*after, &bundle);
    for (address, change) in &bundle.state {
        let expected = change.info.as_ref().map(|info| AccountInfo {
            nonce: info.nonce,
            balance: info.balance,
            code_hash: if info.code_hash.is_zero() { KECCAK_EMPTY } else { info.code_hash },
        });
        let held = after.account(*address).expect("rule 2: a state that opened");
        if partial && held.is_none() {
            continue;
        }
        assert_eq!(held, expected, "rule 2: account {address} after block {at}");
        if let Some(info) = expected.filter(AccountInfo::has_code) {
            let code = after.code(info.code_hash).expect("rule 2: the code of an account");
            let hash = keccak256(code.original_byte_slice());
            assert_eq!(hash, info.code_hash, "rule 2: code of account {address}");
        }
        for (slot, value) in &change.storage {
            let key = B256::from(*slot);
            let many = after.storage_many(*address, &[key]);
            let held = after.storage(*address, key);
            assert_eq!(many, held.clone().map(|value| vec![value]), "rule 3: one slot or many");
            if partial && matches!(held, Err(StateError::MissingSlot { .. })) {
                continue;
            }
            let expected = Ok(B256::from(value.present_value()));
            assert_eq!(held, expected, "rule 2: {address} slot {key} after block {at}");
        }
    }
}

/// Whether this is the part of a state that some block reads: it owns up to slots it lacks.
fn is_partial(state: &dyn StateReader, changes: &BundleState) -> bool {
    let nowhere = keccak256("no contract uses this slot");
    changes.state.keys().any(|address| {
        matches!(state.storage(*address, nowhere), Err(StateError::MissingSlot { .. }))
    })
}

fn run(host: &dyn Host, block: &RecoveredBlock, parent: Box<dyn StateReader>) -> BundleState {
    let spec = &**host.spec();
    let at = summary(block).block;
    let mut db = State::builder().with_database(ReaderDb(parent)).with_bundle_update().build();
    let env = evm_env(spec, block.header());
    let context = execution_context(block);
    let evm = EthEvmBuilder::new(&mut db, env).build();
    let executor = EthBlockExecutor::new(evm, context, spec, &Receipts);
    let outcome = execute_block(spec, block, executor)
        .unwrap_or_else(|error| panic!("rule 2: block {at} on its parent's state: {error}"));
    let stated = Outcome {
        receipts: &outcome.receipts,
        gas_used: outcome.gas_used,
        blob_gas_used: outcome.blob_gas_used,
        requests: &outcome.requests,
    };
    if let Err(mismatch) = check_header(spec, block, stated) {
        panic!("rule 2: {mismatch}");
    }
    db.merge_transitions(BundleRetention::Reverts);
    db.take_bundle()
}

/// What must never change of a block: its header, its senders, and what is read of its state.
fn fingerprint(host: &dyn Host, at: BlockRef) -> impl PartialEq + std::fmt::Debug + use<> {
    let block = known(host, at);
    let again = known(host, at);
    assert_eq!(*block, *again, "rule 5: the same block for the same hash");
    let mut addresses: Vec<_> = block.senders().to_vec();
    addresses.push(block.beneficiary);
    let accounts: Option<Vec<_>> = state(host, at.hash, at.number).map(|state| {
        let account = |address: &Address| state.account(*address).expect("rule 3: a second read");
        addresses.iter().map(account).collect()
    });
    (block.hash(), block.senders().to_vec(), accounts)
}

/// Rule 6: what has come so far.
fn notified(host: &dyn Host, stream: &mut Notifications) {
    while let Ok(notification) = stream.try_recv() {
        let old = notification.reverted();
        let ascends = old.windows(2).all(|pair| pair[0].number + 1 == pair[1].number);
        assert!(ascends, "rule 6: reverted blocks ascend: {old:?}");
        let new = notification.committed();
        for pair in new.windows(2) {
            let (parent, child) = (pair[0].block_ref(), &pair[1].block);
            assert_eq!(child.parent_hash, parent.hash, "rule 6: committed blocks are a chain");
        }
        if let (Some(old), Some(new)) = (old.first(), new.first()) {
            let new = new.block_ref();
            assert_eq!(old.number, new.number, "rule 6: both sides of a reorg start together");
        }
        for committed in new {
            ask_committed(host, committed);
        }
    }
}

fn ask_committed(host: &dyn Host, committed: &CommittedBlock) {
    let at = committed.block_ref();
    let block = known(host, at);
    assert_eq!(*block, *committed.block, "rule 6: committed block {at} by its hash");
    senders(&block);
    assert!(
        state(host, block.parent_hash, at.number.saturating_sub(1)).is_some(),
        "rule 6: parent state of committed block {at}"
    );
    if let Some(slice) = &committed.bundle {
        let entries = slice.bundle.reverts.len();
        assert!(slice.index < entries, "bundle of block {at}: {} of {entries}", slice.index);
    }
}

/// Rule 7: afterwards nothing, or a stream that is closed where nothing ever changes.
fn one_listener(host: &dyn Host) {
    if let Some(mut second) = host.notifications() {
        let closed = matches!(second.try_recv(), Err(TryRecvError::Disconnected));
        assert!(closed, "rule 7: a second listener");
    }
}

/// Rule 8: forwards, backwards, and of a block nobody knows.
fn acknowledge(host: &dyn Host) {
    let blocks = canonical(host);
    let nobody = BlockRef::new(u64::MAX, keccak256("no block has this hash"));
    let ends = [blocks.last(), blocks.first(), Some(&nobody)];
    for block in ends.into_iter().flatten() {
        host.ack(*block);
    }
}

/// Rule 9: the same answers from several threads at once.
fn from_many_threads(host: &Arc<dyn Host>) {
    let blocks = canonical(&**host);
    let Some(at) = blocks.last().copied() else { return };
    let expected = fingerprint(&**host, at);
    let same = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| fingerprint(&**host, at))).collect();
        threads.into_iter().all(|thread| thread.join().is_ok_and(|seen| seen == expected))
    });
    assert!(same, "rule 9: threads see different answers for block {at}");
}
