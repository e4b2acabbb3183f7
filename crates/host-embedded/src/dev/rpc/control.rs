//! `dev_*`: what only a dev chain can do.

use super::{Answer, DevRpc, fault};
use crate::dev::Reorg;
use alloy_primitives::{Address, B256, U256};
use jsonrpsee::types::Params;
use prestate_types::BlockRef;
use serde_json::{Value, json};

impl DevRpc {
    /// `dev_accounts()`: addresses with their private keys.
    pub(super) fn dev_accounts(&self, _params: &Params<'_>) -> Answer<Value> {
        let keys = self.chain.accounts().keys();
        Ok(keys.map(|(address, key)| json!({ "address": address, "privateKey": key })).collect())
    }

    /// `dev_contracts()`: what traffic goes through, `null` without traffic.
    pub(super) fn dev_contracts(&self, _params: &Params<'_>) -> Answer<Value> {
        let Some(contracts) = self.chain.contracts() else { return Ok(Value::Null) };
        let tokens = contracts.tokens.iter().map(
            |token| json!({ "address": token.address, "name": token.name, "symbol": token.symbol }),
        );
        let pools = contracts.pools.iter().map(
            |pool| json!({ "address": pool.address, "token0": pool.token0, "token1": pool.token1 }),
        );
        Ok(json!({ "tokens": tokens.collect::<Vec<_>>(), "pools": pools.collect::<Vec<_>>() }))
    }

    /// `dev_mine(n?)`: the head after `n` blocks, one if left out.
    pub(super) fn mine(&self, params: &Params<'_>) -> Answer<Value> {
        let count = number(params.sequence().optional_next()?, 1)?;
        self.chain.mine(count).map(block).map_err(fault::dev)
    }

    /// `dev_reorg(depth?)`: `{commonAncestor, dropped, added}`.
    pub(super) fn reorg(&self, params: &Params<'_>) -> Answer<Value> {
        let depth = number(params.sequence().optional_next()?, 1)?;
        let Reorg { common_ancestor, dropped, added } =
            self.chain.reorg(depth).map_err(fault::dev)?;
        let blocks = |all: Vec<BlockRef>| all.into_iter().map(block).collect::<Vec<_>>();
        Ok(json!({
            "commonAncestor": block(common_ancestor),
            "dropped": blocks(dropped),
            "added": blocks(added),
        }))
    }

    /// `dev_setBalance(address, wei)`: the block that does it.
    pub(super) fn set_balance(&self, params: &Params<'_>) -> Answer<Value> {
        let (address, balance): (Address, U256) = params.parse()?;
        self.chain.set_balance(address, balance).map(block).map_err(fault::dev)
    }

    /// `dev_setStorageAt(address, slot, value)`: the block that does it.
    pub(super) fn set_storage_at(&self, params: &Params<'_>) -> Answer<Value> {
        let (address, slot, value): (Address, U256, U256) = params.parse()?;
        let (slot, value) = (B256::from(slot), B256::from(value));
        self.chain.set_storage(address, slot, value).map(block).map_err(fault::dev)
    }
}

fn block(block: BlockRef) -> Value {
    json!({ "number": format!("{:#x}", block.number), "hash": block.hash })
}

/// A JSON number or a hex quantity.
fn number(value: Option<Value>, default: u64) -> Answer<u64> {
    let read = match &value {
        None => return Ok(default),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => {
            text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
        }
        Some(_) => None,
    };
    read.ok_or_else(|| fault::invalid("a number, or a hex quantity, is wanted"))
}
