use alloy_genesis::Genesis;
use alloy_primitives::Bytes;
use prestate_host_embedded::MemoryChain;
use prestate_rpc::{Call, Reply, Rpc, RpcConfig, Service};
use prestate_rpc_api::RpcError;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{
    fs,
    path::Path,
    sync::{Arc, OnceLock},
};

/// A recorded chain with questions to Geth and its answers.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Left out where the chain is that of `errors.json`.
    genesis: Option<Box<RawValue>>,
    #[serde(default)]
    blocks: Vec<Bytes>,
    pub(crate) requests: Vec<Exchange>,
}

/// Its blocks burn 500 million gas, so that they are executed once.
static ERRORS: OnceLock<Arc<MemoryChain>> = OnceLock::new();

/// The chain of `errors.json`.
pub(crate) fn errors_chain() -> Arc<MemoryChain> {
    Arc::clone(ERRORS.get_or_init(|| Case::read("../../tests/cases/errors.json").chain()))
}

#[derive(Deserialize)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) params: Box<RawValue>,
    #[serde(default)]
    pub(crate) result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<GethError>,
}

#[derive(Deserialize)]
struct GethError {
    code: i64,
    message: String,
}

impl Case {
    pub(crate) fn read(path: impl AsRef<Path>) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        serde_json::from_slice(&fs::read(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn chain(&self) -> Arc<MemoryChain> {
        let Some(genesis) = &self.genesis else { return errors_chain() };
        let genesis: Genesis = serde_json::from_str(genesis.get()).unwrap();
        let chain = MemoryChain::from_genesis(&genesis);
        for block in &self.blocks {
            chain.import_rlp(block).unwrap();
        }
        Arc::new(chain)
    }
}

impl Exchange {
    /// Geth's answer as text.
    pub(crate) fn answer(&self) -> String {
        match (&self.result, &self.error) {
            (Some(result), _) => result.get().to_owned(),
            (None, Some(error)) => format!("error {}: {}", error.code, error.message),
            (None, None) => "null".to_owned(),
        }
    }
}

/// As with `--geth-exact`.
pub(crate) fn exact(chain: Arc<MemoryChain>) -> Rpc {
    Rpc::new(chain, RpcConfig { geth_exact: true, ..RpcConfig::default() })
}

/// As by default.
pub(crate) fn truthful(chain: Arc<MemoryChain>) -> Rpc {
    Rpc::new(chain, RpcConfig::default())
}

/// The bytes of a result.
pub(crate) async fn call(rpc: &Rpc, method: &str, params: &str) -> Result<String, RpcError> {
    let params = RawValue::from_string(params.to_owned()).unwrap();
    let answer = rpc.call(Call { method, params: Some(&params) }).await?;
    let bytes = match answer.reply {
        Reply::Whole(rope) => rope.to_vec(),
        Reply::Stream(mut pieces) => {
            let mut bytes = Vec::new();
            while let Some(piece) = pieces.recv().await {
                bytes.extend(piece?.to_vec());
            }
            bytes
        }
    };
    Ok(String::from_utf8(bytes).unwrap())
}

/// A result or an error, as text that compares with [`Exchange::answer`].
pub(crate) async fn answer(rpc: &Rpc, method: &str, params: &str) -> String {
    match call(rpc, method, params).await {
        Ok(result) => result,
        Err(error) => format!("error {}: {}", error.code, error.message),
    }
}

/// A result as a value.
pub(crate) async fn value(rpc: &Rpc, method: &str, params: &str) -> Value {
    let text = call(rpc, method, params).await;
    let text = text.unwrap_or_else(|error| panic!("{method} {params}: {error:?}"));
    serde_json::from_str(&text).unwrap()
}
