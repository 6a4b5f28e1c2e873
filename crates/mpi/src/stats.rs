//! Counters of the ranks of a job, as a table at its end: `TUTTI_STATS=1`, or `TUTTI_STATS=json` for
//! scripts.
//!
//! Every rank leaves its counters in its report in the segment when it leaves the job, then counts itself;
//! the last one of the node prints the table. So nothing waits and no message is sent for it. A job whose
//! ranks do not all leave has no table.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::engine::{Counters, Engine};
use tutti_rma::wire::Refusal;
use tutti_runtime::job::Job;
use tutti_runtime::net::Traffic;
use tutti_runtime::rank::Rank;
use tutti_runtime::wrong::{self, Wrong};
use tutti_shm::sync::Ordering;

/// A counter: its name (as a performance variable and in JSON), head of its column, meaning, category, and
/// where it stands.
#[derive(Debug)]
pub struct Counter {
    /// Name.
    pub name: &'static str,
    /// Head of the column in the table.
    pub head: &'static str,
    /// Description of what is counted.
    pub meaning: &'static str,
    /// The category it belongs to, by name.
    pub category: &'static str,
    /// Value of the counter.
    pub value: fn(&Counters) -> u64,
}

/// All counters, in the order of the columns.
pub const COUNTERS: [Counter; 13] = [
    Counter {
        name: "messages_sent",
        head: "messages",
        meaning: "messages sent, those of collective operations included",
        category: "tutti.messages",
        value: |counters| counters.messages,
    },
    Counter {
        name: "bytes_sent",
        head: "bytes",
        meaning: "bytes of data sent in messages, without headers",
        category: "tutti.messages",
        value: |counters| counters.bytes,
    },
    Counter {
        name: "eager",
        head: "eager",
        meaning: "messages sent whole inside the envelope ring",
        category: "tutti.messages",
        value: |counters| counters.eager,
    },
    Counter {
        name: "streamed",
        head: "streamed",
        meaning: "messages sent through the bulk ring without asking",
        category: "tutti.messages",
        value: |counters| counters.streamed,
    },
    Counter {
        name: "announced",
        head: "announced",
        meaning: "messages announced, fetched when their receive is there",
        category: "tutti.messages",
        value: |counters| counters.rendezvous,
    },
    Counter {
        name: "written",
        head: "written",
        meaning: "messages written to receives that were told to this rank",
        category: "tutti.messages",
        value: |counters| counters.remote_write,
    },
    Counter {
        name: "written_bytes",
        head: "written bytes",
        meaning: "bytes of data in those messages",
        category: "tutti.messages",
        value: |counters| counters.written_bytes,
    },
    Counter {
        name: "told",
        head: "told",
        meaning: "receives told to their senders",
        category: "tutti.messages",
        value: |counters| counters.rtr,
    },
    Counter {
        name: "stale",
        head: "stale",
        meaning: "advertised receives that a message of this rank had crossed",
        category: "tutti.messages",
        value: |counters| counters.stale,
    },
    Counter {
        name: "unexpected",
        head: "unexpected",
        meaning: "messages that arrived before their receive (crossing)",
        category: "tutti.messages",
        value: |counters| counters.unexpected,
    },
    Counter {
        name: "remote_bytes",
        head: "remote bytes",
        meaning: "bytes moved by one copy between the memories of two ranks",
        category: "tutti.messages",
        value: |counters| counters.copied_bytes,
    },
    Counter {
        name: "thaws",
        head: "thaws",
        meaning: "times that the job was thawed on this rank's node: for its turn, or by its user",
        category: "tutti.turns",
        value: |counters| counters.thaws,
    },
    Counter {
        name: "frozen_us",
        head: "frozen us",
        meaning: "microseconds that the job has stood still on this rank's node since its start",
        category: "tutti.turns",
        value: |counters| counters.frozen_us,
    },
];
/// Where the bytes sent stand in [`COUNTERS`].
const BYTES: usize = 1;
/// Where the bytes that were written to receives that came first stand.
const WRITTEN_BYTES: usize = 6;
/// Where the bytes that went by remote copies stand.
const REMOTE_BYTES: usize = 10;

/// When this process entered its job.
static STARTED: OnceLock<Instant> = OnceLock::new();

/// Form in which the user wants the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Table,
    Json,
}

/// The clock of the rates starts.
pub fn start() {
    STARTED.get_or_init(Instant::now);
}

/// Leaves this rank's counters; prints all when it is the last of its node.
pub fn leave(engine: &Engine, rank: &Rank) {
    // A process that has come back for a session leaves once more.
    static LEFT: AtomicBool = AtomicBool::new(false);
    if LEFT.swap(true, Ordering::Relaxed) {
        return;
    }
    let job = &engine.job;
    let form = wanted(job.rank() == job.local_ranks().first());
    if let (Some(form), Some(traffic)) = (form, engine.traffic()) {
        // One write, as below.
        let _ =
            std::io::stderr().write_all(network_line(form, job.rank(), &traffic, &refused(rank)).as_bytes());
    }
    let nanoseconds = STARTED.get().map_or(0, |start| start.elapsed().as_nanos() as u64);
    let counted = engine.counted();
    let mut values: Vec<u64> = COUNTERS.iter().map(|counter| (counter.value)(&counted)).collect();
    values.push(nanoseconds);
    job.report(job.rank()).leave_counters(&values);
    let ranks = job.present_ranks();
    // The counters of all are seen by whoever counts last.
    let before = job.report(ranks.first()).left.fetch_add(1, Ordering::AcqRel) as usize;
    if before + 1 == ranks.len()
        && let Some(form) = form
    {
        print(form, job);
    }
}

/// Form that the environment asks for; one rank of a node complains of what it does not understand.
fn wanted(complains: bool) -> Option<Form> {
    let text = std::env::var_os("TUTTI_STATS")?;
    match text.to_str() {
        Some("" | "0" | "off" | "no") => None,
        Some("json") => Some(Form::Json),
        Some("1" | "on" | "yes" | "table") => Some(Form::Table),
        _ if !complains => None,
        _ => {
            let text = text.to_string_lossy();
            tutti_runtime::log::line(format_args!("TUTTI_STATS is \"{text}\", expected 1, json or 0"));
            None
        }
    }
}

fn print(form: Form, job: &Job) {
    let rows: Vec<Row> = job
        .present_ranks()
        .iter()
        .map(|rank| {
            let mut values = job.report(rank).counters(COUNTERS.len() + 1);
            let seconds = values.pop().unwrap_or(0) as f64 * 1e-9;
            Row { rank, values, seconds }
        })
        .collect();
    let text = match form {
        Form::Table => table(&rows),
        Form::Json => json(&rows),
    };
    // One write, so that lines of other ranks do not come in between. Nobody is there to tell when it fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Reasons, and how many operations of others on memory of this rank were refused for each.
type Refused = Vec<(Refusal, u64)>;

fn refused(rank: &Rank) -> Refused {
    // That a rank has left is no answer of a target.
    let reasons = Refusal::ALL.into_iter().filter(|reason| *reason != Refusal::Gone);
    reasons.map(|reason| (reason, rank.refused_for(reason))).collect()
}

/// Reasons, and how many records were left out for each.
fn wrong_records() -> Vec<(Wrong, u64)> {
    Wrong::ALL.into_iter().map(|reason| (reason, wrong::counted(reason))).collect()
}

/// Line about the datagrams of one rank, and the operations and records that were refused.
fn network_line(form: Form, rank: usize, traffic: &Traffic, refused_here: &Refused) -> String {
    let Traffic { out, taken, refused, unknown_senders, dropped, probes, forged, duplicates, gaps, made } =
        traffic;
    let reasons = |separator: &str, of: fn(&(Refusal, u64)) -> String| {
        refused_here.iter().map(of).collect::<Vec<_>>().join(separator)
    };
    let sum: u64 = refused_here.iter().map(|(_, count)| count).sum();
    let operations = if sum == 0 {
        String::new()
    } else {
        let reasons = reasons(", ", |(reason, count)| format!("{} {count}", reason.name()));
        format!("tutti: rank {rank}: {sum} operations on its memory refused: {reasons}\n")
    };
    let wrong = wrong_records();
    let wrong_by = |separator: &str, of: fn(&(Wrong, u64)) -> String| {
        wrong.iter().map(of).collect::<Vec<_>>().join(separator)
    };
    let sum: u64 = wrong.iter().map(|(_, count)| count).sum();
    let records = if sum == 0 {
        String::new()
    } else {
        let reasons = wrong_by(", ", |(reason, count)| format!("{} {count}", reason.name()));
        format!("tutti: rank {rank}: {sum} wrong records left out: {reasons}\n")
    };
    match form {
        Form::Table => format!(
            "tutti: rank {rank}: {out} datagrams sent, {taken} taken, {refused} refused, {unknown_senders} from strangers, {dropped} \
             dropped by the kernel, {probes} after a silence\n{operations}{records}"
        ),
        Form::Json => format!(
            "{{\"rank\":{rank},\"datagrams\":{{\"sent\":{out},\"taken\":{taken},\"refused\":{refused},\
             \"strangers\":{unknown_senders},\"dropped\":{dropped},\"probes\":{probes},\"forged\":{forged},\
             \"duplicates\":{duplicates},\"gaps\":{gaps},\
             \"made\":{{\"lost\":{},\"doubled\":{},\"late\":{}}}}},\"refused_operations\":{{{}}},\"wrong_records\":{{{}}}}}\n",
            made.lost,
            made.doubled,
            made.late,
            reasons(",", |(reason, count)| format!("\"{}\":{count}", reason.name())),
            wrong_by(",", |(reason, count)| format!("\"{}\":{count}", reason.name())),
        ),
    }
}

/// Counts that one rank has left.
#[derive(Debug)]
struct Row {
    rank: usize,
    values: Vec<u64>,
    seconds: f64,
}

/// Sums over all ranks and the rates of the job.
struct Total {
    values: Vec<u64>,
    seconds: f64,
    messages_per_s: f64,
    bytes_per_s: f64,
    /// The paper's share of remote write (table 5).
    written_percent: f64,
    remote_percent: f64,
}

impl Total {
    fn of(rows: &[Row]) -> Self {
        let sum = |column: usize| rows.iter().map(|row| row.values[column]).sum::<u64>();
        let values: Vec<u64> = (0..COUNTERS.len()).map(sum).collect();
        let seconds = rows.iter().map(|row| row.seconds).fold(0.0, f64::max);
        let per_s = |value: u64| if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
        let percent = |value: u64| 100.0 * value as f64 / values[BYTES].max(1) as f64;
        Total {
            seconds,
            messages_per_s: per_s(values[0]),
            bytes_per_s: per_s(values[BYTES]),
            written_percent: percent(values[WRITTEN_BYTES]),
            remote_percent: percent(values[REMOTE_BYTES]),
            values,
        }
    }
}

fn table(rows: &[Row]) -> String {
    let total = Total::of(rows);
    let widths: Vec<usize> = COUNTERS
        .iter()
        .zip(&total.values)
        .map(|(counter, value)| counter.head.len().max(value.to_string().len()) + 2)
        .collect();
    let line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells = cells.zip(&widths).fold(String::new(), |mut line, (cell, &width)| {
            let _ = write!(line, "{cell:>width$}");
            line
        });
        format!("{first:>6}{cells}\n")
    };
    let mut text =
        format!("tutti: what {} ranks have sent and received in {:.3} s\n", rows.len(), total.seconds);
    text += &line("rank", &mut COUNTERS.iter().map(|counter| counter.head.to_string()));
    for row in rows {
        text += &line(&row.rank.to_string(), &mut row.values.iter().map(u64::to_string));
    }
    text += &line("sum", &mut total.values.iter().map(u64::to_string));
    let _ = writeln!(
        text,
        "  {:.4} MB/s, {:.1} messages/s, {:.2} % of the bytes written to receives that came first, {:.2} % by one \
         copy between two memories",
        total.bytes_per_s / 1e6,
        total.messages_per_s,
        total.written_percent,
        total.remote_percent
    );
    text
}

fn json(rows: &[Row]) -> String {
    let total = Total::of(rows);
    let fields = |values: &[u64]| {
        let fields = COUNTERS.iter().zip(values);
        fields.map(|(counter, value)| format!("\"{}\":{value}", counter.name)).collect::<Vec<_>>().join(",")
    };
    let ranks: Vec<String> = rows
        .iter()
        .map(|row| {
            format!("{{\"rank\":{},{},\"seconds\":{:.6}}}", row.rank, fields(&row.values), row.seconds)
        })
        .collect();
    format!(
        "{{\"ranks\":[{}],\"sum\":{{{}}},\"seconds\":{:.6},\"messages_per_s\":{:.3},\"bytes_per_s\":{:.3},\"written_percent\":{:.3},\"remote_percent\":{:.3}}}\n",
        ranks.join(","),
        fields(&total.values),
        total.seconds,
        total.messages_per_s,
        total.bytes_per_s,
        total.written_percent,
        total.remote_percent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row =
            |rank, values: [u64; COUNTERS.len()], seconds| Row { rank, values: values.to_vec(), seconds };
        vec![
            row(0, [10, 4000, 9, 0, 1, 3, 2800, 4, 5, 2, 0, 3, 250], 2.0),
            row(1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000, 3, 251], 1.5),
        ]
    }

    #[test]
    fn stats_table_has_a_line_per_rank_and_the_sum() {
        let text = table(&rows());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tutti: what 2 ranks have sent and received in 2.000 s");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["0", "10", "4000", "9", "0", "1", "3", "2800", "4", "5", "2", "0", "3", "250"]
        );
        assert_eq!(lines[4].split_whitespace().next(), Some("sum"));
        assert!(lines[1..5].iter().all(|line| line.len() == lines[1].len()), "{text}");
        assert_eq!(
            lines[5],
            "  0.0020 MB/s, 5.0 messages/s, 70.00 % of the bytes written to receives that came first, 25.00 % by one \
             copy between two memories"
        );
    }

    #[test]
    fn stats_json_is_one_line() {
        let text = json(&rows());
        assert!(
            text.starts_with("{\"ranks\":[{\"rank\":0,\"messages_sent\":10,\"bytes_sent\":4000,"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "\"bytes_per_s\":2000.000,\"written_percent\":70.000,\"remote_percent\":25.000}\n"
            ),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
}
