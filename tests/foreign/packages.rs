//! Programs as Debian has built them for Open MPI: unpacked, not compiled here, with answers that are known.
//!
//! | run by | on which Open MPI | programs |
//! |---|---|---|
//! | `make test` | that of PyPI's wheel | HPCC, NetPIPE |
//! | `make foreign-debian` | Debian's own | LAMMPS, GROMACS and GetDP (PETSc) too, beside its own launcher |
//! | `make foreign-machines` | both | the same on two machines of the lab |

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tutti_tests::machines::Machines;
use tutti_tests::{Ran, Scratch, peers, program, root};

use crate::harness::{run, run_within};

/// Folder in which the packages are unpacked, with that Open MPI; `make foreign-debian` sets it, and the
/// variables by which programs find their libraries there.
const FOLDER: &str = "FOREIGN_PACKAGES";
/// Programs of ten thousand messages: each waits for the slices of whatever else works on these cores.
const LIMIT: Duration = Duration::from_secs(200);
/// Places of four ranks.
const PLACES: [&[&str]; 3] = [&[], &["--virtual-nodes", "2"], &["--netns", "2"]];

/// Installs the packages on machines, if there are any.
#[track_caller]
pub fn install(machines: &Machines) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    install_from(machines, Path::new(&folder));
}

/// Installs what is in a folder, over what the machines have in `/usr`.
#[track_caller]
pub fn install_from(machines: &Machines, folder: &Path) {
    let layers = format!("lowerdir={}/usr:/usr", folder.display());
    for node in 0..machines.lab.nodes() {
        machines.lab.node(node).run(&["mount", "-t", "overlay", "overlay", "-o", &layers, "/usr"]);
    }
}

/// Programs that are unpacked.
struct Packages {
    folder: PathBuf,
    bin: PathBuf,
    /// Folders of their libraries, if the variables of this process do not name them.
    libraries: Option<OsString>,
    places: &'static [&'static [&'static str]],
}

impl Packages {
    /// HPCC and NetPIPE at least.
    #[track_caller]
    fn small() -> Option<Self> {
        if std::env::var_os(FOLDER).is_some() {
            return Some(Self::all());
        }
        let open_mpi = peers::open_mpi()?.join("lib");
        let folder = peers::packages()?;
        let mut packages = Self::unpacked(folder, &PLACES[1..2]);
        let own = packages.folders_of_libraries("blas", &packages.folder);
        let all = std::env::join_paths([open_mpi].into_iter().chain(own));
        packages.libraries = Some(all.expect("plain names"));
        Some(packages)
    }

    /// Folders of this name beside the libraries, one for each architecture, below a folder where the
    /// packages are seen.
    fn folders_of_libraries(&self, name: &str, seen: &Path) -> Vec<PathBuf> {
        let triplets = std::fs::read_dir(self.folder.join("usr/lib")).expect("libraries").flatten();
        let folders = triplets.filter(|triplet| triplet.path().join(name).is_dir());
        folders.map(|triplet| seen.join("usr/lib").join(triplet.file_name()).join(name)).collect()
    }

    fn all() -> Self {
        let folder = PathBuf::from(std::env::var_os(FOLDER).expect("make foreign-debian runs this test"));
        // Only root can make network namespaces.
        let places = if rustix::process::geteuid().is_root() { &PLACES[..] } else { &PLACES[..2] };
        Self::unpacked(folder, places)
    }

    fn unpacked(folder: PathBuf, places: &'static [&'static [&'static str]]) -> Self {
        Packages { bin: folder.join("usr/bin"), folder, libraries: None, places }
    }

    /// A program of the packages by a launcher, in a folder.
    fn command(&self, launcher: &mut Command, folder: &Path, words: &[&str]) -> Ran {
        launcher.arg(self.bin.join(words[0])).args(&words[1..]).current_dir(folder);
        if let Some(folders) = &self.libraries {
            launcher.env("LD_LIBRARY_PATH", folders);
        }
        run_within(launcher, LIMIT).expect_success()
    }

    #[track_caller]
    fn under_ours(&self, options: &[&str], folder: &Path, words: &[&str]) -> Ran {
        self.command(program("mpiexec").args(options), folder, words)
    }

    /// The same by alice's job on two machines, in her home. Packages of Debian's Open MPI are installed
    /// there.
    #[track_caller]
    fn on_machines(&self, machines: &Machines, ranks: u32, words: &[&str]) -> Ran {
        let (bin, libraries) = match &self.libraries {
            Some(folders) => (self.bin.clone(), folders.clone()),
            // The system's choice of a BLAS and a LAPACK, as update-alternatives makes it.
            None => {
                let folders = |name| self.folders_of_libraries(name, Path::new("/"));
                let both = [folders("blas"), folders("lapack")].concat();
                ("/usr/bin".into(), std::env::join_paths(both).expect("plain names"))
            }
        };
        let mut command = machines.launch(2, ranks);
        let libraries = format!("LD_LIBRARY_PATH={}", libraries.display());
        command.args(["--wdir", "/home/alice", "-x", &libraries]);
        // The machines share the cores of one: a rank that polls would do so beside one that has work.
        command.args(["-x", "OMPI_MCA_mpi_yield_when_idle=1"]);
        tutti_tests::run(command.arg(bin.join(words[0])).args(&words[1..]), LIMIT).expect_success()
    }

    /// The same by Open MPI's launcher, on four ranks.
    #[track_caller]
    fn under_theirs(&self, folder: &Path, words: &[&str]) -> Ran {
        let mut launcher = Command::new(self.bin.join("mpirun.openmpi"));
        launcher.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        self.command(launcher.args(["--oversubscribe", "-n", "4"]), folder, words)
    }

    /// A program without a launcher.
    #[track_caller]
    fn alone(&self, folder: &Path, words: &[&str]) -> Ran {
        run(Command::new(self.bin.join(words[0])).args(&words[1..]).current_dir(folder)).expect_success()
    }
}

/// Copies an input of ours.
fn input(name: &str, folder: &Path) {
    std::fs::copy(root().join("tests/foreign/inputs").join(name), folder.join(name)).expect("an input");
}

/// Checks what HPCC has written: each of its programs compares its answer with the right one.
#[track_caller]
fn expect_hpcc(written: &str) {
    let has = |text: &str| written.contains(text);
    let counted = |text: &str| written.matches(text).count();
    assert!(has("\nSuccess=1\n") && has("\nCommWorldProcs=4\n"), "{written}");
    assert!(!has("FAILED") && counted(" 0 tests completed and failed residual checks") == 2, "{written}");
    assert!(has(" 5 tests completed and passed residual checks."), "PTRANS: {written}");
    assert!(has(" 1 tests completed and passed residual checks,"), "HPL: {written}");
    assert!(has("\nMPIRandomAccess_Errors=0\n"), "{written}");
}

/// Debian's HPCC: dense systems, transposes, random accesses, transforms, and messages of all kinds.
#[test]
fn open_mpi_package_hpcc_has_right_answers() {
    let Some(packages) = Packages::small() else { return };
    for place in packages.places {
        let scratch = Scratch::new("packages-hpcc");
        input("hpccinf.txt", scratch.path());
        packages.under_ours(&[place, &["-n", "4"][..]].concat(), scratch.path(), &["hpcc"]);
        expect_hpcc(&std::fs::read_to_string(scratch.path().join("hpccoutf.txt")).expect("its answers"));
    }
}

/// NetPIPE: one length after the other, each so many times.
pub const NETPIPE_WORDS: [&str; 7] = ["-i", "-n", "25", "-u", "1000000", "-o", "np.out"];

fn netpipe() -> Vec<&'static str> {
    [&["NPopenmpi"], &NETPIPE_WORDS[..]].concat()
}

#[track_caller]
pub fn expect_netpipe(ran: &Ran) {
    let tried = ran.stderr.matches(" times --> ").count();
    assert_eq!(ran.stderr.matches("Integrity check passed").count(), tried, "{ran}");
    assert!(tried > 30 && !ran.stderr.contains("fail"), "{ran}");
}

/// Messages of many lengths, each byte of which is looked at.
#[test]
fn open_mpi_package_netpipe_keeps_every_byte() {
    let Some(packages) = Packages::small() else { return };
    let scratch = Scratch::new("packages-netpipe");
    for place in packages.places {
        expect_netpipe(&packages.under_ours(&[place, &["-n", "2"][..]].concat(), scratch.path(), &netpipe()));
    }
}

/// Two machines with a daemon each, which share nothing but a cable and the home of an ordinary user.
#[test]
#[ignore = "thousands of messages between crowded machines: make foreign-machines"]
fn open_mpi_packages_run_on_machines() {
    let Some(packages) = Packages::small() else { return };
    let Some(machines) = Machines::up("packages", 2, &[]) else { return };
    install(&machines);
    let (_, home) = machines.file("");
    let home = home.as_path();
    input("hpccinf.txt", home);
    packages.on_machines(&machines, 4, &["hpcc"]);
    expect_hpcc(&std::fs::read_to_string(home.join("hpccoutf.txt")).expect("its answers"));
    expect_netpipe(&packages.on_machines(&machines, 2, &netpipe()));
}

/// The same of programs whose packages bring a hundred others: the answers are those of one node.
#[test]
#[ignore = "a hundred packages: make foreign-machines"]
fn open_mpi_large_packages_run_on_machines() {
    let packages = Packages::all();
    let Some(machines) = Machines::up("large-packages", 2, &[]) else { return };
    install(&machines);
    let (_, home) = machines.file("");
    let home = home.as_path();

    input("in.melt", home);
    let expected = packages.under_theirs(home, &LAMMPS);
    let ran = packages.on_machines(&machines, 4, &LAMMPS);
    assert!(steps(&ran).len() == 7 && steps(&ran) == steps(&expected), "{ran}\n{expected}");

    let expected = packages.argon_under_theirs(home);
    packages.on_machines(&machines, 4, &argon_words("machines"));
    assert_eq!(packages.energies(home, "machines"), expected);

    input_of_plates(home);
    let ran = packages.on_machines(&machines, 4, &plates_words());
    expect_plates(&ran, home);
}

const LAMMPS: [&str; 5] = ["lmp", "-in", "in.melt", "-log", "none"];

/// Lines that LAMMPS has printed of its steps.
fn steps(ran: &Ran) -> Vec<&str> {
    let lines = ran.stdout.lines().skip_while(|line| !line.trim_start().starts_with("Step "));
    lines.take_while(|line| !line.starts_with("Loop time")).collect()
}

/// Atoms of a liquid: what LAMMPS prints of them is the same, wherever its ranks are.
#[test]
#[ignore = "a hundred packages: make foreign-debian"]
fn open_mpi_package_lammps_has_the_answers_of_its_own_launcher() {
    let packages = Packages::all();
    let scratch = Scratch::new("packages-lammps");
    input("in.melt", scratch.path());
    let expected = packages.under_theirs(scratch.path(), &LAMMPS);
    let expected = steps(&expected);
    assert_eq!(expected.len(), 7, "{expected:?}");
    for place in packages.places {
        let ran = packages.under_ours(&[place, &["-n", "4"][..]].concat(), scratch.path(), &LAMMPS);
        assert_eq!(steps(&ran), expected, "{place:?} {ran}");
    }
}

fn argon_words(name: &str) -> [&str; 9] {
    ["gmx_mpi", "mdrun", "-s", "argon.tpr", "-ntomp", "1", "-reprod", "-deffnm", name]
}

impl Packages {
    /// Input of GROMACS in a folder, and the mean energies that it has under its own launcher.
    #[track_caller]
    fn argon_under_theirs(&self, folder: &Path) -> Vec<String> {
        input("argon.top", folder);
        input("argon.mdp", folder);
        std::fs::write(folder.join("argon.gro"), argon()).expect("the folder is ours");
        let prepare = "grompp -f argon.mdp -c argon.gro -p argon.top -o argon.tpr -maxwarn 5";
        self.alone(folder, &["gmx"].into_iter().chain(prepare.split(' ')).collect::<Vec<_>>());
        self.under_theirs(folder, &argon_words("theirs"));
        let expected = self.energies(folder, "theirs");
        assert_eq!(expected.len(), 2, "{expected:?}");
        expected
    }

    /// Mean energies of a run.
    #[track_caller]
    fn energies(&self, folder: &Path, name: &str) -> Vec<String> {
        let script = format!(
            "printf 'Potential\\nTotal-Energy\\n\\n' | exec \"$0\" energy -f {name}.edr -o {name}.xvg"
        );
        let gmx = self.bin.join("gmx");
        let mut command = Command::new("sh");
        let ran = run(command.args(["-c", &script]).arg(gmx).current_dir(folder)).expect_success();
        let is_mean = |line: &&str| line.ends_with("(kJ/mol)");
        ran.stdout.lines().filter(is_mean).map(str::to_owned).collect()
    }
}

/// Argon, by domains: the mean energies are those that it has under its own launcher.
#[test]
#[ignore = "a hundred packages: make foreign-debian"]
fn open_mpi_package_gromacs_has_the_answers_of_its_own_launcher() {
    let packages = Packages::all();
    let scratch = Scratch::new("packages-gromacs");
    let folder = scratch.path();
    let expected = packages.argon_under_theirs(folder);
    for (name, place) in ["node", "nodes", "spaces"].into_iter().zip(packages.places) {
        packages.under_ours(&[place, &["-n", "4"][..]].concat(), folder, &argon_words(name));
        assert_eq!(packages.energies(folder, name), expected, "{place:?}");
    }
}

/// Atoms on a grid, as GROMACS reads them.
fn argon() -> String {
    const SIDE: usize = 6;
    const GAP_NM: f64 = 0.362;
    let mut text = format!("Argon\n{}\n", SIDE.pow(3));
    for atom in 0..SIDE.pow(3) {
        let places =
            [atom / SIDE / SIDE, atom / SIDE % SIDE, atom % SIDE].map(|at| (at as f64 + 0.5) * GAP_NM);
        let number = atom + 1;
        let [x, y, z] = places;
        text += &format!("{number:5}{:5}{:>5}{number:5}{x:8.3}{y:8.3}{z:8.3}\n", "AR", "AR");
    }
    let side = SIDE as f64 * GAP_NM;
    text + &format!("{side:10.5}{side:10.5}{side:10.5}\n")
}

fn input_of_plates(folder: &Path) {
    input("plates.pro", folder);
    std::fs::write(folder.join("plates.msh"), plates()).expect("the folder is ours");
}

fn plates_words() -> Vec<&'static str> {
    let words = "getdp plates.pro -msh plates.msh -solve R -pos O -v 4 -ksp_type gmres -pc_type bjacobi -ksp_rtol 1e-10";
    words.split(' ').collect()
}

#[track_caller]
fn expect_plates(ran: &Ran, folder: &Path) {
    let written = std::fs::read_to_string(folder.join("potential.txt")).expect("its answer");
    let value: f64 = written.split_whitespace().last().expect("a value").parse().expect("a number");
    assert!((value - 0.33).abs() < 1e-8, "{written}{ran}");
    assert!(ran.stdout.contains(" - gmres bjacobi ") || ran.stdout.contains("iterations"), "{ran}");
}

/// A potential between two plates, by PETSc's solver on all ranks: it rises evenly.
#[test]
#[ignore = "a hundred packages: make foreign-debian"]
fn open_mpi_package_getdp_solves_with_petsc() {
    let packages = Packages::all();
    for place in packages.places {
        let scratch = Scratch::new("packages-getdp");
        input_of_plates(scratch.path());
        let options = [place, &["-n", "4"][..]].concat();
        let ran = packages.under_ours(&options, scratch.path(), &plates_words());
        expect_plates(&ran, scratch.path());
    }
}

/// Triangles of a square between the plates, as GetDP reads them.
fn plates() -> String {
    const SIDE: usize = 20;
    let node = |x: usize, y: usize| y * (SIDE + 1) + x + 1;
    let mut text = format!("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n{}\n", (SIDE + 1).pow(2));
    for (y, x) in (0..=SIDE).flat_map(|y| (0..=SIDE).map(move |x| (y, x))) {
        text += &format!("{} {} {} 0\n", node(x, y), x as f64 / SIDE as f64, y as f64 / SIDE as f64);
    }
    // Kind, region, nodes.
    let mut elements: Vec<(u32, u32, Vec<usize>)> = Vec::new();
    for y in 0..SIDE {
        elements.push((1, 2, vec![node(0, y), node(0, y + 1)]));
        elements.push((1, 3, vec![node(SIDE, y), node(SIDE, y + 1)]));
        for x in 0..SIDE {
            elements.push((2, 1, vec![node(x, y), node(x + 1, y), node(x + 1, y + 1)]));
            elements.push((2, 1, vec![node(x, y), node(x + 1, y + 1), node(x, y + 1)]));
        }
    }
    text += &format!("$EndNodes\n$Elements\n{}\n", elements.len());
    for (number, (kind, region, nodes)) in elements.iter().enumerate() {
        let nodes: Vec<String> = nodes.iter().map(usize::to_string).collect();
        text += &format!("{} {kind} 2 {region} {region} {}\n", number + 1, nodes.join(" "));
    }
    text + "$EndElements\n"
}
