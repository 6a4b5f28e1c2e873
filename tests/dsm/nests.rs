//! Random loop nests: the plugin notes what is stored, byte by byte, and results are those without it.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use tutti_testkit::random::{self, Random};
use tutti_tests::{Scratch, dist, has_plugin, root, run};

use super::LIMIT;

/// Nests of a file in the soak.
const NESTS: usize = 300;
/// Nests whose stores a test looks at, of which there are three: each is compiled six times.
const NOTED_NESTS: usize = 100;
/// Nests whose loads a test looks at: each is compiled four times.
const CHECKED_NESTS: usize = 60;
/// Loads are checked, too.
const UDSM: &str = "-rcop-udsm=true";
/// Options of the compilations, each of which is checked.
const OPTIONS: [&[&str]; 4] = [
    &["-O2"],
    &["-O0"],
    &["-O1", "-mllvm", "-rcop-re=false"],
    &["-O1", "-mllvm", "-rcop-ia=false", "-mllvm", "-rcop-private=false"],
];
/// The same where loads are checked, too.
const CHECKED_OPTIONS: [&[&str]; 2] =
    [&["-O2", "-mllvm", UDSM], &["-O1", "-mllvm", UDSM, "-mllvm", "-rcop-ia=false"]];

/// The author of one function.
struct Author<'a> {
    random: &'a mut Random,
    text: String,
    depth: usize,
    /// Loops without what keeps notes inside.
    is_plain: bool,
}

/// Counters of loops, from outside in.
const COUNTERS: [&str; 3] = ["i", "j", "k"];

impl Author<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{:indent$}{line}", "", indent = 4 * (self.depth + 1));
    }

    fn one_of(&mut self, list: &[&str]) -> String {
        self.random.pick(list).expect("a list of some").to_owned()
    }

    /// A number that does not change in the function.
    fn invariant(&mut self) -> String {
        self.one_of(&["n", "m", "s", "n", "m", "3", "4", "(n + 1)"])
    }

    fn nest(&mut self, levels: usize) {
        if levels == 0 {
            return self.body();
        }
        let counter = COUNTERS[self.depth];
        let kind = self.one_of(&["long", "long", "int", "unsigned"]);
        let mut bound = self.invariant();
        if self.depth > 0 && self.random.chance(250) {
            bound = format!("({} + 1)", COUNTERS[self.depth - 1]);
        }
        if !self.is_plain && self.random.chance(150) {
            bound = "*limit".to_owned();
        }
        // A negative bound of an unsigned counter would be a huge one.
        let bound = format!("({kind})clamp({bound})");
        if self.random.chance(200) {
            let condition = self.one_of(&["n > 3", "m != s", "n > m", "s == 1"]);
            self.line(&format!("if ({condition})"));
        }
        let header = match self.random.below(8) {
            0 if kind != "unsigned" => {
                format!("for ({kind} {counter} = {bound} - 1; {counter} >= 0; {counter}--) {{")
            }
            1 => format!("for ({kind} {counter} = 0; {counter} < {bound}; {counter} += 2) {{"),
            // A triangle.
            2 | 3 if self.depth > 0 => {
                let outer = COUNTERS[self.depth - 1];
                format!("for ({kind} {counter} = {outer} + 1; {counter} < {bound}; {counter}++) {{")
            }
            2 => format!("for ({kind} {counter} = 1; {counter} <= {bound}; {counter}++) {{"),
            _ => format!("for ({kind} {counter} = 0; {counter} < {bound}; {counter}++) {{"),
        };
        self.line(&header);
        self.depth += 1;
        if self.random.chance(150) {
            self.body();
        }
        self.nest(levels - 1);
        if self.random.chance(200) {
            self.body();
        }
        match self.random.below(12) {
            _ if self.is_plain => {}
            0 => self.line("opaque();"),
            1 => self.line(&format!("if ({counter} == m) break;")),
            2 => self.line(&format!("if ({counter} == 2) continue;")),
            3 => self.line(&format!("if ({counter} == 3 && n == 6) return;")),
            _ => {}
        }
        self.depth -= 1;
        self.line("}");
    }

    /// A place, affine in the counters mostly.
    fn place(&mut self) -> String {
        let mut place = self.random.below(40).to_string();
        for counter in COUNTERS.into_iter().take(self.depth) {
            let factor = match self.random.below(7) {
                0 => continue,
                1 => self.invariant(),
                2 => "-1".to_owned(),
                3 => format!("{}", self.random.between((2, 9))),
                4 => "16".to_owned(),
                _ => "1".to_owned(),
            };
            let _ = write!(place, " + {factor} * (long){counter}");
        }
        if !self.is_plain && self.depth > 0 && self.random.chance(80) {
            let _ = write!(place, " + ((long){0} * {0} & 7)", COUNTERS[self.depth - 1]);
        }
        place
    }

    /// A store through an index, whose place a look ahead finds, unless the loop changes what it comes from.
    fn indexed(&mut self) {
        let index = match self.random.below(6) {
            0 => format!("base[{}]", self.place()),
            1 => format!("((unsigned *)base)[{}]", self.place()),
            _ => format!("indices[({}) & 255]", self.place()),
        };
        let place = self.random.below(400);
        let condition = if self.random.chance(200) { format!("if ({index} & 1) ") } else { String::new() };
        let store = match self.random.below(6) {
            0 => format!("((long *)base)[{place} + long_places[{index} & 15]++] = 0x0c0c0c0c0c0c0c0c;"),
            1 => format!("((unsigned *)base)[int_places[{index} & 15]++] = 0x0d0d0d0d;"),
            2 => format!("base[++long_places[{index} & 15]] = 0x0e;"),
            3 => format!("((unsigned short *)base)[{place} + ({index} & 63)] = 0x0f0f;"),
            4 => format!("((unsigned *)base)[{place} + ({index} & 63)] |= 0x10101010u;"),
            _ => format!("((struct triple *)base)[{index} & 31].c = 0x11111111;"),
        };
        self.line(&format!("{condition}{store}"));
    }

    fn body(&mut self) {
        if self.depth > 0 && self.random.chance(150) {
            return self.indexed();
        }
        for _ in 0..=self.random.below(3) {
            let condition = match self.random.below(8) {
                1.. if self.is_plain => String::new(),
                0 => "if (n > 2) ".to_owned(),
                1 if self.depth > 0 => format!("if ({} & 1) ", COUNTERS[self.depth - 1]),
                2 => format!("if (((unsigned char *)base)[{}] == 0) ", self.place()),
                _ => String::new(),
            };
            let place = self.place();
            let store = match self.random.below(11) {
                0 => format!("((unsigned char *)base)[{place}] = 7;"),
                1 => format!("((unsigned short *)base)[{place}] = 0x0202;"),
                2 => format!("((unsigned *)base)[{place}] |= 0x03030303u;"),
                3 => format!("((struct triple *)base)[{place}].b = 0x04040404;"),
                4 => format!("((struct triple *)base)[{place}] = triple;"),
                5 => format!("memset(base + ({place}), 9, (size_t)clamp({}));", self.invariant()),
                6 => format!("local[({place}) & 15] = 5;"),
                7 => {
                    format!("__atomic_fetch_or((unsigned *)base + ({place}), 0x05050505u, __ATOMIC_SEQ_CST);")
                }
                8 => format!("*(volatile unsigned *)(base + 4 * ({place})) = 0x06060606;"),
                _ => format!("((long *)base)[{place}] = 0x0b0b0b0b0b0b0b0b;"),
            };
            self.line(&format!("{condition}{store}"));
        }
    }
}

/// Text of so many functions: `NEST(number)` is the name of each.
fn author(random: &mut Random, nests: usize) -> String {
    let mut text = String::from(
        "#include <string.h>\n#include \"nests.h\"\n\
         struct triple { int a, b, c; };\n\
         static const struct triple triple = {0x01010101, 0x01020304, 0x0a0a0a0a};\n\
         static inline long clamp(long count) { return count < 0 ? 0 : count > 9 ? 9 : count; }\n",
    );
    for nest in 0..nests {
        let levels = random.between((1, 3)) as usize;
        let is_plain = random.chance(600);
        let mut author = Author { random, text: String::new(), depth: 0, is_plain };
        if author.random.chance(200) {
            author.body();
        }
        author.nest(levels);
        if author.random.chance(200) {
            author.nest(1);
        }
        let _ = write!(
            text,
            "void NEST({nest})(unsigned char *base, long n, long m, long s, const long *limit,\n    \
             long *long_places, int *int_places) {{\n    \
             volatile int local[16] = {{0}};\n    (void)local, (void)n, (void)m, (void)s, (void)limit, (void)base;\n    \
             (void)long_places, (void)int_places;\n{}}}\n",
            author.text
        );
    }
    text
}

fn header(nests: usize) -> String {
    let mut text = String::from(
        "typedef void nest_function(unsigned char *, long, long, long, const long *, long *, int *);\nvoid opaque(void);\n\
         extern unsigned indices[];\n",
    );
    let _ = writeln!(text, "enum {{ NESTS = {nests} }};");
    for kind in ["plain", "noted"] {
        let names: Vec<_> = (0..nests).map(|nest| format!("{kind}_nest_{nest}")).collect();
        let _ = writeln!(text, "nest_function {};", names.join(", "));
        let _ = writeln!(
            text,
            "static nest_function *const {kind}_nests[] __attribute__((unused)) = {{{}}};",
            names.join(", ")
        );
    }
    text
}

/// Compiles in a folder.
#[track_caller]
fn clang(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("clang-19");
    run(command.current_dir(folder).args(arguments), LIMIT).expect_success();
}

/// Counts that the program prints: notes, gathered, extended, synchronised, loops ahead, loops refused, pages
/// brought by checks of loads.
#[track_caller]
fn check(folder: &Path, options: &[&str], more: &[&str]) -> Result<[u64; 7], String> {
    check_as(if options.contains(&UDSM) { "udsm" } else { "adsm" }, folder, options, more)
}

/// The same with pages that are here at first (`adsm`), or not (`udsm`).
#[track_caller]
fn check_as(mode: &str, folder: &Path, options: &[&str], more: &[&str]) -> Result<[u64; 7], String> {
    let plugin = dist().join("lib/tutti/rcop.so").display().to_string();
    let load = format!("-fpass-plugin={plugin}");
    let common = [options, &["-fno-strict-aliasing", "-c", "nests_random.c"]].concat();
    let loads =
        [&load[..], "-Xclang", "-load", "-Xclang", &plugin, "-DNEST(n)=noted_nest_##n", "-o", "noted.o"];
    clang(folder, &[&common[..], &loads, more].concat());
    clang(folder, &["-O1", "nests.o", "plain.o", "noted.o", "-o", "nests"]);
    let ran = run(Command::new(folder.join("nests")).arg(mode), LIMIT);
    let last = ran.stdout.lines().last().unwrap_or_default();
    if !ran.status.success() {
        return Err(format!("{options:?} {more:?}: {ran}"));
    }
    let numbers: Vec<u64> =
        last.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    Ok(std::array::from_fn(|place| numbers[place + 1]))
}

/// Nests of one of several seeds.
#[track_caller]
fn some_nests_are_noted(which: u64) {
    if has_plugin() {
        nests_are_noted(random::seed().wrapping_add(which), NOTED_NESTS);
    }
}

#[test]
fn rcop_notes_exactly_what_random_loop_nests_store() {
    some_nests_are_noted(0);
}

#[test]
fn rcop_notes_exactly_what_other_loop_nests_store() {
    some_nests_are_noted(1);
}

#[test]
fn rcop_notes_exactly_what_more_loop_nests_store() {
    some_nests_are_noted(2);
}

#[test]
fn udsm_checks_all_that_random_loop_nests_load() {
    if !has_plugin() {
        return;
    }
    nests_are_checked(random::seed(), CHECKED_NESTS);
}

/// `TUTTI_SIM_TIMES` nests (10,000), with seeds from `TUTTI_TEST_SEED` on.
#[test]
#[ignore = "minutes: make soak-nests"]
fn rcop_notes_exactly_what_random_loop_nests_store_soak() {
    if !has_plugin() {
        return;
    }
    let wanted: usize =
        std::env::var("TUTTI_SIM_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(10_000);
    let first = random::seed();
    for round in 0..wanted.div_ceil(NESTS) as u64 {
        nests_are_noted(first.wrapping_add(round), NESTS);
        nests_are_checked(first.wrapping_add(round), NESTS);
    }
}

/// A folder with the nests of a seed, compiled without notes, and what runs them.
#[track_caller]
fn write_nests(name: &str, seed: u64, nests: usize) -> Scratch {
    let scratch = Scratch::new(name);
    let folder = scratch.path();
    std::fs::write(folder.join("nests.h"), header(nests)).expect("a file");
    std::fs::write(folder.join("nests_random.c"), author(&mut Random::new(seed), nests)).expect("a file");
    let harness = root().join("tests/dsm/programs/nests.c").display().to_string();
    clang(folder, &["-O2", "-I.", "-c", &harness, "-o", "nests.o"]);
    // Stores of different types meet.
    clang(
        folder,
        &["-O1", "-fno-strict-aliasing", "-c", "nests_random.c", "-DNEST(n)=plain_nest_##n", "-o", "plain.o"],
    );
    scratch
}

/// Counts of a compilation in which nothing is wrong.
#[track_caller]
fn check_right(folder: &Path, options: &[&str], seed: u64) -> [u64; 7] {
    check(folder, options, &[]).unwrap_or_else(|what| {
        let text = std::fs::read_to_string(folder.join("nests_random.c")).unwrap_or_default();
        panic!("seed {seed}: {what}\n{text}")
    })
}

/// Nests of a seed.
#[track_caller]
fn nests_are_noted(seed: u64, nests: usize) {
    let scratch = write_nests("rcop-nests", seed, nests);
    let folder = scratch.path();
    let counts = OPTIONS.map(|options| check_right(folder, options, seed));
    println!("notes, gathered, extended, synchronised, ahead, refused, brought: {counts:?}");
    let notes = |counts: [u64; 7]| counts[0] + counts[2];
    assert!(counts.iter().all(|counts| counts[3] > 0), "no nest synchronises: {counts:?}");
    assert!(notes(counts[0]) < notes(counts[3]), "nothing is gathered: {counts:?}");
    let of_all: u64 = counts.iter().map(|counts| counts[4]).sum();
    assert!(of_all > 0, "no loop runs ahead: {counts:?}");
    // A plugin that leaves stores out is found.
    let broken = check(folder, &["-O0"], &["-mllvm", "-rcop-broken=true"]);
    assert!(broken.is_err_and(|what| what.contains("stored, and not noted")));
}

/// Nests of a seed whose pages are not here at first: what is loaded has been brought by a check, or stored.
#[track_caller]
fn nests_are_checked(seed: u64, nests: usize) {
    let scratch = write_nests("udsm-nests", seed, nests);
    let counts = CHECKED_OPTIONS.map(|options| check_right(scratch.path(), options, seed));
    println!("notes, gathered, extended, synchronised, ahead, refused, brought: {counts:?}");
    assert!(counts.iter().all(|counts| counts[6] > 0), "no check has brought a page: {counts:?}");
    // Code that checks no loads finds bytes that have not come.
    let unchecked = check_as("udsm", scratch.path(), &["-O1"], &[]);
    assert!(unchecked.is_err_and(|what| what.contains("another result")));
}
