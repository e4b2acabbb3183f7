use super::{Bar, Report, Table, middle};
use std::fmt::Write as _;

impl Report {
    /// The report for people. Cells show the middle of their rounds.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# prestate bench\n");
        let _ = writeln!(out, "`{}`\n", self.command);
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let _ = writeln!(
            out,
            "{} · version {}, commit {commit} · {}\n",
            self.started, self.version, self.machine,
        );
        if !self.bars.is_empty() {
            let _ = writeln!(out, "## Bars\n\n| what | figure | bar | |\n|---|---:|---:|---|");
            for bar in &self.bars {
                out.push_str(&line(bar));
            }
            out.push('\n');
        }
        for table in &self.tables {
            out.push_str(&table.markdown());
        }
        for plot in &self.plots {
            let _ = writeln!(out, "![{}]({}.svg)\n", plot.title, plot.name);
        }
        out
    }
}

fn line(bar: &Bar) -> String {
    let side = match bar.better {
        super::Better::Less => "≤",
        super::Better::More => "≥",
    };
    let met = if bar.is_met() { "met" } else { "**missed**" };
    let unit = &bar.unit;
    format!(
        "| {} | {} {unit} | {side} {} {unit} | {met} |\n",
        bar.what,
        figure(bar.figure),
        figure(bar.bar)
    )
}

impl Table {
    /// The table for people.
    pub fn markdown(&self) -> String {
        let mut out = format!("## {}\n\n{}\n\n| {} |", self.name, self.about, self.rows_are);
        for column in &self.columns {
            let unit = if column.unit.is_empty() { "" } else { ", " };
            let _ = write!(out, " {}{unit}{} |", column.name, column.unit);
        }
        out.push_str("\n|---|");
        out.push_str(&"---:|".repeat(self.columns.len()));
        for row in &self.rows {
            let _ = write!(out, "\n| {} |", row.name);
            for cell in &row.cells {
                let _ = write!(out, " {} |", middle(cell).map(figure).unwrap_or_default());
            }
        }
        out.push_str("\n\n");
        out
    }
}

/// Three significant digits, whole numbers whole.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => value.to_string(),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
