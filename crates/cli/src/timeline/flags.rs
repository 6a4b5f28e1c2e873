//! The flags of events above the strips: none covers another, however many there are.
//!
//! A flag hangs to the right of its first event's pole. Events with their poles below it are on it too: `7`,
//! or `7-12`.

use tutti_svg::{Anchor, GREY, Svg};

use super::log::Mark;

/// Colour of bad news.
pub const FAULT: &str = "#D55E00";

/// Height of a flag.
const HEIGHT: f64 = 14.0;
/// Between two flags.
const GAP: f64 = 2.0;

/// A flag with its place.
#[derive(Debug)]
pub struct Flag {
    pub x: f64,
    pub width: f64,
    /// The numbers of its first and its last event.
    pub numbers: (usize, usize),
    /// Set where an event is bad news.
    pub fault: bool,
    /// Texts of its events, a line each.
    pub text: String,
}

/// The flags of marks that are given with their numbers and places, from left to right.
pub fn placed(marks: &[(usize, f64, &Mark)]) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for &(number, x, mark) in marks {
        match flags.last_mut() {
            Some(flag) if x < flag.x + flag.width + GAP => {
                flag.numbers.1 = number;
                flag.width = width(flag.numbers);
                flag.fault |= mark.fault;
                flag.text.push_str(&format!("\n{number}: {}", mark.text));
            }
            _ => flags.push(Flag {
                x,
                width: width((number, number)),
                numbers: (number, number),
                fault: mark.fault,
                text: format!("{number}: {}", mark.text),
            }),
        }
    }
    flags
}

impl Flag {
    /// Draws it with its upper edge at `y`.
    pub fn draw(&self, svg: &mut Svg, y: f64) {
        let (colour, fill, ink) = match self.fault {
            true => (FAULT, FAULT, "white"),
            false => (GREY, "white", "#222"),
        };
        // A title keeps its line ends.
        let title: Vec<String> = self.text.lines().map(tutti_svg::escape).collect();
        svg.raw(&format!("<g class=\"flag\"><title>{}</title>", title.join("\n")));
        svg.rect([self.x, y, self.width, HEIGHT], fill, &format!("stroke=\"{colour}\""));
        let ink = format!("font-size=\"10\" style=\"fill:{ink}\"");
        svg.text(self.x + self.width / 2.0, y + 10.5, Anchor::Middle, label(self.numbers), &ink);
        svg.raw("</g>");
    }
}

fn label((first, last): (usize, usize)) -> String {
    if first == last { first.to_string() } else { format!("{first}\u{2013}{last}") }
}

fn width(numbers: (usize, usize)) -> f64 {
    6.0 + 6.5 * label(numbers).chars().count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_flags_do_not_overlap() {
        let mark = |fault| Mark { us: 0, job: None, node: None, text: "what".into(), fault };
        let (well, fault) = (mark(false), mark(true));
        // 400 events, some at one place, some far apart.
        let places = (0..400_usize).map(|n| (n * n % 97) as f64 * 11.0);
        let mut places: Vec<f64> = places.collect();
        places.sort_by(f64::total_cmp);
        let marks: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(at, x)| (at + 1, *x, if at == 200 { &fault } else { &well }))
            .collect();
        let flags = placed(&marks);
        assert!(flags.len() > 10, "{}", flags.len());
        assert!(flags.windows(2).all(|pair| pair[0].x + pair[0].width < pair[1].x), "{flags:?}");
        let mut next = 1;
        for flag in &flags {
            assert_eq!((flag.numbers.0, flag.text.lines().count()), (next, flag.numbers.1 + 1 - next));
            next = flag.numbers.1 + 1;
        }
        assert_eq!((next, flags.iter().filter(|flag| flag.fault).count()), (401, 1));
    }
}
