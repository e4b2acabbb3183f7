use super::{Table, markdown::figure, middle};

impl Table {
    /// The table for a terminal, columns aligned; cells show the middle of their figures.
    pub fn text(&self) -> String {
        let mut lines = vec![
            std::iter::once(self.rows_are.clone())
                .chain(self.columns.iter().map(|column| match column.unit.as_str() {
                    "" => column.name.clone(),
                    unit => format!("{}, {unit}", column.name),
                }))
                .collect::<Vec<_>>(),
        ];
        lines.extend(self.rows.iter().map(|row| {
            let cells = row.cells.iter();
            let cells = cells.map(|cell| middle(cell).map_or_else(|| "-".to_owned(), figure));
            std::iter::once(row.name.clone()).chain(cells).collect()
        }));
        let width = |at: usize| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..=self.columns.len()).map(width).collect();
        let mut out = format!("{}: {}", self.name, self.about);
        for line in &lines {
            out.push('\n');
            for (at, cell) in line.iter().enumerate() {
                let width = widths[at];
                let cell =
                    if at == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
                out.push_str(&cell);
            }
        }
        out
    }
}
