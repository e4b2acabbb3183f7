//! `--shape`: this server made to behave like a provider far away, so that a client can be tried
//! against one.

mod line;
mod rate;

use line::Line;
use prestate_rpc::Service;
use rate::{Bucket, Limited};
use std::{net::SocketAddr, str::FromStr, sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// Longest round trip taken: what is longer is a mistake of units.
const MAX_RTT: Duration = Duration::from_secs(10);

/// What stands between a client and a provider: `rtt=30ms,rate=100/s,bandwidth=50mbit`, any of
/// them left out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shape {
    /// Time there and back.
    rtt: Duration,
    /// Calls a second, counted over all clients; every item of a batch is one.
    rate: Option<u32>,
    /// Bits a second of each connection in each direction.
    bandwidth: Option<u64>,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut shape = Self::default();
        for part in text.split(',') {
            let wrong = |wanted: &str| format!("`{part}`: {wanted} is wanted");
            let (name, value) = part.split_once('=').ok_or_else(|| wanted_parts(part))?;
            match name.trim() {
                "rtt" => {
                    shape.rtt = rtt(value).ok_or_else(|| wrong("rtt=30ms or up to 10s"))?;
                }
                "rate" => {
                    let rate = value.strip_suffix("/s").and_then(|value| value.parse().ok());
                    let rate = rate.filter(|rate| *rate > 0);
                    shape.rate = Some(rate.ok_or_else(|| wrong("rate=100/s, at least 1/s"))?);
                }
                "bandwidth" => {
                    let bits = bandwidth(value).filter(|bits| *bits >= 1000);
                    let bits = bits.ok_or_else(|| wrong("bandwidth=50mbit, at least 1kbit"))?;
                    shape.bandwidth = Some(bits);
                }
                _ => return Err(wanted_parts(part)),
            }
        }
        Ok(shape)
    }
}

fn wanted_parts(part: &str) -> String {
    format!("`{part}`: rtt=TIME, rate=CALLS/s and bandwidth=NUMBER(k|m|g)bit are what there is")
}

fn rtt(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "s" => number,
        _ => return None,
    };
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (time <= MAX_RTT).then_some(time)
}

fn bandwidth(text: &str) -> Option<u64> {
    let number = text.strip_suffix("bit")?;
    let (number, factor) = match number.chars().last()? {
        'k' => (&number[..number.len() - 1], 1_000),
        'm' => (&number[..number.len() - 1], 1_000_000),
        'g' => (&number[..number.len() - 1], 1_000_000_000),
        _ => (number, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl Shape {
    /// The service with its rate limited: a call above it is refused as providers refuse it, with
    /// -32005, and so is each such item of a batch.
    pub(crate) fn limit(self, service: Arc<dyn Service>) -> Arc<dyn Service> {
        match self.rate {
            Some(rate) => Arc::new(Limited { inner: service, bucket: Bucket::new(rate) }),
            None => service,
        }
    }

    /// Whether connections have to go through [`Self::carry_to`].
    pub(crate) fn is_far(self) -> bool {
        !self.rtt.is_zero() || self.bandwidth.is_some()
    }

    /// Takes connections on `listener` to a server over a line of this shape, until dropped.
    pub(crate) async fn carry_to(self, listener: TcpListener, server: SocketAddr) {
        Line { rtt: self.rtt, bandwidth: self.bandwidth }.carry_to(listener, server).await;
    }
}

#[cfg(test)]
mod tests;
