//! `tutti simulate`: what a policy makes of a workload, played on the scheduler's own code.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use tutti_os::stderr::{escape_control, print_line};
use tutti_sched::Policy;
use tutti_sched::replay::{self, Discipline, Job, Outcome, Report};
use tutti_svg::plot::{Bar, Bars, bars};

use crate::{file, stdout};

mod lublin;
mod swf;

/// A shorter job counts as one of so many seconds for its slowdown.
const BOUND_S: f64 = 10.0;

/// Options of `tutti simulate`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// A workload log in the Standard Workload Format
    #[arg(long, value_name = "FILE", conflicts_with = "lublin")]
    swf: Option<PathBuf>,
    /// So many jobs after the model of Lublin and Feitelson
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lublin: Option<u32>,
    /// Nodes of one slot each
    #[arg(long, short = 'N', value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    nodes: u32,
    /// Policies, with commas between them: fifo, easy, matrix, dqt, matrix+fill
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "fifo,easy,matrix,dqt", value_parser = policy)]
    policy: Vec<(&'static str, Named)>,
    /// How long a row runs, in ms (5 to 3600000)
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(5..=3_600_000))]
    slice: u64,
    /// With --lublin: the part of the nodes' time that is asked for, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=1000))]
    load: u32,
    /// Another number is another workload (--lublin), and other idle shares (matrix+fill)
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// With matrix+fill: what a job leaves of its slots in the mean, in percent, where a log does not say it
    #[arg(long, value_name = "PERCENT", default_value_t = 15, value_parser = clap::value_parser!(u32).range(0..=50))]
    idle: u32,
    /// A picture of the slowdowns, as SVG
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For scripts
    #[arg(long)]
    json: bool,
}

/// How jobs are placed.
pub type Named = Discipline;

fn policy(text: &str) -> Result<(&'static str, Named), String> {
    Ok(match text {
        "fifo" => ("fifo", Discipline::Fifo),
        "easy" => ("easy", Discipline::Easy),
        "matrix" => ("matrix", Discipline::Turns(Policy::RoundRobin)),
        "dqt" => ("dqt", Discipline::Turns(Policy::Dqt)),
        "matrix+fill" => ("matrix+fill", Discipline::Filling(Policy::RoundRobin)),
        _ => return Err("a policy is fifo, easy, matrix, dqt or matrix+fill".into()),
    })
}

/// Results of a policy.
struct Row {
    name: &'static str,
    jobs: usize,
    response_mean_s: f64,
    response_median_s: f64,
    slowdown_mean: f64,
    slowdown_median: f64,
    utilisation: f64,
    lost: f64,
    switches: u64,
    rows: usize,
    makespan_s: f64,
    took_s: f64,
}

/// Runs it.
///
/// # Errors
/// When the log cannot be read, or the picture not be written; a text for the user.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let (mut jobs, idle_known, mut notes) = workload(options)?;
    let wide = jobs.iter().filter(|job| job.nodes > options.nodes).count();
    if wide > 0 {
        notes.push(format!("{wide} jobs are wider than {} nodes and left out", options.nodes));
    }
    if jobs.len() == wide {
        notes.iter().for_each(|note| print_line(format_args!("{}", escape_control(note))));
        return Err("there is no job to simulate".into());
    }
    notes.push("nodes have one slot, a switch costs nothing, no job sleeps, all jobs are one user's".into());
    if options.policy.iter().any(|(_, discipline)| matches!(discipline, Discipline::Filling(_))) {
        notes.extend(draw_idle(&mut jobs, &idle_known, options));
    }
    let rows: Vec<Row> =
        options.policy.iter().map(|(name, discipline)| row(name, *discipline, &jobs, options)).collect();
    if let Some(path) = &options.output {
        let picture = picture(&rows, options);
        file::write(path, picture.as_bytes())?;
    }
    if options.json {
        let value = json!({
            "nodes": options.nodes,
            "jobs": jobs.len() - wide,
            "slice_ms": options.slice,
            "assumptions": notes,
            "policies": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        return Ok(stdout::print(Some(format!("{value:#}\n")), ""));
    }
    let mut text: String = notes.iter().map(|note| format!("# {}\n", escape_control(note))).collect();
    text.push_str(&table(&rows));
    Ok(stdout::print(Some(text), ""))
}

/// Draws what jobs leave of their slots, where the log does not say it; gives what is assumed of filling.
fn draw_idle(jobs: &mut [Job], known: &[bool], options: &Options) -> [String; 2] {
    let most_permille = u64::from(options.idle) * 20;
    let mut drawn = 0;
    for (at, job) in jobs.iter_mut().enumerate().filter(|(at, _)| !known.get(*at).is_some_and(|known| *known))
    {
        // SplitMix64 of seed and place: the share of a job does not depend on the jobs before it.
        let mut mixed = options.seed.wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        job.idle_permille = ((mixed ^ (mixed >> 31)) % (most_permille + 1)) as u32;
        drawn += 1;
    }
    let sum: u64 = jobs.iter().map(|job| u64::from(job.idle_permille)).sum();
    let mean = sum / (jobs.len() as u64).max(1);
    [
        format!(
            "matrix+fill: jobs leave {}.{} % of their slots in the mean: {drawn} drawn by seed {} from 0 to {} %, \
             {} by their time of processors",
            mean / 10,
            mean % 10,
            options.seed,
            most_permille / 10,
            jobs.len() - drawn
        ),
        "matrix+fill: all jobs are offered as fillers, go at the pace of the slowest of their nodes, and cost \
         nobody anything: caches and memory are not counted"
            .into(),
    ]
}

/// The jobs, of which their idle time is known, and what is to be said of them.
type Workload = (Vec<Job>, Vec<bool>, Vec<String>);

fn workload(options: &Options) -> Result<Workload, String> {
    let Some(path) = &options.swf else {
        let count = options.lublin.ok_or("--swf FILE or --lublin JOBS is needed (see --help)")? as usize;
        let jobs = lublin::jobs(count, options.nodes, f64::from(options.load) / 100.0, options.seed);
        let note = format!(
            "{count} jobs after Lublin and Feitelson, seed {}, load {} %, without the cycle of the day; \
             estimates are run times",
            options.seed, options.load
        );
        return Ok((jobs, Vec::new(), vec![note]));
    };
    let wrong = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = tutti_os::read_file(path, swf::BYTES_MAX).map_err(wrong)?;
    let log = swf::Log::read(&bytes);
    let mut notes = vec![format!("{} jobs of {}", log.jobs.len(), path.display())];
    for (why, (count, line)) in &log.left_out {
        notes.push(format!("{count} lines are left out, the first is line {line}: {why}"));
    }
    if log.without_estimate > 0 {
        notes.push(format!("{} jobs name no time: easy takes their run time for it", log.without_estimate));
    }
    if log.begins_s > 0 {
        notes.push(format!("the first job comes {} s after the log's beginning, here at 0", log.begins_s));
    }
    Ok((log.jobs, log.idle_known, notes))
}

fn row(name: &'static str, discipline: Discipline, jobs: &[Job], options: &Options) -> Row {
    let began = Instant::now();
    let slice_ns = options.slice * 1_000_000;
    let report =
        replay::play(jobs, replay::Options { nodes: options.nodes, discipline, slice_ns, skip: true });
    Row::of(name, jobs, &report, options.nodes, began.elapsed().as_secs_f64())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

impl Row {
    fn of(name: &'static str, jobs: &[Job], report: &Report, nodes: u32, took_s: f64) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let ended: Vec<(&Job, Outcome)> =
            jobs.iter().zip(&report.outcomes).filter_map(|(job, end)| Some((job, (*end)?))).collect();
        let response = |(job, end): &(&Job, Outcome)| seconds(end.end_ns - job.submit_ns);
        let mut responses: Vec<f64> = ended.iter().map(response).collect();
        let slowdown = |one: &(&Job, Outcome)| (response(one) / seconds(one.0.run_ns).max(BOUND_S)).max(1.0);
        let mut slowdowns: Vec<f64> = ended.iter().map(slowdown).collect();
        let end_ns = ended.iter().map(|(_, end)| end.end_ns).max().unwrap_or(0);
        let work: f64 = ended.iter().map(|(job, _)| seconds(job.run_ns) * f64::from(job.nodes)).sum();
        let whole = (seconds(end_ns) * f64::from(nodes)).max(f64::MIN_POSITIVE);
        Row {
            name,
            jobs: ended.len(),
            response_mean_s: mean(&responses),
            response_median_s: median(&mut responses),
            slowdown_mean: mean(&slowdowns),
            slowdown_median: median(&mut slowdowns),
            utilisation: work / whole,
            lost: report.lost_ns as f64 / 1e9 / whole,
            switches: report.switches,
            rows: report.rows,
            makespan_s: seconds(end_ns),
            took_s,
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "policy": self.name, "jobs": self.jobs, "response_mean_s": self.response_mean_s,
            "response_median_s": self.response_median_s, "slowdown_mean": self.slowdown_mean,
            "slowdown_median": self.slowdown_median, "utilisation": self.utilisation, "lost": self.lost,
            "switches": self.switches, "rows_max": self.rows, "makespan_s": self.makespan_s, "took_s": self.took_s,
        })
    }
}

fn table(rows: &[Row]) -> String {
    let heads = [
        "POLICY", "JOBS", "RESPONSE", "MEDIAN", "SLOWDOWN", "MEDIAN", "USED", "LOST", "SWITCHES", "ROWS",
        "MAKESPAN", "TOOK",
    ];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| {
        vec![
            row.name.to_owned(),
            row.jobs.to_string(),
            format!("{:.0} s", row.response_mean_s),
            format!("{:.0} s", row.response_median_s),
            format!("{:.2}", row.slowdown_mean),
            format!("{:.2}", row.slowdown_median),
            format!("{:.1}%", 100.0 * row.utilisation),
            format!("{:.1}%", 100.0 * row.lost),
            row.switches.to_string(),
            row.rows.to_string(),
            format!("{:.1} h", row.makespan_s / 3600.0),
            format!("{:.1} s", row.took_s),
        ]
    }));
    tutti_client::table::aligned(
        &table,
        &[false, true, true, true, true, true, true, true, true, true, true, true],
    )
}

fn picture(rows: &[Row], options: &Options) -> String {
    let group = |row: &Row| {
        let bar = |name: &str, value: f64| Bar { name: name.into(), parts: vec![value] };
        (row.name.to_owned(), vec![bar("mean", row.slowdown_mean), bar("median", row.slowdown_median)])
    };
    let jobs = rows.first().map_or(0, |row| row.jobs);
    bars(&Bars {
        title: "Bounded slowdown by policy".into(),
        note: format!(
            "{jobs} jobs, {} nodes of one slot, slices of {} ms, simulated",
            options.nodes, options.slice
        ),
        y: "response over run time, at least 10 s".into(),
        parts: vec!["slowdown".into()],
        groups: rows.iter().map(group).collect(),
    })
}
