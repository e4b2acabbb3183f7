//! A service with a rate.

use prestate_rpc::{Answer, Call, Service, Subscribed};
use prestate_rpc_api::RpcError;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Refuses calls above a rate as providers refuse them: each item of a batch on its own, -32005.
pub(super) struct Limited {
    pub(super) inner: Arc<dyn Service>,
    pub(super) bucket: Bucket,
}

#[async_trait::async_trait]
impl Service for Limited {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        self.bucket.take()?;
        self.inner.call(call).await
    }

    fn methods(&self) -> &[&'static str] {
        self.inner.methods()
    }

    fn subscriptions(&self) -> &[&'static str] {
        self.inner.subscriptions()
    }

    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        self.bucket.take()?;
        self.inner.subscribe(call).await
    }
}

/// Calls that may still be made; filled at the rate, full with those of a second.
pub(super) struct Bucket {
    rate: u32,
    left: Mutex<(f64, Instant)>,
}

impl Bucket {
    pub(super) fn new(rate: u32) -> Self {
        Self { rate, left: Mutex::new((f64::from(rate), Instant::now())) }
    }

    pub(super) fn take(&self) -> Result<(), RpcError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let full = f64::from(self.rate);
        let filled = left.0 + full * now.duration_since(left.1).as_secs_f64();
        *left = (filled.min(full), now);
        if left.0 < 1.0 {
            let message = format!("rate limit exceeded: {} calls a second", self.rate);
            return Err(RpcError::limit(message, "callsPerSecond", self.rate.into(), 1));
        }
        left.0 -= 1.0;
        Ok(())
    }
}
