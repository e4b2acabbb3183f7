use crate::{ChainState, execute::Executed};
use alloy_consensus::{
    BlockBody, BlockHeader, EMPTY_OMMER_ROOT_HASH, EthereumTxEnvelope, Header, Transaction,
    TxEip4844, TxReceipt,
    proofs::{calculate_receipt_root, calculate_transaction_root},
    transaction::Recovered,
};
use alloy_eips::{eip1559::BaseFeeParams, eip2718::Encodable2718};
use alloy_evm::{
    Evm,
    block::{BlockExecutionError, BlockExecutor, BlockValidationError},
    eth::{EthBlockExecutionCtx, EthBlockExecutor, EthEvmBuilder},
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, B256, Bloom, Bytes, keccak256};
use prestate_host::{
    Block, ChainSpec, IrregularChange, ReaderDb, Receipts, RecoveredBlock, evm_env,
};
use revm::database::{State, states::bundle_state::BundleRetention};
use std::{borrow::Cow, sync::Arc};

/// A transaction as a block holds it.
pub(crate) type Tx = EthereumTxEnvelope<TxEip4844>;

/// EIP-7934 (Osaka): a block's RLP has at most 10 MiB less 2 MiB for the beacon block.
const MAX_BLOCK_BYTES: usize = 8 * 1024 * 1024;
/// Kept free for the header and list prefixes.
const HEADER_ROOM_BYTES: usize = 4096;

/// What decides a block beside its transactions.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Seconds since 1970, above the parent's.
    pub(crate) timestamp: u64,
    pub(crate) coinbase: Address,
    pub(crate) gas_limit: u64,
    /// Tells blocks apart that would be the same otherwise (PREVRANDAO follows from it).
    pub(crate) salt: u64,
    pub(crate) extra_data: Bytes,
    pub(crate) change: Option<IrregularChange>,
}

/// Why a transaction is not in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skip {
    /// The block has no room for it; those after it by the same sender have to wait as well.
    NoRoom,
    /// It cannot be executed now.
    Invalid,
}

/// Where a block's transactions come from, best first.
pub(crate) trait Source {
    /// The next candidate.
    fn next(&mut self) -> Option<Arc<Recovered<Tx>>>;

    /// The last candidate is not in the block.
    fn skip(&mut self, why: Skip);
}

/// Given ones, in order; what does not fit is left out.
impl<I: Iterator<Item = Arc<Recovered<Tx>>>> Source for I {
    fn next(&mut self) -> Option<Arc<Recovered<Tx>>> {
        Iterator::next(self)
    }

    fn skip(&mut self, _why: Skip) {}
}

/// The base fee of the block after this one, in wei.
pub(crate) fn next_base_fee(parent: &Header) -> u64 {
    // Dev chains are past London.
    parent.next_block_base_fee(BaseFeeParams::ethereum()).unwrap_or_default()
}

/// The header of the block after `parent`, without what only execution tells.
pub(crate) fn header_after(
    spec: &ChainSpec,
    parent_hash: B256,
    parent: &Header,
    plan: &Plan,
) -> Header {
    let time = plan.timestamp;
    let number = parent.number + 1;
    let cancun = spec.is_cancun_active_at_timestamp(time);
    let blobs = spec.blob_params_at(time);
    let excess = || blobs.and_then(|blobs| parent.next_block_excess_blob_gas(blobs));
    let word = |what: &[u8]| {
        let salt = plan.salt.to_be_bytes();
        keccak256([what, parent_hash.as_slice(), salt.as_slice()].concat())
    };
    Header {
        parent_hash,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: plan.coinbase,
        number,
        gas_limit: plan.gas_limit,
        timestamp: time,
        extra_data: plan.extra_data.clone(),
        mix_hash: word(b"random"),
        base_fee_per_gas: Some(next_base_fee(parent)),
        withdrawals_root: spec
            .is_shanghai_active_at_timestamp(time)
            .then_some(alloy_consensus::constants::EMPTY_WITHDRAWALS),
        blob_gas_used: cancun.then_some(0),
        excess_blob_gas: cancun.then(|| excess().unwrap_or_default()),
        parent_beacon_block_root: cancun.then(|| word(b"beacon")),
        ..Header::default()
    }
}

/// Builds and executes the block after `parent`, with as many transactions as fit and can be
/// executed. Nothing is kept: that is for the caller.
pub(crate) fn build(
    spec: &ChainSpec,
    parent: &RecoveredBlock,
    parent_state: &ChainState,
    plan: &Plan,
    source: &mut dyn Source,
) -> Result<Executed, BlockExecutionError> {
    let mut header = header_after(spec, parent.hash(), parent.header(), plan);
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    let blobs = spec.blob_params_at(header.timestamp);
    let blob_fee = blobs.map(|blobs| blobs.calc_blob_fee(header.excess_blob_gas.unwrap_or(0)));
    let max_blob_gas = blobs.map_or(0, |blobs| blobs.max_blob_gas_per_block());
    let max_bytes = spec
        .is_osaka_active_at_timestamp(header.timestamp)
        .then_some(MAX_BLOCK_BYTES - HEADER_ROOM_BYTES);
    let withdrawals = header.withdrawals_root.map(|_| Cow::Borrowed(&[][..]));

    let mut db = State::builder()
        .with_database(ReaderDb(Arc::new(parent_state.clone())))
        .with_bundle_update()
        .build();
    let context = EthBlockExecutionCtx {
        parent_hash: header.parent_hash,
        parent_beacon_block_root: header.parent_beacon_block_root,
        ommers: &[],
        withdrawals,
        extra_data: header.extra_data.clone(),
        tx_count_hint: None,
        slot_number: header.slot_number(),
    };
    let evm = EthEvmBuilder::new(&mut db, evm_env(spec, &header)).build();
    let mut executor = EthBlockExecutor::new(evm, context, spec, &Receipts);
    if let Some(change) = &plan.change {
        change.apply(executor.evm_mut().db_mut()).map_err(BlockExecutionError::other)?;
    }
    executor.apply_pre_execution_changes()?;

    let (mut transactions, mut senders) = (Vec::new(), Vec::new());
    let (mut blob_gas, mut bytes) = (0, 0);
    while let Some(tx) = source.next() {
        let tx_blob_gas = tx.blob_gas_used().unwrap_or_default();
        let tx_bytes = tx.encode_2718_len();
        if blob_gas + tx_blob_gas > max_blob_gas.max(blob_gas)
            || max_bytes.is_some_and(|max| bytes + tx_bytes > max)
        {
            source.skip(Skip::NoRoom);
            continue;
        }
        if tx.max_fee_per_gas() < u128::from(base_fee)
            || tx.max_fee_per_blob_gas().zip(blob_fee).is_some_and(|(cap, fee)| cap < fee)
        {
            source.skip(Skip::Invalid);
            continue;
        }
        match executor.execute_transaction(tx.as_ref()) {
            Ok(_) => {
                blob_gas += tx_blob_gas;
                bytes += tx_bytes + 4;
                senders.push(tx.signer());
                transactions.push(tx.inner().clone());
            }
            Err(BlockExecutionError::Validation(
                BlockValidationError::TransactionGasLimitMoreThanAvailableBlockGas { .. },
            )) => source.skip(Skip::NoRoom),
            Err(BlockExecutionError::Validation(BlockValidationError::InvalidTx { .. })) => {
                source.skip(Skip::Invalid);
            }
            Err(other) => return Err(other),
        }
    }
    let (evm, outcome) = executor.finish()?;
    drop(evm);
    db.merge_transitions(BundleRetention::Reverts);
    let bundle = db.take_bundle();
    let mut state = parent_state.clone();
    state.apply(&bundle);

    let receipts: Vec<_> = outcome.receipts.iter().map(TxReceipt::with_bloom_ref).collect();
    header.logs_bloom = receipts.iter().fold(Bloom::ZERO, |bloom, one| bloom | one.logs_bloom);
    header.receipts_root = calculate_receipt_root(&receipts);
    drop(receipts);
    header.transactions_root = calculate_transaction_root(&transactions);
    header.state_root = state.root();
    header.gas_used = outcome.gas_used;
    header.blob_gas_used = header.blob_gas_used.map(|_| outcome.blob_gas_used);
    header.requests_hash = spec
        .is_prague_active_at_timestamp(header.timestamp)
        .then(|| outcome.requests.requests_hash());
    let body = BlockBody {
        transactions,
        ommers: Vec::new(),
        withdrawals: header.withdrawals_root.map(|_| Default::default()),
    };
    let block = RecoveredBlock::new_unhashed(Block { header, body }, senders);
    let hash = block.hash();
    state.note_hash(block.number, hash);
    if let Some(change) = &plan.change {
        spec.decree(hash, change.clone());
    }
    Ok(Executed {
        block: Arc::new(block),
        state,
        bundle: Some(Arc::new(bundle)),
        receipts: Arc::new(outcome.receipts),
    })
}
