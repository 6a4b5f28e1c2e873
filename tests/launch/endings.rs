//! Random programs that print and then end in one of twelve ways: what they have written arrives, in order
//! per stream and rank.
//!
//! `make endings` runs 1,000 of them, and each of them under MPICH's launcher and library too: what is
//! delivered there must be delivered here.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_testkit::{Random, seed};
use tutti_tests::{Ran, Scratch, compile, program};

use crate::harness::LIMIT;

/// How the program ends.
const WAYS: [&str; 12] = [
    "return",
    "exit",
    "unfinalized",
    "abort",
    "error",
    "thread",
    "filter",
    "segv",
    "term",
    "abort3",
    "_exit",
    "exec",
];
/// Characters behind the number of a long line.
const LONG_CHARS: usize = 5000;

/// A program: what each rank does before the end.
#[derive(Debug)]
struct Ending {
    way: &'static str,
    ender: usize,
    steps: Vec<Vec<(char, u64)>>,
}

impl Ending {
    fn draw(random: &mut Random) -> Self {
        let way = random.pick(&WAYS).expect("there are some");
        let ranks = random.between((1, 4)) as usize;
        let mut number = 0;
        let mut step = |random: &mut Random| {
            number += 1;
            (random.pick(&['p', 'p', 'p', 'w', 'e', 'e', 'l', 'f', 'c']).expect("there are some"), number)
        };
        let steps = (0..ranks)
            .map(|_| {
                let count = random.below(25);
                (0..count).map(|_| step(random)).collect()
            })
            .collect();
        Ending { way, ender: random.below(ranks as u64) as usize, steps }
    }

    fn arguments(&self) -> Vec<String> {
        let steps = |steps: &Vec<(char, u64)>| {
            let words: Vec<String> = steps.iter().map(|(kind, number)| format!("{kind}{number}")).collect();
            words.join(",")
        };
        let head = [self.way.to_owned(), self.ender.to_string()];
        head.into_iter().chain(self.steps.iter().map(steps)).collect()
    }

    /// Text of a rank: stdout and stderr.
    fn expected(&self, rank: usize) -> [String; 2] {
        let [mut out, mut errors] = [const { String::new() }; 2];
        for (kind, number) in &self.steps[rank] {
            let line = format!("r{rank} {number}");
            match kind {
                'l' => out.push_str(&format!("{line}{}\n", "x".repeat(LONG_CHARS))),
                'e' => errors.push_str(&format!("{line}\n")),
                'f' => {}
                _ => out.push_str(&format!("{line}\n")),
            }
        }
        [out, errors]
    }

    fn run(&self, launcher: &mut Command, program: &Path) -> Ran {
        launcher.args(["-n", &self.steps.len().to_string()]).arg(program).args(self.arguments());
        tutti_tests::run(launcher, LIMIT)
    }
}

/// Lines of a rank, in their order. The last one may be a piece, behind which another rank's text follows:
/// every line begins with its rank, and nothing else in it looks so.
fn of_rank(text: &str, rank: usize) -> String {
    let is_head = |at: usize| {
        let head = &text.as_bytes()[at..];
        head.len() > 2 && head[0] == b'r' && head[1].is_ascii_digit() && head[2] == b' '
    };
    let heads: Vec<usize> = (0..text.len()).filter(|at| is_head(*at)).chain([text.len()]).collect();
    let lines = heads.windows(2).map(|ends| &text[ends[0]..ends[1]]);
    // Behind a whole line may stand one of the launcher's.
    let lines = lines.map(|line| line.split_inclusive('\n').next().unwrap_or_default());
    lines.filter(|line| line.starts_with(&format!("r{rank} "))).collect()
}

/// Runs `times` programs; `peer`: a launcher and the program for it.
fn run_endings(times: u64, peer: Option<(PathBuf, PathBuf)>) {
    let scratch = Scratch::new("launch-endings");
    let compiled = compile("tests/launch/programs/endings.c", scratch.path());
    let mut random = Random::new(seed());
    for turn in 0..times {
        let ending = Ending::draw(&mut random);
        let ran = ending.run(&mut program("mpiexec"), &compiled);
        let theirs =
            peer.as_ref().map(|(launcher, program)| ending.run(&mut Command::new(launcher), program));
        for rank in 0..ending.steps.len() {
            let streams = [&ran.stdout, &ran.stderr].map(|text| of_rank(text, rank));
            for (at, (found, expected)) in streams.iter().zip(ending.expected(rank)).enumerate() {
                let what = format!("turn {turn}, {:?}, rank {rank}, stream {}", ending.arguments(), at + 1);
                assert!(
                    *found == expected,
                    "{what}: found {} bytes of {}\n{ran}",
                    found.len(),
                    expected.len()
                );
                if let Some(theirs) = &theirs {
                    let text = if at == 0 { &theirs.stdout } else { &theirs.stderr };
                    let theirs = of_rank(text, rank);
                    let is_less = theirs.starts_with(found.as_str()) && theirs.len() > found.len();
                    assert!(!is_less, "{what}: MPICH delivers {} bytes, not {}", theirs.len(), found.len());
                }
            }
        }
    }
}

#[test]
fn endings_of_sixty_random_programs_lose_no_line() {
    run_endings(60, None);
}

/// `make endings`.
#[test]
#[ignore = "minutes, and MPICH from PyPI"]
fn endings_of_a_thousand_random_programs_deliver_what_mpichs_launcher_does() {
    let peer = tutti_tests::root().join("target/peers/mpich/bin");
    let scratch = Scratch::new("launch-endings-mpich");
    let (compiled, source) = (scratch.path().join("endings"), "tests/launch/programs/endings.c");
    let mut compiler = Command::new(peer.join("mpicc"));
    compiler.args(["-std=c11", "-O2", "-o"]).arg(&compiled).arg(tutti_tests::root().join(source));
    tutti_tests::run(&mut compiler, LIMIT).expect_success();
    let times = std::env::var("TUTTI_ENDINGS").ok().and_then(|times| times.parse().ok()).unwrap_or(1000);
    run_endings(times, Some((peer.join("mpiexec"), compiled)));
}
