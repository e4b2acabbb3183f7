use super::*;

fn report(times: &[f64]) -> Report {
    Report {
        commit: None,
        started: "2026-01-01T00:00:00Z".to_owned(),
        tables: vec![Table {
            name: "hits".to_owned(),
            about: "Replies of one block.".to_owned(),
            rows_are: "server".to_owned(),
            columns: vec![
                Column::new("CPU a reply", "ms", Better::Less),
                Column::new("replies", "1/s", Better::More),
            ],
            rows: vec![Row {
                name: "ours".to_owned(),
                cells: vec![times.to_vec(), times.iter().map(|ms| 1000.0 / ms).collect()],
            }],
        }],
        bars: vec![Bar {
            what: "CPU of a hit".to_owned(),
            figure: 0.5,
            bar: 1.0,
            unit: "ms".to_owned(),
            better: Better::Less,
        }],
        plots: [PlotKind::Lines, PlotKind::Bars(names()), PlotKind::Stacked(names())]
            .into_iter()
            .enumerate()
            .map(|(at, kind)| Plot {
                name: format!("plot-{at}"),
                title: "A & B".to_owned(),
                x: "slots".to_owned(),
                y: "ms".to_owned(),
                kind,
                series: vec![
                    Series { name: "trace".to_owned(), points: vec![(0.0, 1.0), (1.0, 2.0)] },
                    Series { name: "reads".to_owned(), points: vec![(0.0, 3.0)] },
                ],
            })
            .collect(),
        ..Report::new("prestate bench".to_owned())
    }
}

fn names() -> Vec<String> {
    vec!["gzip".to_owned(), "zstd".to_owned()]
}

#[test]
fn what_is_written_is_read_again_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(&[4.0, 5.0, 6.0]);
    report.write(folder.path()).unwrap();
    assert_eq!(Report::read(folder.path()).unwrap(), report);
    let shown = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(shown.contains("| ours | 5 | 200 |"), "{shown}");
    assert!(shown.contains("| CPU of a hit | 0.500 ms | ≤ 1 ms | met |"), "{shown}");
    for at in 0..3 {
        let svg = fs::read_to_string(folder.path().join(format!("plot-{at}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("trace") && svg.contains("A &amp; B"));
    }
    fs::write(folder.path().join("report.json"), "{}").unwrap();
    let refused = Report::read(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("not a report"), "{refused}");
}

#[test]
fn noise_is_no_change_and_a_doubled_cost_is_one() {
    let before = report(&[5.0, 5.2, 4.9, 5.1, 5.0]);
    assert_eq!(compare(&before, &report(&[5.1, 5.0, 5.2, 4.9, 5.1])), []);
    let changes = compare(&before, &report(&[10.0, 10.4, 9.8, 10.2, 10.0]));
    let told: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "WORSE    hits / ours / CPU a reply: 5 to 10 ms (+100.0 %)",
            "WORSE    hits / ours / replies: 200 to 100 1/s (-50.0 %)",
        ]
    );
    let back = compare(&report(&[10.0, 10.1, 10.2]), &before);
    assert!(back.iter().all(|change| change.improved == Some(true)) && back.len() == 2);
}

/// A result as workloads give it.
struct Given(Report);

impl Reported for Given {
    fn tables(&self) -> Vec<Table> {
        self.0.tables.clone()
    }

    fn bars(&self) -> Vec<Bar> {
        self.0.bars.clone()
    }

    fn plots(&self) -> Vec<Plot> {
        self.0.plots.clone()
    }
}

#[test]
fn a_workload_run_again_takes_its_own_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = report(&[1.0]);
    other.tables[0].name = "other".to_owned();
    other.bars[0].what = "other".to_owned();
    for (command, result) in
        [("a", report(&[4.0])), ("b", other.clone()), ("a", report(&[5.0, 6.0]))]
    {
        let mut all = Report::continued(folder.path(), command.to_owned()).unwrap();
        all.add(&Given(result));
        all.write(folder.path()).unwrap();
    }
    let all = Report::read(folder.path()).unwrap();
    assert_eq!(all.command, "a; b");
    assert_eq!(all.tables, [report(&[5.0, 6.0]).tables, other.tables].concat());
    assert_eq!((all.bars.len(), all.plots.len()), (2, 3));
}

#[test]
fn figures_of_another_state_or_machine_are_not_added() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |report: &Report| {
        report.write(folder.path()).unwrap();
        let error = Report::continued(folder.path(), "again".to_owned()).unwrap_err();
        assert!(matches!(error, ReportError::Mixed { .. }), "{error}");
        error.to_string()
    };
    let this = Report::new("once".to_owned());
    let says = refused(&Report { version: "0.0.1".to_owned(), ..this.clone() });
    assert!(says.contains("report.json: a report of version 0.0.1, this run is of"), "{says}");
    let machine = Machine { cores: this.machine.cores + 1, ..this.machine.clone() };
    refused(&Report { machine, ..this.clone() });
    // Outside of its sources a run has no commit to compare.
    if this.commit.is_some() {
        let says = refused(&Report { commit: Some("0123456789ab".to_owned()), ..this.clone() });
        assert!(says.contains("commit 0123456789ab"), "{says}");
    }
    this.write(folder.path()).unwrap();
    Report::continued(folder.path(), "again".to_owned()).unwrap();
}

#[test]
fn the_middle_of_figures() {
    assert_eq!(middle(&[]), None);
    assert_eq!(middle(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(middle(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
}

#[test]
fn a_table_is_aligned_on_a_terminal() {
    let mut table = report(&[4.0, 5.0, 6.0]).tables.remove(0);
    table.rows.push(Row { name: "a rival's".to_owned(), cells: vec![vec![1234.5], vec![]] });
    assert_eq!(
        table.text(),
        "hits: Replies of one block.\n\
         server     CPU a reply, ms  replies, 1/s\n\
         ours                     5           200\n\
         a rival's             1234             -"
    );
}
