//! What is asked of every chain: the methods and option sets both sides offer.

use alloy_primitives::{Address, B256, Bytes};

/// A method with its `params` as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `namespace_method`.
    pub method: String,
    /// A JSON array.
    pub params: String,
}

impl Request {
    /// From its parts.
    pub fn new(method: &str, params: impl Into<String>) -> Self {
        Self { method: method.to_owned(), params: params.into() }
    }
}

impl Request {
    /// The same with prestate's `exact` switched on in every `prestateTracer` of it.
    pub fn exact(&self) -> Self {
        let params = self
            .params
            .replace("\"prestateTracer\"}", "\"prestateTracer\",\"tracerConfig\":{}}")
            .replace("\"tracer\":\"prestateTracer\",\"tracerConfig\":{", EXACT)
            .replace(",}", "}");
        Self { method: self.method.clone(), params }
    }
}

const EXACT: &str = "\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"exact\":true,";

/// How much is asked of each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every option set by number, some by hash, RLP and transaction; step logs left out.
    Wide,
    /// Everything, step logs included.
    Full,
}

/// `prestateTracer` with every combination of its options that it accepts.
pub fn prestate_options() -> Vec<String> {
    let mut sets = Vec::new();
    for bits in 0..16u8 {
        let flags =
            [(1, "diffMode"), (2, "disableCode"), (4, "disableStorage"), (8, "includeEmpty")];
        let chosen: Vec<_> = flags.iter().filter(|(bit, _)| bits & bit != 0).collect();
        // Geth refuses diffMode with includeEmpty (prestate.go, newPrestateTracer).
        if bits & 9 == 9 {
            continue;
        }
        let inner: Vec<_> = chosen.iter().map(|(_, name)| format!("\"{name}\":true")).collect();
        sets.push(format!(
            "{{\"tracer\":\"prestateTracer\",\"tracerConfig\":{{{}}}}}",
            inner.join(",")
        ));
    }
    sets
}

/// The other native tracers.
pub fn tracer_options() -> Vec<String> {
    let named = |tracer: &str, config: &str| {
        if config.is_empty() {
            format!("{{\"tracer\":\"{tracer}\"}}")
        } else {
            format!("{{\"tracer\":\"{tracer}\",\"tracerConfig\":{config}}}")
        }
    };
    let mux = r#"{"callTracer":{"withLog":true},"prestateTracer":{"diffMode":true},"4byteTracer":{},"noopTracer":{},"flatCallTracer":{}}"#;
    vec![
        named("callTracer", ""),
        named("callTracer", r#"{"withLog":true}"#),
        named("callTracer", r#"{"onlyTopCall":true}"#),
        named("callTracer", r#"{"onlyTopCall":true,"withLog":true}"#),
        named("flatCallTracer", ""),
        named("flatCallTracer", r#"{"convertParityErrors":true}"#),
        named("flatCallTracer", r#"{"includePrecompiles":true}"#),
        named("flatCallTracer", r#"{"convertParityErrors":true,"includePrecompiles":true}"#),
        named("4byteTracer", ""),
        named("noopTracer", ""),
        named("muxTracer", mux),
    ]
}

/// The struct logger.
pub fn step_options() -> Vec<String> {
    let sets = [
        "{}",
        r#"{"enableMemory":true,"enableReturnData":true,"limit":40}"#,
        r#"{"disableStack":true,"disableStorage":true}"#,
        r#"{"limit":7}"#,
    ];
    sets.map(str::to_owned).to_vec()
}

/// `debug_traceCall` on a block, every way it can be asked: call objects of several kinds, state and
/// block overrides, a place within the block.
pub fn call_requests(
    number: u64,
    from: Address,
    to: Address,
    transactions: usize,
    choice: u64,
) -> Vec<Request> {
    let calls = [
        format!("{{\"from\":\"{from:#x}\",\"to\":\"{to:#x}\",\"gas\":\"0x7a120\"}}"),
        format!("{{\"to\":\"{to:#x}\",\"gas\":\"0x30d40\",\"input\":\"0xa9059cbb\"}}"),
        format!(
            "{{\"from\":\"{from:#x}\",\"to\":\"{to:#x}\",\"gas\":\"0x7a120\",\"gasPrice\":\"0x64\",\"value\":\"0x7\"}}"
        ),
        format!(
            "{{\"from\":\"{from:#x}\",\"gas\":\"0x493e0\",\"data\":\"0x60006000f3\",\"maxFeePerGas\":\"0x64\",\"maxPriorityFeePerGas\":\"0x1\"}}"
        ),
    ];
    let overrides = [
        String::new(),
        format!(
            ",\"stateOverrides\":{{\"{to:#x}\":{{\"balance\":\"0x64\",\"stateDiff\":{{\"{:#066x}\":\"{:#066x}\"}}}}}}",
            1, 9
        ),
        format!(",\"stateOverrides\":{{\"{to:#x}\":{{\"code\":\"0x60015460025500\",\"state\":{{}},\"nonce\":\"0x9\"}}}}"),
        ",\"blockOverrides\":{\"number\":\"0x3e8\",\"time\":\"0x2710\",\"baseFeePerGas\":\"0x1\",\"feeRecipient\":\"0x00000000000000000000000000000000000000fe\"}".to_owned(),
    ];
    let tracers = [
        "\"tracer\":\"prestateTracer\"",
        "\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"diffMode\":true}",
        "\"tracer\":\"callTracer\",\"tracerConfig\":{\"withLog\":true}",
        "\"tracer\":\"flatCallTracer\"",
        "\"limit\":50",
    ];
    let mut place = String::new();
    if transactions > 0 && choice.is_multiple_of(3) {
        place = format!(",\"txIndex\":\"{:#x}\"", choice as usize % transactions);
    }
    let call = &calls[choice as usize % calls.len()];
    let changed = &overrides[choice as usize / 2 % overrides.len()];
    let asked = tracers.map(|tracer| {
        let params = format!("[{call},\"{number:#x}\",{{{tracer}{changed}{place}}}]");
        Request::new("debug_traceCall", params)
    });
    asked.to_vec()
}

/// All that is asked about a block: its number, hash, RLP and the hashes of its transactions.
pub fn block_requests(
    number: u64,
    hash: B256,
    rlp: &Bytes,
    transactions: &[B256],
    depth: Depth,
) -> Vec<Request> {
    let by_number = |options: &String| {
        Request::new("debug_traceBlockByNumber", format!("[\"{number:#x}\",{options}]"))
    };
    let mut requests: Vec<_> =
        prestate_options().iter().chain(&tracer_options()).map(by_number).collect();
    let few = [
        "{\"tracer\":\"prestateTracer\"}".to_owned(),
        "{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"diffMode\":true}}".to_owned(),
        "{\"tracer\":\"callTracer\",\"tracerConfig\":{\"withLog\":true}}".to_owned(),
    ];
    for options in &few {
        requests.push(Request::new("debug_traceBlockByHash", format!("[\"{hash}\",{options}]")));
        requests.push(Request::new("debug_traceBlock", format!("[\"{rlp}\",{options}]")));
        let traced = |tx| Request::new("debug_traceTransaction", format!("[\"{tx}\",{options}]"));
        requests.extend(transactions.iter().map(traced));
    }
    for method in ["debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts"] {
        requests.push(Request::new(method, format!("[\"{number:#x}\"]")));
    }
    let raw = |tx| Request::new("debug_getRawTransaction", format!("[\"{tx}\"]"));
    requests.extend(transactions.iter().map(raw));
    if depth == Depth::Full {
        requests.push(Request::new("debug_traceBlockByNumber", format!("[\"{number:#x}\"]")));
        requests.extend(step_options().iter().map(by_number));
        let traced = |tx| Request::new("debug_traceTransaction", format!("[\"{tx}\"]"));
        requests.extend(transactions.iter().map(traced));
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_is_one_more_option() {
        let exact = |params: &str| Request::new("m", params).exact().params;
        assert_eq!(
            exact(r#"["0x1",{"tracer":"prestateTracer"}]"#),
            r#"["0x1",{"tracer":"prestateTracer","tracerConfig":{"exact":true}}]"#
        );
        assert_eq!(
            exact(r#"["0x1",{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}]"#),
            r#"["0x1",{"tracer":"prestateTracer","tracerConfig":{"exact":true,"diffMode":true}}]"#
        );
        assert_eq!(
            exact(r#"["0x1",{"tracer":"callTracer"}]"#),
            r#"["0x1",{"tracer":"callTracer"}]"#
        );
    }

    #[test]
    fn every_accepted_combination_is_there_once() {
        let sets = prestate_options();
        assert_eq!(sets.len(), 12);
        let unique: std::collections::BTreeSet<_> = sets.iter().collect();
        assert_eq!(unique.len(), 12);
    }
}
