//! Numbers for Prometheus, as OpenMetrics or in its older text format. No label grows with the number of
//! jobs.
//!
//! Gauges are of the last report. Counters and histograms count what the logs have said since this process
//! began.

use std::collections::BTreeMap;
use std::fmt::Write;

use tutti_client::report::{Report, User};
use tutti_client::states;
use tutti_os::stderr::escape_control;
use tutti_protocol::turns::{TurnBatch, TurnKind};

use crate::log::Event;

/// Users with a label of their own; the others are one.
const USERS_MAX: usize = 500;
/// Jobs whose submission is remembered until they start.
const WAITING_MAX: usize = 100_000;
/// Bounds of waits for nodes, in seconds.
const WAITS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0];
/// Bounds of steps of a switch, in seconds.
const STEPS: [f64; 10] = [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 0.25];

/// Counts below the bounds of a histogram.
#[derive(Debug)]
struct Histogram {
    bounds: [f64; 10],
    counts: [u64; 10],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn new(bounds: [f64; 10]) -> Self {
        Histogram { bounds, counts: [0; 10], count: 0, sum: 0.0 }
    }

    fn add(&mut self, value: f64) {
        for (count, bound) in self.counts.iter_mut().zip(self.bounds) {
            *count += u64::from(value <= bound);
        }
        self.count += 1;
        self.sum += value;
    }
}

/// Counters since this process began.
#[derive(Debug)]
pub struct Metrics {
    jobs: JobCounts,
    nodes: NodeCounts,
    waits: Histogram,
    freezes: Histogram,
    thaws: Histogram,
    /// When jobs were submitted that have not started yet, in ms.
    submitted_ms: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct JobCounts {
    submitted: u64,
    started: u64,
    /// By what became of them: well, with another status, without one.
    ended: [u64; 3],
}

#[derive(Debug, Default)]
struct NodeCounts {
    lost: u64,
    late: u64,
    switches: u64,
    turns_lost: u64,
}

/// Facts of this process itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// Bytes of the history.
    pub history_bytes: u64,
    /// Connections to the page.
    pub connections: usize,
}

/// Text format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Text,
}

impl Format {
    /// Format that the reader accepts.
    pub fn of_accept(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Format::OpenMetrics } else { Format::Text }
    }

    /// Type of the content.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            jobs: JobCounts::default(),
            nodes: NodeCounts::default(),
            waits: Histogram::new(WAITS),
            freezes: Histogram::new(STEPS),
            thaws: Histogram::new(STEPS),
            submitted_ms: BTreeMap::new(),
        }
    }
}

impl Metrics {
    /// Counts an event of the log.
    pub fn handle_event(&mut self, event: &Event) {
        match (event.event.as_str(), event.job) {
            ("submitted", Some(job)) => {
                self.jobs.submitted += 1;
                if self.submitted_ms.len() < WAITING_MAX {
                    self.submitted_ms.insert(job, event.ms);
                }
            }
            ("started", Some(job)) => {
                self.jobs.started += 1;
                if let Some(submitted_ms) = self.submitted_ms.remove(&job) {
                    self.waits.add(event.ms.saturating_sub(submitted_ms) as f64 / 1000.0);
                }
            }
            ("refused", Some(job)) => drop(self.submitted_ms.remove(&job)),
            ("over", Some(job)) => {
                self.submitted_ms.remove(&job);
                self.jobs.ended[match event.status {
                    Some(0) => 0,
                    Some(_) => 1,
                    None => 2,
                }] += 1;
            }
            ("node-lost", _) => self.nodes.lost += 1,
            ("node-late", _) => self.nodes.late += 1,
            _ => {}
        }
    }

    /// Counts the turns of a node.
    pub fn handle_turns(&mut self, batch: &TurnBatch) {
        self.nodes.turns_lost = self.nodes.turns_lost.saturating_add(batch.lost);
        for (kind, _, _, _, took_us) in &batch.turns {
            let took_s = *took_us as f64 / 1e6;
            match kind {
                TurnKind::Switch => self.nodes.switches += 1,
                TurnKind::Freeze => self.freezes.add(took_s),
                TurnKind::Thaw => self.thaws.add(took_s),
                _ => {}
            }
        }
    }

    /// Text of a scrape.
    pub fn text(&self, report: &Report, own: Own, format: Format) -> String {
        let mut page = Page { text: String::new(), format };
        page.gauge("tutti_up", "Whether a daemon has answered.", &[("", u64::from(report.daemon) as f64)]);
        self.gauges_of_nodes(&mut page, report);
        gauges_of_jobs(&mut page, report);
        gauges_of_users(&mut page, &report.users);
        let jobs = &self.jobs;
        page.counter("tutti_jobs_submitted", "Jobs submitted.", &[("", jobs.submitted)]);
        page.counter("tutti_jobs_started", "Jobs whose ranks have run.", &[("", jobs.started)]);
        let [well, failed, unknown] = jobs.ended;
        let results =
            [("{result=\"well\"}", well), ("{result=\"failed\"}", failed), ("{result=\"unknown\"}", unknown)];
        page.counter("tutti_jobs_ended", "Jobs that are over.", &results);
        page.counter("tutti_nodes_lost", "Nodes that were lost.", &[("", self.nodes.lost)]);
        page.counter("tutti_nodes_late", "Nodes that froze a job too late.", &[("", self.nodes.late)]);
        page.counter("tutti_switches", "Gang switches, counted on each node.", &[("", self.nodes.switches)]);
        let lost = "Turns of which there is no record.";
        page.counter("tutti_turns_lost", lost, &[("", self.nodes.turns_lost)]);
        page.histogram("tutti_job_wait_seconds", "Time from submission to the first turn.", &self.waits);
        page.histogram("tutti_freeze_seconds", "Time until the kernel reported a job frozen.", &self.freezes);
        page.histogram("tutti_thaw_seconds", "Time that it took to thaw a job.", &self.thaws);
        let history = "Size of the history's database.";
        page.gauge("tutti_history_bytes", history, &[("", own.history_bytes as f64)]);
        page.gauge("tutti_page_connections", "Connections to the page.", &[("", own.connections as f64)]);
        if format == Format::OpenMetrics {
            page.text.push_str("# EOF\n");
        }
        page.text
    }

    fn gauges_of_nodes(&self, page: &mut Page, report: &Report) {
        let count = |alive: bool| report.nodes.iter().filter(|node| node.is_alive() == alive).count() as f64;
        page.gauge(
            "tutti_nodes",
            "Nodes of the cluster.",
            &[("{state=\"up\"}", count(true)), ("{state=\"lost\"}", count(false))],
        );
        let alive = || report.nodes.iter().filter(|node| node.is_alive());
        let slots: u64 = alive().map(|node| u64::from(node.slots)).sum();
        page.gauge("tutti_slots", "Cores for ranks on nodes that are up.", &[("", slots as f64)]);
        let taken: usize = alive()
            .map(|node| {
                let taken: std::collections::BTreeSet<u32> =
                    node.cells.keys().map(|(_, slot)| *slot).collect();
                taken.len()
            })
            .sum();
        page.gauge("tutti_slots_taken", "Slots that jobs with turns have in any row.", &[("", taken as f64)]);
        page.gauge("tutti_rows", "Rows that take turns.", &[("", f64::from(report.row_count))]);
        let declared = alive().map(|node| node.declared_bytes).fold(0, u64::saturating_add);
        let memory = alive().map(|node| node.memory_bytes).fold(0, u64::saturating_add);
        page.gauge("tutti_memory_bytes", "Memory for jobs.", &[("", memory as f64)]);
        page.gauge(
            "tutti_memory_declared_bytes",
            "Memory that jobs have declared.",
            &[("", declared as f64)],
        );
    }
}

fn gauges_of_jobs(page: &mut Page, report: &Report) {
    let own = || report.jobs.iter().filter(|job| job.id.key.other.is_none());
    let labels: Vec<String> = states::WORDS.iter().map(|state| format!("{{state=\"{state}\"}}")).collect();
    let count = |state: &&str| own().filter(|job| job.state == *state).count() as f64;
    let values: Vec<(&str, f64)> =
        labels.iter().zip(&states::WORDS).map(|(label, state)| (label.as_str(), count(state))).collect();
    page.gauge("tutti_jobs", "Jobs that are not over.", &values[..states::WORDS.len() - 1]);
    let ranks = own().filter(|job| job.time.runs).map(|job| job.size.ranks).fold(0, u64::saturating_add);
    page.gauge("tutti_ranks", "Ranks of jobs that have nodes.", &[("", ranks as f64)]);
    let sent: u64 = own().filter_map(|job| job.place.sent.per_s).fold(0, u64::saturating_add);
    let help = "Messages of MPI that ranks of jobs send in a second.";
    page.gauge("tutti_messages_per_second", help, &[("", sent as f64)]);
    let since = own().filter(|job| !job.time.runs).map(|job| job.time.since_ms).min();
    let longest_ms = since.map_or(0, |since_ms| report.at_ms.saturating_sub(since_ms));
    let help = "Time for which the first of the waiting jobs has waited.";
    page.gauge("tutti_longest_wait_seconds", help, &[("", longest_ms as f64 / 1000.0)]);
}

fn gauges_of_users(page: &mut Page, users: &[User]) {
    let mut users: Vec<&User> = users.iter().collect();
    users.sort_by_key(|user| std::cmp::Reverse((user.count.ranks, user.count.waiting)));
    let (named, others) = users.split_at(users.len().min(USERS_MAX));
    let label = |name: &str| {
        let name = escape_control(name).replace('\\', "\\\\").replace('"', "\\\"");
        format!("{{user=\"{name}\"}}")
    };
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&User) -> f64| {
        let mut values: Vec<(String, f64)> = named.iter().map(|user| (label(&user.name), of(user))).collect();
        if !others.is_empty() {
            values.push(("{user=\"(other)\"}".into(), others.iter().map(|user| of(user)).sum()));
        }
        let values: Vec<(&str, f64)> = values.iter().map(|(label, value)| (label.as_str(), *value)).collect();
        page.gauge(name, help, &values);
    };
    gauge("tutti_user_jobs", "Jobs of a user that have nodes.", &|user| user.count.running as f64);
    gauge("tutti_user_waiting", "Jobs of a user that wait.", &|user| user.count.waiting as f64);
    gauge("tutti_user_ranks", "Ranks of a user.", &|user| user.count.ranks as f64);
    gauge("tutti_user_used_ratio", "Part of all use that is the user's.", &|user| {
        f64::from(user.used_ppm.unwrap_or(0)) / 1e6
    });
}

/// Text in the making.
struct Page {
    text: String,
    format: Format,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn gauge(&mut self, name: &str, help: &str, values: &[(&str, f64)]) {
        self.head(name, "gauge", help);
        for (label, value) in values {
            let _ = writeln!(self.text, "{name}{label} {value}");
        }
    }

    fn counter(&mut self, name: &str, help: &str, values: &[(&str, u64)]) {
        // Only in OpenMetrics a counter's family is called without its ending.
        match self.format {
            Format::OpenMetrics => self.head(name, "counter", help),
            Format::Text => self.head(&format!("{name}_total"), "counter", help),
        }
        for (label, value) in values {
            let _ = writeln!(self.text, "{name}_total{label} {value}");
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        for (bound, count) in histogram.bounds.iter().zip(histogram.counts) {
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{bound:?}\"}} {count}");
        }
        let _ = writeln!(self.text, "{name}_bucket{{le=\"+Inf\"}} {}", histogram.count);
        let _ = writeln!(self.text, "{name}_sum {}\n{name}_count {}", histogram.sum, histogram.count);
    }
}

#[cfg(test)]
mod tests {
    use tutti_client::filter::Filter;
    use tutti_client::report::Before;
    use tutti_testkit::Random;

    use super::*;
    use crate::samples;

    /// Numbers may be another user's daemon's, which says what it likes.
    #[test]
    fn metrics_of_rubbish_numbers_are_written() {
        let mut metrics = Metrics::default();
        for number in 0..400 {
            let mut random = Random::new(tutti_testkit::mix(tutti_testkit::seed().wrapping_add(number)));
            let answers = samples::with_rubbish_numbers(&samples::answers(14_000, [4000, 2000]), &mut random);
            let report = Report::new(&answers, &Before::default(), &Filter::default());
            let turns = vec![(TurnKind::Freeze, u64::MAX, u64::MAX, u64::MAX, u64::MAX)];
            metrics.handle_turns(&TurnBatch { turns, lost: u64::MAX, ..TurnBatch::default() });
            let text = metrics.text(&report, Own::default(), Format::OpenMetrics);
            assert!(text.ends_with("# EOF\n") && !text.contains("NaN"), "{text}");
        }
        assert_eq!(metrics.nodes.turns_lost, u64::MAX);
    }

    fn event(text: &str) -> Event {
        serde_json::from_str(text).expect("an event")
    }

    #[test]
    fn metrics_count_jobs_and_waits() {
        let mut metrics = Metrics::default();
        for line in [
            r#"{"ms":1000,"event":"submitted","job":1,"uid":7,"ranks":2,"text":"x"}"#,
            r#"{"ms":3000,"event":"started","job":1}"#,
            r#"{"ms":9000,"event":"over","job":1,"status":3}"#,
            r#"{"ms":9000,"event":"node-lost","nodes":["a"]}"#,
        ] {
            metrics.handle_event(&event(line));
        }
        let batch = TurnBatch {
            turns: vec![(TurnKind::Freeze, 0, 1, 1, 30), (TurnKind::Switch, 0, 1, 0, 0)],
            ..TurnBatch::default()
        };
        metrics.handle_turns(&batch);
        let text = metrics.text(&Report::default(), Own::default(), Format::OpenMetrics);
        for line in [
            "tutti_up 0",
            "tutti_jobs_submitted_total 1",
            "tutti_jobs_ended_total{result=\"failed\"} 1",
            "tutti_nodes_lost_total 1",
            "tutti_switches_total 1",
            "tutti_job_wait_seconds_bucket{le=\"1.0\"} 0",
            "tutti_job_wait_seconds_bucket{le=\"5.0\"} 1",
            "tutti_job_wait_seconds_sum 2",
            "tutti_freeze_seconds_bucket{le=\"5e-5\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let old = metrics.text(&Report::default(), Own::default(), Format::Text);
        assert!(old.contains("# TYPE tutti_switches_total counter\n") && !old.contains("# EOF"));
    }

    #[test]
    fn metrics_have_a_bound_of_users_and_escape_their_names() {
        let user = |uid: u32, name: &str| User {
            uid,
            name: name.into(),
            count: tutti_client::report::Count { ranks: u64::from(uid), ..Default::default() },
            standing: None,
            used_ppm: None,
            limits: Vec::new(),
        };
        let mut users: Vec<User> = (1..=600).map(|uid| user(uid, &format!("u{uid}"))).collect();
        users.push(user(9999, "a\"b\\c\nd\u{202e}"));
        let report = Report { users, ..Report::default() };
        let text = Metrics::default().text(&report, Own::default(), Format::OpenMetrics);
        assert_eq!(text.lines().filter(|line| line.starts_with("tutti_user_ranks{")).count(), USERS_MAX + 1);
        let rest: u64 = (1..=101).sum();
        assert!(text.contains(&format!("tutti_user_ranks{{user=\"(other)\"}} {rest}\n")), "{text}");
        assert!(text.contains(r#"{user="a\"b\\c\\nd\\u{202e}"} 9999"#), "{text}");
    }
}
