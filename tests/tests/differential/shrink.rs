//! Makes a failing chain smaller.

use prestate_tests::generate::World;
use std::time::{Duration, Instant};

/// Drops blocks, transactions, withdrawals, contracts and pieces of contracts as long as `fails`
/// still holds and there is time.
pub(crate) fn shrink(
    world: World,
    patience: Duration,
    mut fails: impl FnMut(&World) -> bool,
) -> World {
    let deadline = Instant::now() + patience;
    let mut still = move |world: &World| Instant::now() < deadline && fails(world);
    let mut world = world;
    loop {
        let before = size(&world);
        world = thin(world, &mut still, |world| &mut world.blocks);
        for block in 0..world.blocks.len() {
            world = thin(world, &mut still, |world| &mut world.blocks[block].transactions);
            world = thin(world, &mut still, |world| &mut world.blocks[block].withdrawals);
        }
        world = thin(world, &mut still, |world| &mut world.contracts);
        world = thin(world, &mut still, |world| &mut world.accounts);
        world = thin(world, &mut still, |world| &mut world.delegations);
        for contract in 0..world.contracts.len() {
            world = thin(world, &mut still, |world| &mut world.contracts[contract].pieces);
            world = thin(world, &mut still, |world| &mut world.contracts[contract].slots);
        }
        if size(&world) == before || Instant::now() >= deadline {
            return world;
        }
    }
}

/// Drops runs of a list, long ones first.
fn thin<T: Clone>(
    mut world: World,
    still: &mut impl FnMut(&World) -> bool,
    list: impl Fn(&mut World) -> &mut Vec<T>,
) -> World {
    let mut run = list(&mut world).len();
    while run > 0 {
        let mut at = 0;
        while at < list(&mut world).len() {
            let mut smaller = world.clone();
            let items = list(&mut smaller);
            let end = items.len().min(at + run);
            items.drain(at..end);
            if still(&smaller) {
                world = smaller;
            } else {
                at += run;
            }
        }
        run /= 2;
    }
    world
}

fn size(world: &World) -> usize {
    let pieces: usize = world
        .contracts
        .iter()
        .map(|contract| 1 + contract.pieces.len() + contract.slots.len())
        .sum();
    let transactions: usize = world
        .blocks
        .iter()
        .map(|block| 1 + block.transactions.len() + block.withdrawals.len())
        .sum();
    pieces + transactions + world.accounts.len() + world.delegations.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prestate_tests::generate::Fork;

    #[test]
    fn what_does_not_matter_goes() {
        let world = World::random(1, Fork::Prague, 4, 12);
        let wanted = world.blocks[2].transactions[1].clone();
        let holds = |world: &World| world.transactions().any(|recipe| *recipe == wanted);
        let small = shrink(world, Duration::from_secs(20), holds);
        assert_eq!(small.blocks.len(), 1);
        assert_eq!(small.transactions().count(), 1);
        assert!(small.contracts.is_empty() && small.accounts.is_empty());
    }
}
