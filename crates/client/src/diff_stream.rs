use crate::{
    Fault, PrestateApi, Refusal, connect_http,
    diff_cursor::DiffCursor,
    diff_socket::{DiffSocket, SocketError},
};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_network::Ethereum;
use alloy_primitives::U64;
use alloy_provider::{Provider, RootProvider};
use alloy_transport::TransportError;
use prestate_rpc_api::{
    CutNotice, DiffMessage, DiffOptions, DiffRange, DiffStreamKind, StreamedBlock, SubscribeOptions,
};
use prestate_types::BlockRef;
use rand::Rng;
use std::time::Duration;
use url::Url;

/// Where a stream begins: with the block after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StartAt {
    /// The newest block when the stream first connects.
    #[default]
    Head,
    /// The canonical block of this height.
    Number(u64),
    /// This block, canonical or not: if it left the chain, reverts come first.
    Block(BlockRef),
}

/// What a [`DiffStream`] asks for and how long it waits.
#[derive(Debug, Clone)]
pub struct DiffStreamConfig {
    /// Blocks or transactions; over HTTP always blocks.
    pub kind: DiffStreamKind,
    /// Where to begin.
    pub start: StartAt,
    /// Filters; `from` is the stream's own affair.
    pub options: SubscribeOptions,
    /// Pause between two questions over HTTP.
    pub poll: Duration,
    /// Pause before the second attempt to connect; it doubles up to [`Self::max_pause`].
    pub pause: Duration,
    /// Longest pause.
    pub max_pause: Duration,
}

impl Default for DiffStreamConfig {
    fn default() -> Self {
        Self {
            kind: DiffStreamKind::BlockDiffs,
            start: StartAt::default(),
            options: SubscribeOptions::default(),
            poll: Duration::from_secs(1),
            pause: Duration::from_millis(250),
            max_pause: Duration::from_secs(15),
        }
    }
}

/// What a [`DiffStream`] has to tell.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DiffEvent {
    /// The stream stands behind this block; what follows begins there. Told once.
    Started(BlockRef),
    /// A block joined the chain.
    Commit(StreamedBlock),
    /// The newest block left the chain.
    Revert(StreamedBlock),
    /// Over HTTP: the net change since the last event.
    Range(DiffRange),
    /// The connection is gone or was cut; the stream goes on from where it was, without a gap.
    Interrupted {
        /// What happened.
        reason: String,
        /// Pause before the next attempt.
        pause: Duration,
    },
}

/// Why a stream cannot begin or go on. Connections that fail are no reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffStreamError {
    /// The URL is of no kind that is spoken here.
    #[error("{url}: expected ws, wss, http or https")]
    Scheme {
        /// As given.
        url: Url,
    },
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be made: {0}")]
    Http(reqwest::Error),
    /// Transactions one by one come over WebSocket only.
    #[error("diffs by transaction need a ws:// or wss:// URL")]
    TransactionsOverHttp,
    /// The server will not serve what is asked for; among other things because what was missed is
    /// not kept any more.
    #[error("refused: {0}")]
    Refused(Refusal),
}

#[derive(Debug)]
enum Line {
    Http(RootProvider<Ethereum>),
    Socket(Option<Box<DiffSocket>>),
}

/// Diffs of a chain, one after the other, without a gap over broken connections, cuts and reorgs.
///
/// Over `ws://` by `prestate_subscribe`, block by block; over `http://` by `prestate_getDiffRange`
/// every [`DiffStreamConfig::poll`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use prestate_client::{DiffEvent, DiffStream, DiffStreamConfig};
/// let url = "ws://127.0.0.1:8545".parse()?;
/// let mut stream = DiffStream::new(url, DiffStreamConfig::default())?;
/// loop {
///     match stream.next().await? {
///         DiffEvent::Commit(block) => println!("{} came", block.block.number),
///         DiffEvent::Revert(block) => println!("{} went", block.block.number),
///         _ => {}
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct DiffStream {
    url: Url,
    config: DiffStreamConfig,
    line: Line,
    cursor: Option<DiffCursor>,
    /// Failures in a row.
    failures: u32,
    /// To be waited before anything else.
    pause: Option<Duration>,
}

/// Why one attempt ended.
enum Trouble {
    Broken(String),
    Refused(Refusal),
}

impl DiffStream {
    /// A stream that connects when it is first asked.
    ///
    /// # Errors
    /// The URL or what is asked for does not fit.
    pub fn new(url: Url, config: DiffStreamConfig) -> Result<Self, DiffStreamError> {
        let line = match url.scheme() {
            "ws" | "wss" => Line::Socket(None),
            "http" | "https" if config.kind == DiffStreamKind::TransactionDiffs => {
                return Err(DiffStreamError::TransactionsOverHttp);
            }
            "http" | "https" => {
                Line::Http(connect_http(url.clone()).map_err(DiffStreamError::Http)?)
            }
            _ => return Err(DiffStreamError::Scheme { url }),
        };
        Ok(Self { url, config, line, cursor: None, failures: 0, pause: None })
    }

    /// The block whose state a reader of everything so far has; `None` before the stream began.
    pub fn position(&self) -> Option<BlockRef> {
        self.cursor.map(|cursor| cursor.at)
    }

    /// The next event. Cancelling it loses nothing.
    ///
    /// # Errors
    /// The server refuses for good; see [`DiffStreamError::Refused`].
    pub async fn next(&mut self) -> Result<DiffEvent, DiffStreamError> {
        if let Some(pause) = self.pause {
            tokio::time::sleep(pause).await;
            self.pause = None;
        }
        let reason = match self.attempt().await {
            Ok(event) => {
                self.failures = 0;
                return Ok(event);
            }
            Err(Trouble::Broken(reason)) => reason,
            Err(Trouble::Refused(refusal)) if self.is_final(&refusal) => {
                return Err(DiffStreamError::Refused(refusal));
            }
            Err(Trouble::Refused(refusal)) => refusal.to_string(),
        };
        if let Line::Socket(socket) = &mut self.line {
            *socket = None;
        }
        self.failures = self.failures.saturating_add(1);
        let doubled = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
        let jitter = rand::rng().random_range(0.5..=1.0);
        let pause =
            self.config.pause.saturating_mul(doubled).min(self.config.max_pause).mul_f64(jitter);
        self.pause = Some(pause);
        Ok(DiffEvent::Interrupted { reason, pause })
    }

    /// Whether asking again is no use.
    fn is_final(&self, refusal: &Refusal) -> bool {
        match refusal {
            Refusal::InvalidParams(_)
            | Refusal::NoSuchMethod(_)
            | Refusal::Limit { .. }
            | Refusal::Pruned { .. }
            | Refusal::UnknownBlock { .. } => true,
            // A server that starts again is behind for a while.
            Refusal::Future { .. } => self.cursor.is_none(),
            _ => false,
        }
    }

    async fn attempt(&mut self) -> Result<DiffEvent, Trouble> {
        match &mut self.line {
            Line::Http(provider) => poll(provider, &self.config, &mut self.cursor).await,
            Line::Socket(socket) => listen(socket, &self.url, &self.config, &mut self.cursor).await,
        }
    }
}

/// The head or the block of a height, as the parameter of `eth_getBlockByNumber`.
fn start_param(start: StartAt) -> Result<String, BlockRef> {
    match start {
        StartAt::Head => Ok("latest".to_owned()),
        StartAt::Number(number) => Ok(format!("{:#x}", U64::from(number))),
        StartAt::Block(block) => Err(block),
    }
}

fn no_such_start(start: StartAt) -> Trouble {
    match start {
        StartAt::Number(number) => Trouble::Refused(Refusal::Future {
            head: None,
            message: format!("block #{number} is not there yet"),
        }),
        _ => Trouble::Broken("the newest block is null".to_owned()),
    }
}

async fn poll(
    provider: &RootProvider<Ethereum>,
    config: &DiffStreamConfig,
    cursor: &mut Option<DiffCursor>,
) -> Result<DiffEvent, Trouble> {
    let trouble = |error: TransportError| match Refusal::of(&error) {
        Some(refusal) => Trouble::Refused(refusal),
        None => Trouble::Broken(Fault::of(&error).reason().to_owned()),
    };
    let Some(cursor) = cursor else {
        let at = match start_param(config.start) {
            Err(block) => block,
            Ok(param) => {
                let found: Option<crate::header::Header> = provider
                    .client()
                    .request("eth_getBlockByNumber", (param, false))
                    .await
                    .map_err(trouble)?;
                found.ok_or_else(|| no_such_start(config.start))?.block()
            }
        };
        *cursor = Some(DiffCursor { at });
        return Ok(DiffEvent::Started(at));
    };
    let SubscribeOptions { addresses, slots, code, storage, .. } = config.options.clone();
    let options = DiffOptions { addresses, slots, code, storage, ..DiffOptions::default() };
    loop {
        let (from, to) = (BlockId::hash(cursor.at.hash), BlockId::Number(BlockNumberOrTag::Latest));
        let asked = provider.prestate_get_diff_range(from, to, options.clone());
        let range = asked.await.map_err(trouble)?;
        let to = BlockRef::from(range.to);
        if to.hash != cursor.at.hash {
            cursor.at = to;
            return Ok(DiffEvent::Range(range));
        }
        tokio::time::sleep(config.poll).await;
    }
}

async fn listen(
    line: &mut Option<Box<DiffSocket>>,
    url: &Url,
    config: &DiffStreamConfig,
    cursor: &mut Option<DiffCursor>,
) -> Result<DiffEvent, Trouble> {
    let trouble = |error: SocketError| match error {
        SocketError::Refused(refusal) => Trouble::Refused(refusal),
        SocketError::Broken(reason) => Trouble::Broken(reason),
    };
    let socket = match line {
        Some(socket) => socket,
        None => {
            let mut socket = DiffSocket::connect(url).await.map_err(trouble)?;
            let (at, new) = match (&*cursor, start_param(config.start)) {
                (Some(cursor), _) => (cursor.at, false),
                (None, Err(block)) => (block, true),
                (None, Ok(param)) => {
                    let found = socket.block(&param).await.map_err(trouble)?;
                    (found.ok_or_else(|| no_such_start(config.start))?.block(), true)
                }
            };
            let options = SubscribeOptions { from: Some(at.into()), ..config.options.clone() };
            socket.subscribe(config.kind, &options).await.map_err(trouble)?;
            let socket = line.insert(Box::new(socket));
            if new {
                *cursor = Some(DiffCursor { at });
                return Ok(DiffEvent::Started(at));
            }
            socket
        }
    };
    let message = socket.message().await.map_err(trouble)?;
    if let Some(cursor) = cursor {
        cursor.step(&message).map_err(Trouble::Broken)?;
    }
    match message {
        DiffMessage::Commit(block) => Ok(DiffEvent::Commit(block)),
        DiffMessage::Revert(block) => Ok(DiffEvent::Revert(block)),
        DiffMessage::Cut(CutNotice { message, .. }) => Err(Trouble::Broken(message)),
        _ => Err(Trouble::Broken("a message of a kind that is not known".to_owned())),
    }
}
