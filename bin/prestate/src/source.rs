use crate::errors::CommandError;
use alloy_consensus::constants::{
    HOLESKY_GENESIS_HASH, HOODI_GENESIS_HASH, MAINNET_GENESIS_HASH, SEPOLIA_GENESIS_HASH,
};
use alloy_genesis::Genesis;
use prestate_host::{ChainSpec, SpecError};
use prestate_host_embedded::genesis_block;
use prestate_store::ChainId;
use std::{fs, path::Path, str::FromStr};

/// `--chain`: a built-in chain by name, or a genesis file.
#[derive(Debug, Clone)]
pub(crate) enum ChainArg {
    /// Chain id of a built-in chain.
    Named(u64),
    /// Path of a genesis file.
    File(std::path::PathBuf),
}

impl FromStr for ChainArg {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "mainnet" => Self::Named(1),
            "sepolia" => Self::Named(11_155_111),
            "holesky" => Self::Named(17_000),
            "hoodi" => Self::Named(560_048),
            path => Self::File(path.into()),
        })
    }
}

impl ChainArg {
    /// The rules of the chain.
    pub(crate) fn spec(&self) -> Result<ChainSpec, CommandError> {
        match self {
            Self::Named(id) => Ok(ChainSpec::by_chain_id(*id)?),
            Self::File(path) => Ok(ChainSpec::from_genesis(&read_genesis(path)?.config)),
        }
    }

    /// What tells the chain from any other.
    pub(crate) fn id(&self) -> Result<ChainId, CommandError> {
        let (chain_id, genesis_hash) = match self {
            Self::Named(1) => (1, MAINNET_GENESIS_HASH),
            Self::Named(11_155_111) => (11_155_111, SEPOLIA_GENESIS_HASH),
            Self::Named(17_000) => (17_000, HOLESKY_GENESIS_HASH),
            Self::Named(560_048) => (560_048, HOODI_GENESIS_HASH),
            Self::Named(other) => return Err(SpecError::UnknownChain(*other).into()),
            Self::File(path) => {
                let genesis = read_genesis(path)?;
                let spec = ChainSpec::from_genesis(&genesis.config);
                (spec.chain_id(), genesis_block(&genesis, &spec).hash())
            }
        };
        Ok(ChainId { chain_id, genesis_hash })
    }
}

/// Reads a genesis file.
pub(crate) fn read_genesis(path: &Path) -> Result<Genesis, CommandError> {
    let text = fs::read(path).map_err(|source| CommandError::Io {
        path: path.to_owned(),
        operation: "read genesis",
        source,
    })?;
    serde_json::from_slice(&text)
        .map_err(|source| CommandError::Genesis { path: path.to_owned(), source })
}
