use crate::MapState;
use alloy_consensus::{
    EthereumTxEnvelope, TxEip4844,
    proofs::{calculate_transaction_root, calculate_withdrawals_root},
    transaction::{Recovered, SignerRecoverable},
};
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use prestate_host::{Block, RecoveredBlock};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One block with the part of its parent's state that it reads.
///
/// JSON object with `block` (as `eth_getBlockByNumber(n, true)` answers), `prestate` (as Geth's
/// plain `prestateTracer`, one map for the whole block) and `blockHashes` (number to hash, what
/// BLOCKHASH asks for).
#[derive(Debug)]
pub struct BlockFile {
    /// The block, senders recovered.
    pub block: RecoveredBlock,
    /// The part of the parent's state.
    pub prestate: MapState,
}

/// Why the text is no block file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFileError {
    /// Not JSON, or JSON of another shape.
    #[error("not a block file: {0}")]
    Json(#[from] serde_json::Error),
    /// `block` is not what `block.hash` names.
    #[error("header hashes to {computed}, the file says {stated}")]
    HeaderHash {
        /// What the header fields hash to.
        computed: B256,
        /// `block.hash`.
        stated: B256,
    },
    /// An account's code is not the one its `codeHash` names.
    #[error("code of account {address} hashes to {computed}, the file says {stated}")]
    CodeHash {
        /// Whose code.
        address: Address,
        /// Hash of `code`.
        computed: B256,
        /// `codeHash`.
        stated: B256,
    },
    /// A key of `blockHashes` is no decimal number.
    #[error("blockHashes: {0:?} is not a block number")]
    BlockNumber(String),
    /// A root in the header is not that of the body.
    #[error("{what} root is {computed}, the header says {stated}")]
    Root {
        /// `transactions` or `withdrawals`.
        what: &'static str,
        /// Root of the body.
        computed: B256,
        /// Root in the header.
        stated: B256,
    },
    /// No sender can be recovered from a signature.
    #[error("transaction {index} ({hash}) has no valid signature")]
    Signature {
        /// Its index.
        index: usize,
        /// Its hash.
        hash: B256,
    },
    /// The signature is not that of `from`.
    #[error("transaction {index} ({hash}) is signed by {recovered}, the file says {stated}")]
    Sender {
        /// Its index.
        index: usize,
        /// Its hash.
        hash: B256,
        /// Who signed.
        recovered: Address,
        /// `from`.
        stated: Address,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Schema {
    block: RpcBlock,
    prestate: BTreeMap<Address, FileAccount>,
    #[serde(default)]
    block_hashes: BTreeMap<String, B256>,
}

type Tx = EthereumTxEnvelope<TxEip4844>;
type RpcBlock = alloy_rpc_types_eth::Block<alloy_rpc_types_eth::Transaction<Tx>>;

/// An account as Geth's tracer or a genesis file writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileAccount {
    #[serde(default)]
    nonce: Nonce,
    balance: U256,
    code: Option<Bytes>,
    code_hash: Option<B256>,
    storage: Option<BTreeMap<B256, B256>>,
}

/// A JSON number from the tracer, a hex quantity in a genesis file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Nonce {
    Number(u64),
    Quantity(U64),
}

impl Default for Nonce {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl BlockFile {
    /// Reads and checks a block file: header hash, transaction and withdrawal roots, every sender.
    pub fn parse(json: &[u8]) -> Result<Self, BlockFileError> {
        let file: Schema = serde_json::from_slice(json)?;
        let stated_hash = file.block.header.hash;
        let block = recovered(file.block)?;
        if block.hash() != stated_hash {
            return Err(BlockFileError::HeaderHash { computed: block.hash(), stated: stated_hash });
        }
        let mut alloc = Vec::with_capacity(file.prestate.len());
        for (address, account) in file.prestate {
            alloc.push((address, account.checked(address)?));
        }
        let mut block_hashes = BTreeMap::new();
        for (number, hash) in file.block_hashes {
            let number = number.parse().map_err(|_| BlockFileError::BlockNumber(number))?;
            block_hashes.insert(number, hash);
        }
        Ok(Self { block, prestate: MapState::partial(alloc, block_hashes) })
    }
}

impl FileAccount {
    fn checked(self, address: Address) -> Result<GenesisAccount, BlockFileError> {
        if let Some(stated) = self.code_hash {
            let computed = keccak256(self.code.as_ref().map_or(&[][..], |code| code));
            if computed != stated {
                return Err(BlockFileError::CodeHash { address, computed, stated });
            }
        }
        Ok(GenesisAccount {
            nonce: Some(match self.nonce {
                Nonce::Number(number) => number,
                Nonce::Quantity(quantity) => quantity.to(),
            }),
            balance: self.balance,
            code: self.code,
            storage: self.storage,
            private_key: None,
        })
    }
}

/// The block with its senders. Uncle headers are not in an RPC block: the body has none.
fn recovered(rpc: RpcBlock) -> Result<RecoveredBlock, BlockFileError> {
    let mut senders = Vec::new();
    let block: Block = rpc
        .map_transactions(|tx| {
            let (tx, from) = Recovered::into_parts(tx.inner);
            senders.push(from);
            tx
        })
        .into_consensus();
    let root = |what, computed, stated| {
        if computed == stated {
            Ok(())
        } else {
            Err(BlockFileError::Root { what, computed, stated })
        }
    };
    let transactions = calculate_transaction_root(&block.body.transactions);
    root("transactions", transactions, block.header.transactions_root)?;
    if let (Some(withdrawals), Some(stated)) =
        (&block.body.withdrawals, block.header.withdrawals_root)
    {
        root("withdrawals", calculate_withdrawals_root(withdrawals), stated)?;
    }
    for (index, (tx, stated)) in block.body.transactions.iter().zip(&senders).enumerate() {
        let hash = *tx.tx_hash();
        // Unchecked: before Homestead (EIP-2) a high s is valid, and the block is given.
        let recovered =
            tx.recover_signer_unchecked().map_err(|_| BlockFileError::Signature { index, hash })?;
        if recovered != *stated {
            return Err(BlockFileError::Sender { index, hash, recovered, stated: *stated });
        }
    }
    Ok(RecoveredBlock::new_unhashed(block, senders))
}
