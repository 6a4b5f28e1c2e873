//! Pictures for people, as SVG: [`Svg`] collects elements, [`Scale`] places values, [`plot`] draws lines and
//! bars from figures.
//!
//! Colours are those of Okabe and Ito, which people with any colour vision can tell apart; lines also differ
//! by their marks, areas beyond the seven colours by hatching. Everything stands in the file: no fonts, no
//! scripts, nothing from elsewhere.

use std::fmt::{Display, Write};

pub mod plot;

/// Seven colours that everybody can tell apart (Okabe and Ito), in an order in which neighbours differ in
/// lightness too.
pub const COLOURS: [&str; 7] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800"];

/// Text, axes, and what is in the background.
pub const INK: &str = "#222";
/// Less important text.
pub const GREY: &str = "#666";
/// Lines of a grid.
pub const PALE: &str = "#e3e3e3";
/// The fonts of a picture.
pub const FONTS: &str = "'DejaVu Sans',Verdana,sans-serif";

/// The text of a picture under construction.
#[derive(Clone, Debug, Default)]
pub struct Svg(String);

impl Svg {
    /// Makes a picture with nothing in it yet.
    #[must_use]
    pub fn new() -> Self {
        Svg::default()
    }

    /// Anything that is SVG already.
    pub fn raw(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// A rectangle; `more` are further attributes.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, more: &str) {
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        _ = writeln!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" {more}/>"
        );
    }

    /// A line; `more` are further attributes.
    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], stroke: &str, more: &str) {
        let (x1, y1, x2, y2) = (short(x1), short(y1), short(x2), short(y2));
        _ = writeln!(
            self.0,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\" {more}/>"
        );
    }

    /// A text that begins, has its middle or ends at `x`; `more` are further attributes.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: impl Display, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => "text-anchor=\"middle\" ",
            Anchor::End => "text-anchor=\"end\" ",
        };
        let text = escape(&text.to_string());
        _ = writeln!(self.0, "<text x=\"{}\" y=\"{}\" {anchor}{more}>{text}</text>", short(x), short(y));
    }

    /// A path; `more` are further attributes, `title` is shown when somebody points at it.
    pub fn path(&mut self, data: &str, more: &str, title: &str) {
        if title.is_empty() {
            _ = writeln!(self.0, "<path d=\"{data}\" {more}/>");
        } else {
            _ = writeln!(self.0, "<path d=\"{data}\" {more}><title>{}</title></path>", escape(title));
        }
    }

    /// Text of what has been drawn, without a frame.
    #[must_use]
    pub fn inner(self) -> String {
        self.0
    }

    /// The whole picture.
    #[must_use]
    pub fn finish(self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"{FONTS}\" \
             font-size=\"12\" fill=\"{INK}\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
            short(width),
            short(height),
            self.0
        )
    }
}

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Beginning of the text at the place.
    Start,
    /// Middle of the text at the place.
    Middle,
    /// End of the text at the place.
    End,
}

/// A text that may stand in an element or an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to write the others.
            '\t' | '\n' => out.push(' '),
            // And what turns or hides the text beside it.
            '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => {
                out.push('\u{fffd}');
            }
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// A number with as many digits as a picture needs.
#[must_use]
pub fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// Values on a line of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The value at `start` and that at `end`.
    pub values: (f64, f64),
    /// Where they are.
    pub places: (f64, f64),
    /// By the logarithm of the value.
    pub logarithmic: bool,
}

impl Scale {
    /// The place of a value.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let by = |value: f64| if self.logarithmic { value.log2() } else { value };
        let (from, to) = (by(self.values.0), by(self.values.1));
        let share = if to > from { (by(value) - from) / (to - from) } else { 0.5 };
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Round values to be marked, at most some `count`.
    #[must_use]
    pub fn ticks(&self, count: u32) -> Vec<f64> {
        let (from, to) = self.values;
        if self.logarithmic {
            let levels = from.log2().ceil() as i32..=to.log2().floor() as i32;
            return levels.map(|level| 2_f64.powi(level)).collect();
        }
        let step = round_step((to - from) / f64::from(count.max(1)));
        let first = (from / step - 1e-9).ceil() as i64;
        let last = (to / step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// The least of 1, 2, 5, 10, ... (and their parts) that is not below `least`.
#[must_use]
pub fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    found.unwrap_or(10.0) * power
}

/// A number for people: as many digits as the step between two neighbours needs.
#[must_use]
pub fn digits(value: f64, step: f64) -> String {
    let places = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_ticks_are_round_and_inside() {
        let scale = |from, to| Scale { values: (from, to), places: (0.0, 100.0), logarithmic: false };
        assert_eq!(scale(0.0, 10.0).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(scale(3.0, 17.0).ticks(4), [5.0, 10.0, 15.0]);
        assert_eq!(scale(0.0, 0.0).ticks(4), [0.0]);
        let powers = Scale { logarithmic: true, ..scale(2.0, 32.0) };
        assert_eq!(powers.ticks(9), [2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!(powers.at(8.0), 50.0);
        assert_eq!((digits(2.5, 0.5), digits(40.0, 20.0)), ("2.5".into(), "40".into()));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b> & \"c\"\u{1b}[0m"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}[0m");
        assert_eq!((short(1.0), short(-0.001), short(2.345)), ("1".into(), "0".into(), "2.35".into()));
    }
}
