use alloy_primitives::Address;
use std::{path::PathBuf, str::FromStr, time::Duration};

/// Chain id of a dev chain, as Anvil and Hardhat have it.
pub const DEFAULT_CHAIN_ID: u64 = 31_337;
/// Gas of a block: mainnet's since 2026.
pub const DEFAULT_GAS_LIMIT: u64 = 60_000_000;
/// Funded accounts.
pub const DEFAULT_ACCOUNTS: u32 = 10;
/// Ether that each of them has.
pub const DEFAULT_BALANCE_ETHER: u64 = 10_000;
/// The standard test mnemonic of Ethereum tools. Its keys are known to everybody.
pub const TEST_MNEMONIC: &str = "test test test test test test test test test test test junk";
/// The newest rules in force on mainnet.
pub const DEFAULT_HARDFORK: Hardfork = Hardfork::Bpo2;

/// The rules of a dev chain, in force from its first block on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Hardfork {
    /// The merge: no mining, PREVRANDAO.
    Paris,
    /// Withdrawals, PUSH0.
    Shanghai,
    /// Blobs, transient storage, beacon roots.
    Cancun,
    /// EIP-7702, requests, block hashes in state.
    Prague,
    /// Transaction gas cap, cell proofs, CLZ, P-256.
    Osaka,
    /// Osaka with 10 to 15 blobs.
    Bpo1,
    /// Osaka with 14 to 21 blobs.
    Bpo2,
}

/// No such hardfork here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "hardfork {given:?} is not one of paris, shanghai, cancun, prague, osaka, bpo1, bpo2 (chains before the merge are not made)"
)]
pub struct UnknownHardfork {
    /// What was given.
    pub given: String,
}

impl Hardfork {
    /// All, oldest first.
    pub const ALL: [Self; 7] = [
        Self::Paris,
        Self::Shanghai,
        Self::Cancun,
        Self::Prague,
        Self::Osaka,
        Self::Bpo1,
        Self::Bpo2,
    ];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paris => "paris",
            Self::Shanghai => "shanghai",
            Self::Cancun => "cancun",
            Self::Prague => "prague",
            Self::Osaka => "osaka",
            Self::Bpo1 => "bpo1",
            Self::Bpo2 => "bpo2",
        }
    }
}

impl FromStr for Hardfork {
    type Err = UnknownHardfork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|fork| fork.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownHardfork { given: text.to_owned() })
    }
}

/// When blocks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mining {
    /// As soon as a transaction can be included.
    Instant,
    /// At this interval, with or without transactions.
    Interval(Duration),
    /// Only when asked (`dev_mine`).
    OnDemand,
}

/// What a dev chain is like.
#[derive(Debug, Clone)]
pub struct DevConfig {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// The rules.
    pub hardfork: Hardfork,
    /// Gas of a block.
    pub gas_limit: u64,
    /// BIP-39 words that the accounts' keys follow from.
    pub mnemonic: String,
    /// Funded accounts.
    pub accounts: u32,
    /// Ether that each of them has at first.
    pub balance_ether: u64,
    /// Who gets the tips.
    pub coinbase: Address,
    /// When blocks are made.
    pub mining: Mining,
    /// Where the chain is kept; in memory only if `None`.
    pub datadir: Option<PathBuf>,
}

impl Default for DevConfig {
    fn default() -> Self {
        Self {
            chain_id: DEFAULT_CHAIN_ID,
            hardfork: DEFAULT_HARDFORK,
            gas_limit: DEFAULT_GAS_LIMIT,
            mnemonic: TEST_MNEMONIC.to_owned(),
            accounts: DEFAULT_ACCOUNTS,
            balance_ether: DEFAULT_BALANCE_ETHER,
            coinbase: Address::ZERO,
            mining: Mining::Instant,
            datadir: None,
        }
    }
}
