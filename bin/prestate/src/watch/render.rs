//! Diffs for people: a block a paragraph, an account a group, old value → new value.

use alloy_primitives::{Address, B256, U256, utils::format_ether};
use prestate_client::{
    AccountChange, BlockHead, DiffEvent, DiffRange, DiffSide, SYSTEM_CONTRACTS, StreamedBlock,
    StreamedDiff,
};
use prestate_types::BlockRef;
use std::{collections::BTreeMap, fmt::Write};

/// Whether escape sequences may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Colour,
}

#[derive(Debug, Clone, Copy)]
enum Ink {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Names of the protocol's own contracts (EIP-4788, 2935, 7002, 7251).
const SYSTEM_NAMES: [&str; 4] =
    ["beacon roots", "block hashes", "withdrawal requests", "consolidation requests"];

#[derive(Debug)]
pub(super) struct Renderer {
    style: Style,
    labels: BTreeMap<Address, String>,
}

impl Renderer {
    pub(super) fn new(style: Style, labels: Vec<(Address, String)>) -> Self {
        let system = SYSTEM_CONTRACTS.into_iter().zip(SYSTEM_NAMES.map(str::to_owned));
        Self { style, labels: system.chain(labels).collect() }
    }

    /// What happened, without a line break at the end.
    pub(super) fn event(&self, event: &DiffEvent) -> String {
        let text = match event {
            DiffEvent::Commit(block) => self.block("", block, false),
            DiffEvent::Revert(block) => {
                let mark = self.ink(Ink::Red, "reverted ");
                self.block(&mark, block, true)
            }
            DiffEvent::Range(range) => self.range(range),
            _ => String::new(),
        };
        text.trim_end().to_owned()
    }

    fn block(&self, mark: &str, block: &StreamedBlock, back: bool) -> String {
        let BlockHead { number, hash, timestamp, .. } = block.block;
        let mut text = format!(
            "{mark}{} {hash} {}",
            self.ink(Ink::Bold, &format!("#{number}")),
            clock(timestamp)
        );
        match &block.diff {
            StreamedDiff::Block { pre, post } => {
                let _ = writeln!(text, "  {}", self.ink(Ink::Dim, &counts(post)));
                let (old, new) = if back { (post, pre) } else { (pre, post) };
                self.accounts(&mut text, old, new);
            }
            StreamedDiff::Transactions { transactions } => {
                let _ = writeln!(
                    text,
                    "  {}",
                    self.ink(Ink::Dim, &plural(transactions.len(), "transaction"))
                );
                // Taken back last first.
                let mut order: Vec<_> = transactions.iter().collect();
                if back {
                    order.reverse();
                }
                for tx in order {
                    let _ = writeln!(text, " tx {} {}", tx.index, tx.tx_hash);
                    let (old, new) = if back { (&tx.post, &tx.pre) } else { (&tx.pre, &tx.post) };
                    self.accounts(&mut text, old, new);
                }
            }
        }
        text
    }

    fn range(&self, range: &DiffRange) -> String {
        let mut text = String::new();
        if let Some(reorg) = &range.reorg {
            let dropped = plural(reorg.dropped.len(), "block");
            let mark = self.ink(Ink::Red, &format!("reorg: {dropped} dropped"));
            let _ =
                writeln!(text, "{mark}, common ancestor {}", BlockRef::from(reorg.common_ancestor));
            for block in &reorg.dropped {
                let _ = writeln!(
                    text,
                    "{} {}",
                    self.ink(Ink::Red, "  dropped"),
                    BlockRef::from(*block)
                );
            }
        }
        let numbers =
            self.ink(Ink::Bold, &format!("#{} .. #{}", range.from.number, range.to.number));
        let counted = self.ink(Ink::Dim, &counts(&range.post));
        let _ = writeln!(text, "{numbers} {}  {counted}", range.to.hash);
        self.accounts(&mut text, &range.pre, &range.post);
        text
    }

    fn accounts(&self, text: &mut String, old: &DiffSide, new: &DiffSide) {
        for (address, after) in new {
            let before = old.get(address).and_then(Option::as_ref);
            let name = match self.labels.get(address) {
                Some(label) => format!(
                    "{} {}",
                    self.ink(Ink::Yellow, label),
                    self.ink(Ink::Dim, &address.to_string())
                ),
                None => self.ink(Ink::Yellow, &address.to_string()),
            };
            let fate = match (before, after) {
                (None, Some(_)) => self.ink(Ink::Green, "  created"),
                (_, None) => self.ink(Ink::Red, "  gone"),
                _ => String::new(),
            };
            let _ = writeln!(text, "  {name}{fate}");
            let nothing = AccountChange::default();
            account(text, before.unwrap_or(&nothing), after.as_ref().unwrap_or(&nothing));
        }
    }

    fn ink(&self, ink: Ink, text: &str) -> String {
        match self.style {
            Style::Plain => text.to_owned(),
            Style::Colour => format!("\x1b[{}m{text}\x1b[0m", ink as u8),
        }
    }
}

/// One line a field that differs. What only one side has belongs to an account that came or went.
fn account(text: &mut String, old: &AccountChange, new: &AccountChange) {
    if old.balance != new.balance {
        let (old, new) = (old.balance.unwrap_or_default(), new.balance.unwrap_or_default());
        let delta = match new >= old {
            true => format!("+{}", ether(new - old)),
            false => format!("-{}", ether(old - new)),
        };
        let _ = writeln!(text, "    balance  {} → {} ETH  ({delta})", ether(old), ether(new));
    }
    if old.nonce != new.nonce {
        let shown = |nonce: Option<u64>| nonce.unwrap_or_default();
        let _ = writeln!(text, "    nonce    {} → {}", shown(old.nonce), shown(new.nonce));
    }
    if old.code_hash != new.code_hash {
        let shown = |hash: Option<B256>| hash.map_or_else(|| "none".to_owned(), |h| h.to_string());
        let _ = writeln!(text, "    code     {} → {}", shown(old.code_hash), shown(new.code_hash));
    }
    if old.storage_wiped || new.storage_wiped {
        let _ = writeln!(text, "    storage  cleared as a whole on the way");
    }
    let slots: BTreeMap<_, ()> =
        old.storage.keys().chain(new.storage.keys()).map(|slot| (*slot, ())).collect();
    for slot in slots.into_keys() {
        let value = |side: &AccountChange| {
            U256::from_be_bytes(side.storage.get(&slot).copied().unwrap_or_default().0)
        };
        let key = number(U256::from_be_bytes(slot.0));
        let _ = writeln!(text, "    slot {key}  {}", change(value(old), value(new)));
    }
}

/// Amounts, counters and flags fit 16 bytes and are shown as numbers with their difference; packed
/// words, addresses and hashes are not numbers.
fn change(old: U256, new: U256) -> String {
    if old.bit_len() > 128 || new.bit_len() > 128 {
        return format!("{} → {}", number(old), number(new));
    }
    let delta = match new >= old {
        true => format!("+{}", grouped(new - old)),
        false => format!("-{}", grouped(old - new)),
    };
    format!("{} → {}  ({delta})", grouped(old), grouped(new))
}

fn number(value: U256) -> String {
    match value.bit_len() {
        0..=32 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

/// 1234567 as 1,234,567.
fn grouped(value: U256) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn ether(wei: U256) -> String {
    let text = format_ether(wei);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Time of day, UTC.
fn clock(timestamp: u64) -> String {
    let (hours, minutes, seconds) = (timestamp / 3600 % 24, timestamp / 60 % 60, timestamp % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}

fn counts(side: &DiffSide) -> String {
    let slots = side.values().flatten().map(|account| account.storage.len()).sum();
    format!("{}, {}", plural(side.len(), "account"), plural(slots, "slot"))
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prestate_client::TransactionDiffView;
    use serde_json::json;

    const ONE: &str = "0x1111111111111111111111111111111111111111";
    const TWO: &str = "0x2222222222222222222222222222222222222222";

    fn block() -> StreamedBlock {
        let slot = B256::with_last_byte(3);
        let wei = |n: u64| U256::from(n) * U256::from(10).pow(U256::from(17));
        serde_json::from_value(json!({
            "block": { "number": "0x11", "hash": B256::repeat_byte(1), "parentHash": B256::ZERO, "timestamp": "0x15181" },
            "pre": {
                ONE: { "balance": wei(15), "storage": { slot.to_string(): B256::from(U256::from(1000)) } },
                TWO: null,
            },
            "post": {
                ONE: { "balance": wei(10), "storage": { slot.to_string(): B256::from(U256::from(1_234_567)) } },
                TWO: { "balance": "0x0", "nonce": "0x1", "codeHash": B256::repeat_byte(9) },
            },
        }))
        .unwrap()
    }

    fn plain() -> Renderer {
        Renderer::new(Style::Plain, vec![(ONE.parse().unwrap(), "pool".to_owned())])
    }

    #[test]
    fn a_block_old_to_new_by_account() {
        let shown = plain().event(&DiffEvent::Commit(block()));
        let expected = format!(
            "#17 {} 00:00:01  2 accounts, 1 slot\n  pool {ONE}\n    balance  1.5 → 1 ETH  (-0.5)\n    \
             slot 3  1,000 → 1,234,567  (+1,233,567)\n  {TWO}  created\n    balance  0 → 0 ETH  (+0)\n    \
             nonce    0 → 1\n    code     none → {}",
            B256::repeat_byte(1),
            B256::repeat_byte(9),
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_revert_goes_the_other_way_and_is_marked() {
        let shown = plain().event(&DiffEvent::Revert(block()));
        assert!(shown.starts_with("reverted #17 "), "{shown}");
        assert!(shown.contains("1 → 1.5 ETH  (+0.5)"), "{shown}");
        assert!(shown.contains("1,234,567 → 1,000  (-1,233,567)"), "{shown}");
        assert!(shown.contains(&format!("{TWO}  gone")), "{shown}");
        let colour = Renderer::new(Style::Colour, Vec::new()).event(&DiffEvent::Revert(block()));
        assert!(colour.starts_with("\x1b[31mreverted \x1b[0m\x1b[1m#17\x1b[0m"), "{colour:?}");
    }

    #[test]
    fn transactions_are_taken_back_last_first() {
        let StreamedBlock { block: head, diff } = block();
        let StreamedDiff::Block { pre, post } = diff else { panic!("a block diff") };
        let tx = |index| TransactionDiffView {
            tx_hash: B256::with_last_byte(index),
            index: index.into(),
            pre: pre.clone(),
            post: post.clone(),
        };
        let diff = StreamedDiff::Transactions { transactions: vec![tx(0), tx(1)] };
        let block = StreamedBlock { block: head, diff };
        let order = |event| {
            let shown = plain().event(&event);
            let lines = shown.lines().filter(|line| line.starts_with(" tx "));
            lines.map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(order(DiffEvent::Commit(block.clone())), ["0", "1"]);
        assert_eq!(order(DiffEvent::Revert(block)), ["1", "0"]);
    }

    #[test]
    fn a_range_names_the_blocks_that_were_dropped() {
        let handle =
            |n: u64| json!({ "number": U256::from(n), "hash": B256::with_last_byte(n as u8) });
        let range = serde_json::from_value(json!({
            "from": handle(7), "to": handle(8), "pre": {}, "post": {},
            "reorg": { "commonAncestor": handle(6), "dropped": [handle(7)] },
        }));
        let shown = plain().event(&DiffEvent::Range(range.unwrap()));
        assert!(shown.starts_with("reorg: 1 block dropped, common ancestor 6 ("), "{shown}");
        assert!(shown.contains("\n  dropped 7 (0x"), "{shown}");
        assert!(shown.contains("\n#7 .. #8 0x"), "{shown}");
    }

    #[test]
    fn numbers() {
        let of = |n: u64| U256::from(n);
        assert_eq!(change(of(0), of(999)), "0 → 999  (+999)");
        assert_eq!(grouped(of(1_000)), "1,000");
        assert_eq!(change(U256::MAX, of(1)), format!("{:#x} → 1", U256::MAX));
        assert_eq!(number(of(1 << 40)), "0x10000000000");
        assert_eq!(clock(86_399), "23:59:59");
    }
}
