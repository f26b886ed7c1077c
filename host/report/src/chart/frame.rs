//! The axes, grid and words around a diagram, and the lines in it.

use plotters::prelude::*;

use super::axis::Ruler;
use super::canvas::{CAPTION, Canvas, Drawn, GRID, INK, Place, font, text};

/// A diagram with two axes.
pub type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;

/// The words around a diagram, and the pixels for them.
pub struct Frame<'a> {
    pub caption: &'a str,
    pub labels: [&'a str; 2],
    pub formats: [&'a dyn Fn(&f64) -> String; 2],
    pub left: i32,
    pub right: i32,
    pub top: i32,
    /// Whether lines of the grid cross the axis x, and y.
    pub grid: [bool; 2],
}

impl Frame<'_> {
    /// Draws the axes, the grid and the caption.
    pub fn draw<'a, 'b>(
        &self,
        area: &'a Canvas<'b>,
        [x, y]: [Ruler; 2],
    ) -> Result<Plot<'a, 'b>, Box<dyn std::error::Error>> {
        let mut plot = ChartBuilder::on(area)
            .margin_top(self.top)
            .margin_right(self.right)
            .x_label_area_size(48)
            .y_label_area_size(self.left)
            .build_cartesian_2d(x, y)?;
        let mut mesh = plot.configure_mesh();
        mesh.axis_style(INK).bold_line_style(GRID).light_line_style(TRANSPARENT);
        mesh.label_style(font()).axis_desc_style(font());
        mesh.x_desc(self.labels[0]).x_label_formatter(self.formats[0]);
        mesh.y_desc(self.labels[1]).y_label_formatter(self.formats[1]);
        // They only reach the axes' own choice of ticks, which has no limit.
        mesh.x_labels(99).y_labels(999);
        if !self.grid[0] {
            mesh.disable_x_mesh();
        }
        if !self.grid[1] {
            mesh.disable_y_mesh().set_tick_mark_size(LabelAreaPosition::Left, 5);
        }
        mesh.draw()?;
        if !self.caption.is_empty() {
            text(area, self.caption, (self.left, 4), Place::default().size(CAPTION).bold().top())?;
        }
        Ok(plot)
    }
}

/// The pixel of a value, within the area that the diagram is drawn on.
pub fn pixel(area: &Canvas<'_>, plot: &Plot<'_, '_>, at: (f64, f64)) -> (i32, i32) {
    let (base, at) = (area.get_base_pixel(), plot.backend_coord(&at));
    (at.0 - base.0, at.1 - base.1)
}

/// Draws a dashed line through the points: a roof, a mark or a prediction.
pub fn dashed(
    plot: &mut Plot<'_, '_>,
    points: Vec<(f64, f64)>,
    [dash, gap]: [u32; 2],
    style: ShapeStyle,
) -> Drawn {
    plot.draw_series(DashedLineSeries::new(points, dash, gap, style))?;
    Ok(())
}

/// Dashes of roofs, of marks and of predictions.
pub const ROOF: [u32; 2] = [8, 5];
pub const MARK: [u32; 2] = [2, 3];
