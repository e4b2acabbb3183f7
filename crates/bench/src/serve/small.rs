//! What compressing one ordinary reply takes, on one thread, without a server: Erigon's isolated
//! benchmark.

use super::{
    rivals::zlib,
    workload::{ServeError, failed},
};
use crate::report::{Better, Column, Row, Table};
use libdeflater::{CompressionLvl, Compressor};
use prestate_wire::{Encoding, Rope, splice};
use std::{fs, hint::black_box, path::Path, time::Instant};

/// Replies in one measured batch.
const BATCH: u32 = 200;

/// Ways to compress the reply.
#[derive(Debug)]
pub struct SmallReport {
    /// Bytes of the reply.
    pub json_bytes: u64,
    /// Name, bytes, and milliseconds a reply, one a round.
    pub rows: Vec<(&'static str, u64, Vec<f64>)>,
}

pub(super) fn small(body: &Path, rounds: usize) -> Result<SmallReport, ServeError> {
    let text = fs::read(body).map_err(failed("read the reply"))?;
    let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":";
    let result = &text[head.len()..text.len() - 1];
    let deflate = |level: i32| {
        let level = CompressionLvl::new(level).unwrap_or_default();
        let mut compressor = Compressor::new(level);
        let text = text.clone();
        let mut out = vec![0; compressor.gzip_compress_bound(text.len())];
        move || compressor.gzip_compress(&text, &mut out).unwrap_or_default() as u64
    };
    let fresh = || {
        let rope = Rope::from(result.to_vec());
        splice(head, &[rope], b"", b"}", Encoding::Gzip).len()
    };
    let kept = Rope::from(result.to_vec());
    kept.prepare(Encoding::Gzip);
    let kept = [kept];
    let hit = || splice(head, &kept, b"", b"}", Encoding::Gzip).len();
    type Way<'a> = (&'static str, Box<dyn FnMut() -> u64 + 'a>);
    let mut ways: Vec<Way<'_>> = vec![
        ("zlib 6", Box::new(|| zlib(6, &text).len() as u64)),
        ("libdeflate 6", Box::new(deflate(6))),
        ("libdeflate 1", Box::new(deflate(1))),
        ("ours, first reply", Box::new(fresh)),
        ("ours, hit", Box::new(hit)),
    ];
    let mut rows: Vec<_> = ways.iter().map(|(name, _)| (*name, 0, Vec::new())).collect();
    for _ in 0..rounds.max(1) {
        for ((_, run), (_, bytes, times)) in ways.iter_mut().zip(&mut rows) {
            *bytes = run();
            let begun = Instant::now();
            for _ in 0..BATCH {
                black_box(run());
            }
            times.push(begun.elapsed().as_secs_f64() * 1e3 / f64::from(BATCH));
        }
    }
    drop(ways);
    Ok(SmallReport { json_bytes: text.len() as u64, rows })
}

impl SmallReport {
    pub(super) fn table(&self) -> Table {
        Table {
            name: "compress-small".to_owned(),
            about: format!(
                "Compressing one reply of {} bytes to gzip, on one thread, without a server.",
                self.json_bytes
            ),
            rows_are: "way".to_owned(),
            columns: vec![
                Column::new("time", "ms", Better::Less),
                Column::new("body", "bytes", Better::Less),
            ],
            rows: self
                .rows
                .iter()
                .map(|(name, bytes, times)| Row {
                    name: (*name).to_owned(),
                    cells: vec![times.clone(), vec![*bytes as f64]],
                })
                .collect(),
        }
    }
}
