//! Lays out the installation tree: `tutti-dist SOURCE TARGET PROFILE` writes `TARGET/dist` from the sources
//! in SOURCE and from what cargo has built in `TARGET/PROFILE`.
//!
//! Run again with nothing changed it only compares. Every file appears whole (written beside its place, then
//! renamed), so a running program or a test never sees half of one. What an earlier run put there and this
//! one does not is removed.

mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tree::Tree;
use tutti_table::manual::{self, Manual};
use tutti_table::shmem::{self, Shmem};
use tutti_table::{Table, filter, header};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What cargo builds: its name there, and its place in the tree. The libraries must be there, programs may.
const LIBRARIES: [(&str, &str); 1] = [("libtutti.so", "lib/libtutti.so.1")];
const PROGRAMS: [(&str, &str); 3] =
    [("tutti", "bin/tutti"), ("tuttid", "bin/tuttid"), ("tutti-starter", "libexec/tutti/tutti-starter")];

/// Names beside others in the same folder.
const LINKS: [(&str, &str); 13] = [
    ("share/man/man1/mpirun.1", "mpiexec.1"),
    // One program, whose name says which command it is.
    ("bin/mpiexec", "tutti"),
    ("bin/mpirun", "tutti"),
    ("bin/oshrun", "tutti"),
    ("share/man/man1/oshrun.1", "mpiexec.1"),
    ("lib/libsma.so", "libsma.so.1"),
    ("bin/oshc++", "oshcxx"),
    ("bin/oshCC", "oshcxx"),
    ("lib/libtutti.so", "libtutti.so.1"),
    ("lib/libmpi_abi.so", "libmpi_abi.so.1"),
    // For build systems that write -lmpi themselves; programs still record libmpi_abi.so.1.
    ("lib/libmpi.so", "libmpi_abi.so.1"),
    ("bin/mpic++", "mpicxx"),
    ("bin/mpiCC", "mpicxx"),
];

/// What `tutti` prints, and its place.
const MANUALS: [(&[&str], &str); 17] = [
    (&["man", "mpiexec"], "share/man/man1/mpiexec.1"),
    (&["man", "tutti"], "share/man/man1/tutti.1"),
    (&["man", "tutti-run"], "share/man/man1/tutti-run.1"),
    (&["man", "tutti-submit"], "share/man/man1/tutti-submit.1"),
    (&["man", "tuttid"], "share/man/man8/tuttid.8"),
    (&["completion", "bash", "mpiexec"], "share/bash-completion/completions/mpiexec"),
    (&["completion", "bash", "mpirun"], "share/bash-completion/completions/mpirun"),
    (&["completion", "bash", "tutti"], "share/bash-completion/completions/tutti"),
    (&["completion", "bash", "tuttid"], "share/bash-completion/completions/tuttid"),
    (&["completion", "zsh", "mpiexec"], "share/zsh/site-functions/_mpiexec"),
    (&["completion", "zsh", "mpirun"], "share/zsh/site-functions/_mpirun"),
    (&["completion", "zsh", "tutti"], "share/zsh/site-functions/_tutti"),
    (&["completion", "zsh", "tuttid"], "share/zsh/site-functions/_tuttid"),
    (&["completion", "fish", "mpiexec"], "share/fish/vendor_completions.d/mpiexec.fish"),
    (&["completion", "fish", "mpirun"], "share/fish/vendor_completions.d/mpirun.fish"),
    (&["completion", "fish", "tutti"], "share/fish/vendor_completions.d/tutti.fish"),
    (&["completion", "fish", "tuttid"], "share/fish/vendor_completions.d/tuttid.fish"),
];

/// Compiler wrappers: name, language, default compiler, variables that name another.
const WRAPPERS: [(&str, &str, &str, &str); 2] = [
    ("mpicc", "C", "cc", "TUTTI_CC MPICH_CC OMPI_CC"),
    ("mpicxx", "C++", "c++", "TUTTI_CXX MPICH_CXX OMPI_CXX"),
];
const SHMEM_WRAPPERS: [(&str, &str, &str, &str); 2] = [
    ("oshcc", "C", "cc", "TUTTI_CC OSHMEM_CC OMPI_CC"),
    ("oshcxx", "C++", "c++", "TUTTI_CXX OSHMEM_CXX OMPI_CXX"),
];
const FORTRAN_WRAPPERS: [&str; 3] = ["mpifort", "mpif90", "mpif77"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, profile] = &arguments[..] else {
        eprintln!("usage: tutti-dist SOURCE TARGET PROFILE");
        return ExitCode::FAILURE;
    };
    match lay_out(Path::new(source), Path::new(target), profile) {
        Ok(changed) => {
            println!("{}/dist: {changed} files changed", target);
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("tutti-dist: {what}");
            ExitCode::FAILURE
        }
    }
}

fn lay_out(source: &Path, target: &Path, profile: &str) -> Result<usize, String> {
    let built = target.join(profile);
    let work = target.join("dist-work");
    let facts = source.join("bindings/mpi");
    let table = Table::load(&facts).map_err(|e| e.to_string())?;
    let mut tree = Tree::open(&target.join("dist"), &work)?;

    let additions = read(&facts.join("additions.h"))?;
    tree.file("include/mpi.h", header::generate(&table, &additions, VERSION).as_bytes(), 0o644)?;
    for (name, place) in LIBRARIES {
        tree.copy(&built.join(name), place, 0o755)?;
    }
    let filter = filter_library("mpi_abi", &filter::generate(&table), &work)?;
    tree.copy(&filter, "lib/libmpi_abi.so.1", 0o755)?;
    lay_out_shmem(source, &mut tree, &work)?;
    for (name, place) in PROGRAMS {
        if built.join(name).is_file() {
            tree.copy(&built.join(name), place, 0o755)?;
        }
    }
    write_wrappers(&mut tree, &facts.join("wrappers"))?;
    write_manuals(&mut tree, &built.join("tutti"))?;
    let manual =
        Manual::load(&table, &facts, &source.join("crates/mpi/src/api")).map_err(|e| e.to_string())?;
    for (name, page) in manual::pages(&table, &manual, VERSION) {
        tree.file(&format!("share/man/man3/{name}"), page.as_bytes(), 0o644)?;
    }
    for (place, to) in LINKS {
        tree.link(place, to)?;
    }
    tree.finish()
}

/// What OpenSHMEM has besides MPI.
fn lay_out_shmem(source: &Path, tree: &mut Tree, work: &Path) -> Result<(), String> {
    let facts = source.join("bindings/shmem");
    let table = Shmem::load(&facts).map_err(|e| e.to_string())?;
    let header = shmem::header::generate(&table, &read(&facts.join("shmem.h"))?, VERSION);
    tree.file("include/shmem.h", header.as_bytes(), 0o644)?;
    let filter = filter_library("sma", &filter::generate_shmem(&table), work)?;
    tree.copy(&filter, "lib/libsma.so.1", 0o755)?;
    let package = fill(&read(&facts.join("oshmem.pc"))?, "oshmem");
    tree.file("share/pkgconfig/oshmem.pc", package.as_bytes(), 0o644)?;
    let api = source.join("crates/shmem/src/api");
    let comments = shmem::manual::Comments::load(&api).map_err(|e| format!("{}: {e}", api.display()))?;
    for (name, page) in shmem::manual::pages(&table, &comments, VERSION) {
        tree.file(&format!("share/man/man3/{name}"), page.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// Manual pages and completions, which `tutti` prints from its command lines.
fn write_manuals(tree: &mut Tree, tutti: &Path) -> Result<(), String> {
    if !tutti.is_file() {
        return Ok(());
    }
    for (arguments, place) in MANUALS {
        let printed = Command::new(tutti)
            .args(arguments)
            .output()
            .map_err(|e| format!("{} cannot be started: {e}", tutti.display()))?;
        if !printed.status.success() {
            return Err(format!("{} {}: {}", tutti.display(), arguments.join(" "), printed.status));
        }
        tree.file(place, &printed.stdout, 0o644)?;
    }
    Ok(())
}

fn write_wrappers(tree: &mut Tree, templates: &Path) -> Result<(), String> {
    let compiler = read(&templates.join("compiler.sh"))?;
    let both = [("MPI", "mpi_abi", &WRAPPERS), ("OpenSHMEM", "sma", &SHMEM_WRAPPERS)];
    for (interface, library, wrapper) in both.into_iter().flat_map(|(interface, library, wrappers)| {
        wrappers.iter().map(move |wrapper| (interface, library, wrapper))
    }) {
        let (name, language, default, variables) = *wrapper;
        let libraries = if library == "sma" { "-lsma -lmpi_abi" } else { "-lmpi_abi" };
        let text = fill(&compiler, name)
            .replace("@INTERFACE@", interface)
            .replace("@LIBRARIES@", libraries)
            .replace("@LANGUAGE@", language)
            .replace("@COMPILER@", default)
            .replace("@VARIABLES@", variables);
        tree.file(&format!("bin/{name}"), text.as_bytes(), 0o755)?;
    }
    let fortran = read(&templates.join("fortran.sh"))?;
    for name in FORTRAN_WRAPPERS {
        tree.file(&format!("bin/{name}"), fill(&fortran, name).as_bytes(), 0o755)?;
    }
    let package = read(&templates.join("pkgconfig.pc"))?;
    // FindMPI of CMake asks for mpi-c and mpi-cxx; there is one set of flags for both languages.
    for name in ["mpi", "mpi-c", "mpi-cxx", "tutti"] {
        tree.file(&format!("share/pkgconfig/{name}.pc"), fill(&package, name).as_bytes(), 0o644)?;
    }
    Ok(())
}

fn fill(template: &str, name: &str) -> String {
    template.replace("@NAME@", name).replace("@VERSION@", VERSION)
}

/// Builds the filter `libNAME.so.1` in `work`, unless the one there was built from the same text by the same
/// command.
fn filter_library(name: &str, text: &str, work: &Path) -> Result<PathBuf, String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let file = format!("{name}.c");
    let (source, stamp) = (work.join(&file), work.join(format!("{name}.stamp")));
    let soname = format!("lib{name}.so.1");
    let library = work.join(&soname);
    let arguments = filter::compiler_arguments(&file, &soname);
    let made_by = format!("{compiler} {}\n{text}", arguments.join(" "));
    if library.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == made_by) {
        return Ok(library);
    }
    let _ = std::fs::remove_file(&stamp);
    write(&source, text)?;
    // CC may hold options beside the name.
    let mut words = compiler.split_whitespace();
    let status = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .args(&arguments)
        .current_dir(work)
        .status()
        .map_err(|e| format!("the C compiler `{compiler}` cannot be started: {e}"))?;
    if !status.success() {
        return Err(format!("`{compiler}` could not build {}: {status}", library.display()));
    }
    write(&stamp, &made_by)?;
    Ok(library)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
