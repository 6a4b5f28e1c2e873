//! The switches of a span: how long they took, and one of them, magnified.

use std::collections::BTreeMap;

use tutti_protocol::turns::TurnKind;
use tutti_svg::{Anchor, GREY, INK, Scale, Svg};

use super::chart::{LEFT, RIGHT, WIDTH, draw_ticks, unit};
use super::log::{History, Span};
use super::style::Style;

/// Freezes and thaws of one generation on a node.
#[derive(Clone, Debug, Default)]
struct OnNode {
    /// Job, when its freezer was written to, how long it took to be frozen.
    frozen: Vec<(u64, u64, u64)>,
    /// Job, when its freezer was written to, how long that took.
    thawed: Vec<(u64, u64, u64)>,
}

/// One switch, by node.
#[derive(Clone, Debug, Default)]
struct Switch {
    nodes: BTreeMap<usize, OnNode>,
}

impl Switch {
    fn begin_us(&self) -> Option<u64> {
        let all = self.nodes.values().flat_map(|node| node.frozen.iter().chain(&node.thawed));
        all.map(|entry| entry.1).min()
    }

    /// Between the first node's thaw and the last one's.
    fn skew_us(&self) -> Option<u64> {
        let mut thawed: Vec<u64> =
            self.nodes.values().flat_map(|node| &node.thawed).map(|entry| entry.1).collect();
        thawed.sort_unstable();
        Some(thawed.last()? - thawed.first()?)
    }

    /// From the first write to the last thaw.
    fn whole_us(&self) -> Option<u64> {
        let last = self.nodes.values().flat_map(|node| &node.thawed).map(|entry| entry.1 + entry.2).max();
        Some(last?.saturating_sub(self.begin_us()?))
    }

    /// On each of its nodes a job has left and another one has come.
    fn is_whole(&self) -> bool {
        self.nodes.values().all(|node| !node.frozen.is_empty() && !node.thawed.is_empty())
    }
}

/// The switches from one job to another within a span: the figures and the picture are of the same ones.
#[derive(Debug)]
pub struct Switches {
    /// By length.
    by_length: Vec<Switch>,
    /// Of one node's freezes: how long.
    freeze_us: Vec<u64>,
}

impl Switches {
    /// Gathers them.
    pub fn new(history: &History, (from, to): Span) -> Self {
        let (mut all, mut freeze_us) = (BTreeMap::<u64, Switch>::new(), Vec::new());
        for (index, node) in history.nodes.iter().enumerate() {
            let inside = node.turns.iter().filter(|turn| turn.1 >= from && turn.1 <= to);
            for &(what, us, generation, job, took_us) in inside {
                if !matches!(what, TurnKind::Freeze | TurnKind::Thaw) {
                    continue;
                }
                let on_node = all.entry(generation).or_default().nodes.entry(index).or_default();
                match what {
                    TurnKind::Freeze => {
                        on_node.frozen.push((job, us, took_us));
                        // Not known of nodes that reported later.
                        freeze_us.extend(Some(took_us).filter(|took_us| *took_us > 0));
                    }
                    TurnKind::Thaw => on_node.thawed.push((job, us, took_us)),
                    _ => {}
                }
            }
        }
        let mut by_length: Vec<Switch> = all.into_values().filter(Switch::is_whole).collect();
        by_length.sort_by_key(|switch| (switch.whole_us(), switch.skew_us()));
        Switches { by_length, freeze_us }
    }

    /// In one line: how many, and how long.
    pub fn summary(&self) -> Option<String> {
        let of = |figure: fn(&Switch) -> Option<u64>| -> Vec<u64> {
            self.by_length.iter().filter_map(figure).collect()
        };
        let two = |values: &[u64]| {
            format!("{} (99 % within {})", duration(quantile(values, 50)), duration(quantile(values, 99)))
        };
        let whole: Vec<u64> = of(Switch::whole_us);
        if whole.is_empty() {
            return None;
        }
        let mut text = format!(
            "{} switches; from the first node's freeze to the last one's thaw {}; a node's freeze {}",
            whole.len(),
            two(&whole),
            two(&self.freeze_us)
        );
        if self.by_length.iter().any(|switch| switch.nodes.len() > 1) {
            text.push_str(&format!(
                "; between the first node's thaw and the last one's {}",
                two(&of(Switch::skew_us))
            ));
        }
        Some(text)
    }

    /// The switch of median length, magnified, with a line about which it is; none: there is no switch to be
    /// shown.
    pub fn draw(&self, history: &History, style: &Style, span: Span) -> Option<(String, String)> {
        let switch = self.by_length.get(middle(self.by_length.len(), 50))?;
        let (begin, whole) = (switch.begin_us()?, switch.whole_us()?);
        let lane = (300.0 / switch.nodes.len() as f64).clamp(15.0, 34.0);
        let (top, bottom) = (6.0, 6.0 + lane * switch.nodes.len() as f64);
        let frozen = switch.nodes.values().flat_map(|node| &node.frozen);
        let last_frozen = frozen.filter(|entry| entry.2 > 0).map(|entry| entry.1 + entry.2 - begin).max();
        let width = whole.max(50) as f64;
        let (unit, unit_us) = unit(width as u64);
        let values = (-0.12 * width / unit_us, 1.12 * width / unit_us);
        let scale = Scale { values, places: (LEFT, RIGHT), logarithmic: false };
        let mut svg = Svg::new();
        svg.raw(&Style::patterns());
        draw_ticks(&mut svg, &scale, top, bottom, unit);
        for (place, (index, node)) in switch.nodes.iter().enumerate() {
            let y = top + lane * place as f64;
            let at = |us: u64| scale.at((us as f64 - begin as f64) / unit_us).clamp(LEFT, RIGHT);
            svg.rect([LEFT, y + 1.0, RIGHT - LEFT, lane - 2.0], "#f4f4f4", "");
            svg.text(LEFT - 8.0, y + lane / 2.0 + 4.0, Anchor::End, &history.nodes[*index].name, "");
            let share = (lane - 6.0) / 2.0;
            for &(job, us, took_us) in &node.frozen {
                let (written, frozen) = (at(us), at(us + took_us));
                svg.rect([LEFT, y + 3.0, written - LEFT, share], &style.fill(job), "");
                let outline = format!(
                    "fill-opacity=\"0.25\" stroke=\"{INK}\" stroke-width=\"0.6\" stroke-dasharray=\"3 2\""
                );
                svg.rect([written, y + 3.0, frozen - written, share], &style.fill(job), &outline);
            }
            for &(job, us, _) in &node.thawed {
                svg.rect([at(us), y + 3.0 + share, RIGHT - at(us), share], &style.fill(job), "");
            }
        }
        let (count, length) = (self.by_length.len(), duration(whole));
        let frozen_text = match last_frozen {
            // Overlapped: it is not waited for, so it was not looked for either.
            None => String::new(),
            Some(last) if last as f64 <= width => "; the dashed box ends when it is seen frozen".into(),
            Some(last) => format!(
                "; it is seen frozen at the end of the dashed box, the last one after {}",
                duration(last)
            ),
        };
        let at = style.clock.moment(begin, span);
        let text = format!(
            "The median of {count}, by length: {length} from the first node's freeze to the last one's thaw, at {at}. Above in each strip \
             the job that leaves{frozen_text}. Below the job that comes, from its thaw on."
        );
        svg.text(
            LEFT,
            bottom + 36.0,
            Anchor::Start,
            "time since the first write to a freezer",
            &format!("font-size=\"11\" style=\"fill:{GREY}\""),
        );
        Some((svg.finish(WIDTH, bottom + 44.0), text))
    }
}

fn quantile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(middle(sorted.len(), percent)).copied().unwrap_or(0)
}

/// Place of a quantile among so many values in order.
fn middle(count: usize, percent: usize) -> usize {
    (count.saturating_sub(1) * percent).div_ceil(100)
}

/// A time for people.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..600_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => format!("{:.0} min", us as f64 / 60e6),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::timeline::log::Node;

    /// Two nodes; a switch of each of these lengths from job 1 to job 2, and as many half ones, in which no
    /// job comes.
    fn history(lengths: &[u64]) -> History {
        let mut nodes = ["a", "b"].map(|name| Node { name: name.into(), ..Node::default() });
        for (number, &length) in lengths.iter().enumerate() {
            let (us, generation) = (1_000_000 * (number as u64 + 1), 10 * number as u64);
            for (node, late) in nodes.iter_mut().zip([0, length / 2]) {
                node.turns.push((TurnKind::Freeze, us + late, generation, 1, 30_000));
                node.turns.push((TurnKind::Thaw, us + late + length / 2 - 3, generation, 2, 3));
                node.turns.push((TurnKind::Freeze, us + 400_000, generation + 1, 2, 5));
            }
        }
        History { nodes: nodes.into(), jobs: BTreeMap::new(), ..History::default() }
    }

    #[test]
    fn timeline_switch_shown_is_the_median_of_the_figures() {
        let history = history(&[900, 100, 8_000, 200, 150]);
        let span = (0, 10_000_000);
        let style = Style::new(&history, span);
        let switches = Switches::new(&history, span);
        let summary = switches.summary().unwrap();
        assert!(
            summary.starts_with("5 switches; from the first node's freeze to the last one's thaw 200 µs ("),
            "{summary}"
        );
        let (picture, words) = switches.draw(&history, &style, span).unwrap();
        assert!(words.starts_with("The median of 5, by length: 200 µs "), "{words}");
        // That its job was seen frozen only 30 ms later is in the text, and does not press the switch into a
        // line.
        assert!(words.contains("the last one after 30.1 ms"), "{words}");
        assert!(picture.contains(">200 µs<") && !picture.contains(" ms<"), "{picture}");
    }

    #[test]
    fn timeline_incomplete_switch_is_not_shown() {
        let mut history = history(&[100]);
        history.nodes.iter_mut().for_each(|node| node.turns.retain(|turn| turn.0 == TurnKind::Freeze));
        let span = (0, 10_000_000);
        let switches = Switches::new(&history, span);
        assert!(
            switches.summary().is_none()
                && switches.draw(&history, &Style::new(&history, span), span).is_none()
        );
    }
}
