//! Calls against one provider: counted, classified, and tried again where that makes sense.

use crate::{CostTable, Fault, ResyncerConfig, Spent, header::Header};
use alloy_json_rpc::{
    Id, RequestPacket, Response, ResponsePacket, ResponsePayload, RpcRecv, RpcSend,
    transform_response, try_deserialize_ok,
};
use alloy_network::Network;
use alloy_primitives::{B256, U64};
use alloy_provider::Provider;
use alloy_transport::TransportError;
use rand::Rng;
use std::{
    collections::HashMap,
    marker::PhantomData,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tower::Service;

#[derive(Debug)]
pub(crate) struct Endpoint<P, N> {
    provider: P,
    costs: CostTable,
    patience: Patience,
    spent: Mutex<Spent>,
    network: PhantomData<fn() -> N>,
}

/// How long to go on trying.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    attempts: u32,
    pause: Duration,
    max_pause: Duration,
}

impl Patience {
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.max(1)
    }

    /// Pause after the `failures`th failure in a row: doubling, with up to a half of jitter so
    /// that many clients do not come back together.
    pub(crate) fn pause(&self, failures: u32, wished: Option<Duration>) -> Duration {
        let doubled = self
            .pause
            .saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let jitter = rand::rng().random_range(0.5..=1.0);
        doubled.mul_f64(jitter).max(wished.unwrap_or_default()).min(self.max_pause)
    }
}

impl<P: Provider<N>, N: Network> Endpoint<P, N> {
    pub(crate) fn new(provider: P, config: &ResyncerConfig) -> Self {
        Self {
            provider,
            costs: config.costs.clone(),
            patience: Patience {
                attempts: config.attempts,
                pause: config.pause,
                max_pause: config.max_pause,
            },
            spent: Mutex::default(),
            network: PhantomData,
        }
    }

    pub(crate) fn provider(&self) -> &P {
        &self.provider
    }

    pub(crate) fn costs(&self) -> &CostTable {
        &self.costs
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    pub(crate) fn spent(&self) -> MutexGuard<'_, Spent> {
        // Counters are whole at every moment.
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call, once.
    pub(crate) async fn call<A: RpcSend, R: RpcRecv>(
        &self,
        method: &'static str,
        params: A,
    ) -> Result<R, Fault> {
        self.spent().add(&self.costs, method, 1);
        self.provider.client().request(method, params).await.map_err(|error| Fault::of(&error))
    }

    /// One call, repeated with growing pauses while it may still work.
    pub(crate) async fn persist<A: RpcSend, R: RpcRecv>(
        &self,
        method: &'static str,
        params: A,
    ) -> Result<R, Fault> {
        let mut failures = 0;
        loop {
            let fault = match self.call(method, params.clone()).await {
                Ok(result) => return Ok(result),
                Err(fault) => fault,
            };
            failures += 1;
            let retry_after = match &fault {
                Fault::RateLimited { retry_after, .. } => *retry_after,
                Fault::Unavailable { .. } => None,
                _ => return Err(fault),
            };
            if failures >= self.patience.attempts() {
                return Err(fault);
            }
            tokio::time::sleep(self.patience.pause(failures, retry_after)).await;
        }
    }

    /// Several calls in one batch, each with its own answer, in order. The outer error is of the
    /// batch as a whole.
    ///
    /// Not by alloy's `BatchRequest`: that loses the error a server gives for the whole batch, which
    /// is the one that says that the batch is too large.
    pub(crate) async fn batch<A: RpcSend, R: RpcRecv>(
        &self,
        calls: Vec<(&'static str, A)>,
    ) -> Result<Vec<Result<R, Fault>>, Fault> {
        let client = self.provider.client();
        let mut ids = Vec::with_capacity(calls.len());
        let mut packet = RequestPacket::with_capacity(calls.len());
        for (method, params) in calls {
            self.spent().add(&self.costs, method, 1);
            let request = client.make_request(method, params).serialize();
            let request = request.map_err(|error| Fault::of(&TransportError::ser_err(error)))?;
            ids.push(request.id().clone());
            packet.push(request);
        }
        let mut transport = client.transport().clone();
        let sent = async {
            std::future::poll_fn(|cx| transport.poll_ready(cx)).await?;
            transport.call(packet).await
        };
        let responses = match sent.await.map_err(|error| Fault::of(&error))? {
            ResponsePacket::Batch(responses) => responses,
            ResponsePacket::Single(single) => {
                if let ResponsePayload::Failure(error) = single.payload {
                    return Err(Fault::of(&TransportError::ErrorResp(error)));
                }
                vec![single]
            }
        };
        let mut by_id: HashMap<Id, Response> =
            responses.into_iter().map(|response| (response.id.clone(), response)).collect();
        let answers = ids.into_iter().map(|id| {
            let answer = by_id.remove(&id);
            let answer = answer.ok_or_else(|| Fault::unavailable("no answer in the batch"))?;
            try_deserialize_ok(transform_response(answer)).map_err(|error| Fault::of(&error))
        });
        Ok(answers.collect())
    }

    /// The newest block.
    pub(crate) async fn latest(&self) -> Result<Header, Fault> {
        let found: Option<Header> = self.persist("eth_getBlockByNumber", ("latest", false)).await?;
        found.ok_or_else(|| Fault::unavailable("the newest block is null"))
    }

    /// The canonical block of a height.
    pub(crate) async fn header_at(&self, number: u64) -> Result<Option<Header>, Fault> {
        self.persist("eth_getBlockByNumber", (U64::from(number), false)).await
    }

    /// A block by hash.
    pub(crate) async fn header(&self, hash: B256) -> Result<Header, Fault> {
        let found: Option<Header> = self.persist("eth_getBlockByHash", (hash, false)).await?;
        found.ok_or_else(|| Fault::UnknownBlock { reason: format!("block {hash} not found") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_bounded() {
        let ms = Duration::from_millis;
        let patience = Patience { attempts: 0, pause: ms(100), max_pause: ms(1000) };
        assert_eq!(patience.attempts(), 1);
        for (failures, low, high) in [(1, 50, 100), (2, 100, 200), (4, 400, 800), (40, 1000, 1000)]
        {
            let pause = patience.pause(failures, None);
            assert!((ms(low)..=ms(high)).contains(&pause), "{failures}: {pause:?}");
        }
        assert_eq!(patience.pause(1, Some(ms(900))), ms(900));
        assert_eq!(patience.pause(1, Some(ms(9000))), ms(1000));
    }
}
