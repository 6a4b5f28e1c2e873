//! The chart: a strip for each node, with the jobs that ran there in their colours, and time from left to
//! right.
//!
//! Where turns are too short to be seen, a column of the strip shows how the jobs shared that time, from
//! below in the order of their numbers. The turns themselves are there too, and the page's script shows them
//! when it is zoomed.

use std::collections::BTreeMap;
use std::fmt::Write;

use tutti_svg::{Anchor, GREY, INK, PALE, Scale, Svg, digits, round_step, short};

use tutti_protocol::turns::TurnKind;

use super::flags::{self, FAULT};
use super::log::{History, Job, Node, Span};
use super::style::Style;

/// Width of a picture.
pub const WIDTH: f64 = 1200.0;
/// Where time begins and ends in it.
pub const LEFT: f64 = 96.0;
/// See [`LEFT`].
pub const RIGHT: f64 = 1140.0;
/// Height of the strip of events.
const EVENTS: f64 = 26.0;
/// Least width of a column of shares.
const COLUMN: f64 = 2.0;
/// Turns in a column: fewer would show when they happened to begin.
const TURNS: f64 = 24.0;
/// Strips of which every one has the numbers of its jobs; of more, one in so many.
const LABELLED: usize = 12;
/// Turns narrower than this are shown as shares.
const NARROW: f64 = 3.0;
/// Turns that a picture holds at most: some 6 MB.
const RUNS_MAX: usize = 200_000;

/// A span, drawn: where it is, and its contents.
pub struct Chart<'a> {
    pub history: &'a History,
    pub style: &'a Style,
    pub span: Span,
    /// With the strip of events above.
    pub events: bool,
}

impl Chart<'_> {
    /// Turns are wide enough to be seen one by one.
    pub fn is_exact(&self) -> bool {
        let (mut runs, mut total_us) = (0_u64, 0);
        for node in &self.history.nodes {
            for (from, to) in
                node.runs.values().flatten().map(|run| self.cut(*run)).filter(|run| run.1 > run.0)
            {
                (runs, total_us) = (runs + 1, total_us + to - from);
            }
        }
        runs == 0 || total_us as f64 / runs as f64 >= NARROW / self.per_us()
    }

    /// The picture, and its height.
    pub fn draw(&self) -> String {
        let nodes = self.history.nodes.len().max(1) as f64;
        let lane = (420.0 / nodes).clamp(15.0, 44.0);
        let top = if self.events { EVENTS + 4.0 } else { 6.0 };
        let bottom = top + lane * nodes;
        let mut svg = Svg::new();
        svg.raw(&Style::patterns());
        self.axis(&mut svg, top, bottom);
        for (index, node) in self.history.nodes.iter().enumerate() {
            let y = top + lane * index as f64;
            svg.rect([LEFT, y + 1.0, RIGHT - LEFT, lane - 2.0], "#f4f4f4", "");
            svg.text(LEFT - 8.0, y + lane / 2.0 + 4.0, Anchor::End, &node.name, "");
        }
        self.strips(&mut svg, top, lane);
        if self.events {
            self.marks(&mut svg, top, lane);
        }
        svg.raw(&format!(
            "<line class=\"cursor\" x1=\"-9\" x2=\"-9\" y1=\"{0}\" y2=\"{bottom}\" stroke=\"{INK}\" stroke-width=\"0.7\"/>\
             <text class=\"when\" y=\"{1}\" text-anchor=\"middle\" font-size=\"11\"></text>",
            if self.events { EVENTS } else { 4.0 },
            bottom + 46.0
        ));
        svg.finish(WIDTH, bottom + 52.0)
    }

    fn per_us(&self) -> f64 {
        (RIGHT - LEFT) / (self.span.1 - self.span.0).max(1) as f64
    }

    fn cut(&self, (from, to): Span) -> Span {
        (from.max(self.span.0), to.min(self.span.1))
    }

    fn x(&self, us: u64) -> f64 {
        LEFT + (us.clamp(self.span.0, self.span.1) - self.span.0) as f64 * self.per_us()
    }

    fn axis(&self, svg: &mut Svg, top: f64, bottom: f64) {
        svg.raw("<g class=\"axis\">");
        for (us, label) in self.style.clock.ticks(self.span) {
            let x = self.x(us);
            svg.line([x, top, x, bottom + 4.0], PALE, "");
            svg.text(x, bottom + 18.0, Anchor::Middle, label, "font-size=\"11\"");
        }
        svg.raw("</g>");
        let (clock, begin) = (self.style.clock, self.span.0);
        let (day, zone) = (clock.date(begin), clock.zone());
        let words = format!("from {day} {zone}");
        svg.text(
            LEFT,
            bottom + 34.0,
            Anchor::Start,
            words,
            &format!("font-size=\"11\" style=\"fill:{GREY}\""),
        );
    }

    /// Draws what ran, in the units of the page's script: a width of the whole span in ms.
    fn strips(&self, svg: &mut Svg, top: f64, lane: f64) {
        let height = lane * self.history.nodes.len() as f64;
        let span_ms = (self.span.1 - self.span.0) as f64 / 1000.0;
        let exact = self.is_exact();
        svg.raw(&format!(
            "<svg class=\"strips\" x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{height}\" viewBox=\"0 0 {} {height}\" \
             preserveAspectRatio=\"none\" data-from=\"{}\" data-top=\"{top}\" data-bottom=\"{}\" data-turn=\"{}\" data-since=\"{}\">",
            RIGHT - LEFT,
            short(span_ms),
            self.style.clock.local_us(self.span.0) as f64 / 1000.0,
            top + height,
            self.mean_run_ms(),
            (self.span.0 as f64 - self.history.start_us() as f64) / 1000.0
        ));
        let runs: usize = self.history.nodes.iter().flat_map(|node| node.runs.values()).map(Vec::len).sum();
        self.each_node(lane, |node, y, tracks| self.presence(svg, node, y, tracks));
        if !exact {
            svg.raw("<g class=\"shares\">");
            self.each_node(lane, |node, y, tracks| self.shares(svg, node, y, tracks));
            svg.raw("</g>");
        }
        if exact || runs <= RUNS_MAX {
            svg.raw(if exact { "<g>" } else { "<g class=\"turns\" display=\"none\">" });
            self.each_node(lane, |node, y, tracks| self.turns(svg, node, y, tracks));
            self.each_node(lane, |node, y, tracks| self.loans(svg, node, y, tracks));
            svg.raw("</g>");
        }
        self.each_node(lane, |node, y, _| {
            for &lost in &node.lost {
                let (from, to) = self.cut(lost);
                if to > from {
                    let ms = |us: u64| (us - self.span.0) as f64 / 1000.0;
                    svg.rect([ms(from), y, ms(to) - ms(from), lane - 2.0], "#999", "fill-opacity=\"0.55\"");
                }
            }
        });
        svg.raw("</svg>");
        self.each_node(lane, |node, y, _| {
            for (from, to) in node.lost.iter().map(|lost| self.cut(*lost)).filter(|lost| lost.1 > lost.0) {
                if self.x(to) - self.x(from) > 30.0 {
                    let middle = (self.x(from) + self.x(to)) / 2.0;
                    svg.text(
                        middle,
                        top + y + lane / 2.0 + 4.0,
                        Anchor::Middle,
                        "lost",
                        "class=\"label\" font-size=\"11\" font-style=\"italic\"",
                    );
                }
            }
        });
        if exact {
            self.labels(svg, top, lane);
        }
    }

    /// Calls for each node with the place of its strip and how many jobs share it.
    fn each_node(&self, lane: f64, mut draw: impl FnMut(&Node, f64, (usize, f64))) {
        for (index, node) in self.history.nodes.iter().enumerate() {
            let ran = node
                .runs
                .iter()
                .filter(|(_, runs)| runs.iter().any(|run| self.cut(*run).1 > self.cut(*run).0));
            let tracks = ran.filter_map(|(job, _)| self.style.track(*job)).max().map_or(1, |track| track + 1);
            draw(node, lane * index as f64 + 1.0, (tracks, (lane - 2.0) / tracks as f64));
        }
    }

    fn mean_run_ms(&self) -> f64 {
        let runs = || self.history.nodes.iter().flat_map(|node| node.runs.values().flatten());
        let total: u64 = runs().map(|(from, to)| to - from).sum();
        (total as f64 / runs().count().max(1) as f64 / 1000.0 * 1000.0).round() / 1000.0
    }

    fn title(&self, job: u64) -> String {
        match self.history.jobs.get(&job) {
            Some(Job { user: Some(user), command, .. }) => format!("job {job} of {user}: {command}"),
            Some(Job { command, .. }) => format!("job {job}: {command}"),
            None => format!("job {job}"),
        }
    }

    /// A thin line where a job has ranks, whether they run or not: what runs is drawn over it.
    fn presence(&self, svg: &mut Svg, node: &Node, y: f64, (_, height): (usize, f64)) {
        for id in self.style.jobs() {
            let Some(job) = self.history.jobs.get(&id).filter(|job| job.nodes.contains(&node.name)) else {
                continue;
            };
            let Some(started_us) = job.started_us else { continue };
            let (from, to) = self.cut((started_us, job.over_us.unwrap_or(self.history.until_us)));
            if to > from {
                let (x, width) = ((from - self.span.0) as f64 / 1000.0, (to - from) as f64 / 1000.0);
                let at = y + height * (self.style.track(id).unwrap_or(0) as f64 + 1.0) - 3.0;
                svg.rect([x, at, width, 3.0], &self.style.fill(id), "fill-opacity=\"0.45\"");
            }
        }
    }

    fn turns(&self, svg: &mut Svg, node: &Node, y: f64, (_, height): (usize, f64)) {
        for job in self.style.jobs() {
            let mut data = String::new();
            for run in node.runs.get(&job).into_iter().flatten() {
                let (from, to) = self.cut(*run);
                if to > from {
                    let at = y + height * self.style.track(job).unwrap_or(0) as f64;
                    let (x, width) = ((from - self.span.0) as f64 / 1000.0, (to - from) as f64 / 1000.0);
                    _ = write!(data, "M{x} {}h{width}v{}h-{width}z", short(at), short(height));
                }
            }
            if !data.is_empty() {
                svg.path(&data, &format!("fill=\"{}\"", self.style.fill(job)), &self.title(job));
            }
        }
    }

    /// Jobs that ran in the turns of others, which waited for services of them: the lower third of the strip.
    fn loans(&self, svg: &mut Svg, node: &Node, y: f64, (_, height): (usize, f64)) {
        let mut lent: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
        for &(_, us, _, job, took_us) in node.turns.iter().filter(|turn| turn.0 == TurnKind::Lent) {
            lent.entry(job).or_default().push((us, took_us));
        }
        for (job, lent) in lent.into_iter().filter(|(job, _)| self.style.track(*job).is_some()) {
            let mut data = String::new();
            for (us, took_us) in lent {
                let (from, to) = self.cut((us, us.saturating_add(took_us.max(1))));
                if to > from {
                    let at = y + height * (self.style.track(job).unwrap_or(0) as f64 + 2.0 / 3.0);
                    let (x, width) = ((from - self.span.0) as f64 / 1000.0, (to - from) as f64 / 1000.0);
                    _ = write!(data, "M{x} {}h{width}v{}h-{width}z", short(at), short(height / 3.0));
                }
            }
            if !data.is_empty() {
                let title = format!("{}, called in another one's turn", self.title(job));
                svg.path(&data, &format!("class=\"lent\" fill=\"{}\"", self.style.fill(job)), &title);
            }
        }
    }

    /// Column by column, what part of the time each job had.
    fn shares(&self, svg: &mut Svg, node: &Node, y: f64, (tracks, height): (usize, f64)) {
        let turns_wide = self.mean_run_ms() * 1000.0 * TURNS * self.per_us();
        let columns = ((RIGHT - LEFT) / turns_wide.clamp(COLUMN, 8.0 * COLUMN)) as usize;
        let column_us = (self.span.1 - self.span.0) as f64 / columns as f64;
        let mut below = vec![vec![0.0; columns]; tracks];
        for job in self.style.jobs() {
            let Some(runs) = node.runs.get(&job) else { continue };
            // Of ten thousand jobs each has a few columns.
            let mut shares: BTreeMap<usize, f64> = BTreeMap::new();
            for (from, to) in runs.iter().map(|run| self.cut(*run)).filter(|run| run.1 > run.0) {
                let (mut at, end) = ((from - self.span.0) as f64, (to - self.span.0) as f64);
                while at < end - 1e-6 {
                    let column = ((at / column_us + 1e-9) as usize).min(columns - 1);
                    let until = (((column + 1) as f64) * column_us).min(end).max(at + 1e-3);
                    *shares.entry(column).or_default() += (until - at) / column_us;
                    at = until;
                }
            }
            let track = self.style.track(job).unwrap_or(0);
            let mut data = String::new();
            for (column, share) in shares.into_iter().filter(|(_, share)| *share > 0.004) {
                let floor: &mut f64 = &mut below[track][column];
                let share = share.min(1.0 - *floor);
                *floor += share;
                let (x, width) = (column as f64 * column_us / 1000.0, column_us / 1000.0);
                let at = y + height * (track as f64 + 1.0 - *floor);
                _ = write!(
                    data,
                    "M{} {}h{}v{}h-{2}z",
                    short(x),
                    short(at),
                    short(width),
                    short(share * height)
                );
            }
            if !data.is_empty() {
                svg.path(&data, &format!("fill=\"{}\"", self.style.fill(job)), &self.title(job));
            }
        }
    }

    /// The number of a job where its turn is wide enough, with its name where it is wider.
    fn labels(&self, svg: &mut Svg, top: f64, lane: f64) {
        let (mut index, many) = (0, self.history.nodes.len() > LABELLED);
        self.each_node(lane, |node, y, (_, height)| {
            index += 1;
            let wanted = height >= 11.0 && (!many || index % LABELLED == 1);
            for job in self.style.jobs().filter(|_| wanted) {
                for (from, to) in node.runs.get(&job).into_iter().flatten().map(|run| self.cut(*run)) {
                    let room = self.x(to) - self.x(from) - 16.0;
                    let fits = |text: &String| 7.0 * text.chars().count() as f64 <= room;
                    let short = self.history.jobs.get(&job).map_or("", Job::short_name);
                    let words = [format!("{job} {short}"), job.to_string()];
                    if let Some(words) = words.iter().find(|words| to > from && fits(words)) {
                        let (middle, at) = ((self.x(from) + self.x(to)) / 2.0, top + y + height * (self.style.track(job).unwrap_or(0) as f64 + 0.5) + 4.0);
                        let halo = "class=\"label\" font-size=\"11\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\" stroke-linejoin=\"round\"";
                        svg.text(middle, at, Anchor::Middle, words, halo);
                    }
                }
            }
        });
    }

    /// The events above the strips, numbered as in the table: a pole for each, a flag for those that are
    /// close together.
    fn marks(&self, svg: &mut Svg, top: f64, lane: f64) {
        let marks = self.history.marks.iter().enumerate();
        let inside = marks.filter(|(_, mark)| (self.span.0..=self.span.1).contains(&mark.us));
        let placed: Vec<_> = inside.map(|(number, mark)| (number + 1, self.x(mark.us), mark)).collect();
        svg.raw("<g class=\"marks\">");
        for &(_, x, mark) in &placed {
            let colour = if mark.fault { FAULT } else { GREY };
            svg.line([x, EVENTS - 6.0, x, top], colour, "stroke-width=\"0.8\"");
            let node = mark.node.as_ref().filter(|_| mark.fault);
            let place = node.and_then(|name| self.history.nodes.iter().position(|node| node.name == *name));
            if let Some(index) = place {
                let y = top + lane * (index as f64 + 0.5);
                let cross = format!("M{} {}l8 8m0 -8l-8 8", short(x - 4.0), short(y - 4.0));
                svg.path(&cross, &format!("stroke=\"{FAULT}\" stroke-width=\"2.5\" fill=\"none\""), "");
            }
        }
        for flag in flags::placed(&placed) {
            flag.draw(svg, EVENTS - 20.0);
        }
        svg.raw("</g>");
    }
}

/// Lines of the time axis from `top` to `bottom`, and the times below them.
pub fn draw_ticks(svg: &mut Svg, scale: &Scale, top: f64, bottom: f64, unit: &str) {
    let step = round_step((scale.values.1 - scale.values.0) / 10.0);
    for tick in scale.ticks(10) {
        svg.line([scale.at(tick), top, scale.at(tick), bottom + 4.0], PALE, "");
        svg.text(
            scale.at(tick),
            bottom + 18.0,
            Anchor::Middle,
            format!("{} {unit}", digits(tick, step)),
            "font-size=\"11\"",
        );
    }
}

/// The unit of time for a span, and how many us it has.
pub fn unit(span_us: u64) -> (&'static str, f64) {
    match span_us {
        0..2_000 => ("µs", 1.0),
        2_000..2_000_000 => ("ms", 1e3),
        2_000_000..600_000_001 => ("s", 1e6),
        _ => ("min", 60e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::log::Mark;

    /// Places of the texts of a picture.
    fn texts(picture: &str) -> Vec<(f64, String)> {
        let lines = picture.lines().filter_map(|line| line.strip_prefix("<text x=\"")?.split_once('"'));
        lines
            .filter_map(|(x, rest)| {
                let text = rest.split_once('>')?.1.strip_suffix("</text>")?;
                Some((x.parse().ok()?, text.to_owned()))
            })
            .collect()
    }

    #[test]
    fn timeline_draws_calls_in_the_turns_of_their_clients() {
        let job =
            || Job { started_us: Some(0), over_us: Some(1000), nodes: vec!["a".into()], ..Job::default() };
        let turns = vec![(TurnKind::Lent, 200, 1, 2, 50), (TurnKind::Lent, 5000, 1, 2, 50)];
        let runs = [(1, vec![(0, 1000)])].into();
        let node = Node { name: "a".into(), turns, runs, ..Node::default() };
        let jobs = [(1, job()), (2, job())].into();
        let history = History { jobs, nodes: vec![node], until_us: 1000, ..History::default() };
        let span = (0, 1000);
        let style = Style::new(&history, span);
        let picture = Chart { history: &history, style: &style, span, events: false }.draw();
        let lent: Vec<&str> = picture.lines().filter(|line| line.contains("class=\"lent\"")).collect();
        let [lent] = lent[..] else { panic!("one path in {picture}") };
        assert!(lent.contains("M0.2 ") && lent.contains("h0.05v"), "at its time, as long as it was: {lent}");
        assert_eq!(lent.matches('M').count(), 1, "what is beyond the end is not drawn: {lent}");
        assert!(
            picture.contains("called in another one&#39;s turn")
                || picture.contains("called in another one's turn")
        );
    }

    #[test]
    fn timeline_axis_labels_stand_at_their_moments() {
        let submitted_us = 1_795_348_800_000_000;
        let job = Job { submitted_us, over_us: Some(submitted_us + 60_000_000), ..Job::default() };
        let mark = |us| Mark { us, job: Some(1), node: None, text: "ten seconds later".into(), fault: false };
        let history = History {
            jobs: [(1, job)].into(),
            nodes: vec![Node { name: "a".into(), ..Node::default() }],
            marks: vec![mark(submitted_us + 10_000_000)],
            until_us: submitted_us + 60_000_000,
            ..History::default()
        };
        let span = history.span(Some(1), None).unwrap();
        assert!(span.0 < submitted_us, "there is room before the job");
        let style = Style::new(&history, span);
        let picture = Chart { history: &history, style: &style, span, events: true }.draw();
        let ten = style.clock.ticks(span).into_iter().find(|tick| tick.0 == submitted_us + 10_000_000);
        let label = ten.expect("a tick at ten seconds").1;
        assert!(
            label.ends_with(":00:10") || label.ends_with(":30:10") || label.ends_with(":45:10"),
            "{label}"
        );
        let (at, _) = texts(&picture).into_iter().find(|(_, text)| *text == label).expect("its label");
        // Of the 62 s that are shown, eleven are before it.
        assert!((at - (LEFT + (RIGHT - LEFT) * 11.0 / 62.0)).abs() < 0.1, "{at}");
        let pole = format!("<line x1=\"{}\"", short(at));
        assert!(picture.matches(&pole).count() >= 2, "the event's pole and the axis are one line: {picture}");
    }
}
