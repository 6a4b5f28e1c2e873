//! Report on a measurement, printed and drawn.
//!
//! A table of parts has to add up, and medians do not: parts are the means of the fifth of the operations
//! whose T lies in the middle.

use serde_json::{Value, json};
use tutti_svg::{Anchor, COLOURS, GREY, INK, PALE, Svg, short};

use super::parts::{Operation, Shares, Side, Span, Stamp, What, operations};
use super::{Case, Kernel, Kind, Target};
use tutti_client::table::aligned;

/// Columns of a bar.
const COLUMNS: usize = 72;
/// Of the picture.
const WIDTH: f64 = 760.0;
const CASE_HEIGHT: f64 = 190.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 740.0;

/// A part of the table: time, and what of it is in system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    pub time_ns: f64,
    pub send_ns: f64,
    pub recv_ns: f64,
}

/// Results of a measurement.
#[derive(Clone, Debug)]
pub struct Report {
    /// With all stamps, and those that lack one.
    pub operations: usize,
    pub incomplete: usize,
    pub one_clock: bool,
    pub t: Part,
    /// Before and behind the work of a kernel that is another process.
    pub asks_ns: f64,
    pub given_ns: f64,
    pub ta: Part,
    pub tb: Part,
    pub tc: Part,
    /// T less those.
    pub rest_ns: f64,
    /// By the times of arrival, or half of the rest above Tb; and whether it was measured.
    pub td_ns: f64,
    pub td_measured: bool,
    pub shares: Shares,
    /// Of T with all stamps.
    pub p50_ns: f64,
    pub p99_ns: f64,
    /// Of T with two stamps.
    pub two_stamps_p50_ns: f64,
    /// Without stamps, the mean of a block.
    pub bare_ns: f64,
    pub stamp_ns: f64,
    /// The operation whose T is the median.
    pub typical: Vec<Span>,
    pub typical_ns: f64,
}

fn quantile(sorted: &[u64], of: f64) -> f64 {
    let at = ((sorted.len() as f64 * of) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |ns| *ns as f64)
}

impl Report {
    /// Of blocks by turns with all stamps, with those of the call, and with none. None if no operation is
    /// whole.
    pub fn of(
        blocks: &[[&[Stamp]; 2]],
        one_clock: bool,
        bare_ns: Option<f64>,
        stamp_ns: f64,
    ) -> Option<Self> {
        let (mut all, mut incomplete) = (Vec::new(), 0);
        for [a, b] in blocks.iter().step_by(3) {
            let (found, lacking) = operations(a, b, one_clock);
            all.extend(found);
            incomplete += lacking;
        }
        all.sort_by_key(|operation| operation.t_ns);
        let typical = all.get(all.len() / 2)?;
        let calls = blocks.iter().skip(1).step_by(3).flat_map(|[a, _]| a.chunks_exact(2));
        let mut two_stamps: Vec<u64> =
            calls.map(|pair| pair[1].begin_ns.saturating_sub(pair[0].begin_ns)).collect();
        two_stamps.sort_unstable();
        let times: Vec<u64> = all.iter().map(|operation| operation.t_ns).collect();

        let middle = &all[all.len() * 2 / 5..(all.len() * 3 / 5).max(all.len() * 2 / 5 + 1)];
        let mean = |of: &dyn Fn(&Operation) -> f64| middle.iter().map(of).sum::<f64>() / middle.len() as f64;
        let part = |time: fn(&Operation) -> u64, at: usize| Part {
            time_ns: mean(&|operation| time(operation) as f64),
            send_ns: mean(&|operation| operation.calls[at].send_ns as f64),
            recv_ns: mean(&|operation| operation.calls[at].recv_ns as f64),
        };
        let [ta, tb, tc] = [part(|one| one.ta_ns, 0), part(|one| one.tb_ns, 1), part(|one| one.tc_ns, 2)];
        let t = Part {
            time_ns: mean(&|one| one.t_ns as f64),
            send_ns: ta.send_ns + tb.send_ns + tc.send_ns,
            recv_ns: ta.recv_ns + tb.recv_ns + tc.recv_ns,
        };
        let rest_ns = mean(&|one| one.rest_ns() as f64);
        let td_measured = middle.iter().all(|one| one.td_ns.is_some());
        let td_ns =
            if td_measured { mean(&|one| one.td_ns.unwrap_or(0) as f64) } else { tb.time_ns + rest_ns / 2.0 };
        Some(Report {
            operations: all.len(),
            incomplete,
            one_clock,
            t,
            asks_ns: mean(&|one| one.asks_ns as f64),
            given_ns: mean(&|one| one.given_ns as f64),
            ta,
            tb,
            tc,
            rest_ns,
            td_ns,
            td_measured,
            shares: shares(middle),
            p50_ns: quantile(&times, 0.5),
            p99_ns: quantile(&times, 0.99),
            two_stamps_p50_ns: quantile(&two_stamps, 0.5),
            bare_ns: bare_ns.unwrap_or(0.0),
            stamp_ns,
            typical: typical.spans.clone(),
            typical_ns: typical.t_ns as f64,
        })
    }

    /// System calls, kernels and the way, library: parts of T in percent.
    fn percents(&self) -> [f64; 3] {
        let percent = |ns: f64| 100.0 * ns / self.t.time_ns.max(f64::MIN_POSITIVE);
        // What a process and its kernel take to reach each other is for the most part the system's.
        let (calls, between) = (self.shares.calls_ns(), self.shares.between_ns + self.shares.a_process_ns);
        [percent(calls), percent(between), percent(self.t.time_ns - calls - between)]
    }

    /// For people.
    pub fn text(&self, case: &Case) -> String {
        let is_inside = self.td_measured && self.td_ns == self.tb.time_ns;
        let us = |ns: f64| format!("{:.3}", ns / 1000.0);
        let row = |name: &str, part: Part, text: &str| {
            vec![name.to_owned(), us(part.time_ns), us(part.send_ns), us(part.recv_ns), text.to_owned()]
        };
        let plain = |name: &str, ns: f64, text: &str| {
            vec![name.to_owned(), us(ns), String::new(), String::new(), text.to_owned()]
        };
        let mut texts: [&str; 6] = if is_inside {
            [
                "the call",
                "until the memory of B has been found",
                "the work on it, by A itself",
                "until the call returns",
                "no message",
                "as Tb: there is no message",
            ]
        } else {
            [
                "the call",
                "A: until the request has been sent",
                "B: from taking the request in until the answer has been sent",
                "A: from taking the answer in until the call returns",
                "T - Ta - Tb - Tc: kernels and the way between; below 0: both sides work at once",
                if self.td_measured {
                    "from request to answer on the network, as the kernel saw them come"
                } else {
                    "from request to answer on the network: Tb and half of the rest (there are two clocks)"
                },
            ]
        };
        let is_apart = case.kernel == Some(Kernel::Apart);
        if is_apart {
            texts[1] = "A's kernel: from the question until the request has been sent, or the memory found";
            texts[3] = "A's kernel: from taking the answer in until the process has been answered";
        }
        let mut table = vec![
            ["us", "TIME", "SEND()", "RECV()", ""].map(str::to_owned).to_vec(),
            row("T", self.t, texts[0]),
            row("Ta", self.ta, texts[1]),
            row("Tb", self.tb, texts[2]),
            row("Tc", self.tc, texts[3]),
            plain("rest", self.rest_ns, texts[4]),
            plain("Td", self.td_ns, texts[5]),
        ];
        if is_apart {
            table.insert(2, plain("asks", self.asks_ns, "the call, until A's kernel has taken the question"));
            table.insert(6, plain("given", self.given_ns, "A's kernel has answered, until the call returns"));
        }
        let [calls, between, library] = self.percents();
        let mut text = format!("{}: {} operations", title(case), self.operations);
        if self.incomplete > 0 {
            text += &format!(", and {} that lack a stamp", self.incomplete);
        }
        text += &format!("\n\n{}\n", aligned(&table, &[false, true, true, true, false]));
        text += &self.bars();
        text += &format!(
            "\nsystem calls {calls:.0} %, kernels and the way between {between:.0} %, library {library:.0} % of T\n"
        );
        text += &format!(
            "T: median {} us, p99 {} us; with the stamps of the call alone {} us, without any {} us; a stamp costs {:.0} ns\n",
            us(self.p50_ns),
            us(self.p99_ns),
            us(self.two_stamps_p50_ns),
            us(self.bare_ns),
            self.stamp_ns
        );
        text
    }

    /// The operation of the median, a line for each rank.
    fn bars(&self) -> String {
        let width = self.typical_ns.max(1.0);
        let line = |side: Side| -> String {
            let letter = |column: usize| {
                let at = (column as f64 + 0.5) * width / COLUMNS as f64;
                let is_here = |span: &&Span| {
                    span.side == side && (span.begin_ns as f64) <= at && at < span.end_ns as f64
                };
                self.typical.iter().find(is_here).map_or('.', |span| letter_of(span.what))
            };
            (0..COLUMNS).map(letter).collect()
        };
        let guess = if self.one_clock { "" } else { "; B's place is a guess: it has another clock" };
        let process = if self.asks_ns > 0.0 { "p process and the way to its kernel, " } else { "" };
        format!(
            "A {}\nB {}\n  = library, s send(), r recv(), m memory, {process}. waits or does something else; {} us{guess}\n",
            line(Side::A),
            line(Side::B),
            short(width / 1000.0),
        )
    }

    fn as_json(&self, case: &Case) -> Value {
        let part =
            |part: Part| json!({ "ns": part.time_ns, "send_ns": part.send_ns, "recv_ns": part.recv_ns });
        let [calls, between, library] = self.percents();
        let shares: serde_json::Map<String, Value> =
            self.shares.named().iter().map(|(name, ns)| ((*name).to_owned(), json!(ns))).collect();
        json!({
            "operation": case.operation.word(),
            "bytes": case.bytes,
            "place": case.place.text(),
            "target": if case.target == Target::Computes { "computes" } else { "polls" },
            "operations": self.operations,
            "incomplete": self.incomplete,
            "one_clock": self.one_clock,
            "kernel": case.kernel.map(Kernel::word),
            "asks_ns": self.asks_ns, "given_ns": self.given_ns,
            "t": part(self.t), "ta": part(self.ta), "tb": part(self.tb), "tc": part(self.tc),
            "rest_ns": self.rest_ns,
            "td_ns": self.td_ns,
            "td_measured": self.td_measured,
            "shares_ns": shares,
            "system_calls_percent": calls, "between_percent": between, "library_percent": library,
            "t_p50_ns": self.p50_ns, "t_p99_ns": self.p99_ns,
            "t_two_stamps_p50_ns": self.two_stamps_p50_ns,
            "t_bare_ns": self.bare_ns,
            "stamp_ns": self.stamp_ns,
        })
    }
}

fn shares(operations: &[Operation]) -> Shares {
    let all: Vec<Shares> = operations.iter().map(Shares::of).collect();
    let mean = |of: fn(&Shares) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
    Shares {
        a_process_ns: mean(|one| one.a_process_ns),
        a_library_ns: mean(|one| one.a_library_ns),
        a_send_ns: mean(|one| one.a_send_ns),
        a_recv_ns: mean(|one| one.a_recv_ns),
        b_library_ns: mean(|one| one.b_library_ns),
        b_recv_ns: mean(|one| one.b_recv_ns),
        b_send_ns: mean(|one| one.b_send_ns),
        b_memory_ns: mean(|one| one.b_memory_ns),
        between_ns: mean(|one| one.between_ns),
    }
}

fn letter_of(what: What) -> char {
    match what {
        What::Library => '=',
        What::Send => 's',
        What::Receive => 'r',
        What::Memory => 'm',
        What::Process => 'p',
    }
}

fn title(case: &Case) -> String {
    let operation = match case.operation {
        Kind::FetchAdd => "fetch-add".to_owned(),
        kind => format!("{} of {} bytes", kind.word(), case.bytes),
    };
    let target = if case.target == Target::Computes { ", the target computes" } else { "" };
    let kernel = match case.kernel {
        None => "",
        Some(Kernel::One) => ", DSE with kernel and process in one",
        Some(Kernel::Apart) => ", DSE with kernel and process apart",
    };
    format!("{operation} {}{target}{kernel}", case.place.text())
}

/// For scripts.
pub fn as_json(reports: &[(Case, Report)]) -> Value {
    json!(reports.iter().map(|(case, report)| report.as_json(case)).collect::<Vec<_>>())
}

fn colour_of(what: What) -> &'static str {
    match what {
        What::Library => COLOURS[0],
        What::Send => COLOURS[1],
        What::Receive => COLOURS[2],
        What::Memory => COLOURS[3],
        What::Process => COLOURS[4],
    }
}

/// All measurements below one another: the two ranks of a typical operation, and whose time T is.
pub fn picture(reports: &[(Case, Report)]) -> String {
    let mut svg = Svg::new();
    let mut top = 0.0;
    for (case, report) in reports {
        draw(&mut svg, case, report, top);
        top += CASE_HEIGHT;
    }
    svg.finish(WIDTH, top)
}

fn draw(svg: &mut Svg, case: &Case, report: &Report, top: f64) {
    let small = "font-size=\"11\"";
    let bold = "font-size=\"14\" font-weight=\"bold\"";
    svg.text(10.0, top + 24.0, Anchor::Start, title(case), bold);
    let clock = if report.one_clock { "" } else { "; B's place is a guess: it has another clock" };
    let note = format!(
        "{} operations; above the one of the median{clock}, below whose time T is",
        report.operations
    );
    svg.text(10.0, top + 41.0, Anchor::Start, note, &format!("{small} style=\"fill:{GREY}\""));

    let width = report.typical_ns.max(1.0);
    let x = |ns: f64| LEFT + (RIGHT - LEFT) * (ns / width).clamp(0.0, 1.0);
    for (side, name, y) in [(Side::A, "A", top + 52.0), (Side::B, "B", top + 74.0)] {
        svg.text(LEFT - 10.0, y + 13.0, Anchor::End, name, "");
        svg.rect([LEFT, y, RIGHT - LEFT, 18.0], PALE, "");
        for span in report.typical.iter().filter(|span| span.side == side) {
            let (begin, end) = (x(span.begin_ns as f64), x(span.end_ns as f64));
            svg.rect([begin, y, end - begin, 18.0], colour_of(span.what), "");
        }
    }
    svg.text(RIGHT, top + 106.0, Anchor::End, format!("{} us", short(width / 1000.0)), small);

    svg.text(LEFT - 10.0, top + 130.0, Anchor::End, "T", "");
    let all = report.t.time_ns.max(f64::MIN_POSITIVE);
    let mut at = LEFT;
    for (name, ns) in report.shares.named() {
        let wide = (RIGHT - LEFT) * ns / all;
        let fill = match name.split_once(' ') {
            Some((_, "library")) => COLOURS[0],
            Some((_, "send()")) => COLOURS[1],
            Some((_, "recv()")) => COLOURS[2],
            Some((_, "memory")) => COLOURS[3],
            Some((_, "process")) => COLOURS[4],
            _ => PALE,
        };
        svg.rect([at, top + 117.0, wide, 18.0], fill, "stroke=\"white\" stroke-width=\"0.7\"");
        if wide > 46.0 {
            let text = format!("{} {:.0}%", name.split(' ').next().unwrap_or(name), 100.0 * ns / all);
            svg.text(at + wide / 2.0, top + 130.0, Anchor::Middle, text, "font-size=\"10\"");
        }
        at += wide;
    }
    let mut left = LEFT;
    for (name, fill) in [
        ("library", COLOURS[0]),
        ("send()", COLOURS[1]),
        ("recv()", COLOURS[2]),
        ("memory", COLOURS[3]),
        ("process", COLOURS[4]),
        ("kernels and the way between", PALE),
    ] {
        svg.rect([left, top + 147.0, 12.0, 12.0], fill, "");
        svg.text(left + 17.0, top + 157.0, Anchor::Start, name, small);
        left += 40.0 + 6.6 * name.len() as f64;
    }
    let [calls, ..] = report.percents();
    let text = format!("system calls {calls:.0} % of {} us", short(report.t.time_ns / 1000.0));
    svg.text(RIGHT, top + 157.0, Anchor::End, text, &format!("{small} style=\"fill:{INK}\""));
}
