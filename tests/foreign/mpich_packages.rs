//! Programs as Debian has built them for MPICH, on our library: unpacked, not compiled here, with answers
//! that they check themselves or that are known. `make foreign-debian` runs them, `make foreign-machines`
//! those between machines.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tutti_testkit::{Need, skip};
use tutti_tests::machines::Machines;
use tutti_tests::{Ran, Scratch, program, run};

use crate::packages::{NETPIPE_WORDS, expect_netpipe, install_from};

/// Folder in which the packages are unpacked; `make foreign-debian` sets it, and the variables by which
/// programs find their libraries there.
const FOLDER: &str = "FOREIGN_MPICH_PACKAGES";
/// Places of four ranks.
const NODE: &[&str] = &["-n", "4"];
const NODES: &[&str] = &["-n", "4", "--virtual-nodes", "2"];
/// Thousands of small messages between more ranks than cores.
const LIMIT: Duration = Duration::from_secs(200);

fn folder() -> PathBuf {
    std::env::var_os(FOLDER).expect("make foreign-debian runs this test").into()
}

/// Files of ScaLAPACK's tests.
fn scalapack() -> PathBuf {
    let triplets = std::fs::read_dir(folder().join("usr/lib")).expect("libraries").flatten();
    let mut tests = triplets.map(|triplet| triplet.path().join("scalapack/mpich-tests"));
    tests.find(|tests| tests.is_dir()).expect("the package has tests")
}

fn ours(options: &[&str], directory: &Path, file: &Path, words: &[&str]) -> Ran {
    run(program("mpiexec").args(options).arg(file).args(words).current_dir(directory), LIMIT)
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_netpipe_keeps_every_byte() {
    let scratch = Scratch::new("mpich-packages-netpipe");
    let file = folder().join("usr/bin/NPmpich2");
    for place in [&["-n", "2"][..], &["-n", "2", "--virtual-nodes", "2"]] {
        expect_netpipe(&ours(place, scratch.path(), &file, &NETPIPE_WORDS).expect_success());
    }
}

/// The inputs are looked for in the working directory.
fn inputs(place: &Path) {
    let mut copy = Command::new("sh");
    copy.args(["-c", "cp \"$0\"/*.dat \"$0\"/BLACS/*.dat ."]).arg(folder().join("usr/share/scalapack"));
    run(copy.current_dir(place), LIMIT).expect_success();
}

/// Messages between the processes of a grid: each of the five kinds of numbers counts what it has tested. The
/// last test ends the job.
#[track_caller]
fn expect_blacs(name: &str) {
    let scratch = Scratch::new(&format!("mpich-packages-{name}"));
    inputs(scratch.path());
    let ran = ours(NODE, scratch.path(), &scalapack().join("BLACS").join(name), &[]);
    let counts: Vec<&str> = ran.stdout.lines().filter(|line| line.ends_with(" FAILED.")).collect();
    assert!(counts.len() >= 15 && counts.iter().all(|line| line.ends_with(" 0 FAILED.")), "{name}: {ran}");
    let is_whole = ran.stdout.contains("The final auxiliary test is for BLACS_ABORT");
    assert!(is_whole && ran.code() == 255, "{name}: {ran}");
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_blacs_passes_its_own_tests_in_c() {
    expect_blacs("xCbtest");
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_blacs_passes_its_own_tests_in_fortran() {
    expect_blacs("xFbtest");
}

/// A solver, whose Fortran library of MPICH is its own, over ours.
#[track_caller]
fn expect_scalapack(name: &str, place: &[&str], tests: u32) {
    let scratch = Scratch::new(&format!("mpich-packages-{name}"));
    inputs(scratch.path());
    expect_residuals(
        name,
        tests,
        &ours(place, scratch.path(), &scalapack().join(name), &[]).expect_success(),
    );
}

/// Checks what a solver says of its tests.
#[track_caller]
fn expect_residuals(name: &str, tests: u32, ran: &Ran) {
    let count = |what: &str| {
        let line = ran.stdout.lines().find(|line| line.contains(what))?;
        line.split_whitespace().next()?.parse::<u32>().ok()
    };
    let counts = ["completed and passed residual", "completed and failed residual"].map(count);
    assert_eq!(counts, [Some(tests), Some(0)], "{name}: {ran}");
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_scalapack_factorizes() {
    expect_scalapack("xdlu", NODE, 240);
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_scalapack_factorizes_on_nodes() {
    expect_scalapack("xdlu", NODES, 240);
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_scalapack_solves_least_squares() {
    expect_scalapack("xcls", NODE, 1152);
}

const WATER: &str = "start water
geometry units angstroms
O 0.0 0.0 0.0
H 0.0 0.757 0.587
H 0.0 -0.757 0.587
end
basis
* library 6-31g*
end
task scf energy
task dft energy
";

/// Quantum chemistry on Global Arrays: energies of water.
#[track_caller]
fn expect_water(place: &[&str]) {
    let scratch = Scratch::new("mpich-packages-nwchem");
    std::fs::write(scratch.path().join("water.nw"), WATER).expect("the folder is ours");
    let data = folder().join("usr/share/nwchem");
    let mut command = program("mpiexec");
    command.env("NWCHEM_BASIS_LIBRARY", format!("{}/libraries/", data.display())).args(place);
    command.arg(folder().join("usr/bin/nwchem.mpich")).arg("water.nw").current_dir(scratch.path());
    expect_energies(&run(&mut command, LIMIT).expect_success());
}

/// Checks the energies of water.
#[track_caller]
fn expect_energies(ran: &Ran) {
    let energy = |what: &str| {
        let line = ran.stdout.lines().find(|line| line.contains(what))?;
        line.rsplit('=').next()?.trim().parse::<f64>().ok()
    };
    for (what, expected) in [("Total SCF energy", -76.010_496), ("Total DFT energy", -75.844_395)] {
        let found = energy(what).unwrap_or(0.0);
        assert!((found - expected).abs() < 1e-5, "{what} {found}: {ran}");
    }
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_nwchem_has_the_energies_of_water() {
    expect_water(&["-n", "1"]);
    expect_water(NODE);
}

#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_nwchem_has_the_energies_of_water_on_nodes() {
    expect_water(NODES);
}

/// A program whose files its package has in `/usr/share`, where a mount namespace shows them: only root can
/// make one.
#[track_caller]
fn with_files(place: &[&str], scratch: &Scratch, name: &str, words: &[&str]) -> Option<Ran> {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "shows files of packages in /usr/share");
        return None;
    }
    let layers = format!("lowerdir={}:/usr/share", folder().join("usr/share").display());
    let shown = "mount -t overlay overlay -o \"$0\" /usr/share && exec \"$@\"";
    let mpiexec = program("mpiexec");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", shown, &layers]).arg(mpiexec.get_program()).args(place);
    command.arg(folder().join("usr/bin").join(name)).args(words).current_dir(scratch.path());
    command.env("TUTTI_DAEMON", "none").envs([("OMP_NUM_THREADS", "1"), ("BAGEL_NUM_THREADS", "1")]);
    Some(run(&mut command, LIMIT).expect_success())
}

const HYDROGEN_FLUORIDE: &str = r#"{ "bagel": [
    { "title": "molecule", "angstrom": true,
      "basis": "/usr/share/bagel/svp.json", "df_basis": "/usr/share/bagel/svp-jkfit.json",
      "geometry": [ { "atom": "H", "xyz": [0.0, 0.0, 0.0] }, { "atom": "F", "xyz": [0.0, 0.0, 0.9178] } ] },
    { "title": "hf", "thresh": 1.0e-10 }
] }"#;

/// Quantum chemistry on one-sided communication: the energy of a molecule.
#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_bagel_has_the_energy_of_a_molecule() {
    for place in [&["-n", "1"][..], NODE, NODES] {
        let scratch = Scratch::new("mpich-packages-bagel");
        std::fs::write(scratch.path().join("hf.json"), HYDROGEN_FLUORIDE).expect("the folder is ours");
        let Some(ran) = with_files(place, &scratch, "BAGEL", &["hf.json"]) else { return };
        // Number of the iteration, energy, change, time.
        let mut energies = ran.stdout.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first()?.parse::<u32>().ok().filter(|_| words.len() == 4)?;
            words[1].parse::<f64>().ok()
        });
        let energy = energies.next_back().unwrap_or(0.0);
        let is_converged = ran.stdout.contains("SCF iteration converged");
        assert!(is_converged && (energy + 99.932_387_47).abs() < 1e-7, "{place:?}: {energy}: {ran}");
    }
}

/// Photons through a nebula, by chance: how bright it is.
#[test]
#[ignore = "packages of Debian: make foreign-debian"]
fn mpich_package_mocassin_counts_the_photons_of_a_nebula() {
    for place in [NODE, NODES] {
        let scratch = Scratch::new("mpich-packages-mocassin");
        let prepare = "mkdir input output && cp \"$0\"/* input/ && sed -i \
            's/^nPhotons.*/nPhotons 20000/; s/^n\\([xyz]\\) 13/n\\1 7/; s/^maxIterateMC.*/maxIterateMC 2 95./; /^autoPackets/d' \
            input/input.in";
        let nebula = folder().join("usr/share/mocassin/benchmarks/gas/HII20");
        let mut command = Command::new("sh");
        run(command.args(["-c", prepare]).arg(nebula).current_dir(scratch.path()), LIMIT).expect_success();
        let Some(ran) = with_files(place, &scratch, "mocassin", &[]) else { return };
        assert!(ran.stdout.contains("end simulation reached - clean exit"), "{ran}");
        let written =
            std::fs::read_to_string(scratch.path().join("output/lineFlux.out")).expect("its answer");
        let line = written.lines().find(|line| line.contains("Hbeta [E36 erg/s]:")).unwrap_or_default();
        let brightness: f64 =
            line.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        // 5.6 to 5.9 with so few photons.
        assert!((5.0..6.6).contains(&brightness), "{place:?}: {written}");
    }
}

/// A package by alice's job on two machines, in her home, with the system's choice of a BLAS and a LAPACK.
#[track_caller]
fn on_machines(machines: &Machines, ranks: u32, file: &Path, words: &[&str]) -> Ran {
    let tests = scalapack();
    let lib = tests.ancestors().nth(2).expect("a folder of libraries");
    let lib = Path::new("/").join(lib.strip_prefix(folder()).expect("a package's file"));
    let libraries = format!("LD_LIBRARY_PATH={0}/blas:{0}/lapack", lib.display());
    let file = Path::new("/").join(file.strip_prefix(folder()).expect("a package's file"));
    let mut command = machines.launch(2, ranks);
    command.args(["--wdir", "/home/alice", "-x", &libraries]);
    command.args(["-x", "NWCHEM_BASIS_LIBRARY=/usr/share/nwchem/libraries/"]);
    run(command.arg(file).args(words), LIMIT).expect_success()
}

/// Two machines with a daemon each, which share nothing but a cable and the home of an ordinary user.
#[test]
#[ignore = "thousands of messages between crowded machines: make foreign-machines"]
fn mpich_packages_run_on_machines() {
    let Some(machines) = Machines::up("mpich-packages", 2, &[]) else { return };
    install_from(&machines, &folder());
    let (_, home) = machines.file("");
    expect_netpipe(&on_machines(&machines, 2, &folder().join("usr/bin/NPmpich2"), &NETPIPE_WORDS));
    inputs(&home);
    expect_residuals("xdlu", 240, &on_machines(&machines, 4, &scalapack().join("xdlu"), &[]));
    std::fs::write(home.join("water.nw"), WATER).expect("the home is ours");
    expect_energies(&on_machines(&machines, 4, &folder().join("usr/bin/nwchem.mpich"), &["water.nw"]));
}
