use super::{
    crossing::{Bucket, Crossing, crossing},
    endpoint::EndpointUrl,
    exchange::{Coding, Timed},
    question::Question,
    run::ResyncOptions,
    study,
};
use crate::{
    outcome::{Failure, Tally},
    report::{Better, Column, Plot, PlotKind, Reported, Row, Series, Table, middle},
    stats::millis,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// One question at one number of slots.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// How often it was asked.
    pub asked: u64,
    /// The answers in which nothing was missing.
    pub clean: Vec<Timed>,
    /// What failed; of a batch each item.
    pub failures: Tally,
}

/// What a run found.
#[derive(Debug)]
pub struct ResyncReport {
    urls: (EndpointUrl, EndpointUrl),
    live: bool,
    slots: Vec<usize>,
    units: (u64, u64),
    cells: BTreeMap<(Question, usize), Cell>,
    disagreed: u64,
    crossing: Crossing,
}

/// The trace that is set against reads: what a client asks for that knows what it is doing.
const AGAINST: Question = Question::Trace(Coding::Gzip);
/// Questions of a table over numbers of slots.
const BY_SLOTS: [Question; 5] =
    [Question::Reads, AGAINST, Question::TraceWithoutCode, Question::Storage, Question::Resync];

impl ResyncReport {
    pub(super) fn new(
        options: &ResyncOptions,
        urls: (EndpointUrl, EndpointUrl),
        cells: BTreeMap<(Question, usize), Cell>,
        disagreed: u64,
    ) -> Self {
        let mut report = Self {
            urls,
            live: options.live,
            slots: options.slots.clone(),
            units: options.units,
            cells,
            disagreed,
            crossing: Crossing::Unmeasured,
        };
        let buckets = report.slots.iter().enumerate().map(|(at, slots)| Bucket {
            slots: *slots as f64,
            reads: report.ready(Question::Reads, at),
            trace: report.ready(AGAINST, at),
        });
        report.crossing = crossing(&buckets.collect::<Vec<_>>(), options.seed);
        report
    }

    /// From how many slots on a trace is ready first.
    pub fn crossing(&self) -> Crossing {
        self.crossing
    }

    /// Slots for which trace and reads of the same block said different values.
    pub fn disagreed(&self) -> u64 {
        self.disagreed
    }

    /// All that was asked: the question, and the place of its number of slots.
    pub fn cells(&self) -> &BTreeMap<(Question, usize), Cell> {
        &self.cells
    }

    fn of(&self, question: Question) -> impl Iterator<Item = &Cell> {
        let mine =
            move |((asked, _), cell): (&(Question, usize), _)| (*asked == question).then_some(cell);
        self.cells.iter().filter_map(mine)
    }

    fn clean(&self, question: Question) -> Vec<Timed> {
        self.of(question).flat_map(|cell| cell.clean.iter().copied()).collect()
    }

    fn failures(&self, question: Question) -> Tally {
        let mut tally = Tally::default();
        self.of(question).for_each(|cell| tally.merge(&cell.failures));
        tally
    }

    /// Milliseconds of the clean answers.
    fn ready(&self, question: Question, at: usize) -> Vec<f64> {
        let clean = self.cells.get(&(question, at)).map(|cell| &cell.clean[..]).unwrap_or_default();
        millis(&clean.iter().map(Timed::ready).collect::<Vec<_>>())
    }

    fn asked(&self) -> BTreeSet<Question> {
        self.cells.keys().map(|(question, _)| *question).collect()
    }

    /// Whether the question was answered at all.
    fn is_offered(&self, question: Question) -> bool {
        self.of(question).any(|cell| !cell.clean.is_empty())
    }

    /// From how many slots on a trace costs less, and the number at which both cost the same.
    fn break_even(&self) -> (u64, Option<u64>) {
        let (read, trace) = self.units;
        let even = (read > 0 && trace % read == 0).then(|| trace / read);
        (trace.checked_div(read).map_or(u64::MAX, |slots| slots + 1), even)
    }

    fn encodings(&self) -> Table {
        let columns = vec![
            Column::new("answers", "", None),
            Column::new("wire", "bytes", Better::Less),
            Column::new("JSON", "bytes", None),
            Column::new("first byte", "ms", Better::Less),
            Column::new("transfer", "ms", Better::Less),
            Column::new("decompress", "ms", Better::Less),
            Column::new("parse", "ms", Better::Less),
            Column::new("ready", "ms", Better::Less),
        ];
        let rows = self.asked().into_iter().map(|question| {
            let clean = self.clean(question);
            let times =
                |part: fn(&Timed) -> Duration| millis(&clean.iter().map(part).collect::<Vec<_>>());
            let bytes = |part: fn(&Timed) -> u64| {
                clean.iter().map(|timed| part(timed) as f64).collect::<Vec<_>>()
            };
            let cells = vec![
                vec![clean.len() as f64],
                bytes(|timed| timed.wire_bytes),
                bytes(|timed| timed.plain_bytes),
                times(|timed| timed.first_byte),
                times(|timed| timed.transfer),
                times(|timed| timed.decompress),
                times(|timed| timed.parse),
                times(Timed::ready),
            ];
            Row { name: question.to_string(), cells }
        });
        Table {
            name: "resync questions".to_owned(),
            about: format!(
                "All clean answers, over all numbers of slots. Traces from {}, the rest from {}.",
                self.urls.0, self.urls.1
            ),
            rows_are: "question".to_owned(),
            columns,
            rows: rows.collect(),
        }
    }

    fn by_slots(&self) -> Table {
        let questions: Vec<_> =
            BY_SLOTS.into_iter().filter(|question| self.is_offered(*question)).collect();
        let mut columns: Vec<_> = questions
            .iter()
            .map(|question| Column::new(&question.to_string(), "ms", Better::Less))
            .collect();
        columns.push(Column::new("clean reads", "%", Better::More));
        let rows = self.slots.iter().enumerate().map(|(at, slots)| {
            let mut cells: Vec<_> =
                questions.iter().map(|question| self.ready(*question, at)).collect();
            let share = self.cells.get(&(Question::Reads, at)).filter(|cell| cell.asked > 0);
            let share = share.map(|cell| cell.clean.len() as f64 / cell.asked as f64 * 100.0);
            cells.push(share.into_iter().collect());
            Row { name: slots.to_string(), cells }
        });
        Table {
            name: "resync slots".to_owned(),
            about: format!(
                "Milliseconds until values are in hand, of clean answers only, {}. By latency: {}",
                if self.live { "new blocks as they came" } else { "recent blocks" },
                self.latency_policy()
            ),
            rows_are: "slots".to_owned(),
            columns,
            rows: rows.collect(),
        }
    }

    fn failed(&self) -> Option<Table> {
        let kinds: BTreeSet<Failure> = self
            .asked()
            .into_iter()
            .flat_map(|question| {
                self.failures(question).iter().map(|(kind, _)| kind).collect::<Vec<_>>()
            })
            .collect();
        if kinds.is_empty() {
            return None;
        }
        let rows = self.asked().into_iter().map(|question| {
            let failures = self.failures(question);
            let asked: u64 = self.of(question).map(|cell| cell.asked).sum();
            let mut cells = vec![vec![asked as f64]];
            cells.extend(kinds.iter().map(|kind| vec![failures.of(*kind) as f64]));
            Row { name: question.to_string(), cells }
        });
        let mut columns = vec![Column::new("asked", "", None)];
        columns.extend(kinds.iter().map(|kind| Column::new(&kind.to_string(), "", Better::Less)));
        Some(Table {
            name: "resync failures".to_owned(),
            about: "What failed, by kind; of a batch each item. No failure is in any time above."
                .to_owned(),
            rows_are: "question".to_owned(),
            columns,
            rows: rows.collect(),
        })
    }

    fn economics(&self) -> Table {
        let (read, trace) = self.units;
        let rows = self.slots.iter().map(|slots| {
            let reads = read * *slots as u64;
            let times = if trace == 0 { Vec::new() } else { vec![reads as f64 / trace as f64] };
            Row {
                name: slots.to_string(),
                cells: vec![vec![reads as f64], vec![trace as f64], times],
            }
        });
        Table {
            name: "resync compute units".to_owned(),
            about: format!(
                "{read} units a point read, {trace} a trace of the block: {}",
                self.units_policy()
            ),
            rows_are: "slots".to_owned(),
            columns: vec![
                Column::new("reads", "CU", None),
                Column::new("trace", "CU", None),
                Column::new("reads over trace", "x", None),
            ],
            rows: rows.collect(),
        }
    }

    fn units_policy(&self) -> String {
        match self.break_even() {
            (u64::MAX, _) => "reads are free.".to_owned(),
            (from, Some(even)) if even > 0 => {
                format!("the same at {even} slots, a trace costs less from {from} on.")
            }
            (from, _) => format!("a trace costs less from {from} slots on."),
        }
    }

    fn latency_policy(&self) -> String {
        let percent = |share: f64| share * 100.0;
        match self.crossing {
            Crossing::ReadsAhead { share } => format!(
                "a batch of reads was ahead of the trace at every number of slots measured \
                 ({:.0} % of the draws): read, as long as the batch comes back clean.",
                percent(share)
            ),
            Crossing::TraceAhead { share } => format!(
                "the trace was ahead of a batch of reads at every number of slots measured \
                 ({:.0} % of the draws): trace.",
                percent(share)
            ),
            Crossing::At { slots, least, most, share } => format!(
                "reads up to {slots:.0} slots, the trace above (90 % of the draws between \
                 {least:.0} and {most:.0}; {:.0} % of them cross).",
                percent(share)
            ),
            Crossing::Unclear { share } => format!(
                "no answer: {:.0} % of the draws cross where was measured, too few for a \
                 threshold. Take more samples, or leave the choice to what the client learns.",
                percent(share)
            ),
            Crossing::Unmeasured => "no answer: too few clean answers of both.".to_owned(),
        }
    }

    /// What follows for a client, by objective.
    fn policy(&self) -> Vec<String> {
        let mut lines = vec![
            format!("Latency: {}", self.latency_policy()),
            format!("ComputeUnits: {}", self.units_policy()),
            format!(
                "Completeness: {}",
                if self.is_offered(AGAINST) {
                    "the trace; slots it does not name by point reads."
                } else {
                    "reads only: the endpoint gives no traces."
                }
            ),
        ];
        if self.is_offered(Question::Resync) {
            lines.push(
                "All of them: prestate_resync is offered here, one call over any number of blocks."
                    .to_owned(),
            );
        }
        lines
    }
}

impl Reported for ResyncReport {
    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.encodings(), self.by_slots()];
        tables.extend(self.failed());
        tables.push(self.economics());
        tables.extend(study::beside(
            |coding| self.clean(Question::Trace(coding)),
            |question, slots| {
                let at = self.slots.iter().position(|measured| *measured == slots);
                at.map(|at| self.ready(question, at)).unwrap_or_default()
            },
        ));
        tables
    }

    fn plots(&self) -> Vec<Plot> {
        let questions = BY_SLOTS.into_iter().chain([Question::Trace(Coding::Identity)]);
        let lines = questions.filter(|question| self.is_offered(*question)).map(|question| {
            let points = self.slots.iter().enumerate().filter_map(|(at, slots)| {
                Some((*slots as f64, middle(&self.ready(question, at))?))
            });
            Series { name: question.to_string(), points: points.collect() }
        });
        let latency = Plot {
            name: "resync-slots".to_owned(),
            title: "Values in hand, by number of slots".to_owned(),
            x: "slots".to_owned(),
            y: "ms".to_owned(),
            kind: PlotKind::Lines,
            series: lines.collect(),
        };
        let asked: Vec<_> = Question::ALL.into_iter().filter(|q| q.is_trace()).collect();
        let points = asked.iter().enumerate().filter_map(|(at, question)| {
            let wire: Vec<_> =
                self.clean(*question).iter().map(|timed| timed.wire_bytes as f64 / 1e6).collect();
            Some((at as f64, middle(&wire)?))
        });
        let bytes = Plot {
            name: "resync-bytes".to_owned(),
            title: "Bytes of a block's trace on the wire".to_owned(),
            x: "encoding".to_owned(),
            y: "MB".to_owned(),
            kind: PlotKind::Bars(asked.iter().map(ToString::to_string).collect()),
            series: vec![Series { name: "body".to_owned(), points: points.collect() }],
        };
        vec![latency, bytes]
    }
}

impl fmt::Display for ResyncReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in self.tables() {
            writeln!(f, "{}\n", table.text())?;
        }
        writeln!(f, "values on which trace and reads disagree: {}\n", self.disagreed)?;
        writeln!(f, "what follows for a client")?;
        for line in self.policy() {
            writeln!(f, "- {line}")?;
        }
        Ok(())
    }
}
