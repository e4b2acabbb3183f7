//! What a run found, in a form that programs read, people read, and two runs are compared in.

mod compare;
mod machine;
mod markdown;
mod plot;
mod secret;
mod studies;
mod terminal;

pub use compare::{Change, compare};
pub use machine::Machine;
pub use secret::without_secrets;

use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Version of [`Report`]'s shape.
pub const SCHEMA: u32 = 1;

/// A run of one or more workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// The commit of the sources it was run in, where that is known.
    pub commit: Option<String>,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// What it ran on.
    pub machine: Machine,
    /// The command, without what is secret.
    pub command: String,
    /// Figures.
    pub tables: Vec<Table>,
    /// Figures that were aimed for.
    pub bars: Vec<Bar>,
    /// Pictures.
    pub plots: Vec<Plot>,
}

/// Figures of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// A short name, the same in every run.
    pub name: String,
    /// What was done.
    pub about: String,
    /// What the rows are: contestants, blocks.
    pub rows_are: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Unit of its figures: `ms`, `bytes`, `1/s`, `x`.
    pub unit: String,
    /// Which way is better, where one is.
    pub better: Option<Better>,
}

/// Which of two figures is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its name.
    pub name: String,
    /// One cell a column: every raw figure, one a round. An empty cell: not measured.
    pub cells: Vec<Vec<f64>>,
}

/// A figure that was aimed for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bar {
    /// What is measured.
    pub what: String,
    /// The figure.
    pub figure: f64,
    /// The bar.
    pub bar: f64,
    /// Its unit.
    pub unit: String,
    /// Which side of the bar is good.
    pub better: Better,
}

impl Bar {
    /// Whether the figure is on the good side.
    pub fn is_met(&self) -> bool {
        match self.better {
            Better::Less => self.figure <= self.bar,
            Better::More => self.figure >= self.bar,
        }
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plot {
    /// Name of its file, without ending.
    pub name: String,
    /// Title.
    pub title: String,
    /// Name of the horizontal axis, with its unit.
    pub x: String,
    /// Name of the vertical axis, with its unit.
    pub y: String,
    /// How it is drawn.
    pub kind: PlotKind,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How a picture is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlotKind {
    /// A line a series.
    Lines,
    /// A group of bars for each of these names; `x` of a point is the place of its name.
    Bars(Vec<String>),
    /// As [`PlotKind::Bars`], each series on top of the one before.
    Stacked(Vec<String>),
}

/// Points of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Points, ascending by x.
    pub points: Vec<(f64, f64)>,
}

/// A workload's result, as it goes into a report.
pub trait Reported {
    /// Its figures.
    fn tables(&self) -> Vec<Table>;

    /// Figures that were aimed for.
    fn bars(&self) -> Vec<Bar> {
        Vec::new()
    }

    /// Pictures.
    fn plots(&self) -> Vec<Plot> {
        Vec::new()
    }
}

/// Puts one in the place of that of the same name, or at the end.
fn put<T>(all: &mut Vec<T>, one: T, name: impl Fn(&T) -> &String) {
    match all.iter().position(|other| name(other) == name(&one)) {
        Some(at) => all[at] = one,
        None => all.push(one),
    }
}

/// The middle of a cell's figures; `None` of none.
pub(crate) fn middle(figures: &[f64]) -> Option<f64> {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let at = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[at]),
        _ => Some((figures[at - 1] + figures[at]) / 2.0),
    }
}

impl Column {
    /// A column.
    pub fn new(name: &str, unit: &str, better: impl Into<Option<Better>>) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better: better.into() }
    }
}

/// Why a report is not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Not a report.
    #[error("{}: not a report: {source}", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// One of another shape.
    #[error("{}: a report of schema {found}, this program reads {SCHEMA}", path.display())]
    Schema {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// One of another state of the program, or of another machine: their figures in one table would
    /// pass for the same run's.
    #[error(
        "{}: a report of {found}, this run is of {this}: use another folder, or remove the report",
        path.display()
    )]
    Mixed {
        /// The report that is there.
        path: PathBuf,
        /// Its commit, version or machine.
        found: String,
        /// Those of the run that was to be added.
        this: String,
    },
    /// A picture.
    #[error("drawing {name}: {reason}")]
    Plot {
        /// Which.
        name: String,
        /// The library's reason.
        reason: String,
    },
}

impl Report {
    /// A report of these results, begun now.
    pub fn new(command: String) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: machine::commit(),
            started: machine::now(),
            machine: Machine::this(),
            command,
            tables: Vec::new(),
            bars: Vec::new(),
            plots: Vec::new(),
        }
    }

    /// The report in a folder, for one more command; a new one where there is none.
    ///
    /// # Errors
    /// [`ReportError`], above all [`ReportError::Mixed`].
    pub fn continued(folder: &Path, command: String) -> Result<Self, ReportError> {
        let path = folder.join("report.json");
        let fresh = Self::new(command);
        if !path.exists() {
            return Ok(fresh);
        }
        let mut earlier = Self::read(&path)?;
        let differ = match (&earlier.commit, &fresh.commit) {
            (Some(found), Some(this)) if found != this => {
                Some((format!("commit {found}"), format!("commit {this}")))
            }
            _ if earlier.version != fresh.version => {
                Some((format!("version {}", earlier.version), format!("version {}", fresh.version)))
            }
            _ if earlier.machine != fresh.machine => {
                Some((earlier.machine.to_string(), fresh.machine.to_string()))
            }
            _ => None,
        };
        if let Some((found, this)) = differ {
            return Err(ReportError::Mixed { path, found, this });
        }
        if !earlier.command.split("; ").any(|said| said == fresh.command) {
            earlier.command = format!("{}; {}", earlier.command, fresh.command);
        }
        Ok(earlier)
    }

    /// Takes in a workload's result, in the place of an earlier one of the same workload.
    pub fn add(&mut self, result: &impl Reported) {
        for table in result.tables() {
            put(&mut self.tables, table, |table| &table.name);
        }
        for bar in result.bars() {
            put(&mut self.bars, bar, |bar| &bar.what);
        }
        for plot in result.plots() {
            put(&mut self.plots, plot, |plot| &plot.name);
        }
    }

    /// Writes `report.json`, `report.md` and one SVG file a picture into a folder, which is made
    /// if need be.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|source| ReportError::Io { path, source })
        };
        fs::create_dir_all(folder)
            .map_err(|source| ReportError::Io { path: folder.to_owned(), source })?;
        let json = serde_json::to_string_pretty(self)
            .map_err(|source| ReportError::Json { path: folder.join("report.json"), source })?;
        write("report.json", &(json + "\n"))?;
        write("report.md", &self.markdown())?;
        for plot in &self.plots {
            write(&format!("{}.svg", plot.name), &plot.svg()?)?;
        }
        Ok(())
    }

    /// Reads a report: its file, or the folder it is in.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let path = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
        let text =
            fs::read(&path).map_err(|source| ReportError::Io { path: path.clone(), source })?;
        let report: Self = serde_json::from_slice(&text)
            .map_err(|source| ReportError::Json { path: path.clone(), source })?;
        if report.schema != SCHEMA {
            return Err(ReportError::Schema { path, found: report.schema });
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
