use alloy_eips::BlockId;
use alloy_network::{Ethereum, Network};
use alloy_primitives::{Address, B256};
use alloy_provider::Provider;
use alloy_transport::TransportResult;
use async_trait::async_trait;
use prestate_rpc_api::{
    AccountQuery, AccountsAt, BlockDiffView, DiffOptions, DiffRange, Resync, ResyncRequest,
    SlotsByAccount, StorageAt, TransactionDiffView, TransactionDiffsView,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// The `prestate_*` namespace on every provider of alloy's, as its `DebugApi` is for `debug_*`.
///
/// Errors are those of the transport; [`Refusal::of`](crate::Refusal::of) reads the limit or the
/// earliest block out of one.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use prestate_client::{DiffOptions, PrestateApi, connect_http};
/// let provider = connect_http("http://127.0.0.1:8545".parse()?)?;
/// let diff = provider.prestate_get_block_diff(19_000_000.into(), DiffOptions::default()).await?;
/// println!("{} accounts changed", diff.post.len());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait PrestateApi<N: Network = Ethereum>: Send + Sync {
    /// `prestate_getBlockDiff`: what a block changed as a whole.
    async fn prestate_get_block_diff(
        &self,
        block: BlockId,
        options: DiffOptions,
    ) -> TransportResult<BlockDiffView>;

    /// `prestate_getTransactionDiffs`: what each transaction of a block changed.
    async fn prestate_get_transaction_diffs(
        &self,
        block: BlockId,
        options: DiffOptions,
    ) -> TransportResult<TransactionDiffsView>;

    /// `prestate_getTransactionDiff`: what one transaction changed.
    async fn prestate_get_transaction_diff(
        &self,
        hash: B256,
        options: DiffOptions,
    ) -> TransportResult<TransactionDiffView>;

    /// `prestate_getDiffRange`: the net change from the state after `from` to the state after `to`.
    async fn prestate_get_diff_range(
        &self,
        from: BlockId,
        to: BlockId,
        options: DiffOptions,
    ) -> TransportResult<DiffRange>;

    /// `prestate_getStorage`: values of up to [`MAX_READ_SLOTS`](crate::MAX_READ_SLOTS) slots after
    /// a block.
    async fn prestate_get_storage(
        &self,
        block: BlockId,
        slots: SlotsByAccount,
    ) -> TransportResult<StorageAt>;

    /// `prestate_getAccounts`: accounts, all of one state.
    async fn prestate_get_accounts(
        &self,
        block: BlockId,
        accounts: BTreeMap<Address, AccountQuery>,
    ) -> TransportResult<AccountsAt>;

    /// `prestate_resync`: what changed of what a caller keeps, since the block it has.
    async fn prestate_resync(&self, request: ResyncRequest) -> TransportResult<Resync>;

    /// `prestate_status`: head, caches, limits, versions.
    async fn prestate_status(&self) -> TransportResult<Value>;
}

#[async_trait]
impl<N: Network, P: Provider<N>> PrestateApi<N> for P {
    async fn prestate_get_block_diff(
        &self,
        block: BlockId,
        options: DiffOptions,
    ) -> TransportResult<BlockDiffView> {
        self.client().request("prestate_getBlockDiff", (block, options)).await
    }

    async fn prestate_get_transaction_diffs(
        &self,
        block: BlockId,
        options: DiffOptions,
    ) -> TransportResult<TransactionDiffsView> {
        self.client().request("prestate_getTransactionDiffs", (block, options)).await
    }

    async fn prestate_get_transaction_diff(
        &self,
        hash: B256,
        options: DiffOptions,
    ) -> TransportResult<TransactionDiffView> {
        self.client().request("prestate_getTransactionDiff", (hash, options)).await
    }

    async fn prestate_get_diff_range(
        &self,
        from: BlockId,
        to: BlockId,
        options: DiffOptions,
    ) -> TransportResult<DiffRange> {
        self.client().request("prestate_getDiffRange", (from, to, options)).await
    }

    async fn prestate_get_storage(
        &self,
        block: BlockId,
        slots: SlotsByAccount,
    ) -> TransportResult<StorageAt> {
        self.client().request("prestate_getStorage", (block, slots)).await
    }

    async fn prestate_get_accounts(
        &self,
        block: BlockId,
        accounts: BTreeMap<Address, AccountQuery>,
    ) -> TransportResult<AccountsAt> {
        self.client().request("prestate_getAccounts", (block, accounts)).await
    }

    async fn prestate_resync(&self, request: ResyncRequest) -> TransportResult<Resync> {
        self.client().request("prestate_resync", (request,)).await
    }

    async fn prestate_status(&self) -> TransportResult<Value> {
        self.client().request_noparams("prestate_status").await
    }
}
