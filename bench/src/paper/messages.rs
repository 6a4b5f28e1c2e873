//! Messages of MPI between two ranks: tables 3 and 4 of MPI/MBCF, which are tables 4 and 5 of SSS-CORE, and
//! table 2 of SCore-D.

use super::{Paper, Row, Sheet};
use crate::{
    cases::{Case, Nodes, PLAIN},
    figures::{Line, median},
    mpis::Kind,
    sr,
};

/// Tables that have rows of peers.
pub const NAMES: [&str; 6] =
    ["score-d/table2", "mbcf/table3", "mbcf/table4", "mbcf/figure7", "sss/table4", "sss/table5"];

const TRIPS: [u64; 10] = [0, 4, 16, 64, 256, 1024, 4096, 65536, 262_144, 1_048_576];
const TRIPS_OF_PAPER: [(&str, [f64; 7]); 3] = [
    ("SR", [71.0, 85.0, 85.0, 106.0, 168.0, 438.0, 1026.0]),
    ("NSR", [112.0, 137.0, 139.0, 154.0, 223.0, 517.0, 1109.0]),
    ("MPICH over TCP", [968.0, 962.0, 980.0, 1020.0, 1080.0, 1255.0, 2195.0]),
];
const STREAMS: [u64; 10] = [4, 16, 64, 256, 1024, 4096, 16384, 65536, 262_144, 1_048_576];
const STREAMS_OF_PAPER: [(&str, [f64; 10]); 5] = [
    ("SR, half duplex", [0.14, 0.53, 1.82, 4.72, 8.08, 9.72, 10.15, 9.78, 9.96, 10.00]),
    ("NSR, half duplex", [0.14, 0.54, 1.89, 4.92, 8.54, 10.21, 10.34, 10.43, 10.02, 9.96]),
    ("SR, full duplex", [0.14, 0.57, 1.90, 5.33, 10.22, 11.68, 11.77, 11.85, 11.85, 11.86]),
    ("NSR, full duplex", [0.15, 0.59, 1.98, 5.51, 10.58, 11.70, 11.78, 11.81, 11.82, 11.82]),
    ("MPICH over TCP", [0.02, 0.09, 0.35, 1.27, 3.54, 6.04, 5.59, 7.00, 7.77, 7.07]),
];

/// A row of ours: its name, its MPI, whether the write protocol is off, where the ranks are.
type Way = (&'static str, Kind, bool, Nodes);

const WAYS: [Way; 6] = [
    ("SR, between nodes", Kind::Tutti, false, Nodes::Two),
    ("NSR, between nodes", Kind::Tutti, true, Nodes::Two),
    ("MPICH 5 over TCP", Kind::Mpich, false, Nodes::Two),
    ("SR, inside a node", Kind::Tutti, false, Nodes::One),
    ("NSR, inside a node", Kind::Tutti, true, Nodes::One),
    ("Open MPI 5, inside a node", Kind::OpenMpi, false, Nodes::One),
];

/// Table 3: round trips.
pub fn round_trip(paper: &Paper<'_>) -> Result<(), String> {
    let mut rows: Vec<Row> = TRIPS_OF_PAPER.iter().map(|(name, figures)| Row::paper(name, figures)).collect();
    rows.extend(measured(paper, &TRIPS, "what=rtt", "median_ns", 1e-3)?);
    if let Some(us) = paper.bare_network().round_trip_us {
        let figures = TRIPS.iter().map(|size| Some(us).filter(|_| *size == 4)).collect();
        rows.push(Row::here("limit: bare UDP", figures));
    }
    let note = format!("Both ranks have posted their receive; median. Nodes: {}.", paper.between());
    paper.show(&Sheet { title: "Round trip of MPI, us".into(), note, sizes: TRIPS.to_vec(), rows })
}

/// Table 4 and figure 7: bandwidth.
pub fn bandwidth(paper: &Paper<'_>) -> Result<(), String> {
    let mut rows: Vec<Row> =
        STREAMS_OF_PAPER.iter().map(|(name, figures)| Row::paper(name, figures)).collect();
    rows.extend(measured(paper, &STREAMS, "what=stream", "median_gbs", 1e3)?);
    if let Some(mb) = paper.bare_network().stream_mbs {
        let figures = STREAMS.iter().map(|size| Some(mb).filter(|_| *size == 1_048_576)).collect();
        rows.push(Row::here("limit: bare UDP", figures));
    }
    let note = format!("One rank sends, the other receives; median. Nodes: {}.", paper.between());
    paper.show(&Sheet { title: "Bandwidth of MPI, MB/s".into(), note, sizes: STREAMS.to_vec(), rows })
}

/// Table 2 of SCore-D: half a round trip of few bytes, and the bandwidth of long messages.
pub fn layer(paper: &Paper<'_>) -> Result<(), String> {
    let one = |args: &[&str], select: &str, key: &str| -> Result<Option<f64>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut figures = Vec::new();
        for _ in 0..paper.rounds {
            let lines = run(paper, WAYS[0], &args)?;
            figures.extend(lines.iter().filter(|line| line.matches(select)).filter_map(|l| l.figure(key)));
        }
        Ok(median(&figures))
    };
    let latency = one(&["--sizes", "4"], "what=rtt", "median_ns")?.map(|ns| ns / 2e3);
    let stream = one(&["--sizes", "1048576", "--stream"], "what=stream", "median_gbs")?.map(|gbs| gbs * 1e3);
    let limit = paper.bare_network();
    let cell = |figure: Option<f64>| figure.map_or_else(|| "-".into(), crate::table::number);
    println!("### Latency and bandwidth between two nodes ({})\n", paper.between());
    println!("| | latency, us | bandwidth, MB/s |\n|---|---|---|");
    println!("| paper: PM on Myrinet | 7.2 | 117.6 |");
    println!("| messages of MPI, 4 B and 1 MiB | {} | {} |", cell(latency), cell(stream));
    let half = limit.round_trip_us.map(|us| us / 2.0);
    println!("| limit: bare UDP | {} | {} |", cell(half), cell(limit.stream_mbs));
    Ok(())
}

/// A row for each way, over the sizes: the median over the rounds.
fn measured(paper: &Paper<'_>, sizes: &[u64], what: &str, key: &str, scale: f64) -> Result<Vec<Row>, String> {
    let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let budget_ms = if paper.quick { "10" } else { "50" };
    let mut args = vec!["--sizes".to_owned(), list.join(","), "--budget-ms".into(), budget_ms.into()];
    if what == "what=stream" {
        args.push("--stream".into());
    }
    let is_there =
        |way: &&Way| paper.kinds.contains(&way.1) && (way.1 != Kind::Mpich || paper.has_namespaces());
    let ways: Vec<Way> = WAYS.iter().filter(is_there).copied().collect();
    let mut found: Vec<Vec<Line>> = vec![Vec::new(); ways.len()];
    for round in 0..paper.rounds {
        for (&way, lines) in ways.iter().zip(&mut found) {
            eprint!("\rbench: {}: round {} of {}: {}\x1b[K", paper.name, round + 1, paper.rounds, way.0);
            lines.extend(run(paper, way, &args)?);
        }
    }
    let row = |(way, lines): (&Way, &Vec<Line>)| {
        let figure = |size: &u64| {
            let select = format!("{what} bytes={size}");
            let lines = lines.iter().filter(|line| line.matches(&select));
            median(&lines.filter_map(|line| line.figure(key)).collect::<Vec<_>>()).map(|value| value * scale)
        };
        Row::here(way.0, sizes.iter().map(figure).collect())
    };
    Ok(ways.iter().zip(&found).map(row).collect())
}

fn run(paper: &Paper<'_>, (_, kind, off, nodes): Way, args: &[String]) -> Result<Vec<Line>, String> {
    let case = Case { id: "sr", program: "sr", nodes, ..PLAIN };
    if nodes == Nodes::One || paper.has_namespaces() {
        return sr::one(paper.places, &case, kind, off, args);
    }
    let mut command = paper.ours("mpiexec");
    command.args(paper.two_nodes()).arg(paper.places.programs(kind).join("sr")).args(args);
    command.env("TUTTI_WRITE_PROTOCOL", if off { "off" } else { "on" });
    paper.lines(&mut command, case.limit())
}
