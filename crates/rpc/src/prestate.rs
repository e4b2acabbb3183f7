//! `prestate_*`: diffs of blocks and transactions.

use crate::{
    args::Args,
    block_param::BlockParam,
    faults,
    rpc::Shared,
    service::Answer,
    view::View,
    whole::{Want, Whole},
};
use prestate_rpc_api::RpcError;
use prestate_types::BlockRef;
use prestate_wire::{Rope, RopeBuilder, write_block_summary, write_sides, write_transaction_diff};
use serde_json::value::RawValue;
use std::sync::Arc;

type Params<'a> = Option<&'a RawValue>;

impl Shared {
    pub(crate) async fn block_diff(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let (at, view) = self.block_and_view(params)?;
        self.kept_of_block("block diff", at, view.key(), Want::Diff, move |shared, whole| {
            let mut out = RopeBuilder::new();
            out.push("{\"block\":");
            shared.write_block(&mut out, whole, &view)?;
            out.push("}");
            Ok(out.finish())
        })
        .await
    }

    /// Writes the summary and both sides of a block, without braces around.
    pub(crate) fn write_block(
        &self,
        out: &mut RopeBuilder,
        whole: &Whole,
        view: &View,
    ) -> Result<(), RpcError> {
        let diff = view.filtered(whole.diff())?;
        write_block_summary(out, whole.summary());
        out.push(",");
        write_sides(out, &diff, view.code, &self.codes_of(whole)).map_err(faults::code)
    }

    pub(crate) async fn transaction_diffs(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let (at, view) = self.block_and_view(params)?;
        self.kept_of_block(
            "transaction diffs",
            at,
            view.key(),
            Want::Parts,
            move |shared, whole| {
                let facts = whole.facts().ok_or_else(RpcError::internal)?;
                let codes = shared.codes_of(whole);
                let mut out = RopeBuilder::new();
                out.push("{\"block\":");
                write_block_summary(&mut out, &facts.summary);
                if view.system {
                    out.push(",\"preSystem\":{");
                    let part = view.filtered(&facts.pre_system)?;
                    write_sides(&mut out, &part, view.code, &codes).map_err(faults::code)?;
                    out.push("}");
                }
                out.push(",");
                shared.write_transactions(&mut out, whole, &view)?;
                if view.system {
                    out.push(",\"postSystem\":{");
                    let part = view.filtered(&facts.post_system)?;
                    write_sides(&mut out, &part, view.code, &codes).map_err(faults::code)?;
                    out.push("}");
                }
                out.push("}");
                Ok(out.finish())
            },
        )
        .await
    }

    /// Writes `"transactions":[…]`.
    pub(crate) fn write_transactions(
        &self,
        out: &mut RopeBuilder,
        whole: &Whole,
        view: &View,
    ) -> Result<(), RpcError> {
        let facts = whole.facts().ok_or_else(RpcError::internal)?;
        let codes = self.codes_of(whole);
        out.push("\"transactions\":[");
        for (at, tx) in facts.txs.iter().enumerate() {
            if at > 0 {
                out.push(",");
            }
            let tx = view.filtered_tx(tx)?;
            write_transaction_diff(out, &tx, view.code, &codes).map_err(faults::code)?;
        }
        out.push("]");
        Ok(())
    }

    pub(crate) async fn transaction_diff(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        let view = View::of(args.parsed(1)?.unwrap_or_default())?;
        args.end(2)?;
        let place = self.located(hash)?;
        let key = format!("{} {}", place.index, view.key());
        let write = move |shared: &Self, whole: &Whole| -> Result<Rope, RpcError> {
            let facts = whole.facts().ok_or_else(RpcError::internal)?;
            let tx = facts.txs.get(place.index as usize).ok_or_else(RpcError::internal)?;
            let mut out = RopeBuilder::new();
            let tx = view.filtered_tx(tx)?;
            write_transaction_diff(&mut out, &tx, view.code, &shared.codes_of(whole))
                .map_err(faults::code)?;
            Ok(out.finish())
        };
        self.kept_of_block("transaction diff", place.block, key, Want::Parts, write).await
    }

    fn block_and_view(&self, params: Params<'_>) -> Result<(BlockRef, View), RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::any(&args, 0)?;
        let view = View::of(args.parsed(1)?.unwrap_or_default())?;
        args.end(2)?;
        let at = self.locate(param)?;
        if at.number == 0 {
            return Err(RpcError::server("genesis has no diff: it follows no other state"));
        }
        Ok((at, view))
    }
}
