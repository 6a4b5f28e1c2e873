//! Remote memory between two nodes: tables 1 and 2 of MPI/MBCF, which are tables 3 and 2 of SSS-CORE, and its
//! figure 4 beside sockets; and memory from the system: table 1 of SSS-CORE.

use std::time::Duration;

use super::{Paper, Row, Sheet};
use crate::{
    figures::{Line, median},
    mpis::{self, Kind},
};

const LATENCY: [u64; 5] = [4, 16, 64, 256, 1024];
const LATENCY_OF_PAPER: [(&str, [f64; 5]); 3] = [
    ("MBCF_WRITE", [24.5, 27.5, 34.0, 60.5, 172.0]),
    ("MBCF_FIFO", [32.0, 32.0, 40.5, 73.0, 210.5]),
    ("MBCF_SIGNAL", [49.0, 52.5, 60.5, 93.0, 227.5]),
];
const STREAM: [u64; 6] = [4, 16, 64, 256, 1024, 1408];
const STREAM_OF_PAPER: [(&str, [f64; 6]); 4] = [
    ("MBCF_WRITE, half duplex", [0.31, 1.15, 4.31, 8.56, 11.13, 11.48]),
    ("MBCF_FIFO, half duplex", [0.31, 1.14, 4.30, 8.53, 11.13, 11.45]),
    ("MBCF_WRITE, full duplex", [0.34, 1.27, 4.82, 9.63, 11.64, 11.93]),
    ("MBCF_FIFO, full duplex", [0.34, 1.26, 4.80, 9.62, 11.64, 11.93]),
];
const LIMIT: Duration = Duration::from_secs(120);

/// One way, in us. A write's is half of the time to its acknowledgement; a queue's ends when its message is
/// taken, a signal's when its function runs.
pub fn latency(paper: &Paper<'_>) -> Result<(), String> {
    let mut rows: Vec<Row> =
        LATENCY_OF_PAPER.iter().map(|(name, figures)| Row::paper(name, figures)).collect();
    let lines = measured(paper, &[])?;
    for (name, op, key, scale) in [
        ("write, acknowledged, / 2", "write", "done_ns", 0.5e-3),
        ("queue, taken", "queue", "there_ns", 1e-3),
        ("signal, function runs", "signal", "there_ns", 1e-3),
    ] {
        // The message holds the moment at which it left: 8 bytes are the shortest.
        let of = |size: &u64| figure(&lines, &format!("op={op} bytes={}", size.max(&8)), key, scale);
        rows.push(Row::here(name, LATENCY.iter().map(of).collect()));
    }
    if let Some(us) = paper.bare_network().round_trip_us {
        let figures = LATENCY.iter().map(|size| Some(us / 2.0).filter(|_| *size == 4)).collect();
        rows.push(Row::here("limit: bare UDP, a round trip / 2", figures));
    }
    let note = format!("Median; 8 bytes stand for 4. Nodes: {}.", paper.between());
    let title = "Remote memory, one way, us".into();
    paper.show(&Sheet { title, note, sizes: LATENCY.to_vec(), rows })
}

/// Operations one after the other, and one wait for all of them, in MB/s.
pub fn bandwidth(paper: &Paper<'_>) -> Result<(), String> {
    let mut rows: Vec<Row> =
        STREAM_OF_PAPER.iter().map(|(name, figures)| Row::paper(name, figures)).collect();
    let lines = measured(paper, &["--stream"])?;
    for (name, op) in [("write", "write"), ("queue", "queue")] {
        let of = |size: &u64| figure(&lines, &format!("stream={op} bytes={size}"), "median_gbs", 1e3);
        rows.push(Row::here(name, STREAM.iter().map(of).collect()));
    }
    if let Some(mb) = paper.bare_network().stream_mbs {
        let figures = STREAM.iter().map(|size| Some(mb).filter(|_| *size == 1408)).collect();
        rows.push(Row::here("limit: bare UDP in runs of full datagrams", figures));
    }
    let note = format!("2,000 operations, then one fence; median. Nodes: {}.", paper.between());
    let title = "Remote memory, bandwidth, MB/s".into();
    paper.show(&Sheet { title, note, sizes: STREAM.to_vec(), rows })
}

/// Figure 4: a round trip by queues, beside one by sockets.
pub fn sockets(paper: &Paper<'_>) -> Result<(), String> {
    mpis::compile_with(paper.places, Kind::Tutti, "bench/c/sockets.c", &[])?;
    let native = measured(paper, &[])?;
    let sizes: Vec<String> = LATENCY.iter().map(u64::to_string).collect();
    let mut lines = Vec::new();
    for _ in 0..paper.rounds {
        let mut command = paper.ours("mpiexec");
        command.args(paper.two_nodes()).arg(paper.places.programs(Kind::Tutti).join("sockets"));
        command.args(["--sizes", &sizes.join(","), "--budget-ms", if paper.quick { "10" } else { "50" }]);
        lines.extend(paper.lines(&mut command, LIMIT)?);
    }
    let queue = |size: &u64| figure(&native, &format!("op=queue bytes={}", size.max(&8)), "there_ns", 2e-3);
    let of = |what: &str| {
        let figures = |size: &u64| figure(&lines, &format!("what={what} bytes={size}"), "median_ns", 1e-3);
        LATENCY.iter().map(figures).collect()
    };
    let doubled: Vec<f64> = LATENCY_OF_PAPER[1].1.iter().map(|us| 2.0 * us).collect();
    let rows = vec![
        Row::paper("MBCF_FIFO, twice one way", &doubled),
        Row::here("queue, twice one way", LATENCY.iter().map(queue).collect()),
        Row::here("TCP with TCP_NODELAY", of("tcp")),
        Row::here("UDP with nothing above it", of("udp")),
    ];
    let note = format!("Median; 8 bytes stand for 4 in queues. Nodes: {}.", paper.between());
    println!("The paper's plot: to 64 B a round trip takes less than a tenth of one by TCP or by UDP with a");
    println!("reliable protocol above it; ours is itself such a protocol.\n");
    paper.show(&Sheet { title: "Round trip, us".into(), note, sizes: LATENCY.to_vec(), rows })
}

/// Table 1 of SSS-CORE: memory from the system and back.
pub fn pages(paper: &Paper<'_>) -> Result<(), String> {
    const SIZES: [u64; 5] = [4096, 16384, 65536, 262_144, 1_048_576];
    mpis::compile_with(paper.places, Kind::Tutti, "bench/c/pages.c", &["-ltutti"])?;
    let mut lines = Vec::new();
    for _ in 0..paper.rounds {
        let mut command = paper.ours("mpiexec");
        command.args(["-n", "1"]).arg(paper.places.programs(Kind::Tutti).join("pages"));
        lines.extend(paper.lines(&mut command, LIMIT)?);
    }
    let mut rows = vec![
        Row::paper("alloc", &[23.91, 28.91, 48.77, 123.2, 431.2]),
        Row::paper("free", &[19.49, 20.36, 23.91, 36.23, 99.06]),
        Row::paper("sbrk of SunOS", &[133.2, 375.8, 894.3, 1828.0, 2020.0]),
    ];
    for (name, what) in [("tutti_alloc", "tutti"), ("limit: mmap", "mmap"), ("limit: sbrk", "sbrk")] {
        for (kind, key) in [("", "alloc_ns"), (" and back", "free_ns")] {
            let of = |size: &u64| figure(&lines, &format!("what={what} bytes={size}"), key, 1e-3);
            rows.push(Row::here(&format!("{name}{kind}"), SIZES.iter().map(of).collect()));
        }
    }
    let note = "Each page is written once; median. No call of ours takes attributes or several page sizes.";
    let title = "Memory from the system, us".into();
    paper.show(&Sheet { title, note: note.into(), sizes: SIZES.to_vec(), rows })
}

/// The lines of bench/c/native.c of all rounds.
fn measured(paper: &Paper<'_>, more: &[&str]) -> Result<Vec<Line>, String> {
    mpis::compile_with(paper.places, Kind::Tutti, "bench/c/native.c", &["-ltutti"])?;
    let budget_ms = if paper.quick { "10" } else { "50" };
    let mut lines = Vec::new();
    for round in 0..paper.rounds {
        eprint!("\rbench: {}: round {} of {}\x1b[K", paper.name, round + 1, paper.rounds);
        let mut command = paper.ours("mpiexec");
        command.args(paper.two_nodes()).arg(paper.places.programs(Kind::Tutti).join("native"));
        command.args(["--budget-ms", budget_ms]).args(more);
        lines.extend(paper.lines(&mut command, LIMIT)?);
    }
    Ok(lines)
}

fn figure(lines: &[Line], select: &str, key: &str, scale: f64) -> Option<f64> {
    let lines = lines.iter().filter(|line| line.matches(select));
    median(&lines.filter_map(|line| line.figure(key)).collect::<Vec<_>>()).map(|value| value * scale)
}
