//! `tutti trace-op`: takes operations on remote memory apart, as the paper of DSE does.
//!
//! ```text
//! Options -> a job of two ranks for each place and size (libexec/tutti/tutti-trace-rank)
//!   -> its stamps, printed when all is over -> parts (pure) -> report: table, bars, JSON, SVG
//! ```
//!
//! What is measured is not disturbed by being written down: stamps are kept in the memory of the ranks. What
//! a stamp costs is measured, and the same operations are timed without stamps, by turns.

mod parts;
mod report;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::ValueEnum;
use tutti_os::stderr::escape_control;
use tutti_protocol::paths;

use crate::{file, stdout};
use parts::Stamp;
use report::Report;

/// Bytes of an operation, at most.
const BYTES_MAX: u64 = 16 << 20;
/// Rounds of blocks: with all stamps, with those of the call alone, without any.
const ROUNDS: u64 = 5;
/// Stamps of a block, at most; long operations have many.
const STAMPS_MAX: u64 = 1 << 20;
/// Operations of a group that the ranks time together.
const GROUP: f64 = 10.0;
/// Bytes that the ranks may print.
const OUTPUT_BYTES_MAX: u64 = 1 << 30;
/// The job is ended then.
const LIMIT_SECONDS: &str = "120";

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Reads memory of the other rank
    Read,
    /// Writes it, and waits until it is done
    Write,
    /// Adds to a number of 8 bytes, and fetches what was there
    FetchAdd,
}

/// Where the two ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// Both on this node
    Node,
    /// On two virtual nodes of this machine
    VirtualNodes,
    /// The same with a network namespace each (for root)
    Netns,
    /// On two nodes of the cluster
    Nodes,
}

/// Occupation of the target meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// It waits inside the library, and looks at the network
    Polls,
    /// It computes and calls nothing: the library's service thread serves
    Computes,
}

/// Of an element of DSE: its kernel and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// One process: the program calls the library
    One,
    /// Two processes: the program asks the kernel over a socket
    Apart,
}

/// Options of `tutti trace-op`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The operation
    #[arg(value_enum, value_name = "OPERATION")]
    operation: Kind,
    /// Bytes of a read or write, K and M behind a number for KiB and MiB; several with commas
    #[arg(long, short, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    size: Vec<u64>,
    /// Where the two ranks are; several with commas
    #[arg(
        long,
        short,
        value_enum,
        value_name = "PLACE",
        value_delimiter = ',',
        default_value = "node,virtual-nodes"
    )]
    place: Vec<Place>,
    /// With --place nodes: the two nodes, the initiator's first
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    host: Vec<String>,
    /// What the target does meanwhile
    #[arg(long, short, value_enum, value_name = "WHAT", default_value = "polls")]
    target: Target,
    /// Operations of DSE (tutti_dse.h), with kernel and process of an element so; several with commas
    #[arg(long, short, value_enum, value_name = "KERNEL", value_delimiter = ',')]
    kernel: Vec<Kernel>,
    /// Operations with all stamps; as many are timed without
    #[arg(long, short, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: u64,
    /// A picture, as SVG
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For scripts
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 0), |digits| (digits, 20)),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (1..=BYTES_MAX).contains(bytes))
        .ok_or_else(|| format!("expected a number of bytes from 1 to {BYTES_MAX}, or with K or M behind it"))
}

impl Place {
    /// In a sentence.
    fn text(self) -> &'static str {
        match self {
            Place::Node => "inside a node",
            Place::VirtualNodes => "between two virtual nodes",
            Place::Netns => "between two network namespaces",
            Place::Nodes => "between two nodes",
        }
    }
}

impl Kernel {
    fn word(self) -> &'static str {
        match self {
            Kernel::One => "one",
            Kernel::Apart => "apart",
        }
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::FetchAdd => "fetch-add",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Case {
    operation: Kind,
    bytes: u64,
    place: Place,
    target: Target,
    /// Of DSE; none: of `tutti.h`.
    kernel: Option<Kernel>,
    /// Operations of each round.
    operations: u64,
}

/// Output of the ranks.
#[derive(Clone, Debug, Default)]
struct Found {
    /// By block and rank.
    stamps: BTreeMap<(u64, u32), Vec<Stamp>>,
    /// Time of groups of operations without stamps.
    bare_ns: Vec<u64>,
    hosts: BTreeMap<u32, String>,
    cost_ns: f64,
    error: Option<String>,
}

/// Measures, and prints what was found.
///
/// # Errors
/// When the job cannot be run, or the picture not be written; a text for the user.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let mut reports = Vec::new();
    for case in cases(options)? {
        let found = measure(&case, &options.host)?;
        let report = Report::of(&found.blocks(), found.has_one_clock(), found.bare_ns(), found.cost_ns);
        let text = format!("{} of {} bytes {}", case.operation.word(), case.bytes, case.place.text());
        reports.push((case, report.ok_or_else(|| format!("{text}: no operation has all of its stamps"))?));
    }
    if let Some(path) = &options.output {
        file::write(path, report::picture(&reports).as_bytes())?;
    }
    let text = if options.json {
        format!("{:#}\n", report::as_json(&reports))
    } else {
        reports.iter().map(|(case, report)| report.text(case)).collect::<Vec<_>>().join("\n")
    };
    Ok(stdout::print(Some(text), ""))
}

fn cases(options: &Options) -> Result<Vec<Case>, String> {
    let (sizes, place, host) = (&options.size, &options.place, &options.host);
    if options.operation == Kind::FetchAdd && sizes.iter().any(|bytes| *bytes != 8) {
        return Err("a fetch-add is of 8 bytes: leave --size out".into());
    }
    if !host.is_empty() && place[..] != [Place::Nodes] {
        return Err("--host is for --place nodes".into());
    }
    if !host.is_empty() && host.len() != 2 {
        return Err(format!("--host names {} nodes, expected two", host.len()));
    }
    if options.operation == Kind::FetchAdd && !options.kernel.is_empty() {
        return Err("DSE has reads and writes, no fetch-add: leave --kernel out".into());
    }
    // 16 bytes are those of the paper.
    let usual = if options.operation == Kind::FetchAdd { [8] } else { [16] };
    let sizes = if sizes.is_empty() { &usual[..] } else { sizes };
    let operations = options.count.div_ceil(ROUNDS);
    let of_kernels: Vec<Option<Kernel>> = options.kernel.iter().copied().map(Some).collect();
    let kernels = if of_kernels.is_empty() { &[None][..] } else { &of_kernels };
    let case = |place: Place, bytes: u64, kernel: Option<Kernel>| Case {
        operation: options.operation,
        bytes,
        place,
        target: options.target,
        kernel,
        operations: operations.min(STAMPS_MAX / (24 + 4 * (bytes / 1024 + 1))),
    };
    let mut cases = Vec::new();
    for place in place {
        for bytes in sizes {
            cases.extend(kernels.iter().map(|kernel| case(*place, *bytes, *kernel)));
        }
    }
    Ok(cases)
}

/// Runs a job of two ranks, and reads what they print.
fn measure(case: &Case, host: &[String]) -> Result<Found, String> {
    let program = paths::trace_rank();
    if !program.is_file() {
        return Err(format!("{} is missing: it belongs to the installation", program.display()));
    }
    let own = std::env::current_exe().map_err(|error| format!("cannot find its own program: {error}"))?;
    let mut command = Command::new(&own);
    let hosts = host.iter().map(|name| format!("{name}:1")).collect::<Vec<_>>().join(",");
    let place: &[&str] = match case.place {
        Place::Node => &[],
        Place::VirtualNodes => &["--virtual-nodes", "2"],
        Place::Netns => &["--netns", "2"],
        Place::Nodes if host.is_empty() => &["-N", "2", "-ppn", "1"],
        Place::Nodes => &["-host", &hosts],
    };
    if case.place == Place::Nodes {
        command.arg("run");
    } else {
        command.arg0("mpiexec");
    }
    let target = if case.target == Target::Computes { "computes" } else { "polls" };
    command.args(["--timeout", LIMIT_SECONDS, "-n", "2"]).args(place).arg(program).arg(case.operation.word());
    command.args([case.bytes, ROUNDS, case.operations].map(|number| number.to_string())).arg(target);
    command.args(case.kernel.map(Kernel::word));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", own.display()))?;
    let mut text = Vec::new();
    let read = child.stdout.take().map(|out| out.take(OUTPUT_BYTES_MAX).read_to_end(&mut text));
    let status = child.wait().map_err(|error| error.to_string())?;
    if let Some(Err(error)) = read {
        return Err(format!("cannot read what the ranks print: {error}"));
    }
    let found = Found::read(&String::from_utf8_lossy(&text));
    match &found.error {
        Some(error) => Err(escape_control(error)),
        None if status.success() => Ok(found),
        None => Err(format!("its job of two ranks has ended with {status}")),
    }
}

impl Found {
    fn read(text: &str) -> Self {
        let mut found = Found::default();
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let numbers: Vec<u64> = rest.split(' ').map_while(|word| word.parse().ok()).collect();
            match (word, &numbers[..]) {
                ("stamp", &[rank, block, mark, begin_ns, end_ns, arrived_ns, _]) => {
                    let stamp = Stamp { mark: mark as u32, begin_ns, end_ns, arrived_ns };
                    found.stamps.entry((block, rank as u32)).or_default().push(stamp);
                }
                ("bare", &[took_ns]) => found.bare_ns.push(took_ns),
                ("cost", &[0, hundredths]) => found.cost_ns = hundredths as f64 / 100.0,
                ("host", &[rank, ..]) => {
                    found.hosts.insert(rank as u32, rest.split_once(' ').unwrap_or_default().1.to_owned());
                }
                ("error", _) => {
                    found.error.get_or_insert(rest.split_once(' ').unwrap_or_default().1.to_owned());
                }
                _ => {}
            }
        }
        found
    }

    /// The stamps of both ranks, block by block; those of the second are empty where only the call was
    /// stamped.
    fn blocks(&self) -> Vec<[&[Stamp]; 2]> {
        let of = |block, rank| self.stamps.get(&(block, rank)).map_or(&[][..], Vec::as_slice);
        (0..3 * ROUNDS).map(|block| [of(block, 0), of(block, 1)]).collect()
    }

    /// Both ranks run on one machine.
    fn has_one_clock(&self) -> bool {
        self.hosts.get(&0).is_some_and(|host| !host.is_empty() && self.hosts.get(&1) == Some(host))
    }

    /// Time of an operation without stamps: the median of the groups' means.
    fn bare_ns(&self) -> Option<f64> {
        let mut times = self.bare_ns.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map(|took_ns| *took_ns as f64 / GROUP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_sizes_are_bytes() {
        assert_eq!((size("16"), size("64K"), size("1m")), (Ok(16), Ok(64 << 10), Ok(1 << 20)));
        for text in ["", "0", "17M", "-1", "1.5K", "16B", "999999999999999999999"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn trace_output_of_the_ranks_is_read() {
        let text = "host 0 abc\nhost 1 abc\nstamp 0 3 16 5 6 0 0\nbare 5000\ncost 0 2512\nnoise\nstamp 1 3 4 7 8 9 1\n";
        let found = Found::read(text);
        assert!(found.has_one_clock() && found.error.is_none());
        assert_eq!(found.blocks()[3][0], [Stamp { mark: 16, begin_ns: 5, end_ns: 6, arrived_ns: 0 }]);
        assert_eq!(found.blocks()[3][1].len(), 1);
        assert_eq!((found.cost_ns, found.bare_ns()), (25.12, Some(500.0)));
        assert_eq!(Found::read("error 1 it is wrong\n").error.as_deref(), Some("it is wrong"));
        assert!(!Found::read("host 0 abc\nhost 1 def\n").has_one_clock());
    }
}
