//! Results made while the client reads.

use super::TX_TIMEOUT;
use crate::{
    rpc::Shared,
    run::{Cancel, Clock},
    service::{Answer, Outcome, Piece, Reply, Timing},
};
use prestate_diff::Deadline;
use prestate_rpc_api::RpcError;
use prestate_wire::Rope;
use std::{ops::ControlFlow, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// JSON in a piece.
const PIECE_BYTES: usize = 128 * 1024;
/// Pieces made ahead of a slow reader.
const BUFFER: usize = 4;

/// Takes a result's text and hands it out piece by piece.
pub(super) struct Pieces {
    text: Vec<u8>,
    sender: mpsc::Sender<Piece>,
    /// Told when the first piece is out.
    started: Option<oneshot::Sender<Start>>,
}

/// How a result begins: all there, or with pieces to come.
type Start = Result<Option<Rope>, RpcError>;

impl Pieces {
    pub(super) fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    /// Hands out what is there, if it is enough, and says whether anybody still reads.
    pub(super) fn go_on(&mut self) -> ControlFlow<()> {
        if self.text.len() >= PIECE_BYTES {
            if let Some(started) = self.started.take() {
                let _ = started.send(Ok(None));
            }
            let piece = std::mem::take(&mut self.text);
            if self.sender.blocking_send(Ok(piece.into())).is_err() {
                return ControlFlow::Break(());
            }
        }
        if self.sender.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Time for each transaction, while anybody reads.
    pub(super) fn deadline(&self) -> impl Deadline + Clone + use<> {
        let clock = Clock::new(TX_TIMEOUT, &Cancel::default());
        Reading { clock, sender: self.sender.clone() }
    }

    /// A short result goes out whole and its errors are errors like any other; after the first
    /// piece an error breaks the connection.
    fn finish(self, result: Result<(), RpcError>) {
        let Self { text, sender, started } = self;
        match (started, result) {
            (Some(started), result) => {
                let _ = started.send(result.map(|()| Some(text.into())));
            }
            (None, result) => {
                let _ = sender.blocking_send(result.map(|()| text.into()));
            }
        }
    }
}

#[derive(Clone)]
struct Reading {
    clock: Clock,
    sender: mpsc::Sender<Piece>,
}

impl Deadline for Reading {
    fn passed(&self) -> bool {
        self.sender.is_closed() || self.clock.passed()
    }

    fn start_tx(&mut self) {
        self.clock.start_tx();
    }
}

impl Shared {
    /// Runs work with a permit and sends its text while it is made. It ends when the client goes.
    pub(super) async fn in_pieces(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Pieces) -> Result<(), RpcError> + Send + 'static,
    ) -> Result<Answer, RpcError> {
        let permit = self.permit().await?;
        let (sender, receiver) = mpsc::channel(BUFFER);
        let (started, start) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut pieces = Pieces { text: Vec::new(), sender, started: Some(started) };
            let result = work(&mut pieces);
            pieces.finish(result);
        });
        // Without a start the work panicked.
        let whole = start.await.map_err(|_| RpcError::internal())??;
        Ok(Answer {
            reply: whole.map_or(Reply::Stream(receiver), Reply::Whole),
            outcome: Outcome::Uncached,
            timing: Timing::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> (Pieces, mpsc::Receiver<Piece>, oneshot::Receiver<Start>) {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let (started, start) = oneshot::channel();
        (Pieces { text: Vec::new(), sender, started: Some(started) }, receiver, start)
    }

    #[test]
    fn a_short_result_is_whole_and_its_error_an_error() {
        let (mut short, _receiver, start) = pieces();
        short.push(b"[1");
        assert!(short.go_on().is_continue());
        short.push(b"]");
        short.finish(Ok(()));
        let whole = start.blocking_recv().unwrap().unwrap().unwrap();
        assert_eq!(whole.to_vec(), b"[1]");

        let (mut failed, _receiver, start) = pieces();
        failed.push(b"[1");
        failed.finish(Err(RpcError::server("no state")));
        assert_eq!(start.blocking_recv().unwrap().unwrap_err().message, "no state");
    }

    #[test]
    fn a_long_result_comes_in_pieces_and_an_error_ends_it() {
        let (mut long, mut receiver, start) = pieces();
        let text = vec![b'x'; PIECE_BYTES];
        long.push(&text);
        assert!(long.go_on().is_continue());
        assert!(start.blocking_recv().unwrap().unwrap().is_none());
        long.push(b"tail");
        long.finish(Err(RpcError::server("no state")));
        assert_eq!(receiver.blocking_recv().unwrap().unwrap().to_vec(), text);
        // What was not sent yet is not sent any more.
        assert_eq!(receiver.blocking_recv().unwrap().unwrap_err().message, "no state");
        assert!(receiver.blocking_recv().is_none());
    }

    #[test]
    fn without_a_reader_the_work_ends() {
        let (mut pieces, receiver, _start) = pieces();
        let deadline = pieces.deadline();
        assert!(pieces.go_on().is_continue() && !deadline.passed());
        drop(receiver);
        assert!(pieces.go_on().is_break());
        // Inside a transaction, too.
        assert!(deadline.passed());
        pieces.push(&vec![b'x'; PIECE_BYTES]);
        assert!(pieces.go_on().is_break());
    }
}
