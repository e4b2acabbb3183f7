//! A chain as plain maps, a whole state a block, and its diff traces by Geth's rules.

use alloy_primitives::{Address, B256, U256, keccak256};
use prestate_client::{BlockRef, SYSTEM_CONTRACTS};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Accounts that traffic touches; more are never touched.
pub(crate) const ACCOUNTS: u8 = 12;
/// Slots of each.
pub(crate) const SLOTS: u8 = 16;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Account {
    nonce: u64,
    balance: u64,
    code: bool,
    storage: BTreeMap<B256, B256>,
}

impl Account {
    pub(crate) fn storage(&self) -> &BTreeMap<B256, B256> {
        &self.storage
    }

    /// As `prestate_*` shows it where it does not exist on the other side.
    pub(crate) fn whole(&self) -> Value {
        json!({
            "balance": U256::from(self.balance),
            "nonce": format!("0x{:x}", self.nonce),
            "storage": self.storage,
        })
    }
}

pub(crate) type State = BTreeMap<Address, Account>;

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) at: BlockRef,
    pub(crate) parent: B256,
    pub(crate) transactions: Vec<B256>,
    pub(crate) traces: Vec<Value>,
    pub(crate) state: State,
}

impl Block {
    pub(crate) fn value(&self, address: Address, slot: B256) -> B256 {
        let account = self.state.get(&address);
        account.and_then(|account| account.storage.get(&slot)).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) struct Model {
    rng: StdRng,
    canonical: Vec<Arc<Block>>,
    by_hash: HashMap<B256, Arc<Block>>,
}

pub(crate) fn account(n: u8) -> Address {
    Address::repeat_byte(0x10 + n)
}

pub(crate) fn slot(n: u8) -> B256 {
    B256::with_last_byte(n)
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let at = BlockRef::new(100, keccak256(seed.to_be_bytes()));
        let genesis = Arc::new(Block {
            at,
            parent: B256::ZERO,
            transactions: Vec::new(),
            traces: Vec::new(),
            state: State::new(),
        });
        Self { rng, canonical: vec![Arc::clone(&genesis)], by_hash: [(at.hash, genesis)].into() }
    }

    pub(crate) fn head(&self) -> &Arc<Block> {
        self.canonical.last().unwrap()
    }

    pub(crate) fn block(&self, hash: &B256) -> Option<&Arc<Block>> {
        self.by_hash.get(hash)
    }

    pub(crate) fn at(&self, number: u64) -> Option<&Arc<Block>> {
        self.canonical.get(usize::try_from(number.checked_sub(self.canonical[0].at.number)?).ok()?)
    }

    pub(crate) fn is_canonical(&self, hash: &B256) -> bool {
        self.block(hash).is_some_and(|block| {
            self.at(block.at.number).is_some_and(|there| there.at.hash == *hash)
        })
    }

    /// Takes blocks off.
    pub(crate) fn cut(&mut self, depth: usize) {
        let left = self.canonical.len().saturating_sub(depth).max(1);
        self.canonical.truncate(left);
    }

    pub(crate) fn mine(&mut self) {
        let parent = Arc::clone(self.head());
        let mut state = parent.state.clone();
        let number = parent.at.number + 1;
        let salt: u64 = self.rng.random();
        let hash = keccak256([parent.at.hash.as_slice(), &salt.to_be_bytes()].concat());
        // EIP-4788 and EIP-2935: before the first transaction, shown by no trace.
        for system in &SYSTEM_CONTRACTS[..2] {
            let storage = &mut state.entry(*system).or_default().storage;
            storage.insert(slot((number % 8) as u8), hash);
        }
        let (mut transactions, mut traces) = (Vec::new(), Vec::new());
        for index in 0..self.rng.random_range(0_u64..5) {
            let tx = keccak256([hash.as_slice(), &index.to_be_bytes()].concat());
            let result = self.transaction(&mut state);
            transactions.push(tx);
            traces.push(json!({ "txHash": tx, "result": result }));
        }
        let at = BlockRef::new(number, hash);
        let block = Block { at, parent: parent.at.hash, transactions, traces, state };
        let block = Arc::new(block);
        self.by_hash.insert(hash, Arc::clone(&block));
        self.canonical.push(block);
    }

    /// Runs something and says what Geth's tracer would.
    fn transaction(&mut self, state: &mut State) -> Value {
        let before = state.clone();
        let (mut pre, mut post) = (Map::new(), Map::new());
        let mut touched: Vec<u8> =
            (0..self.rng.random_range(1..4)).map(|_| self.rng.random_range(0..ACCOUNTS)).collect();
        touched.sort_unstable();
        touched.dedup();
        for n in touched {
            let address = account(n);
            let name = address.to_string().to_lowercase();
            let old = before.get(&address);
            let action = self.rng.random_range(0..20);
            match (old, action) {
                // Made: by CREATE, or funded for the first time.
                (None, _) => {
                    let made = Account {
                        nonce: 1,
                        balance: self.rng.random_range(0..3),
                        code: true,
                        storage: self.writes().into_iter().filter(|(_, v)| !v.is_zero()).collect(),
                    };
                    post.insert(name, shown(&made, made.storage.clone()));
                    state.insert(address, made);
                }
                // Gone: before it went, slots were looked at, also unset ones.
                (Some(old), 0) => {
                    pre.insert(name, shown(old, self.looked_at(old)));
                    state.remove(&address);
                }
                // A SELFDESTRUCT that was undone: it looks just the same.
                (Some(old), 1) => {
                    pre.insert(name, shown(old, self.looked_at(old)));
                }
                // Only looked at.
                (Some(_), 2) => {}
                (Some(old), action) => {
                    let mut new = old.clone();
                    if action < 5 {
                        new.balance += 1;
                    }
                    if action > 3 {
                        for (slot, value) in self.writes() {
                            new.storage.insert(slot, value);
                        }
                        new.storage.retain(|_, value| !value.is_zero());
                    }
                    if new != *old {
                        let [was, is] = changed(old, &new);
                        pre.insert(name.clone(), shown(old, was));
                        let mut side = Map::new();
                        if new.balance != old.balance {
                            side.insert("balance".into(), json!(U256::from(new.balance)));
                        }
                        if !is.is_empty() {
                            side.insert("storage".into(), json!(is));
                        }
                        post.insert(name, Value::Object(side));
                    }
                    state.insert(address, new);
                }
            }
        }
        json!({ "post": post, "pre": pre })
    }

    /// Some slots with new values, a fifth of them cleared.
    fn writes(&mut self) -> BTreeMap<B256, B256> {
        (0..self.rng.random_range(1..5))
            .map(|_| {
                let value = *[0, 1, 2, 3, 4].choose(&mut self.rng).unwrap();
                (slot(self.rng.random_range(0..SLOTS)), slot(value))
            })
            .collect()
    }

    /// What the tracer captured of an account before it went: set and unset slots alike.
    fn looked_at(&mut self, account: &Account) -> BTreeMap<B256, B256> {
        let slots = (0..SLOTS).map(slot);
        let slots = slots.filter(|_| self.rng.random_bool(0.3));
        slots.map(|slot| (slot, account.storage.get(&slot).copied().unwrap_or_default())).collect()
    }
}

/// All fields of an account, zero ones left out as Geth does.
fn shown(account: &Account, storage: BTreeMap<B256, B256>) -> Value {
    let mut side = Map::new();
    side.insert("balance".into(), json!(U256::from(account.balance)));
    if account.code {
        side.insert("code".into(), json!("0x6001"));
        side.insert("codeHash".into(), json!(keccak256([0x60, 0x01])));
    }
    if account.nonce > 0 {
        side.insert("nonce".into(), json!(account.nonce));
    }
    if !storage.is_empty() {
        side.insert("storage".into(), json!(storage));
    }
    Value::Object(side)
}

/// Changed slots on both sides, each without zeros.
fn changed(old: &Account, new: &Account) -> [BTreeMap<B256, B256>; 2] {
    let differs = |one: &Account, other: &Account| {
        let set = one.storage.iter();
        set.filter(|(slot, value)| other.storage.get(*slot) != Some(value))
            .map(|(slot, value)| (*slot, *value))
            .collect()
    };
    [differs(old, new), differs(new, old)]
}
