//! `prestate_getDiffRange` and `prestate_resync`: from a caller's state to another.

use crate::{
    args::{Args, invalid},
    block_param::BlockParam,
    faults,
    path::Path,
    rpc::Shared,
    service::Answer,
    view::View,
};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256};
use prestate_rpc_api::{
    AccountState, BlockHandle, MAX_READ_SLOTS, MAX_WATCHED_SLOTS, Resync, ResyncRequest, RpcError,
    StorageValues, Watch,
};
use prestate_store::ReplyKey;
use prestate_types::{AccountInfo, KECCAK_EMPTY, StateDiff};
use prestate_wire::{CodeSegment, CodeSource, Rope, RopeBuilder, write_sides};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

impl Shared {
    pub(crate) async fn diff_range(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let (from, to) = (BlockParam::any(&args, 0)?, BlockParam::any(&args, 1)?);
        let view = View::of(args.parsed(2)?.unwrap_or_default())?;
        args.end(3)?;
        let path = self
            .read(move |shared| shared.path(shared.locate_end(from)?, shared.locate_end(to)?))
            .await?;
        // The hashes decide what is between them; whether `from` has left is told as well.
        let key = ReplyKey {
            block_hash: path.to.hash,
            view: "diff range",
            options: format!("{} {} {}", path.from.hash, path.reorg().is_some(), view.key()).into(),
        };
        self.kept(&key, || async {
            let diff = self.along(&path).await?;
            self.read(move |shared| shared.write_range(&path, &diff, &view)).await
        })
        .await
    }

    fn write_range(&self, path: &Path, diff: &StateDiff, view: &View) -> Result<Rope, RpcError> {
        let diff = view.filtered(diff)?;
        let mut out = RopeBuilder::new();
        out.push("{\"from\":");
        push_json(&mut out, &BlockHandle::from(path.from))?;
        out.push(",\"to\":");
        push_json(&mut out, &BlockHandle::from(path.to))?;
        if let Some(reorg) = path.reorg() {
            out.push(",\"reorg\":");
            push_json(&mut out, &reorg)?;
        }
        out.push(",");
        let codes = PathCodes { shared: self, states: [path.to.hash, path.from.hash] };
        write_sides(&mut out, &diff, view.code, &codes).map_err(faults::code)?;
        out.push("}");
        Ok(out.finish())
    }

    pub(crate) async fn resync(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let request: ResyncRequest = serde_json::from_str(args.required(0)?.get())
            .map_err(|error| invalid(0, &error.to_string()))?;
        args.end(1)?;
        let ResyncRequest { from, watch, cold, to } = request;
        let watched = watch.values().map(|watch| watch.slots.len()).sum::<usize>();
        within("watchedSlots", MAX_WATCHED_SLOTS, watched)?;
        within("readSlots", MAX_READ_SLOTS, cold.values().map(Vec::len).sum())?;
        let path = self
            .read(move |shared| {
                let from = shared.position(from)?;
                let to = to.map_or(BlockParam::Latest, BlockParam::from);
                shared.path(from, shared.locate_end(to)?)
            })
            .await?;
        let diff = self.along(&path).await?;
        let result = self
            .read(move |shared| {
                let (changed, mut wiped) = Changed::of(&diff, &watch);
                // Cold slots, and watched ones of accounts cleared as a whole, which a diff need
                // not list one by one.
                for (address, slots) in cold {
                    wiped.entry(address).or_default().extend(slots);
                }
                let mut storage = changed.storage;
                if !wiped.is_empty() {
                    let state = shared.host.state_after(path.to.hash).map_err(faults::state)?;
                    for (address, slots) in wiped {
                        let values = state.storage_many(address, &slots).map_err(faults::state)?;
                        storage.entry(address).or_default().extend(slots.into_iter().zip(values));
                    }
                }
                let resync = Resync {
                    from: path.from.into(),
                    head: path.to.into(),
                    reorg: path.reorg(),
                    storage,
                    accounts: changed.accounts,
                };
                serde_json::to_string(&resync).map_err(|error| faults::logged(&error))
            })
            .await?;
        Ok(Answer::uncached(result))
    }
}

/// What changed of what is watched.
#[derive(Debug, Default)]
struct Changed {
    storage: StorageValues,
    accounts: BTreeMap<Address, Option<AccountState>>,
}

impl Changed {
    /// And the watched slots that the diff does not decide.
    fn of(
        diff: &StateDiff,
        watch: &BTreeMap<Address, Watch>,
    ) -> (Self, BTreeMap<Address, Vec<B256>>) {
        let (mut changed, mut undecided) = (Self::default(), BTreeMap::new());
        for (address, watch) in watch {
            let Some(delta) = diff.get(address) else { continue };
            if watch.account && delta.pre != delta.post {
                changed.accounts.insert(*address, delta.post.as_ref().map(account_state));
            }
            if delta.wiped && !watch.slots.is_empty() {
                undecided.insert(*address, watch.slots.clone());
                continue;
            }
            for slot in &watch.slots {
                if let Some(slot) = diff.slot(address, slot) {
                    changed.storage.entry(*address).or_default().insert(slot.slot, slot.post);
                }
            }
        }
        (changed, undecided)
    }
}

/// An account without its code and storage.
pub(crate) fn account_state(info: &AccountInfo) -> AccountState {
    AccountState {
        balance: info.balance,
        nonce: info.nonce,
        code_hash: Some(info.code_hash),
        code: None,
        storage: BTreeMap::new(),
    }
}

/// Codes that stand at either end of a path.
struct PathCodes<'a> {
    shared: &'a Shared,
    states: [B256; 2],
}

impl CodeSource for PathCodes<'_> {
    fn code(&self, hash: &B256) -> Option<Arc<CodeSegment>> {
        debug_assert_ne!(*hash, KECCAK_EMPTY);
        let Self { shared, states } = self;
        shared.codes.get_or_intern(hash, || shared.kept_code(hash, states))
    }
}

impl From<BlockId> for BlockParam {
    fn from(id: BlockId) -> Self {
        match id {
            BlockId::Hash(at) => Self::Hash {
                hash: at.block_hash,
                canonical: at.require_canonical.unwrap_or_default(),
            },
            BlockId::Number(BlockNumberOrTag::Number(number)) => Self::Number(number),
            BlockId::Number(BlockNumberOrTag::Latest) => Self::Latest,
            BlockId::Number(BlockNumberOrTag::Pending) => Self::Pending,
            BlockId::Number(BlockNumberOrTag::Safe) => Self::Safe,
            BlockId::Number(BlockNumberOrTag::Finalized) => Self::Finalized,
            BlockId::Number(BlockNumberOrTag::Earliest) => Self::Earliest,
        }
    }
}

/// -32005 for more slots than a call may name.
pub(crate) fn within(limit: &str, most: usize, given: usize) -> Result<(), RpcError> {
    if given <= most {
        return Ok(());
    }
    let message = format!("{given} slots were asked for, the limit is {most}");
    Err(RpcError::limit(message, limit, most as u64, given as u64))
}

fn push_json(out: &mut RopeBuilder, value: &impl Serialize) -> Result<(), RpcError> {
    out.push(serde_json::to_string(value).map_err(|error| faults::logged(&error))?);
    Ok(())
}
