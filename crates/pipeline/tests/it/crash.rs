//! A pipeline over a growing chain, killed at random moments.
//!
//! `PRESTATE_CRASH_KILLS` sets the number of kills, 20 by default.

use crate::{
    chain::{TestHost, Tree},
    model::{check_block, options, start, wait_for},
    random::Random,
};
use prestate_host::Host;
use prestate_store::Archive;
use prestate_types::BlockRef;
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

const FOLDER: &str = "PRESTATE_CRASH_FOLDER";
const SEED: &str = "PRESTATE_CRASH_SEED";
const DONE: &str = "PRESTATE_CRASH_DONE";
/// Kills over one chain; then a new one, so that making it again stays cheap.
const KILLS_A_CHAIN: u64 = 25;

/// Step `number` of a chain's life, the same whoever asks.
fn step(tree: &mut Tree, seed: u64, number: u64) {
    let mut random = Random::new(seed ^ number.wrapping_mul(0x1234_5678_9abc_def1));
    let head = tree.chain.head().unwrap();
    let salt = (seed << 32) | (number << 8);
    if random.one_in(4) {
        let depth = (1 + random.below(5)).min(head.number);
        let ancestor = tree.line(head)[(head.number - depth) as usize];
        let fork = (0..depth + random.below(2))
            .fold(ancestor, |parent, at| tree.grow(parent.hash, salt + at));
        tree.chain.set_head(fork.hash).unwrap();
    } else {
        let count = 1 + random.below(4);
        (0..count).fold(head, |parent, at| tree.grow(parent.hash, salt + at));
    }
}

/// The process that is killed: makes the chain as it was, follows it on, and says each step before
/// it makes it, and each block as it acknowledges it.
#[test]
#[ignore = "run by the test that kills it"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (seed, done) = (number(SEED), number(DONE));
    let mut tree = Tree::new();
    (0..done).for_each(|number| step(&mut tree, seed, number));
    tree.told();
    let mut host = TestHost::quiet(&tree.chain);
    host.loud = true;
    let host = Arc::new(host);
    // After what the test harness writes.
    println!("\nopen");
    let pipeline = start(&tree, host.clone(), Path::new(&folder));
    println!("ready");
    for number in done.. {
        println!("step {number}");
        std::io::stdout().flush().unwrap();
        step(&mut tree, seed, number);
        tree.tell(&host);
        // At most a little ahead, as blocks come one by one.
        let head = tree.chain.head().unwrap();
        wait_for("the head to be near", || {
            pipeline.head().is_some_and(|own| own.number + 8 >= head.number)
        });
    }
}

/// What a child said until it was killed.
#[derive(Debug, Default)]
struct Said {
    steps: u64,
    acked: Vec<BlockRef>,
}

fn run_and_kill(folder: &Path, seed: u64, done: u64, random: &mut Random) -> Said {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .env(DONE, done.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    // Some die while they open the archive and heal, most while they follow.
    let (wait_for, longest) = if random.one_in(4) { ("open", 60) } else { ("ready", 250) };
    let mut said = Said { steps: done, acked: Vec::new() };
    let mut line = String::new();
    let mut read = |out: &mut BufReader<_>, said: &mut Said| {
        line.clear();
        let read = BufRead::read_line(out, &mut line).unwrap();
        // The last line may be torn.
        if read == 0 || !line.ends_with('\n') {
            return None;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["step", number] => said.steps = number.parse::<u64>().unwrap() + 1,
            ["ack", number, hash] => {
                let block = BlockRef::new(number.parse().unwrap(), hash.parse().unwrap());
                said.acked.push(block);
            }
            _ => {}
        }
        Some(words.first().is_some_and(|word| *word == wait_for))
    };
    while !read(&mut out, &mut said).expect("the child ended by itself") {}
    std::thread::sleep(Duration::from_micros(random.below(longest * 1000)));
    child.kill().unwrap();
    while read(&mut out, &mut said).is_some() {}
    child.wait().unwrap();
    said
}

#[test]
fn every_acknowledged_block_survives_a_kill() {
    let kills = std::env::var("PRESTATE_CRASH_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let mut random = Random::new(7);
    let (mut killed, mut losses, mut acks, mut held) = (0, 0, 0, 0);
    for seed in 1.. {
        if killed == kills {
            break;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::new();
        let (mut made, mut acked) = (0, Vec::new());
        for _ in 0..KILLS_A_CHAIN.min(kills - killed) {
            let said = run_and_kill(folder.path(), seed, made, &mut random);
            killed += 1;
            (made..said.steps).for_each(|number| step(&mut tree, seed, number));
            made = said.steps;
            acks += said.acked.len();
            let last = said.acked.last().copied();
            acked.extend(said.acked);
            let opened = Archive::open_or_create(folder.path(), tree.chain_id(), &options());
            let archive = opened.unwrap().1;
            let report = archive.verify(|_| ()).unwrap();
            assert!(report.is_clean(), "{:?}", report.problems);
            // Where the chain started is not kept: nothing was asked of it.
            let first = archive.range().unwrap().map_or(u64::MAX, |(first, _)| first.number);
            let owed = last.map(|last| tree.line(last)).unwrap_or_default();
            for block in owed.iter().chain(&acked).filter(|block| block.number >= first) {
                if archive.facts(&block.hash).unwrap().is_none() {
                    losses += 1;
                    println!("seed {seed}: block {block} was acknowledged and is lost");
                    continue;
                }
                check_block(&tree, &archive, *block);
            }
            if let (Some(last), true) = (last, first == u64::MAX) {
                assert_eq!(last.number, 0, "all of {last} is lost");
            }
            // What is canonical is one line of the tree, whole.
            let chain = archive.canonical_blocks(0..=u64::MAX, usize::MAX).unwrap();
            if let Some(tip) = chain.last() {
                let line = tree.line(*tip);
                assert_eq!(chain, line[line.len() - chain.len()..]);
            }
            held += report.blocks;
        }
    }
    println!("{killed} kills, {acks} acknowledgements, {held} blocks looked at, {losses} losses");
    assert_eq!(losses, 0);
    assert!(acks > 0, "nothing was acknowledged");
}
