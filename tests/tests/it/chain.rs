//! Blocks built on a [`MemoryChain`], without a node.

use alloy_consensus::{
    BlockBody, BlockHeader, EMPTY_OMMER_ROOT_HASH, EthereumTxEnvelope, Header, Transaction,
    TxEip4844, TxEnvelope, TxReceipt,
    proofs::{calculate_receipt_root, calculate_transaction_root, calculate_withdrawals_root},
    transaction::SignerRecoverable,
};
use alloy_eips::{
    eip1559::BaseFeeParams,
    eip2718::Decodable2718,
    eip4895::{Withdrawal, Withdrawals},
};
use alloy_primitives::{Address, B256, Bloom, keccak256};
use prestate_diff::{Driver, Execution, Finished, LookupInspector};
use prestate_host::{Block, Host, RecoveredBlock};
use prestate_host_embedded::{ImportError, MemoryChain};
use prestate_tests::generate::{BlockRecipe, Keys, Shape};
use std::{collections::BTreeMap, ops::ControlFlow};

/// Seconds between blocks.
const SLOT: u64 = 12;

/// Makes the next block, with a valid header, and imports it.
pub(crate) fn extend(chain: &MemoryChain, keys: &Keys, recipe: &BlockRecipe) -> RecoveredBlock {
    let mut block = unsealed(chain, keys, recipe);
    let ran = run(chain, &block);
    let senders = block.senders().to_vec();
    let mut bare = block.into_block();
    bare.header.gas_used = ran.gas_used;
    let receipts: Vec<_> = ran.receipts.iter().map(TxReceipt::with_bloom_ref).collect();
    bare.header.receipts_root = calculate_receipt_root(&receipts);
    bare.header.logs_bloom = receipts.iter().fold(Bloom::ZERO, |all, one| all | one.logs_bloom);
    if chain.spec().rules_at(bare.header.number, bare.header.timestamp)
        >= revm::primitives::hardfork::SpecId::PRAGUE
    {
        bare.header.requests_hash = Some(ran.requests.requests_hash());
    }
    block = RecoveredBlock::new_unhashed(bare, senders);
    // The chain computes the state root; it refuses the block as long as the header has another.
    let root = match chain.import(block.clone()) {
        Err(ImportError::Header(mismatch)) if mismatch.field == "state root" => mismatch.computed,
        other => panic!("only the state root is missing: {other:?}"),
    };
    let senders = block.senders().to_vec();
    let mut bare = block.into_block();
    bare.header.state_root = root.parse().expect("a root is a hash");
    let block = RecoveredBlock::new_unhashed(bare, senders);
    chain.import(block.clone()).expect("a valid block");
    block
}

fn run(chain: &MemoryChain, block: &RecoveredBlock) -> Finished {
    let state = chain.state_after(block.parent_hash).expect("the parent's state");
    Driver::new(Execution { spec: chain.spec(), block }, state)
        .run(LookupInspector::default(), false, &mut (), |_| Ok(ControlFlow::Continue(())))
        .expect("the recipes are valid")
}

/// The block without what only its execution tells.
fn unsealed(chain: &MemoryChain, keys: &Keys, recipe: &BlockRecipe) -> RecoveredBlock {
    let head = chain.head().expect("a chain has a head");
    let parent = chain.block(head.hash).expect("no error").expect("the head is known");
    let number = parent.number + 1;
    let timestamp = number * SLOT;
    let base_fee = parent.next_block_base_fee(BaseFeeParams::ethereum()).expect("after London");
    let (transactions, senders) = sign(chain, keys, recipe, base_fee);
    let withdrawals: Withdrawals = recipe
        .withdrawals
        .iter()
        .zip(number * 16..)
        .map(|(&(address, amount), index)| Withdrawal {
            index,
            validator_index: index % 7,
            address,
            amount,
        })
        .collect::<Vec<_>>()
        .into();
    let blobs = chain.spec().blob_params_at(timestamp);
    let cancun = blobs.is_some();
    let blob_gas = transactions.iter().filter_map(|tx| tx.blob_gas_used()).sum();
    let header = Header {
        parent_hash: head.hash,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: recipe.coinbase,
        transactions_root: calculate_transaction_root(&transactions),
        withdrawals_root: Some(calculate_withdrawals_root(&withdrawals)),
        number,
        gas_limit: parent.gas_limit,
        timestamp,
        mix_hash: keccak256(number.to_be_bytes()),
        base_fee_per_gas: Some(base_fee),
        blob_gas_used: cancun.then_some(blob_gas),
        excess_blob_gas: parent.maybe_next_block_excess_blob_gas(blobs),
        parent_beacon_block_root: cancun.then(|| keccak256([number as u8, 1])),
        ..Default::default()
    };
    let body = BlockBody { transactions, ommers: Vec::new(), withdrawals: Some(withdrawals) };
    RecoveredBlock::new_unhashed(Block { header, body }, senders)
}

fn sign(
    chain: &MemoryChain,
    keys: &Keys,
    recipe: &BlockRecipe,
    base_fee: u64,
) -> (Vec<EthereumTxEnvelope<TxEip4844>>, Vec<Address>) {
    let state = chain.state_after(chain.head().expect("a head").hash).expect("its state");
    let mut nonces: BTreeMap<Address, u64> = BTreeMap::new();
    let mut take = |address: Address| {
        let next = nonces.entry(address).or_insert_with(|| {
            state.account(address).expect("a state in memory").unwrap_or_default().nonce
        });
        *next += 1;
        *next - 1
    };
    let mut transactions = Vec::new();
    let mut senders = Vec::new();
    for tx in &recipe.transactions {
        let nonce = take(keys.address(tx.sender));
        let authorities = match &tx.shape {
            Shape::SetCode(list) => {
                list.iter().map(|tuple| take(keys.address(tuple.authority))).collect()
            }
            _ => Vec::new(),
        };
        let raw = tx.sign(keys, nonce, base_fee, &authorities);
        // Blocks hold blob transactions without their blobs.
        let signed: EthereumTxEnvelope<TxEip4844> = TxEnvelope::decode_2718(&mut raw.as_ref())
            .expect("what was signed decodes")
            .map_eip4844(TxEip4844::from);
        senders.push(signed.recover_signer().expect("what was signed recovers"));
        transactions.push(signed);
    }
    (transactions, senders)
}

/// A slot's key, or a value, from a small number.
pub(crate) fn word(number: u64) -> B256 {
    B256::from(alloy_primitives::U256::from(number))
}
