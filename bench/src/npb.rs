//! `make bench-npb`: programs of the NAS Parallel Benchmarks (NPB 3.4 for MPI), with the write protocol on
//! (SR) and off (NSR), beside MPICH: tables 5 to 12 of MPI/MBCF, and table 6 of SSS-CORE.
//!
//! The sources are the user's (`NPB=DIR`): nothing of them is in this tree. They are copied into
//! `target/npb`, built there with each library's `mpifort` and `mpicc`, and run in turn. A run counts only
//! if the program itself says that its result is right. FT and DT, of which the papers have no times, run
//! too.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use crate::{
    cases::{Case, Nodes, PLAIN},
    child::{self, End},
    figures::median,
    mpis::{self, Kind, Places},
    table::number,
};

#[cfg(test)]
mod tests;

/// A program: its name, on how many ranks it runs, and what the papers have of it.
pub struct Program {
    /// `CG`.
    pub name: &'static str,
    ranks: Ranks,
    /// Argument of the program; empty: none.
    argument: &'static str,
    of_papers: Option<OfPapers>,
}

/// Numbers of ranks of a program.
enum Ranks {
    /// Numbers of the paper, or those of other programs.
    Any(&'static [usize]),
    /// A number for each class, S, W, A and B.
    ByClass([usize; 4]),
}

/// Figures of the papers.
struct OfPapers {
    /// Seconds of tables 6 to 12 of MPI/MBCF with SR, NSR and MPICH, for each number of ranks.
    times: [&'static [f64]; 3],
    /// Table 5: MB/s, messages a second, share of the bytes by remote write in per cent.
    rates: [f64; 3],
    /// Table 6 of SSS-CORE: time on 8 (SP, BT: 9) nodes with MPI/MBCF and with MPICH.
    of_sss_core: [f64; 2],
}

/// Sizes of problems.
const CLASSES: [&str; 4] = ["S", "W", "A", "B"];

const POWERS: Ranks = Ranks::Any(&[1, 2, 4, 8]);
const SQUARES: Ranks = Ranks::Any(&[1, 4, 9]);

/// In the order of the paper's tables 6 to 12, then those of which it has none.
pub static PROGRAMS: [Program; 9] = [
    Program {
        name: "EP",
        ranks: POWERS,
        argument: "",
        of_papers: Some(OfPapers {
            times: [
                &[121.14, 60.51, 30.30, 15.15],
                &[121.15, 60.59, 30.30, 15.15],
                &[125.56, 60.61, 32.13, 16.25],
            ],
            rates: [0.0, 4.0, 51.10],
            of_sss_core: [15.14, 16.25],
        }),
    },
    Program {
        name: "MG",
        ranks: POWERS,
        argument: "",
        of_papers: Some(OfPapers {
            times: [
                &[37.34, 22.61, 14.05, 7.44],
                &[37.32, 22.62, 14.05, 8.01],
                &[38.81, 31.30, 21.01, 13.72],
            ],
            rates: [9.68, 4670.0, 0.01],
            of_sss_core: [7.48, 13.72],
        }),
    },
    Program {
        name: "CG",
        ranks: POWERS,
        argument: "",
        of_papers: Some(OfPapers {
            times: [
                &[69.16, 37.69, 20.94, 11.24],
                &[69.13, 38.54, 21.44, 11.81],
                &[68.75, 40.01, 27.79, 14.59],
            ],
            rates: [12.69, 2138.0, 53.33],
            of_sss_core: [11.02, 14.59],
        }),
    },
    Program {
        name: "IS",
        ranks: POWERS,
        argument: "",
        of_papers: Some(OfPapers {
            times: [&[10.16, 6.35, 4.51, 2.90], &[10.16, 6.35, 4.69, 3.72], &[10.25, 7.09, 5.61, 4.81]],
            rates: [13.58, 466.0, 99.22],
            of_sss_core: [3.02, 4.81],
        }),
    },
    Program {
        name: "LU",
        ranks: POWERS,
        argument: "",
        of_papers: Some(OfPapers {
            times: [
                &[1034.09, 537.23, 289.65, 164.55],
                &[1034.56, 541.21, 294.00, 169.63],
                &[1081.51, 611.92, 320.70, 185.04],
            ],
            rates: [1.89, 1199.0, 13.37],
            of_sss_core: [160.36, 185.04],
        }),
    },
    Program {
        name: "SP",
        ranks: SQUARES,
        argument: "",
        of_papers: Some(OfPapers {
            times: [&[1277.42, 352.34, 153.96], &[1276.39, 352.77, 165.01], &[1391.16, 475.27, 231.66]],
            rates: [7.83, 421.0, 49.01],
            of_sss_core: [154.91, 231.66],
        }),
    },
    Program {
        name: "BT",
        ranks: SQUARES,
        argument: "",
        of_papers: Some(OfPapers {
            times: [&[617.67, 155.19, 67.13], &[617.44, 155.21, 67.65], &[627.29, 214.14, 96.02]],
            rates: [5.32, 488.0, 47.24],
            of_sss_core: [67.30, 96.02],
        }),
    },
    Program { name: "FT", ranks: POWERS, argument: "", of_papers: None },
    // Black hole: its graph has so many nodes.
    Program { name: "DT", ranks: Ranks::ByClass([5, 11, 21, 43]), argument: "BH", of_papers: None },
];

/// One run may take so long.
const LIMIT: Duration = Duration::from_secs(300);

/// A row of ours: its name, its MPI, whether the write protocol is off, where the ranks are.
type Way = (&'static str, Kind, bool, Nodes);

const WAYS: [Way; 5] = [
    ("SR, one node", Kind::Tutti, false, Nodes::One),
    ("NSR, one node", Kind::Tutti, true, Nodes::One),
    ("SR, two nodes", Kind::Tutti, false, Nodes::Two),
    ("NSR, two nodes", Kind::Tutti, true, Nodes::Two),
    ("MPICH 5, one node", Kind::Mpich, false, Nodes::One),
];

/// Outcomes of a way, by the number of ranks.
type Found = (Way, BTreeMap<usize, Vec<Outcome>>);

/// The sources, and what is made of them.
pub struct Npb<'a> {
    /// Folders of this run.
    pub places: &'a Places,
    /// MPIs that there are.
    pub kinds: &'a [Kind],
    /// The sources.
    pub source: PathBuf,
    /// S, W, A: how large.
    pub class: String,
    /// Runs of each; the figure is their median.
    pub rounds: usize,
}

/// Figures of one run.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    seconds: f64,
    /// Counts of our ranks.
    counted: Option<Value>,
}

/// Whether the sources and the class can be used.
///
/// # Errors
/// When not: one line.
pub fn check(source: Option<&Path>, class: &str) -> Result<PathBuf, String> {
    let source = source.filter(|path| !path.as_os_str().is_empty()).ok_or(
        "NPB's programs are not part of this tree: give the folder of NPB 3.4 for MPI (NPB=DIR, the one with config/ and CG/)",
    )?;
    if !source.join("config").is_dir()
        || !source.join("CG/cg.f").is_file() && !source.join("CG/cg.f90").is_file()
    {
        return Err(format!(
            "{}: no sources of NPB 3.4 for MPI (expected config/ and CG/ there)",
            source.display()
        ));
    }
    if !CLASSES.contains(&class) {
        return Err(format!("--class {class}: expected S, W, A or B"));
    }
    Ok(source.to_path_buf())
}

impl Program {
    /// Whether the papers have times of it.
    pub fn is_of_papers(&self) -> bool {
        self.of_papers.is_some()
    }

    fn ranks(&self, class: &str) -> &[usize] {
        match &self.ranks {
            Ranks::Any(ranks) => ranks,
            Ranks::ByClass(ranks) => {
                let at = CLASSES.iter().position(|known| *known == class).expect("a class that was checked");
                &ranks[at..=at]
            }
        }
    }
}

impl Npb<'_> {
    /// Runs programs and prints a table for each, then their rates.
    ///
    /// # Errors
    /// When ours does not build, does not run or is wrong: one line.
    pub fn run(&self, programs: &[&Program]) -> Result<(), String> {
        let mut rates = Vec::new();
        for program in programs {
            let found = self.measure(program)?;
            println!("{}", self.table(program, &found));
            let most = found.iter().find(|(way, _)| way.0 == WAYS[0].0).and_then(|(_, by_ranks)| {
                let (ranks, outcomes) = by_ranks.last_key_value()?;
                Some((*ranks, outcomes.iter().find_map(|outcome| outcome.counted.clone())?))
            });
            rates.push((*program, most));
        }
        println!("{}", rates_table(&rates));
        Ok(())
    }

    /// Outcomes of each way, by the number of ranks.
    fn measure(&self, program: &Program) -> Result<Vec<Found>, String> {
        let has_namespaces = rustix::process::geteuid().is_root();
        let mut ways = Vec::new();
        for way in WAYS.into_iter().filter(|way| self.kinds.contains(&way.1)) {
            if way.3 == Nodes::Two && !has_namespaces {
                continue;
            }
            match self.build(way.1, program) {
                Ok(path) => ways.push((way, path, BTreeMap::<usize, Vec<Outcome>>::new())),
                Err(why) if way.1 == Kind::Tutti => return Err(why),
                Err(why) => eprintln!("\rbench: left out: {why}\x1b[K"),
            }
        }
        for round in 0..self.rounds {
            for &ranks in program.ranks(&self.class) {
                for (way, path, found) in &mut ways {
                    // MPICH takes turns by the scheduler where ranks share cores: minutes.
                    let is_crowded = way.1 == Kind::Mpich && ranks > 4;
                    if is_crowded || way.3 == Nodes::Two && ranks == 1 {
                        continue;
                    }
                    eprint!(
                        "\rbench: {}.{}, {ranks} ranks, round {}: {}\x1b[K",
                        program.name,
                        self.class,
                        round + 1,
                        way.0
                    );
                    match self.one(*way, path, program.argument, ranks) {
                        Ok(outcome) => found.entry(ranks).or_default().push(outcome),
                        Err(why) if way.1 == Kind::Tutti => {
                            return Err(format!(
                                "{}.{}, {ranks} ranks, {}: {why}",
                                program.name, self.class, way.0
                            ));
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        eprint!("\r\x1b[K");
        Ok(ways.into_iter().map(|(way, _, found)| (way, found)).collect())
    }

    /// The program, built with one MPI.
    fn build(&self, kind: Kind, program: &Program) -> Result<PathBuf, String> {
        let folder = self.folder(kind);
        copy(&self.source, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let bin = self.places.bin(kind);
        let settings = format!(
            "MPIFC={0}/mpifort\nMPIF77=$(MPIFC)\nFLINK=$(MPIFC)\nFFLAGS=-O3 -fallow-argument-mismatch -fallow-invalid-boz\nFLINKFLAGS=-O3\n\
             MPICC={0}/mpicc\nCLINK=$(MPICC)\nCFLAGS=-O3\nCLINKFLAGS=-O3\nCC=cc\nUCC=cc\nBINDIR=../bin\nRAND=randi8\n",
            bin.display()
        );
        let definitions = folder.join("config/make.def");
        replace(&definitions, settings.as_bytes())
            .map_err(|error| format!("{}: {error}", definitions.display()))?;
        fs::create_dir_all(folder.join("bin")).map_err(|error| format!("{}: {error}", folder.display()))?;
        let built = folder.join("bin").join(format!("{}.{}.x", program.name.to_lowercase(), self.class));
        let mut make = Command::new("make");
        make.arg("-C").arg(&folder).arg(program.name.to_lowercase()).arg(format!("CLASS={}", self.class));
        let why = match child::run(&mut make, LIMIT).end {
            End::Well if built.exists() => return Ok(built),
            End::Well => format!("make {} gave no {}", program.name.to_lowercase(), built.display()),
            End::Timeout => format!("make {}: over {} s", program.name.to_lowercase(), LIMIT.as_secs()),
            End::Failed(why) => why,
        };
        Err(format!("{} with {}: {why}", program.name, kind.title()))
    }

    /// Where these sources are built with one MPI: others have a folder of their own.
    fn folder(&self, kind: Kind) -> PathBuf {
        let source = fs::canonicalize(&self.source).unwrap_or_else(|_| self.source.clone());
        let mut hasher = DefaultHasher::new();
        source.hash(&mut hasher);
        self.places.target.join("npb").join(format!("{}-{:08x}", kind.name(), hasher.finish() as u32))
    }

    fn one(
        &self,
        (_, kind, off, nodes): Way,
        path: &Path,
        argument: &str,
        ranks: usize,
    ) -> Result<Outcome, String> {
        let arguments: Vec<String> = argument.split_whitespace().map(str::to_owned).collect();
        let case = Case { id: "npb", program: "", ranks, nodes, ..PLAIN };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = mpis::command_of(self.places, kind, &case, cores, path, &arguments);
        if kind == Kind::Tutti {
            command.env("TUTTI_STATS", "json").env("TUTTI_WRITE_PROTOCOL", if off { "off" } else { "on" });
        }
        let ran = child::run(&mut command, LIMIT);
        match ran.end {
            End::Well => outcome(&ran.stdout, &ran.stderr),
            End::Timeout => Err(format!("over {} s", LIMIT.as_secs())),
            End::Failed(why) => Err(why),
        }
    }

    /// A table of seconds: the paper's columns that can be run here, its rows first.
    fn table(&self, program: &Program, found: &[Found]) -> String {
        let numbers = program.ranks(&self.class);
        let ranks: Vec<String> = numbers.iter().map(usize::to_string).collect();
        let there = if program.is_of_papers() { ", W in the paper" } else { "; the papers have none" };
        let mut text = format!("### {}, seconds (class {} here{there})\n\n", program.name, self.class);
        text += &format!("| ranks | {} |\n|---|{}\n", ranks.join(" | "), "---|".repeat(ranks.len()));
        let times = program.of_papers.as_ref().map(|of_papers| of_papers.times);
        let names = ["paper: SR", "paper: NSR", "paper: MPICH over TCP"];
        for (name, times) in names.iter().zip(times.into_iter().flatten()) {
            text += &format!(
                "| {name} | {} |\n",
                times.iter().map(|time| number(*time)).collect::<Vec<_>>().join(" | ")
            );
        }
        for (way, by_ranks) in found {
            let cell = |ranks: &usize| {
                let times: Vec<f64> =
                    by_ranks.get(ranks).into_iter().flatten().map(|outcome| outcome.seconds).collect();
                median(&times).map_or_else(|| "-".into(), number)
            };
            text +=
                &format!("| {} | {} |\n", way.0, numbers.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
        text
    }
}

/// Table 5 of MPI/MBCF and the times of table 6 of SSS-CORE, of the most ranks that were run on one node.
fn rates_table(rates: &[(&Program, Option<(usize, Value)>)]) -> String {
    let mut text = String::from(
        "### Rates of the whole job with SR\n\n| program | paper: MB/s, messages/s, % written | ranks here | MB/s | messages/s | % written | \
         % eager | % crossing | SSS-CORE: time, of MPICH |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (program, counted) in rates {
        let (rates, times) = match &program.of_papers {
            Some(OfPapers { rates: [mb, messages, written], of_sss_core: [time, peer], .. }) => {
                (format!("{mb}, {messages}, {written}"), format!("{time} s, {peer} s"))
            }
            None => ("-".into(), "-".into()),
        };
        let (ranks, figures) = match counted {
            Some((ranks, counted)) => {
                let of = |name: &str, scale: f64| {
                    counted["job"][name].as_f64().map_or_else(|| "-".into(), |value| number(value * scale))
                };
                let names = [("bytes_per_s", 1e-6), ("messages_per_s", 1.0), ("written_percent", 1.0)];
                let more = [("eager_percent", 1.0), ("crossing_percent", 1.0)];
                let figures: Vec<String> =
                    names.into_iter().chain(more).map(|(name, scale)| of(name, scale)).collect();
                (ranks.to_string(), figures.join(" | "))
            }
            None => ("-".into(), ["-"; 5].join(" | ")),
        };
        text += &format!("| {} | {rates} | {ranks} | {figures} | {times} |\n", program.name);
    }
    text
}

/// Reads the time of a run that has verified itself, and the sum of what its ranks have counted.
fn outcome(stdout: &str, stderr: &str) -> Result<Outcome, String> {
    let value = |name: &str| {
        let line = stdout.lines().find(|line| line.trim_start().starts_with(name))?;
        Some(line.split_once('=')?.1.trim().to_owned())
    };
    if value("Verification").as_deref() != Some("SUCCESSFUL") {
        return Err("it has not verified its result".into());
    }
    let seconds =
        value("Time in seconds").and_then(|text| text.parse().ok()).ok_or("no time in its output")?;
    let lines = stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let counted = lines.into_iter().find(|line| line["job"].is_object());
    Ok(Outcome { seconds, counted })
}

/// Whether a file was built, or set, by whoever had the sources before.
fn is_made(path: &Path) -> bool {
    let has_name = |name: &str| path.file_name().is_some_and(|own| own == name);
    let ends = |end: &str| path.extension().is_some_and(|own| own == end);
    ["bin", "npbparams.h", "make.def"].into_iter().any(has_name) || ["o", "mod", "x"].into_iter().any(ends)
}

/// Brings a copy of the sources up to date: what has not changed keeps its time, so `make` builds what has.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if is_made(&path) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &target)?;
        } else if path.is_file() {
            replace(&target, &fs::read(&path)?)?;
            fs::set_permissions(&target, fs::metadata(&path)?.permissions())?;
        }
    }
    Ok(())
}

/// Writes a file unless it has these bytes.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) { Ok(()) } else { fs::write(path, bytes) }
}
