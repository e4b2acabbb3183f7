//! The line to a server, made long and thin.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};

/// Bytes read from a socket at a time.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks on their way in one direction of a connection, at most.
const CHUNKS_UNDER_WAY: usize = 512;

/// How long and how thin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Time there and back.
    pub(super) rtt: Duration,
    /// Bits a second of each connection in each direction; `None`: as the machine has.
    pub(super) bandwidth: Option<u64>,
}

impl Line {
    /// Takes connections on `listener` to a server, slowed down, until dropped.
    pub(super) async fn carry_to(self, listener: TcpListener, to: SocketAddr) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(self.carry(stream, to))),
                // Out of file descriptors, most likely: connections that end free some.
                Err(error) => {
                    tracing::warn!(%error, "taking a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn carry(self, from: TcpStream, to: SocketAddr) {
        // The handshake was answered by this machine at once; over a line it takes a round trip.
        tokio::time::sleep(self.rtt).await;
        let Ok(to) = TcpStream::connect(to).await else { return };
        let _ = (from.set_nodelay(true), to.set_nodelay(true));
        let (from_read, from_write) = from.into_split();
        let (to_read, to_write) = to.into_split();
        let up = tokio::spawn(self.one_way(from_read, to_write));
        self.one_way(to_read, from_write).await;
        up.abort();
    }

    /// Half a round trip later and no faster than the line.
    async fn one_way(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let (sender, mut arriving) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_UNDER_WAY);
        let read = async move {
            let mut line_free = Instant::now();
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                match from.read(&mut chunk).await {
                    Ok(read @ 1..) => chunk.truncate(read),
                    _ => return,
                }
                line_free = line_free.max(Instant::now()) + self.line_time(chunk.len());
                if sender.send((line_free + self.rtt / 2, chunk)).await.is_err() {
                    return;
                }
            }
        };
        let write = async move {
            while let Some((due, chunk)) = arriving.recv().await {
                tokio::time::sleep_until(due.into()).await;
                if to.write_all(&chunk).await.is_err() {
                    return;
                }
            }
            let _ = to.shutdown().await;
        };
        tokio::join!(read, write);
    }

    fn line_time(self, bytes: usize) -> Duration {
        let bits = bytes as f64 * 8.0;
        self.bandwidth.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bits / rate as f64))
    }
}
