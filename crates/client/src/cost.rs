use std::{borrow::Cow, collections::BTreeMap};

/// What a provider charges for a call, in its own units ("compute units", "credits").
///
/// Every item of a batch is a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostTable {
    name: Cow<'static, str>,
    other: u64,
    methods: BTreeMap<Cow<'static, str>, u64>,
}

impl CostTable {
    /// A table in which every method costs the same until [`Self::with`] says otherwise.
    pub fn flat(name: impl Into<Cow<'static, str>>, other: u64) -> Self {
        Self { name: name.into(), other, methods: BTreeMap::new() }
    }

    /// A node of one's own: nothing is billed, so that a choice by compute units falls back to
    /// latency.
    pub fn free() -> Self {
        Self::flat("free", 0)
    }

    /// Alchemy's list, <https://www.alchemy.com/docs/reference/compute-unit-costs> (read in 2026):
    /// 20 a point read or header, 40 a block trace.
    pub fn alchemy() -> Self {
        let methods = [
            ("eth_chainId", 0),
            ("net_version", 0),
            ("eth_blockNumber", 10),
            ("eth_getBlockByHash", 20),
            ("eth_getBlockByNumber", 20),
            ("eth_getProof", 20),
            ("eth_getStorageAt", 20),
            ("web3_clientVersion", 20),
            ("debug_traceBlockByHash", 40),
            ("debug_traceBlockByNumber", 40),
        ];
        methods
            .into_iter()
            .fold(Self::flat("alchemy", 20), |table, (method, units)| table.with(method, units))
    }

    /// The same with another price for one method.
    #[must_use]
    pub fn with(mut self, method: impl Into<Cow<'static, str>>, units: u64) -> Self {
        self.methods.insert(method.into(), units);
        self
    }

    /// Whose list it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Price of one call.
    pub fn of(&self, method: &str) -> u64 {
        self.methods.get(method).copied().unwrap_or(self.other)
    }
}

impl Default for CostTable {
    fn default() -> Self {
        Self::alchemy()
    }
}

/// What was spent so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spent {
    calls: BTreeMap<&'static str, u64>,
    units: u64,
}

impl Spent {
    pub(crate) fn add(&mut self, costs: &CostTable, method: &'static str, calls: u64) {
        *self.calls.entry(method).or_default() += calls;
        self.units += costs.of(method) * calls;
    }

    /// Compute units in total.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Calls by method; a batch counts its items. Calls that failed count as well.
    pub fn calls(&self) -> &BTreeMap<&'static str, u64> {
        &self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studys_break_even_is_two_reads() {
        let alchemy = CostTable::alchemy();
        assert_eq!(2 * alchemy.of("eth_getStorageAt"), alchemy.of("debug_traceBlockByHash"));
        assert_eq!(CostTable::free().of("debug_traceBlockByHash"), 0);
        let own = CostTable::flat("own", 1).with("debug_traceBlockByHash", 7);
        assert_eq!((own.of("eth_getProof"), own.of("debug_traceBlockByHash")), (1, 7));
    }

    #[test]
    fn what_is_spent_adds_up() {
        let mut spent = Spent::default();
        spent.add(&CostTable::alchemy(), "eth_getStorageAt", 3);
        spent.add(&CostTable::alchemy(), "debug_traceBlockByHash", 1);
        assert_eq!(spent.units(), 100);
        assert_eq!(spent.calls()["eth_getStorageAt"], 3);
    }
}
