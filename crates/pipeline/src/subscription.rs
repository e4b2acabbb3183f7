use crate::{
    SubscribeError,
    feed::{Feed, Step},
    metrics,
    published::PublishedBlock,
};
use alloy_primitives::B256;
use prestate_store::ReadError;
use prestate_types::BlockRef;
use std::sync::Arc;
use tokio::sync::watch;

/// One step of a subscriber's chain. Its first block is the child of the block it started from,
/// and every following step goes on from the one before, by hash.
#[derive(Debug, Clone)]
pub enum Update {
    /// On to a child: apply the block's diff.
    Commit(Arc<PublishedBlock>),
    /// Back to the parent: apply the block's diff backwards.
    Revert(Arc<PublishedBlock>),
    /// The last one: nothing follows.
    Cut(CutReason),
}

/// Why a subscription ended. It may be taken up again from the last block that came, except after
/// [`CutReason::Unavailable`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CutReason {
    /// The subscriber does not keep up.
    #[error("subscriber is {behind_blocks} blocks behind, {max_blocks} are allowed")]
    TooSlow {
        /// Blocks up to the newest.
        behind_blocks: u64,
        /// Blocks it may be behind.
        max_blocks: u64,
    },
    /// What the next block changed is not known here (it failed, was pruned or jumped over): the
    /// subscriber has to start anew from a state it reads.
    #[error("the diff of block {number} is not available")]
    Unavailable {
        /// Height of the block.
        number: u64,
    },
    /// The archive could not be read.
    #[error("reading the archive failed")]
    Archive,
    /// The pipeline stopped.
    #[error("the server stops")]
    Stopped,
}

impl CutReason {
    const fn label(&self) -> &'static str {
        match self {
            Self::TooSlow { .. } => "too_slow",
            Self::Unavailable { .. } | Self::Archive => "unavailable",
            Self::Stopped => "stopped",
        }
    }
}

/// A gapless walk along the published chain. It holds a place, not a buffer: a slow reader costs
/// nothing but is cut off once too far behind.
#[derive(Debug)]
pub struct Subscription {
    feed: Arc<Feed>,
    changes: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    at: BlockRef,
    max_lag_blocks: u64,
    caught_up: bool,
    ended: bool,
}

impl Subscription {
    pub(crate) fn new(
        feed: Arc<Feed>,
        from: Option<B256>,
        max_lag_blocks: u64,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, SubscribeError> {
        let changes = feed.changes();
        let tip = feed.chain(|chain| chain.tip());
        let at = match from {
            None => tip.ok_or(SubscribeError::NoHead)?,
            Some(hash) => known(&feed, &hash)?.ok_or(SubscribeError::UnknownBlock(hash))?,
        };
        feed.subscriber_came();
        let caught_up = false;
        Ok(Self { feed, changes, stop, at, max_lag_blocks, caught_up, ended: false })
    }

    /// The block reached.
    pub const fn position(&self) -> BlockRef {
        self.at
    }

    /// The next step; waits at the newest block. `None` after [`Update::Cut`]. May be dropped
    /// while waiting: nothing is lost.
    pub async fn next(&mut self) -> Option<Update> {
        if self.ended {
            return None;
        }
        let reason = match self.advance().await {
            Ok(update) => return Some(update),
            Err(reason) => reason,
        };
        self.ended = true;
        ::metrics::counter!(metrics::CUTS, "reason" => reason.label()).increment(1);
        Some(Update::Cut(reason))
    }

    async fn advance(&mut self) -> Result<Update, CutReason> {
        loop {
            if *self.stop.borrow() {
                return Err(CutReason::Stopped);
            }
            self.changes.mark_unchanged();
            match self.feed.step(self.at).map_err(|error| archive_failed(&error))? {
                Step::Stay => {
                    self.caught_up = true;
                    tokio::select! {
                        changed = self.changes.changed() => {
                            changed.map_err(|_| CutReason::Stopped)?;
                        }
                        _ = self.stop.wait_for(|stop| *stop) => return Err(CutReason::Stopped),
                    }
                }
                Step::Back => {
                    let block = self.load(self.at).await?;
                    let number = self.at.number.checked_sub(1);
                    let number = number.ok_or(CutReason::Unavailable { number: self.at.number })?;
                    self.at = BlockRef::new(number, block.summary().parent_hash);
                    return Ok(Update::Revert(block));
                }
                Step::On { behind, .. } if self.caught_up && behind > self.max_lag_blocks => {
                    return Err(CutReason::TooSlow {
                        behind_blocks: behind,
                        max_blocks: self.max_lag_blocks,
                    });
                }
                Step::On { next, .. } => {
                    let block = self.load(next).await?;
                    if block.summary().parent_hash != self.at.hash {
                        return Err(CutReason::Unavailable { number: next.number });
                    }
                    self.at = next;
                    return Ok(Update::Commit(block));
                }
                Step::Gap { number } => return Err(CutReason::Unavailable { number }),
            }
        }
    }

    /// A block from memory, or from disk on a thread that may wait for it.
    async fn load(&self, block: BlockRef) -> Result<Arc<PublishedBlock>, CutReason> {
        if let Some(block) = self.feed.recent(&block.hash) {
            return Ok(block);
        }
        let feed = self.feed.clone();
        let read = tokio::task::spawn_blocking(move || feed.load(&block.hash)).await;
        match read {
            Ok(Ok(Some(block))) => Ok(block),
            Ok(Ok(None)) => Err(CutReason::Unavailable { number: block.number }),
            Ok(Err(error)) => Err(archive_failed(&error)),
            Err(_) => Err(CutReason::Stopped),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.subscriber_left();
    }
}

fn known(feed: &Feed, hash: &B256) -> Result<Option<BlockRef>, ReadError> {
    if let Some(block) = feed.recent(hash) {
        return Ok(Some(block.summary().block));
    }
    if let Some(block) = feed.chain(|chain| chain.descending().find(|block| block.hash == *hash)) {
        return Ok(Some(block));
    }
    let Some(archive) = &feed.archive else { return Ok(None) };
    Ok(archive.summary(hash)?.map(|summary| summary.block))
}

fn archive_failed(error: &ReadError) -> CutReason {
    tracing::error!(%error, "a subscriber could not be served from the archive");
    CutReason::Archive
}
