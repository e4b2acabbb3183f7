use super::{Better, Report, Row, Table, middle};
use std::fmt;

/// Smaller changes are not told, however quiet the machine was.
const LEAST_CHANGE: f64 = 0.03;

/// A figure that differs between two runs by more than either run's rounds do among themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Table, row and column.
    pub place: [String; 3],
    /// Unit of the figures.
    pub unit: String,
    /// The first run's middle figure.
    pub before: f64,
    /// The second run's.
    pub after: f64,
    /// Whether it is for the better; `None` where neither way is.
    pub improved: Option<bool>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: [table, row, column], unit, before, after, improved } = self;
        let word = match improved {
            Some(true) => "better",
            Some(false) => "WORSE",
            None => "changed",
        };
        let figure = super::markdown::figure;
        write!(
            f,
            "{word:<8} {table} / {row} / {column}: {} to {} {unit} ({:+.1} %)",
            figure(*before),
            figure(*after),
            (after / before - 1.0) * 100.0
        )
    }
}

/// What changed from one run to another beyond noise: the rounds of the two do not overlap in
/// their middle halves, and the middle figures are more than 3 % apart. Cells of one round each
/// cannot tell noise, and count only from 10 % on.
pub fn compare(before: &Report, after: &Report) -> Vec<Change> {
    let mut changes = Vec::new();
    for table in &before.tables {
        let Some(other) = after.tables.iter().find(|other| other.name == table.name) else {
            continue;
        };
        for row in &table.rows {
            if let Some(other_row) = other.rows.iter().find(|other| other.name == row.name) {
                changes.extend(of_row(table, row, other, other_row));
            }
        }
    }
    changes
}

fn of_row<'a>(
    table: &'a Table,
    row: &'a Row,
    other: &'a Table,
    other_row: &'a Row,
) -> impl Iterator<Item = Change> + 'a {
    table.columns.iter().zip(&row.cells).filter_map(move |(column, cell)| {
        let at = other.columns.iter().position(|other| other == column)?;
        let other_cell = other_row.cells.get(at)?;
        let (before, after) = (middle(cell)?, middle(other_cell)?);
        let change = (after - before).abs() / before.abs().max(f64::MIN_POSITIVE);
        let least = if cell.len().min(other_cell.len()) == 1 { 0.1 } else { LEAST_CHANGE };
        let (low, high) = middle_half(cell);
        let (other_low, other_high) = middle_half(other_cell);
        let apart = high < other_low || other_high < low;
        (change >= least && apart).then(|| Change {
            place: [table.name.clone(), row.name.clone(), column.name.clone()],
            unit: column.unit.clone(),
            before,
            after,
            improved: column.better.map(|better| match better {
                Better::Less => after < before,
                Better::More => after > before,
            }),
        })
    })
}

/// The quarter points of some figures; the figures must not be none.
fn middle_half(figures: &[f64]) -> (f64, f64) {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let last = figures.len() - 1;
    (figures[last / 4], figures[last - last / 4])
}
