//! `make bench-npb`: programs of the NAS Parallel Benchmarks (NPB 3.4 for MPI), with the write protocol on
//! (SR) and off (NSR), beside MPICH: tables 5 to 12 of MPI/MBCF, and table 6 of SSS-CORE.
//!
//! The sources are the user's (`NPB=DIR`): nothing of them is in this tree. They are copied into
//! `target/npb`, built there with each library's `mpifort` and `mpicc`, and run in turn. A run counts only
//! if the program itself says that its result is right.

use std::{
    collections::BTreeMap,
    fs,
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

/// A program: its name, its table of MPI/MBCF, on how many ranks the paper ran it, and what it printed there
/// with SR, NSR and MPICH, in seconds.
pub struct Program {
    /// `CG`.
    pub name: &'static str,
    ranks: &'static [usize],
    of_paper: [&'static [f64]; 3],
    /// Table 5: MB/s, messages a second, share of the bytes by remote write in per cent.
    rates: [f64; 3],
    /// Table 6 of SSS-CORE: time on 8 (SP, BT: 9) nodes with MPI/MBCF and with MPICH.
    of_sss_core: [f64; 2],
}

/// In the order of the paper's tables 6 to 12.
pub static PROGRAMS: [Program; 7] = [
    Program {
        name: "EP",
        ranks: &[1, 2, 4, 8],
        of_paper: [
            &[121.14, 60.51, 30.30, 15.15],
            &[121.15, 60.59, 30.30, 15.15],
            &[125.56, 60.61, 32.13, 16.25],
        ],
        rates: [0.0, 4.0, 51.10],
        of_sss_core: [15.14, 16.25],
    },
    Program {
        name: "MG",
        ranks: &[1, 2, 4, 8],
        of_paper: [&[37.34, 22.61, 14.05, 7.44], &[37.32, 22.62, 14.05, 8.01], &[38.81, 31.30, 21.01, 13.72]],
        rates: [9.68, 4670.0, 0.01],
        of_sss_core: [7.48, 13.72],
    },
    Program {
        name: "CG",
        ranks: &[1, 2, 4, 8],
        of_paper: [
            &[69.16, 37.69, 20.94, 11.24],
            &[69.13, 38.54, 21.44, 11.81],
            &[68.75, 40.01, 27.79, 14.59],
        ],
        rates: [12.69, 2138.0, 53.33],
        of_sss_core: [11.02, 14.59],
    },
    Program {
        name: "IS",
        ranks: &[1, 2, 4, 8],
        of_paper: [&[10.16, 6.35, 4.51, 2.90], &[10.16, 6.35, 4.69, 3.72], &[10.25, 7.09, 5.61, 4.81]],
        rates: [13.58, 466.0, 99.22],
        of_sss_core: [3.02, 4.81],
    },
    Program {
        name: "LU",
        ranks: &[1, 2, 4, 8],
        of_paper: [
            &[1034.09, 537.23, 289.65, 164.55],
            &[1034.56, 541.21, 294.00, 169.63],
            &[1081.51, 611.92, 320.70, 185.04],
        ],
        rates: [1.89, 1199.0, 13.37],
        of_sss_core: [160.36, 185.04],
    },
    Program {
        name: "SP",
        ranks: &[1, 4, 9],
        of_paper: [&[1277.42, 352.34, 153.96], &[1276.39, 352.77, 165.01], &[1391.16, 475.27, 231.66]],
        rates: [7.83, 421.0, 49.01],
        of_sss_core: [154.91, 231.66],
    },
    Program {
        name: "BT",
        ranks: &[1, 4, 9],
        of_paper: [&[617.67, 155.19, 67.13], &[617.44, 155.21, 67.65], &[627.29, 214.14, 96.02]],
        rates: [5.32, 488.0, 47.24],
        of_sss_core: [67.30, 96.02],
    },
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
    if !["S", "W", "A", "B"].contains(&class) {
        return Err(format!("--class {class}: expected S, W, A or B"));
    }
    Ok(source.to_path_buf())
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
            for &ranks in program.ranks {
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
                    match self.one(*way, path, ranks) {
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
        let folder = self.places.target.join("npb").join(kind.name());
        if !folder.join("config").exists() {
            copy(&self.source, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let bin = self.places.bin(kind);
        let settings = format!(
            "MPIFC={0}/mpifort\nMPIF77=$(MPIFC)\nFLINK=$(MPIFC)\nFFLAGS=-O3 -fallow-argument-mismatch -fallow-invalid-boz\nFLINKFLAGS=-O3\n\
             MPICC={0}/mpicc\nCLINK=$(MPICC)\nCFLAGS=-O3\nCLINKFLAGS=-O3\nCC=cc\nUCC=cc\nBINDIR=../bin\nRAND=randi8\n",
            bin.display()
        );
        let write = |path: &Path, text: &str| {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(&folder.join("config/make.def"), &settings)?;
        fs::create_dir_all(folder.join("bin")).map_err(|error| format!("{}: {error}", folder.display()))?;
        let built = folder.join("bin").join(format!("{}.{}.x", program.name.to_lowercase(), self.class));
        let mut make = Command::new("make");
        make.arg("-C").arg(&folder).arg(program.name.to_lowercase()).arg(format!("CLASS={}", self.class));
        let ran = child::run(&mut make, LIMIT);
        if !built.exists() {
            let why = match ran.end {
                End::Failed(why) => why,
                _ => format!("make {} gave no {}", program.name.to_lowercase(), built.display()),
            };
            return Err(format!("{} with {}: {why}", program.name, kind.title()));
        }
        Ok(built)
    }

    fn one(&self, (_, kind, off, nodes): Way, path: &Path, ranks: usize) -> Result<Outcome, String> {
        let program = path.to_string_lossy().into_owned();
        let case = Case { id: "npb", program: "", ranks, nodes, ..PLAIN };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = mpis::command_of(self.places, kind, &case, cores, Path::new(&program), &[]);
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
        let ranks: Vec<String> = program.ranks.iter().map(usize::to_string).collect();
        let mut text =
            format!("### {}, seconds (class {} here, W in the paper)\n\n", program.name, self.class);
        text += &format!("| ranks | {} |\n|---|{}\n", ranks.join(" | "), "---|".repeat(ranks.len()));
        for (name, times) in ["paper: SR", "paper: NSR", "paper: MPICH over TCP"].iter().zip(program.of_paper)
        {
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
            text += &format!(
                "| {} | {} |\n",
                way.0,
                program.ranks.iter().map(cell).collect::<Vec<_>>().join(" | ")
            );
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
        let [mb, messages, written] = program.rates;
        let [time, peer] = program.of_sss_core;
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
        text += &format!(
            "| {} | {mb}, {messages}, {written} | {ranks} | {figures} | {time} s, {peer} s |\n",
            program.name
        );
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

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else if path.is_file() {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
