//! prestate as a system under test: a chain in memory behind the RPC service, called in-process, so
//! that what is compared is what a client gets.

use crate::system::System;
use alloy_genesis::Genesis;
use alloy_primitives::Bytes;
use prestate_host_embedded::MemoryChain;
use prestate_rpc::{Call, Reply, Rpc, RpcConfig, Service};
use serde_json::value::RawValue;
use std::{error::Error, sync::Arc};
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

/// A chain loaded, answered for in both modes.
#[derive(Debug)]
pub(crate) struct Prestate {
    exact: Rpc,
    truthful: Rpc,
    runtime: Runtime,
}

/// One mode of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode<'a> {
    rpc: &'a Rpc,
    runtime: &'a Runtime,
}

impl Prestate {
    /// Executes the blocks on the genesis.
    pub(crate) fn load(genesis: &str, blocks: &[Bytes]) -> Result<Self, Box<dyn Error>> {
        // `RUST_LOG=error` shows what is behind an internal error.
        let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env());
        let _ = log.try_init();
        let genesis: Genesis = serde_json::from_str(genesis)?;
        let chain = MemoryChain::from_genesis(&genesis);
        for (number, block) in (1..).zip(blocks) {
            chain.import_rlp(block).map_err(|error| format!("block {number}: {error}"))?;
        }
        let chain = Arc::new(chain);
        let rpc =
            |geth_exact| Rpc::new(chain.clone(), RpcConfig { geth_exact, ..RpcConfig::default() });
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { exact: rpc(true), truthful: rpc(false), runtime })
    }

    /// As with `--geth-exact`.
    pub(crate) const fn exact(&self) -> Mode<'_> {
        Mode { rpc: &self.exact, runtime: &self.runtime }
    }

    /// As by default.
    pub(crate) const fn truthful(&self) -> Mode<'_> {
        Mode { rpc: &self.truthful, runtime: &self.runtime }
    }
}

impl System for Mode<'_> {
    fn call(&self, method: &str, params: &str) -> Result<Vec<u8>, (i64, String)> {
        let params = RawValue::from_string(params.to_owned())
            .map_err(|error| (0, format!("params are not JSON: {error}")))?;
        let refused = |error: prestate_rpc_api::RpcError| (i64::from(error.code), error.message);
        self.runtime.block_on(async {
            let call = Call { method, params: Some(&params) };
            match self.rpc.call(call).await.map_err(refused)?.reply {
                Reply::Whole(rope) => Ok(rope.to_vec()),
                Reply::Stream(mut pieces) => {
                    let mut bytes = Vec::new();
                    while let Some(piece) = pieces.recv().await {
                        bytes.extend(piece.map_err(refused)?.to_vec());
                    }
                    Ok(bytes)
                }
            }
        })
    }
}
