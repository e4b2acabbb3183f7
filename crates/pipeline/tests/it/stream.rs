//! Subscriptions from outside.

use crate::{
    chain::{TestHost, Tree},
    model::{Reader, config, settle, start, start_with},
};
use alloy_primitives::B256;
use prestate_pipeline::{CutReason, PipelineConfig, SubscribeError, Update};

#[tokio::test]
async fn a_subscriber_that_falls_behind_is_told_and_cut() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let config = PipelineConfig { max_subscriber_lag_blocks: 4, ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    // From far behind it may catch up at leisure.
    let far = tree.extend(tree.genesis, 10, 12);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let mut reader = Reader::new(&pipeline, tree.genesis);
    reader.follow(&tree, far).await;
    // Waiting at the head makes it one that is up to date.
    let near = tree.extend(far, 30, 1);
    let (told, ()) = tokio::join!(reader.subscription.next(), async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        tree.tell(&host);
    });
    assert!(matches!(told, Some(Update::Commit(_))));
    assert_eq!(reader.subscription.position(), near);
    let _head = tree.extend(near, 40, 7);
    tree.tell(&host);
    settle(&pipeline, &*host);
    assert_eq!(pipeline.status().subscribers, 1);
    let cut = reader.subscription.next().await;
    let expected = CutReason::TooSlow { behind_blocks: 7, max_blocks: 4 };
    assert!(matches!(&cut, Some(Update::Cut(reason)) if *reason == expected), "{cut:?}");
    assert!(reader.subscription.next().await.is_none());
    // From where it stopped it may come back.
    let mut again = Reader::new(&pipeline, near);
    again.follow(&tree, _head).await;
    drop((reader, again));
    assert_eq!(pipeline.status().subscribers, 0);
}

#[tokio::test]
async fn readers_come_back_from_anywhere_known_and_end_with_the_pipeline() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let pipeline = start(&tree, host.clone(), folder.path());
    let old = tree.extend(tree.genesis, 10, 6);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let second = tree.line(old)[2];
    let head = tree.extend(second, 40, 5);
    tree.chain.set_head(head.hash).unwrap();
    tree.tell(&host);
    settle(&pipeline, &*host);
    // From a block that is no longer canonical: back first, then up.
    let mut reader = Reader::new(&pipeline, old);
    reader.follow(&tree, head).await;
    assert_eq!(reader.steps, 4 + 5);
    let unknown = pipeline.subscribe(Some(B256::repeat_byte(9)));
    assert!(matches!(unknown, Err(SubscribeError::UnknownBlock(hash)) if hash.0 == [9; 32]));
    let mut waiting = pipeline.subscribe(None).unwrap();
    assert_eq!(waiting.position(), head);
    let stopping = pipeline.clone();
    let stop = tokio::task::spawn_blocking(move || stopping.shutdown());
    let cut = waiting.next().await;
    assert!(matches!(cut, Some(Update::Cut(CutReason::Stopped))), "{cut:?}");
    stop.await.unwrap();
}
