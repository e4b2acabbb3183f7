//! The resync study of July 2026 beside a run: its medians, as published.

use super::{
    exchange::{Coding, Timed},
    question::Question,
};
use crate::{
    report::{Better, Column, Row, Table},
    stats::millis,
};

/// Encoding, bytes on the wire, ms received, ms parsed: Alchemy, block 25,444,665, one sample.
const ENCODINGS: [(Coding, f64, f64, f64); 2] =
    [(Coding::Identity, 4.48e6, 664.0, 671.0), (Coding::Gzip, 1.03e6, 268.0, 286.0)];

/// Slots, ms of the trace, ms of the batch of reads: a public endpoint, identity, two to four
/// samples each.
const SLOTS: [(usize, f64, f64); 9] = [
    (1, 480.0, 34.0),
    (2, 352.0, 55.0),
    (4, 476.0, 34.0),
    (8, 305.0, 48.0),
    (16, 645.0, 31.0),
    (32, 277.0, 47.0),
    (64, 332.0, 92.0),
    (80, 182.0, 42.0),
    (96, 486.0, 233.0),
];

/// Its two tables with the run's figures in them.
pub(super) fn beside(
    traces: impl Fn(Coding) -> Vec<Timed>,
    ready: impl Fn(Question, usize) -> Vec<f64>,
) -> [Table; 2] {
    let ms = |name: &str| Column::new(name, "ms", Better::Less);
    let encodings = ENCODINGS.into_iter().map(|(coding, wire, received, parsed)| {
        let traces = traces(coding);
        let cells = vec![
            vec![wire],
            traces.iter().map(|timed| timed.wire_bytes as f64).collect(),
            vec![received],
            millis(&traces.iter().map(Timed::received).collect::<Vec<_>>()),
            vec![parsed],
            millis(&traces.iter().map(Timed::ready).collect::<Vec<_>>()),
        ];
        Row { name: coding.to_string(), cells }
    });
    let slots = SLOTS.into_iter().map(|(slots, trace, reads)| {
        let cells = vec![
            vec![trace],
            ready(Question::Trace(Coding::Identity), slots),
            vec![reads],
            ready(Question::Reads, slots),
            ready(Question::Resync, slots),
        ];
        Row { name: slots.to_string(), cells }
    });
    [
        Table {
            name: "study: resync, encodings".to_owned(),
            about: "One mainnet trace at a paid provider, as the study has it, beside this run's \
                    traces: other blocks, another line. What carries over is the ratio between the \
                    rows."
                .to_owned(),
            rows_are: "encoding".to_owned(),
            columns: vec![
                Column::new("study wire", "bytes", Better::Less),
                Column::new("here wire", "bytes", Better::Less),
                ms("study received"),
                ms("here received"),
                ms("study ready"),
                ms("here ready"),
            ],
            rows: encodings.collect(),
        },
        Table {
            name: "study: resync, slots".to_owned(),
            about: "Traces in identity and batches of reads of one pool at a public endpoint, as \
                    the study has them, beside this run's."
                .to_owned(),
            rows_are: "slots".to_owned(),
            columns: vec![
                ms("study trace"),
                ms("here trace"),
                ms("study reads"),
                ms("here reads"),
                ms("here prestate_resync"),
            ],
            rows: slots.collect(),
        },
    ]
}
