use crate::{Answer, Call, Service, Subscribed};
use async_trait::async_trait;
use prestate_rpc_api::RpcError;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Several services as one: a method is answered by the first that has it.
pub struct Joined {
    first: Arc<dyn Service>,
    by_method: BTreeMap<&'static str, Arc<dyn Service>>,
    methods: Vec<&'static str>,
    subscriptions: Vec<&'static str>,
}

impl Joined {
    /// `first` goes before `others`, and words the refusal of what nobody knows.
    pub fn new(
        first: Arc<dyn Service>,
        others: impl IntoIterator<Item = Arc<dyn Service>>,
    ) -> Self {
        let mut by_method: BTreeMap<_, Arc<dyn Service>> = BTreeMap::new();
        let mut subscriptions = Vec::new();
        for service in std::iter::once(first.clone()).chain(others) {
            for method in service.methods() {
                by_method.entry(*method).or_insert_with(|| service.clone());
            }
            subscriptions.extend_from_slice(service.subscriptions());
        }
        subscriptions.sort_unstable();
        subscriptions.dedup();
        let methods = by_method.keys().copied().collect();
        Self { first, by_method, methods, subscriptions }
    }

    /// With services that are asked before all others, the first of them first.
    pub fn preferring(mut self, others: impl IntoIterator<Item = Arc<dyn Service>>) -> Self {
        let others: Vec<_> = others.into_iter().collect();
        for service in others.iter().rev() {
            for method in service.methods() {
                self.by_method.insert(*method, service.clone());
            }
            self.subscriptions.extend_from_slice(service.subscriptions());
        }
        self.subscriptions.sort_unstable();
        self.subscriptions.dedup();
        self.methods = self.by_method.keys().copied().collect();
        self
    }

    fn of(&self, method: &str) -> &Arc<dyn Service> {
        self.by_method.get(method).unwrap_or(&self.first)
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("methods", &self.methods).finish_non_exhaustive()
    }
}

#[async_trait]
impl Service for Joined {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        self.of(call.method).call(call).await
    }

    fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    fn subscriptions(&self) -> &[&'static str] {
        &self.subscriptions
    }

    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        self.of(call.method).subscribe(call).await
    }
}
