//! Random trees of blocks, told badly, against a plain model: after every step the archive and all
//! subscribers stand where the chain does.
//!
//! `PRESTATE_REORG_STEPS` sets the steps of each run, 60 by default; `PRESTATE_REORG_SEEDS` the
//! number of runs, 3 by default.

use crate::{
    chain::{TestHost, Tree},
    model::{Listener, Reader, check_archive, config, settle, start_with},
    random::Random,
};
use prestate_host::{Host, Notification};
use prestate_pipeline::{PipelineConfig, PipelineHandle};
use prestate_types::BlockRef;
use std::{path::Path, sync::Arc};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Deepest reorg made.
const MAX_DEPTH: u64 = 64;

/// Every other run has hardly any room.
fn config_of(seed: u64) -> PipelineConfig {
    if seed.is_multiple_of(2) {
        return config();
    }
    PipelineConfig {
        workers: 1,
        max_in_flight_blocks: 3,
        max_queued_notifications: 2,
        recent_blocks: 2,
        ..config()
    }
}

struct World {
    tree: Tree,
    host: Arc<TestHost>,
    session: Option<PipelineHandle>,
    config: PipelineConfig,
    random: Random,
    readers: Vec<Reader>,
    listener: Option<Listener>,
    /// Heads there were, to go back to.
    heads: Vec<BlockRef>,
    salt: u64,
    depths: Vec<u64>,
}

impl World {
    fn new(seed: u64, folder: &Path) -> Self {
        let tree = Tree::new();
        let host = TestHost::new(&tree.chain);
        let config = config_of(seed);
        let pipeline = start_with(&tree, host.clone(), folder, config.clone());
        let heads = vec![tree.genesis];
        let readers = vec![Reader::new(&pipeline, tree.genesis)];
        let listener = Some(Listener::new(&pipeline));
        let random = Random::new(seed);
        Self {
            tree,
            host,
            session: Some(pipeline),
            config,
            random,
            readers,
            listener,
            heads,
            salt: seed << 32,
            depths: Vec::new(),
        }
    }

    fn pipeline(&self) -> &PipelineHandle {
        self.session.as_ref().unwrap()
    }

    fn grow(&mut self, mut parent: BlockRef, count: u64) -> BlockRef {
        for _ in 0..count {
            self.salt += 1;
            parent = self.tree.grow(parent.hash, self.salt);
        }
        parent
    }

    /// One change of the chain.
    fn change(&mut self) {
        let head = self.tree.chain.head().unwrap();
        let depth = match self.random.below(8) {
            0 => 1 + self.random.below(MAX_DEPTH),
            _ => 1 + self.random.below(5),
        };
        let ancestor = self.tree.line(head)[head.number.saturating_sub(depth) as usize];
        match self.random.below(10) {
            0..=3 => {
                let count = 1 + self.random.below(6);
                self.grow(head, count);
            }
            4 | 5 => {
                // As long, longer or shorter than what it replaces.
                let count =
                    (head.number - ancestor.number).saturating_sub(1) + self.random.below(3);
                let fork = self.grow(ancestor, count);
                self.tree.chain.set_head(fork.hash).unwrap();
            }
            6 => self.tree.chain.set_head(ancestor.hash).unwrap(),
            7 => {
                // Back and forth between two branches.
                let other = self.heads[self.random.below(self.heads.len() as u64) as usize];
                if head.number.abs_diff(other.number) <= MAX_DEPTH {
                    for _ in 0..2 {
                        self.tree.chain.set_head(other.hash).unwrap();
                        self.tree.chain.set_head(head.hash).unwrap();
                    }
                    self.tree.chain.set_head(other.hash).unwrap();
                }
            }
            8 => {
                let count = 1 + self.random.below(20);
                self.grow(head, count);
            }
            _ => {}
        }
        let now = self.tree.chain.head().unwrap();
        let line = self.tree.line(now);
        let shared = line.iter().zip(self.tree.line(head)).take_while(|(a, b)| **a == *b).count();
        self.depths.push(head.number + 1 - shared as u64);
        self.heads.push(now);
    }

    /// Passes on what the chain told: some of it, some twice, some merged, some long past.
    fn tell(&mut self, past: &mut Vec<Notification>) {
        for notification in self.tree.told() {
            past.push(notification.clone());
            let times = match self.random.below(10) {
                0 | 1 => 0,
                2 => 2,
                _ => 1,
            };
            for _ in 0..times {
                self.host.send.try_send(notification.clone()).unwrap();
            }
            if self.random.one_in(6) {
                let stale = past[self.random.below(past.len() as u64) as usize].clone();
                self.host.send.try_send(stale).unwrap();
            }
        }
        if self.random.one_in(5) {
            // A stretch of the chain that overlaps what was told.
            let line = self.tree.line(self.tree.chain.head().unwrap());
            let from = line.len().saturating_sub(1 + self.random.below(8) as usize).max(1);
            let new: Vec<_> = line[from.min(line.len())..]
                .iter()
                .map(|block| self.tree.committed(block.hash))
                .collect();
            self.host.send.try_send(Notification::Committed(new)).unwrap();
        }
    }

    fn restart(&mut self, folder: &Path) {
        let places: Vec<_> = self.readers.drain(..).map(|reader| reader.at).collect();
        // As a new process would, the next session opens the archive itself.
        self.session.take().unwrap().shutdown();
        self.listener.take().unwrap().join();
        self.host = TestHost::new(&self.tree.chain);
        // The chain may have moved while nobody looked.
        if self.random.one_in(2) {
            self.change();
            self.tree.told();
        }
        let config = self.config.clone();
        self.session = Some(start_with(&self.tree, self.host.clone(), folder, config));
        self.listener = Some(Listener::new(self.pipeline()));
        // All come back to where they were; a new one starts at the first block.
        for place in places {
            if place.number > 0 {
                let reader = Reader::new(self.pipeline(), place);
                self.readers.push(reader);
            }
        }
    }
}

fn run(seed: u64, steps: u64) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut world = World::new(seed, folder.path());
    let mut past = Vec::new();
    // A few blocks first, so that every later chain has a first block held.
    let first = world.grow(world.tree.genesis, 1);
    world.tell(&mut past);
    settle(world.pipeline(), &*world.host);
    let (mut reached, mut restarts) = (0, 0);
    for step in 0..steps {
        world.change();
        world.tell(&mut past);
        settle(world.pipeline(), &*world.host);
        let head = world.tree.chain.head().unwrap();
        if head.number > 0 {
            check_archive(&world.tree, world.pipeline().archive().unwrap(), 1, head);
        }
        reached += runtime.block_on(world.listener.as_mut().unwrap().check(&world.tree, head));
        let slow = world.random.below(3);
        for (place, reader) in (0u64..).zip(&mut world.readers) {
            // One of them is left behind for a while.
            if place > 0 && place % 3 == slow {
                continue;
            }
            let before = reader.steps;
            runtime.block_on(reader.follow(&world.tree, head));
            reached += reader.steps - before;
        }
        if step % 7 == 3 && world.readers.len() < 5 && head.number > 0 {
            let reader = Reader::new(world.pipeline(), first);
            world.readers.push(reader);
        }
        let acked = world.host.acks.lock().last().copied();
        assert_eq!(acked, Some(head), "acknowledged");
        if world.random.one_in(12) {
            restarts += 1;
            world.restart(folder.path());
            settle(world.pipeline(), &*world.host);
        }
    }
    let report = world.pipeline().archive().unwrap().verify(|_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let status = world.pipeline().status();
    assert!(status.failed.is_empty(), "{:?}", status.failed);
    world.pipeline().shutdown();
    let deepest = world.depths.iter().max().unwrap();
    println!(
        "seed {seed}: {steps} steps, {} blocks kept, deepest reorg {deepest}, {restarts} restarts, \
         {reached} updates read",
        report.blocks
    );
}

#[test]
fn archive_and_subscribers_equal_the_model_after_every_step() {
    for seed in 0..number("PRESTATE_REORG_SEEDS", 3) {
        run(seed, number("PRESTATE_REORG_STEPS", 60));
    }
}
