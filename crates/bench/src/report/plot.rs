use super::{Plot, PlotKind, ReportError, Series};
use plotters::{
    coord::Shift,
    prelude::{
        BLACK, ChartBuilder, DrawingArea, IntoDrawingArea, IntoFont, LineSeries, PathElement,
        Rectangle, SVGBackend, SeriesLabelPosition, WHITE,
    },
    style::{Color, Palette, Palette99, RGBAColor},
};
use std::error::Error;

const SIZE: (u32, u32) = (960, 540);
/// Part of a group's width that its bars take.
const GROUP_WIDTH: f64 = 0.8;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Plot {
    /// The picture as SVG.
    ///
    /// # Errors
    /// [`ReportError::Plot`].
    pub fn svg(&self) -> Result<String, ReportError> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let drawn = self.draw(&area);
        drop(area);
        match drawn {
            Ok(()) => Ok(text),
            Err(error) => {
                Err(ReportError::Plot { name: self.name.clone(), reason: error.to_string() })
            }
        }
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        area.fill(&WHITE)?;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let most = |all: Vec<f64>| all.into_iter().fold(0.0, f64::max);
        let (left, right, top) = match &self.kind {
            PlotKind::Lines => {
                let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
                let right = most(points().map(|point| point.0).collect());
                (least.min(right), right, most(points().map(|point| point.1).collect()))
            }
            PlotKind::Bars(names) => {
                (-0.5, names.len() as f64 - 0.5, most(points().map(|point| point.1).collect()))
            }
            PlotKind::Stacked(names) => {
                let sums = (0..names.len()).map(|at| {
                    points().filter(|point| point.0 as usize == at).map(|point| point.1).sum()
                });
                (-0.5, names.len() as f64 - 0.5, most(sums.collect()))
            }
        };
        // A picture of nothing still has axes.
        let (right, top) = (
            if right > left { right } else { left + 1.0 },
            if top > 0.0 { top * 1.1 } else { 1.0 },
        );
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20).into_font())
            .margin(12)
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(left..right, 0.0..top)?;
        let names = match &self.kind {
            PlotKind::Lines => None,
            PlotKind::Bars(names) | PlotKind::Stacked(names) => Some(names.clone()),
        };
        let name_of = |x: &f64| match &names {
            None => super::markdown::figure(*x),
            Some(names) if x.fract().abs() < 0.01 && *x >= 0.0 => {
                names.get(x.round() as usize).cloned().unwrap_or_default()
            }
            Some(_) => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_labels(names.as_ref().map_or(12, |names| 2 * names.len() + 1))
            .x_label_formatter(&name_of)
            .y_label_formatter(&|y| super::markdown::figure(*y))
            .draw()?;
        let mut floor = vec![0.0; names.as_ref().map_or(0, Vec::len)];
        for (at, series) in self.series.iter().enumerate() {
            let color = Palette99::pick(at).to_rgba();
            let drawn = match self.kind {
                PlotKind::Lines => {
                    let line = series.points.iter().copied();
                    chart.draw_series(LineSeries::new(line, color.stroke_width(2)))?
                }
                PlotKind::Bars(_) => {
                    let width = GROUP_WIDTH / self.series.len() as f64;
                    let start = at as f64 * width - GROUP_WIDTH / 2.0;
                    chart.draw_series(bars(series, color, start, width))?
                }
                PlotKind::Stacked(_) => {
                    let stacked: Vec<_> = series
                        .points
                        .iter()
                        .map(|&(x, y)| {
                            let below = floor.get(x as usize).copied().unwrap_or_default();
                            if let Some(floor) = floor.get_mut(x as usize) {
                                *floor += y;
                            }
                            bar(x - GROUP_WIDTH / 2.0, GROUP_WIDTH, below, below + y, color)
                        })
                        .collect();
                    chart.draw_series(stacked)?
                }
            };
            drawn.label(&series.name).legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(4))
            });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

type Bar = Rectangle<(f64, f64)>;

fn bars(
    series: &Series,
    color: RGBAColor,
    start: f64,
    width: f64,
) -> impl Iterator<Item = Bar> + '_ {
    series.points.iter().map(move |&(x, y)| bar(x + start, width, 0.0, y, color))
}

fn bar(left: f64, width: f64, low: f64, high: f64, color: RGBAColor) -> Bar {
    Rectangle::new([(left, low), (left + width, high)], color.filled())
}
