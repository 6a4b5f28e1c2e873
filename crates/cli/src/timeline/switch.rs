//! The switches of a span: how long they took, and one of them, magnified.

use std::collections::BTreeMap;

use tutti_daemon::gang::What;
use tutti_svg::{Anchor, GREY, INK, Scale, Svg};

use super::lanes::{LEFT, Look, RIGHT, WIDTH, draw_ticks, unit};
use super::log::{History, Span};

/// What one generation did on a node.
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

    fn is_whole(&self, nodes: usize) -> bool {
        self.nodes.len() == nodes
            && self.nodes.values().all(|node| !node.frozen.is_empty() && !node.thawed.is_empty())
    }
}

/// The switches within a span.
#[derive(Debug)]
pub struct Switches {
    all: BTreeMap<u64, Switch>,
    /// Of one node's freezes and thaws: how long.
    freeze_us: Vec<u64>,
}

impl Switches {
    /// Gathers them.
    pub fn new(history: &History, (from, to): Span) -> Self {
        let mut found = Switches { all: BTreeMap::new(), freeze_us: Vec::new() };
        for (index, node) in history.nodes.iter().enumerate() {
            let inside = node.turns.iter().filter(|turn| turn.1 >= from && turn.1 <= to);
            for &(what, us, generation, job, took_us) in inside {
                if !matches!(what, What::Freeze | What::Thaw) {
                    continue;
                }
                let on_node = found.all.entry(generation).or_default().nodes.entry(index).or_default();
                match what {
                    What::Freeze => {
                        on_node.frozen.push((job, us, took_us));
                        // Of who was looked at later nobody knows it.
                        found.freeze_us.extend(Some(took_us).filter(|took_us| *took_us > 0));
                    }
                    What::Thaw => on_node.thawed.push((job, us, took_us)),
                    _ => {}
                }
            }
        }
        found
    }

    /// In one line: how many, and how long.
    pub fn summary(&self) -> Option<String> {
        let of = |figure: fn(&Switch) -> Option<u64>| -> Vec<u64> {
            self.all.values().filter_map(figure).collect()
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
        if self.all.values().any(|switch| switch.nodes.len() > 1) {
            text.push_str(&format!(
                "; between the first node's thaw and the last one's {}",
                two(&of(Switch::skew_us))
            ));
        }
        Some(text)
    }

    /// The switch of median length among those that all nodes took part in.
    fn typical(&self) -> Option<(u64, &Switch)> {
        let most = self.all.values().map(|switch| switch.nodes.len()).max()?;
        let mut whole: Vec<_> = self.all.iter().filter(|(_, switch)| switch.is_whole(most)).collect();
        whole.sort_by_key(|(_, switch)| switch.whole_us());
        whole.get(whole.len() / 2).map(|(generation, switch)| (**generation, *switch))
    }

    /// One of them, magnified, with a line that says which; none: there is no switch to be shown.
    pub fn draw(&self, history: &History, look: &Look) -> Option<(String, String)> {
        let (generation, switch) = self.typical()?;
        let (begin, whole) = (switch.begin_us()?, switch.whole_us()?.max(50));
        let lane = (300.0 / switch.nodes.len() as f64).clamp(15.0, 34.0);
        let (top, bottom) = (6.0, 6.0 + lane * switch.nodes.len() as f64);
        let last_frozen = switch
            .nodes
            .values()
            .flat_map(|node| &node.frozen)
            .map(|entry| entry.1 + entry.2 - begin)
            .max()?;
        let span = whole.max(last_frozen) as f64;
        let (unit, unit_us) = unit(span as u64);
        let values = (-0.12 * span / unit_us, 1.12 * span / unit_us);
        let scale = Scale { values, places: (LEFT, RIGHT), logarithmic: false };
        let mut svg = Svg::new();
        svg.raw(&Look::patterns());
        draw_ticks(&mut svg, &scale, top, bottom, unit);
        for (place, (index, node)) in switch.nodes.iter().enumerate() {
            let y = top + lane * place as f64;
            let at = |us: u64| scale.at((us as f64 - begin as f64) / unit_us).clamp(LEFT, RIGHT);
            svg.rect([LEFT, y + 1.0, RIGHT - LEFT, lane - 2.0], "#f4f4f4", "");
            svg.text(LEFT - 8.0, y + lane / 2.0 + 4.0, Anchor::End, &history.nodes[*index].name, "");
            let share = (lane - 6.0) / 2.0;
            for &(job, us, took_us) in &node.frozen {
                let (written, frozen) = (at(us), at(us + took_us));
                svg.rect([LEFT, y + 3.0, written - LEFT, share], &look.fill(job), "");
                let outline = format!(
                    "fill-opacity=\"0.25\" stroke=\"{INK}\" stroke-width=\"0.6\" stroke-dasharray=\"3 2\""
                );
                svg.rect([written, y + 3.0, frozen - written, share], &look.fill(job), &outline);
            }
            for &(job, us, _) in &node.thawed {
                svg.rect([at(us), y + 3.0 + share, RIGHT - at(us), share], &look.fill(job), "");
            }
        }
        let text = format!(
            "Switch {generation}, one of median length ({}): above in each strip the job that leaves, which stands still from where the \
             dashed box begins and is seen to by its end; below the job that comes, from its thaw on.",
            duration(whole)
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
    sorted.get((sorted.len().saturating_sub(1) * percent).div_ceil(100)).copied().unwrap_or(0)
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
