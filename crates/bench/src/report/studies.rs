//! The figures of earlier studies beside ours of the same kind of work. Theirs are as their authors
//! published them, on other machines and with other data: what compares is the ratio within a
//! study, not the figure.

use super::{Column, Report, Row, Table, middle};

/// A published figure pair, and where ours is found.
struct Line {
    what: &'static str,
    /// Before and after the study's change; NaN where none was published.
    theirs: [f64; 2],
    /// Table, row and column of the way they replaced, and of ours, in a report of this program.
    /// A row's name may begin so and go on otherwise.
    ours: [Option<[&'static str; 3]>; 3],
}

/// A study.
struct Study {
    name: &'static str,
    about: &'static str,
    lines: &'static [Line],
}

const NONE: f64 = f64::NAN;

/// Their way before, their way after, ours: each measured here.
const fn here(
    before: Option<[&'static str; 3]>,
    after: Option<[&'static str; 3]>,
    ours: [&'static str; 3],
) -> [Option<[&'static str; 3]>; 3] {
    [before, after, Some(ours)]
}

const STUDIES: [Study; 2] = [
    Study {
        name: "study: libdeflate in Erigon",
        about: "\"rpc: compression with libdeflate\", erigontech/erigon#20665. Theirs: Go's \
                compress/gzip before, libdeflate after. Here zlib level 6 (zlib-rs) stands for the \
                former; libdeflate is level 6 in both.",
        lines: &[
            Line {
                what: "compressing a 30 KB-class reply, ms",
                theirs: [8.0, 4.6],
                ours: here(
                    Some(["compress-small", "zlib 6", "time"]),
                    Some(["compress-small", "libdeflate 6", "time"]),
                    ["compress-small", "ours, first reply", "time"],
                ),
            },
            Line {
                what: "the same, asked for again, ms",
                theirs: [8.0, 4.6],
                ours: here(
                    Some(["compress-small", "zlib 6", "time"]),
                    Some(["compress-small", "libdeflate 6", "time"]),
                    ["compress-small", "ours, hit", "time"],
                ),
            },
            Line {
                what: "eth_getBlockByNumber, 2,000/s (here 2,300/s), answered, % (their worst run)",
                theirs: [97.74, 100.0],
                ours: here(
                    None,
                    Some(["ladder", "libdeflate 6 per reply, 2300/s", "answered"]),
                    ["ladder", "lane, 2300/s", "answered"],
                ),
            },
            Line {
                what: "eth_getBlockByNumber, 2,300/s, answered, % (their worst run)",
                theirs: [98.25, 100.0],
                ours: here(
                    None,
                    Some(["ladder", "libdeflate 6 per reply, 2300/s", "answered"]),
                    ["ladder", "lane, 2300/s for", "answered"],
                ),
            },
            Line {
                what: "the slowest of those, ms (their best run)",
                theirs: [5634.0, 217.23],
                ours: here(
                    None,
                    Some(["ladder", "libdeflate 6 per reply, 2300/s", "max"]),
                    ["ladder", "lane, 2300/s for", "max"],
                ),
            },
            Line {
                what: "trace_block, replies a second (here 64 clients, hits)",
                theirs: [375.9, 455.0],
                ours: trace("replies"),
            },
            Line { what: "trace_block, p50, ms", theirs: [114.4, 96.9], ours: trace("p50") },
            Line { what: "trace_block, p90, ms", theirs: [232.0, 181.2], ours: trace("p90") },
            Line { what: "trace_block, mean, ms", theirs: [132.4, 109.5], ours: trace("mean") },
        ],
    },
    Study {
        name: "study: raw bytes in debug-trace-server",
        about: "\"serve cache hits as raw JSON bytes\", debug-trace-server#167: callTracer replies \
                of 20 MB, 37 to 44 thousand transactions. Theirs: the cached text parsed and \
                written again on every hit before; no figure was published after. Here both of \
                their ways, over jsonrpsee, and ours.",
        lines: &[
            Line {
                what: "CPU of a hit, identity, ms",
                theirs: [140.0, NONE],
                ours: here(
                    Some(["serve-heavy", "text cache, re-parsed, identity, 8", "CPU a reply"]),
                    Some(["serve-heavy", "raw-value cache, identity, 8", "CPU a reply"]),
                    ["serve-heavy", "lane, identity, 8", "CPU a reply"],
                ),
            },
            Line {
                what: "CPU of a hit, gzip asked for, ms",
                theirs: [NONE, NONE],
                ours: here(
                    Some(["serve-heavy", "text cache, re-parsed, gzip, 8", "CPU a reply"]),
                    Some(["serve-heavy", "raw-value cache, gzip, 8", "CPU a reply"]),
                    ["serve-heavy", "lane, gzip, 8", "CPU a reply"],
                ),
            },
            Line {
                what: "hits a second, identity, 8 clients",
                theirs: [NONE, NONE],
                ours: here(
                    Some(["serve-heavy", "text cache, re-parsed, identity, 8", "replies"]),
                    Some(["serve-heavy", "raw-value cache, identity, 8", "replies"]),
                    ["serve-heavy", "lane, identity, 8", "replies"],
                ),
            },
        ],
    },
];

const fn trace(column: &'static str) -> [Option<[&'static str; 3]>; 3] {
    here(
        Some(["serve-trace", "zlib 6 per reply, gzip, 64", column]),
        Some(["serve-trace", "libdeflate 6 per reply, gzip, 64", column]),
        ["serve-trace", "lane, gzip, 64", column],
    )
}

/// A cell of a report.
fn look([table, row, column]: [&str; 3], tables: &[Table]) -> Option<f64> {
    let table = tables.iter().find(|candidate| candidate.name == table)?;
    let at = table.columns.iter().position(|candidate| candidate.name == column)?;
    let exact = table.rows.iter().find(|candidate| candidate.name == row);
    // A longer number is another row.
    let longer = |candidate: &&Row| {
        candidate.name.strip_prefix(row).is_some_and(|rest| rest.starts_with(' '))
    };
    let row = exact.or_else(|| table.rows.iter().find(longer))?;
    middle(row.cells.get(at)?)
}

impl Study {
    /// The study beside these tables; `None` if they hold nothing of ours for it.
    fn table(&self, tables: &[Table]) -> Option<Table> {
        let cell = |figure: Option<f64>| -> Vec<f64> {
            figure.filter(|figure| figure.is_finite()).into_iter().collect()
        };
        let mut found = false;
        let rows = self.lines.iter().map(|line| {
            let ours = line.ours.map(|place| place.and_then(|place| look(place, tables)));
            found |= ours[2].is_some();
            let theirs = line.theirs.map(Some);
            let cells = theirs.into_iter().chain(ours).map(cell);
            Row { name: line.what.to_owned(), cells: cells.collect() }
        });
        let rows = rows.collect();
        let column = |name| Column::new(name, "", None);
        found.then(|| Table {
            name: self.name.to_owned(),
            about: self.about.to_owned(),
            rows_are: "what".to_owned(),
            columns: vec![
                column("published, before"),
                column("published, after"),
                column("their way before, here"),
                column("their way after, here"),
                column("ours"),
            ],
            rows,
        })
    }
}

impl Report {
    /// Makes the tables of earlier studies anew, from the figures that are there by now.
    pub fn beside_studies(&mut self) {
        self.tables.retain(|table| STUDIES.iter().all(|study| study.name != table.name));
        let studies: Vec<_> =
            STUDIES.iter().filter_map(|study| study.table(&self.tables)).collect();
        self.tables.extend(studies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, columns: &[&str], rows: &[(&str, &[f64])]) -> Table {
        Table {
            name: name.to_owned(),
            about: String::new(),
            rows_are: String::new(),
            columns: columns.iter().map(|name| Column::new(name, "", None)).collect(),
            rows: rows
                .iter()
                .map(|(name, figures)| Row {
                    name: (*name).to_owned(),
                    cells: figures.iter().map(|figure| vec![*figure]).collect(),
                })
                .collect(),
        }
    }

    #[test]
    fn ours_stand_beside_theirs_once_they_are_measured() {
        let mut report = Report::new("x".to_owned());
        report.beside_studies();
        assert!(report.tables.is_empty(), "nothing of ours, no study");
        report.tables.push(table(
            "serve-heavy",
            &["replies", "CPU a reply"],
            &[
                ("lane, identity, 80 clients", &[1.0, 9.0]),
                ("lane, identity, 8 clients", &[200.0, 3.0]),
                ("text cache, re-parsed, identity, 8 clients", &[9.0, 130.0]),
            ],
        ));
        for _ in 0..2 {
            report.beside_studies();
            let [_, study] = &report.tables[..] else { panic!("{:?}", report.tables) };
            assert_eq!(study.rows[0].cells, [vec![140.0], vec![], vec![130.0], vec![], vec![3.0]]);
            assert_eq!(study.rows[2].cells, [vec![], vec![], vec![9.0], vec![], vec![200.0]]);
        }
    }
}
