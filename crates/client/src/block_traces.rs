//! `debug_traceBlockByHash` with the prestate tracer in diff mode.

use crate::{
    Fault,
    block_trace::{TxDiff, TxTrace},
    endpoint::Endpoint,
    header::Header,
};
use alloy_network::Network;
use alloy_primitives::{B256, U64};
use alloy_provider::Provider;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// How traces are asked for at this endpoint, as far as it was learned.
#[derive(Debug, Default)]
pub(crate) struct BlockTraces {
    /// Only `debug_traceBlockByNumber` is offered: the block's place in the chain is looked at
    /// again after every trace.
    by_number: AtomicBool,
}

impl BlockTraces {
    /// What each transaction of a block changed, in order. A block without transactions costs no
    /// call.
    pub(crate) async fn trace<P: Provider<N>, N: Network>(
        &self,
        endpoint: &Endpoint<P, N>,
        header: &Header,
    ) -> Result<Vec<TxDiff>, Fault> {
        if !header.is_traceable() {
            return Ok(Vec::new());
        }
        if !self.by_number.load(Ordering::Relaxed) {
            let asked = endpoint.persist("debug_traceBlockByHash", json!([header.hash, config()]));
            match asked.await {
                Ok(traces) => return whole(traces, header),
                Err(fault @ Fault::Gated { .. }) => {
                    // Some gateways let only the other one through.
                    let traces = by_number(endpoint, header).await.map_err(|_| fault)?;
                    self.by_number.store(true, Ordering::Relaxed);
                    return Ok(traces);
                }
                Err(fault) => return Err(fault),
            }
        }
        by_number(endpoint, header).await
    }
}

/// `disableCode` leaves out nine tenths of the answer; nodes that do not know it send the code.
fn config() -> Value {
    json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true, "disableCode": true } })
}

async fn by_number<P: Provider<N>, N: Network>(
    endpoint: &Endpoint<P, N>,
    header: &Header,
) -> Result<Vec<TxDiff>, Fault> {
    let number = U64::from(header.number());
    let traces = endpoint.persist("debug_traceBlockByNumber", json!([number, config()])).await?;
    let now = endpoint.header_at(header.number()).await?;
    if now.is_none_or(|now| now.hash != header.hash) {
        return Err(Fault::UnknownBlock {
            reason: format!("block {} is not canonical any more", header.block()),
        });
    }
    whole(traces, header)
}

/// The traces of all transactions of the block, none missing, in order.
fn whole(traces: Vec<TxTrace>, header: &Header) -> Result<Vec<TxDiff>, Fault> {
    let broken =
        |what: String| Err(Fault::unavailable(format!("trace of {}: {what}", header.block())));
    if let Some(transactions) = header.transactions() {
        if traces.len() != transactions.len() {
            let (given, wanted) = (traces.len(), transactions.len());
            return broken(format!("{given} entries for {wanted} transactions"));
        }
        let named = traces.iter().map(|trace| trace.tx_hash);
        let strange =
            |(named, wanted): &(Option<B256>, &B256)| named.is_some_and(|n| n != **wanted);
        if let Some((_, wanted)) = named.zip(transactions).find(strange) {
            return broken(format!("no entry where transaction {wanted} belongs"));
        }
    }
    let mut diffs = Vec::with_capacity(traces.len());
    for (index, trace) in traces.into_iter().enumerate() {
        match trace {
            TxTrace { result: Some(diff), error: None, .. } => diffs.push(diff),
            _ => return broken(format!("transaction {index} has no result")),
        }
    }
    Ok(diffs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(transactions: &[u8]) -> Header {
        let hashes: Vec<_> = transactions.iter().map(|n| B256::with_last_byte(*n)).collect();
        let block = json!({
            "number": "0x5", "hash": B256::ZERO, "parentHash": B256::ZERO, "transactions": hashes,
        });
        serde_json::from_value(block).unwrap()
    }

    fn read(traces: Value, transactions: &[u8]) -> Result<usize, String> {
        let traces = serde_json::from_value(traces).unwrap();
        let read = whole(traces, &header(transactions));
        read.map(|diffs| diffs.len()).map_err(|fault| fault.reason().to_owned())
    }

    #[test]
    fn an_array_that_is_not_the_blocks_is_refused() {
        let entry = |n: u8| json!({ "txHash": B256::with_last_byte(n), "result": { "pre": {}, "post": {} } });
        let nameless = json!({ "result": { "pre": {}, "post": {} } });
        assert_eq!(read(json!([entry(1), entry(2)]), &[1, 2]), Ok(2));
        assert_eq!(read(json!([nameless, entry(2)]), &[1, 2]), Ok(2), "old nodes name none");
        let refused = |traces, transactions: &[u8], what| {
            let error = read(traces, transactions).unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        refused(json!([entry(1)]), &[1, 2], "1 entries for 2 transactions");
        refused(json!([entry(2), entry(1)]), &[1, 2], "no entry where transaction 0x00");
        refused(
            json!([{ "txHash": B256::with_last_byte(1), "error": "timeout" }]),
            &[1],
            "transaction 0 has no result",
        );
    }
}
