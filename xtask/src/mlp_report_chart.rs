//! The chart of a training run: the time of an epoch, rung by rung and peer by peer, a panel for each batch size.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::mlp_report::{BATCHES, Results, contestants};
use crate::mlp_report_tables::{epoch, milliseconds};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Pixels: of a bar with the gap below it, of a panel's caption and margins, of the names, and of the figures beside the
/// bars.
const BAR: u32 = 26;
const CAPTION: u32 = 52;
const NAMES: i32 = 260;
const FIGURES: i32 = 110;
const WIDTH: u32 = 1500;

const OURS: RGBColor = RGBColor(220, 20, 30);
const PEERS: RGBColor = RGBColor(31, 119, 180);

/// Bars of the medians, two panels beside each other.
pub fn ladder(results: &Results) -> anyhow::Result<String> {
    let (ours, peers) = (contestants(&results.ours), contestants(&results.peers));
    let bars: Vec<_> =
        ours.into_iter().map(|who| (who, OURS)).chain(peers.into_iter().map(|who| (who, PEERS))).collect();
    let rows = BATCHES.len().div_ceil(2);
    let height = 50 + rows as u32 * (CAPTION + BAR * bars.len() as u32);
    let mut svg = String::new();
    let mut drawn = || -> Drawn {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let title = format!("an epoch of training, {}, driver {}", results.machine, results.driver);
        let below = root.titled(&title, ("sans-serif", 22))?;
        for (area, batch) in below.split_evenly((rows, 2)).iter().zip(BATCHES) {
            panel(area, results, &bars, batch)?;
        }
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| anyhow!("drawing the chart failed: {error}"))?;
    Ok(svg)
}

/// The bars at one batch size, from 0 to the longest.
fn panel(area: &Area<'_>, results: &Results, bars: &[((&str, &str), RGBColor)], batch: usize) -> Drawn {
    let caption = TextStyle::from(("sans-serif", 17)).color(&BLACK);
    area.draw(&Text::new(format!("batches of {batch}"), (NAMES, 10), caption))?;
    let seconds = |&(who, _): &((&str, &str), RGBColor)| results.entry(who, batch)?.epoch();
    let longest = bars.iter().filter_map(seconds).fold(f64::MIN_POSITIVE, f64::max);
    let room = f64::from(area.dim_in_pixel().0 as i32 - NAMES - FIGURES);
    for (place, bar) in bars.iter().enumerate() {
        let &(who, colour) = bar;
        let y = 38 + place as i32 * BAR as i32;
        let name = format!("{} {}", who.0, who.1);
        area.draw(&Text::new(name, (12, y + 3), ("sans-serif", 14)))?;
        let (length, figure) = match seconds(bar) {
            Some(seconds) => ((room * seconds / longest).ceil() as i32, milliseconds(seconds)),
            None => (0, epoch(results.entry(who, batch))),
        };
        let corners = [(NAMES, y), (NAMES + length, y + BAR as i32 - 8)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        area.draw(&Text::new(figure, (NAMES + length + 8, y + 3), ("sans-serif", 14)))?;
    }
    Ok(())
}
