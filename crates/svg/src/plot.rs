//! Plots: lines over a number, and stacked bars over names.

use crate::{Anchor, COLOURS, GREY, INK, PALE, Scale, Svg, digits, short};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 700.0;
/// Of a plot whose legend has two lines; each further one moves it down.
const TOP: f64 = 92.0;
const LEGEND_LINE: f64 = 16.0;
const BOTTOM: f64 = 350.0;

/// Line of a plot.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name of the line.
    pub name: String,
    /// Points of the line; x ascending.
    pub points: Vec<(f64, f64)>,
    /// Drawn dashed, as what others have published or what was wanted.
    pub dashed: bool,
}

/// Lines over a number.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Above it.
    pub title: String,
    /// Below the title: how it was measured.
    pub note: String,
    /// Under the axis, with its unit.
    pub x: String,
    /// Beside the axis, with its unit.
    pub y: String,
    /// The x axis is logarithmic, with a mark at each power of two.
    pub powers: bool,
    /// The y axis begins here if no point is below.
    pub from: f64,
    /// The lines.
    pub series: Vec<Series>,
}

/// A bar: its name, and the heights of its parts.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Under it.
    pub name: String,
    /// From below.
    pub parts: Vec<f64>,
}

/// Stacked bars, in groups.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Above it.
    pub title: String,
    /// Below the title: how it was measured.
    pub note: String,
    /// Beside the axis, with its unit.
    pub y: String,
    /// Names of the parts.
    pub parts: Vec<String>,
    /// Name of each group, and its bars.
    pub groups: Vec<(String, Vec<Bar>)>,
}

/// The whole picture.
#[must_use]
pub fn lines(plot: &Lines) -> String {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let wide = range(&mut points().map(|point| point.0));
    let high = range(&mut points().map(|point| point.1).chain([plot.from]));
    if !wide.0.is_finite() {
        return Svg::new().finish(WIDTH, HEIGHT);
    }
    let x = Scale { values: wide, places: (LEFT + 14.0, RIGHT - 14.0), logarithmic: plot.powers };
    let y = up_to(high, top_below(plot.series.iter().map(|series| series.name.as_str())));
    let mut svg = frame(&plot.title, &plot.note, &plot.y, &y);
    let ticks = x.ticks(8);
    let step = if plot.powers { 1.0 } else { ticks.get(1).map_or(1.0, |second| second - ticks[0]) };
    for tick in ticks {
        svg.line([x.at(tick), BOTTOM, x.at(tick), BOTTOM + 4.0], INK, "");
        svg.text(x.at(tick), BOTTOM + 18.0, Anchor::Middle, digits(tick, step), "");
    }
    svg.text((LEFT + RIGHT) / 2.0, BOTTOM + 40.0, Anchor::Middle, &plot.x, "");
    legend(
        &mut svg,
        plot.series.iter().enumerate().map(|(index, series)| (series.name.as_str(), index, series.dashed)),
        true,
    );
    for (index, series) in plot.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let places: Vec<(f64, f64)> =
            series.points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
        let data: Vec<String> = places.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect();
        let dashes = if series.dashed { "stroke-dasharray=\"6 4\"" } else { "" };
        svg.raw(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" {dashes}/>",
            data.join(" ")
        ));
        places.iter().for_each(|place| mark(&mut svg, *place, index, series.dashed));
    }
    svg.finish(WIDTH, HEIGHT)
}

/// The whole picture.
#[must_use]
pub fn bars(plot: &Bars) -> String {
    let all = || plot.groups.iter().flat_map(|(_, bars)| bars);
    let most = all().map(|bar| bar.parts.iter().sum()).fold(0.0, f64::max);
    let y = up_to((0.0, most), top_below(plot.parts.iter().map(String::as_str)));
    let mut svg = frame(&plot.title, &plot.note, &plot.y, &y);
    legend(&mut svg, plot.parts.iter().enumerate().map(|(index, name)| (name.as_str(), index, false)), false);
    let places = all().count() as f64 + plot.groups.len() as f64 * 0.8;
    let pitch = (RIGHT - LEFT) / places.max(1.0);
    let mut at = LEFT + 0.4 * pitch;
    for (name, bars) in &plot.groups {
        let middle = at + bars.len() as f64 * pitch / 2.0;
        for bar in bars {
            let (mut sum, width) = (0.0, (pitch * 0.78).min(54.0));
            let left = at + (pitch - width) / 2.0;
            for (index, part) in bar.parts.iter().enumerate() {
                let (low, top) = (y.at(sum), y.at(sum + part));
                svg.rect(
                    [left, top, width, low - top],
                    COLOURS[index % COLOURS.len()],
                    "stroke=\"white\" stroke-width=\"0.7\"",
                );
                sum += part;
            }
            let step = round(most);
            svg.text(
                left + width / 2.0,
                y.at(sum) - 4.0,
                Anchor::Middle,
                digits(sum, step / 10.0),
                "font-size=\"10\"",
            );
            svg.text(left + width / 2.0, BOTTOM + 14.0, Anchor::Middle, &bar.name, "font-size=\"10\"");
            at += pitch;
        }
        let room = (bars.len() as f64 + 0.6) * pitch;
        for (line, text) in wrap(name, room).into_iter().enumerate() {
            let below = BOTTOM + 32.0 + 12.0 * line as f64;
            svg.text(middle, below, Anchor::Middle, &text, "font-size=\"10\"");
        }
        at += 0.8 * pitch;
    }
    svg.finish(WIDTH, HEIGHT)
}

fn round(most: f64) -> f64 {
    crate::round_step(most.max(f64::MIN_POSITIVE) / 5.0)
}

fn up_to((low, high): (f64, f64), top: f64) -> Scale {
    let step = round(high - low);
    let values = ((low / step).floor() * step, ((high / step).ceil() * step).max(low + step));
    Scale { values, places: (BOTTOM, top), logarithmic: false }
}

fn frame(title: &str, note: &str, unit: &str, y: &Scale) -> Svg {
    let mut svg = Svg::new();
    svg.text(LEFT - 50.0, 26.0, Anchor::Start, title, "font-size=\"15\" font-weight=\"bold\"");
    svg.text(LEFT - 50.0, 45.0, Anchor::Start, note, &format!("font-size=\"11\" style=\"fill:{GREY}\""));
    let ticks = y.ticks(6);
    let step = ticks.get(1).map_or(1.0, |second| second - ticks[0]);
    for tick in ticks {
        svg.line([LEFT, y.at(tick), RIGHT, y.at(tick)], PALE, "");
        svg.text(LEFT - 7.0, y.at(tick) + 4.0, Anchor::End, digits(tick, step), "");
    }
    svg.line([LEFT, BOTTOM, RIGHT, BOTTOM], INK, "");
    let middle = (y.places.0 + y.places.1) / 2.0;
    let turned = format!("transform=\"rotate(-90 18 {middle})\"");
    svg.text(18.0, middle, Anchor::Middle, unit, &turned);
    svg
}

fn legend<'a>(svg: &mut Svg, entries: impl Iterator<Item = (&'a str, usize, bool)>, marks: bool) {
    let entries: Vec<_> = entries.collect();
    let places = legend_places(entries.iter().map(|entry| entry.0));
    for ((name, index, dashed), (x, line)) in entries.into_iter().zip(places) {
        let y = 66.0 + line * LEGEND_LINE;
        if marks {
            let dashes =
                if dashed { "stroke-width=\"2\" stroke-dasharray=\"6 4\"" } else { "stroke-width=\"2\"" };
            svg.line([x, y - 4.0, x + 20.0, y - 4.0], COLOURS[index % COLOURS.len()], dashes);
            mark(svg, (x + 10.0, y - 4.0), index, dashed);
        } else {
            svg.rect([x + 4.0, y - 10.0, 14.0, 12.0], COLOURS[index % COLOURS.len()], "");
        }
        svg.text(x + 25.0, y, Anchor::Start, name, "font-size=\"11\"");
    }
}

/// Where the names of a legend begin, and in which of its lines.
fn legend_places<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(f64, f64)> {
    let (mut x, mut line) = (LEFT - 50.0, 0.0);
    let place = |name: &str| {
        let width = 36.0 + name.chars().count() as f64 * 6.6;
        if x + width > RIGHT + 10.0 {
            (x, line) = (LEFT - 50.0, line + 1.0);
        }
        x += width;
        (x - width, line)
    };
    names.map(place).collect()
}

/// The upper end of a plot under the legend of these names.
fn top_below<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    let last = legend_places(names).last().map_or(0.0, |place| place.1);
    TOP + (last - 1.0).max(0.0) * LEGEND_LINE
}

/// The words of a name in lines of so many points, if there are such lines.
fn wrap(name: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + 1 + word.chars().count()) as f64 * 5.8 <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Circle, square, triangle, diamond; hollow when dashed.
fn mark(svg: &mut Svg, (x, y): (f64, f64), index: usize, hollow: bool) {
    let colour = COLOURS[index % COLOURS.len()];
    let outline: &[(f64, f64)] = match index % 4 {
        0 => &[
            (-2.6, -2.6),
            (0.0, -3.7),
            (2.6, -2.6),
            (3.7, 0.0),
            (2.6, 2.6),
            (0.0, 3.7),
            (-2.6, 2.6),
            (-3.7, 0.0),
        ],
        1 => &[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)],
        2 => &[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)],
        _ => &[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)],
    };
    let points: Vec<String> =
        outline.iter().map(|(dx, dy)| format!("{},{}", short(x + dx), short(y + dy))).collect();
    let fill = if hollow { "white" } else { colour };
    svg.raw(&format!(
        "<polygon points=\"{}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.4\"/>",
        points.join(" ")
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_makes_room_for_a_long_legend() {
        let names = |count| std::iter::repeat_n("a series of some length", count);
        assert_eq!((top_below(names(1)), top_below(names(6)), top_below(names(9))), (TOP, TOP, TOP + 16.0));
        let places = legend_places(names(9));
        assert!(places.iter().all(|(x, line)| *x < RIGHT && 66.0 + line * LEGEND_LINE < top_below(names(9))));
    }

    #[test]
    fn plot_breaks_long_group_names() {
        assert_eq!(wrap("Tutti 100 ms, no real time", 60.0), ["Tutti 100", "ms, no", "real time"]);
        assert_eq!(wrap("MPICH", 10.0), ["MPICH"]);
        assert_eq!(wrap("Tutti, strict: nodes", 400.0), ["Tutti, strict: nodes"]);
    }
}
