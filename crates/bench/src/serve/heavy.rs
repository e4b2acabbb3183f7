use alloy_consensus::{SignableTransaction, TxLegacy, TxReceipt, proofs::calculate_receipt_root};
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, TxKind, U256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use prestate_diff::{Execution, replay};
use prestate_host::{Block, ChainSpec, RecoveredBlock};
use prestate_host_embedded::{BlockFile, MapState, ReplayHost, ReplayHostError};
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

/// Data of each transfer, as a token transfer's or a small message's.
const INPUT_BYTES: usize = 116;
/// Intrinsic gas of it: 21,000 and 16 a byte that is not zero (EIP-2028).
const GAS: u64 = 21_000 + 16 * INPUT_BYTES as u64;

/// A block of transfers with a little data, `transactions` of them, as load-test chains make them:
/// its callTracer result takes some 500 bytes each.
///
/// # Errors
/// None in practice; those of [`ReplayHost::new`].
pub fn heavy_host(transactions: u64) -> Result<ReplayHost, ReplayHostError> {
    let (spec, file) = heavy_block(transactions)?;
    ReplayHost::new(spec, [file])
}

/// The block of [`heavy_host`] by itself, with its chain's rules.
///
/// # Errors
/// None in practice.
pub fn heavy_block(transactions: u64) -> Result<(ChainSpec, BlockFile), ReplayHostError> {
    let mut genesis = Genesis::default();
    genesis.config.chain_id = 1337;
    let config = &mut genesis.config;
    for fork in [
        &mut config.homestead_block,
        &mut config.eip150_block,
        &mut config.eip155_block,
        &mut config.eip158_block,
        &mut config.byzantium_block,
        &mut config.constantinople_block,
        &mut config.petersburg_block,
        &mut config.istanbul_block,
        &mut config.berlin_block,
        &mut config.london_block,
        &mut config.shanghai_time,
    ] {
        *fork = Some(0);
    }
    config.terminal_total_difficulty = Some(U256::ZERO);
    let spec = ChainSpec::from_genesis(&genesis.config);
    let signer = PrivateKeySigner::from_bytes(&B256::repeat_byte(1));
    let Ok(signer) = signer else { return Err(ReplayHostError::Empty) };
    let mut block = Block::default();
    block.header.number = 1;
    block.header.timestamp = 12;
    block.header.gas_limit = transactions * GAS;
    block.header.base_fee_per_gas = Some(1);
    block.header.beneficiary = Address::repeat_byte(0xcb);
    block.body.withdrawals = Some(Default::default());
    for nonce in 0..transactions {
        let tx = TxLegacy {
            chain_id: Some(1337),
            nonce,
            gas_price: 2,
            gas_limit: GAS,
            to: TxKind::Call(Address::from_word(U256::from(0x1000 + nonce % 5_000).into())),
            value: U256::from(1 + nonce),
            input: vec![0x5a; INPUT_BYTES].into(),
        };
        // A hash of 32 bytes is always signed.
        let Ok(signature) = signer.sign_hash_sync(&tx.signature_hash()) else { continue };
        block.body.transactions.push(tx.into_signed(signature).into());
    }
    let senders = vec![signer.address(); block.body.transactions.len()];
    let rich = GenesisAccount::default().with_balance(U256::MAX >> 8);
    let prestate = MapState::partial([(signer.address(), rich)], BTreeMap::new());
    // The header states what executing the block gives.
    let recovered = RecoveredBlock::new_unhashed(block.clone(), senders.clone());
    let execution = Execution { spec: &spec, block: &recovered };
    let parent = Arc::new(prestate.clone());
    if let Ok(replayed) = replay(execution, parent, &mut (), |_, _| ControlFlow::Continue(())) {
        let outcome = replayed.finished.outcome();
        let receipts: Vec<_> = outcome.receipts.iter().map(TxReceipt::with_bloom_ref).collect();
        block.header.receipts_root = calculate_receipt_root(&receipts);
        block.header.gas_used = outcome.gas_used;
    }
    let block = RecoveredBlock::new_unhashed(block, senders);
    Ok((spec, BlockFile { block, prestate }))
}
