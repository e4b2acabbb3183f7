//! Genesis files: forks, system contracts, accounts.

use super::asm::Code;
use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::{collections::BTreeMap, fmt};

/// Rules in force from the first block on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fork {
    /// Before EIP-6780: SELFDESTRUCT deletes.
    Shanghai,
    /// EIP-6780, transient storage, blobs, beacon roots.
    Cancun,
    /// EIP-7702, requests, block hashes in state.
    Prague,
    /// Transaction gas cap, CLZ, P-256.
    Osaka,
    /// Osaka with the second blob-parameter fork in force.
    Bpo2,
}

impl Fork {
    /// All, oldest first.
    pub const ALL: [Self; 5] =
        [Self::Shanghai, Self::Cancun, Self::Prague, Self::Osaka, Self::Bpo2];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shanghai => "shanghai",
            Self::Cancun => "cancun",
            Self::Prague => "prague",
            Self::Osaka => "osaka",
            Self::Bpo2 => "bpo2",
        }
    }

    fn times(self) -> &'static [&'static str] {
        const TIMES: [&str; 6] =
            ["shanghaiTime", "cancunTime", "pragueTime", "osakaTime", "bpo1Time", "bpo2Time"];
        let count = match self {
            Self::Shanghai => 1,
            Self::Cancun => 2,
            Self::Prague => 3,
            Self::Osaka => 4,
            Self::Bpo2 => 6,
        };
        &TIMES[..count]
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The chain id of all test chains.
pub const CHAIN_ID: u64 = 1337;
/// What a block may burn.
pub const GAS_LIMIT: u64 = 1_000_000_000;

/// An account of a genesis file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Wei.
    pub balance: U256,
    /// Nonce.
    pub nonce: u64,
    /// Runtime code.
    pub code: Bytes,
    /// Slots, zero ones left out by the reader.
    pub storage: BTreeMap<u64, u64>,
}

/// A genesis file under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenesisPlan {
    /// Rules.
    pub fork: Fork,
    /// Accounts besides the system contracts.
    pub accounts: BTreeMap<Address, GenesisAccount>,
    /// Of the genesis block; the next block's is an eighth lower as the genesis block is empty.
    pub base_fee: u64,
}

impl GenesisPlan {
    /// System contracts only.
    pub fn new(fork: Fork) -> Self {
        Self { fork, accounts: BTreeMap::new(), base_fee: 8 }
    }

    /// Adds an account that can pay.
    pub fn fund(&mut self, address: Address, wei: u128) -> &mut Self {
        self.accounts.entry(address).or_default().balance = U256::from(wei);
        self
    }

    /// Adds a contract, nonce 1.
    pub fn contract(
        &mut self,
        address: Address,
        code: &Code,
        wei: u128,
        slots: &[(u64, u64)],
    ) -> &mut Self {
        let account = GenesisAccount {
            balance: U256::from(wei),
            nonce: 1,
            code: code.bytes(),
            storage: slots.iter().copied().collect(),
        };
        self.accounts.insert(address, account);
        self
    }

    /// Geth's genesis JSON, on one line.
    pub fn json(&self) -> String {
        let mut config = serde_json::json!({
            "chainId": CHAIN_ID,
            "terminalTotalDifficulty": 0,
            // Lengths of `core/vm` tables do not depend on it; Geth wants one from Cancun on.
            "blobSchedule": {
                "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3_338_477},
                "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716},
                "osaka": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716},
                "bpo1": {"target": 10, "max": 15, "baseFeeUpdateFraction": 8_346_193},
                "bpo2": {"target": 14, "max": 21, "baseFeeUpdateFraction": 11_684_671},
            },
        });
        let blocks = [
            "homestead",
            "eip150",
            "eip155",
            "eip158",
            "byzantium",
            "constantinople",
            "petersburg",
            "istanbul",
            "berlin",
            "london",
        ];
        for name in blocks {
            config[format!("{name}Block")] = 0.into();
        }
        for time in self.fork.times() {
            config[*time] = 0.into();
        }
        let mut alloc = serde_json::Map::new();
        let system = system_contracts(self.fork).into_iter().map(|(address, code)| {
            (address, GenesisAccount { nonce: 1, code, ..GenesisAccount::default() })
        });
        for (address, account) in system.chain(self.accounts.clone()) {
            let mut json = serde_json::json!({ "balance": format!("{:#x}", account.balance) });
            if account.nonce > 0 {
                json["nonce"] = format!("{:#x}", account.nonce).into();
            }
            if !account.code.is_empty() {
                json["code"] = account.code.to_string().into();
            }
            if !account.storage.is_empty() {
                let word = |number: u64| B256::from(U256::from(number)).to_string();
                let slots =
                    account.storage.iter().map(|(&slot, &value)| (word(slot), word(value).into()));
                json["storage"] = slots.collect::<serde_json::Map<_, _>>().into();
            }
            alloc.insert(format!("{address:#x}"), json);
        }
        let zero = B256::ZERO;
        serde_json::json!({
            "config": config,
            "nonce": "0x0",
            "timestamp": "0x0",
            "extraData": "0x",
            "gasLimit": format!("{GAS_LIMIT:#x}"),
            "difficulty": "0x0",
            "mixHash": zero,
            "coinbase": Address::ZERO,
            "baseFeePerGas": format!("{:#x}", self.base_fee),
            "alloc": alloc,
        })
        .to_string()
    }
}

fn system_contracts(fork: Fork) -> Vec<(Address, Bytes)> {
    let mut contracts = Vec::new();
    if fork >= Fork::Cancun {
        contracts.push((eip4788::BEACON_ROOTS_ADDRESS, eip4788::BEACON_ROOTS_CODE.clone()));
    }
    if fork >= Fork::Prague {
        contracts.push((eip2935::HISTORY_STORAGE_ADDRESS, eip2935::HISTORY_STORAGE_CODE.clone()));
        contracts.push((
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE.clone(),
        ));
        contracts.push((
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE.clone(),
        ));
    }
    contracts
}
