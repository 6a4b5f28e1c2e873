//! Lays out the installation tree: `tutti-dist SOURCE TARGET ON_THE_PATH COMMANDS` writes `TARGET/dist` from
//! the sources in SOURCE and from what cargo has built: in `TARGET/ON_THE_PATH` what stands on a message's
//! path, in `TARGET/COMMANDS` the rest (mk/dist.mk). Debug information goes to `TARGET/dist-debug`.
//!
//! Run again with nothing changed it only compares. Every file appears whole (written beside its place, then
//! renamed), so a running program or a test never sees half of one. What an earlier run put there and this
//! one does not is removed.

mod program;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use program::Programs;
use tree::Tree;
use tutti_table::fortran::{Fortran, sources};
use tutti_table::manual::{self, Manual};
use tutti_table::shmem::{self, Shmem};
use tutti_table::{Table, filter, header, native_manual, page_manual};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files that cargo builds for a message's path: the name there, and the place in the tree.
const ON_THE_PATH: [(&str, &str); 7] = [
    ("libtutti.so", "lib/libtutti.so.1"),
    ("libmpifort_abi.so", "lib/libmpifort_abi.so.1"),
    // In a folder that the launcher alone puts in front: on the machine's path it would hide a real MPICH.
    ("libmpich.so", "lib/tutti/mpich/libmpich.so.12"),
    ("libmpichfort.so", "lib/tutti/mpich/mpichfort/libmpichfort.so.12"),
    ("libtutti_ompt.so", "lib/libtutti_ompt.so"),
    ("tutti-trace-rank", "libexec/tutti/tutti-trace-rank"),
    ("tutti-dse-kernel", "libexec/tutti/tutti-dse-kernel"),
];
/// Libraries of MPICH that Debian has under longer names than all others: what cargo has built for it, and
/// the names in it, its own first, that are others elsewhere.
const UPSTREAM_OF_MPICH: [(&str, &[(&str, &str)]); 2] = [
    ("libmpich.so", &[("libmpich.so.12", "libmpi.so.12")]),
    ("libmpichfort.so", &[("libmpichfort.so.12", "libmpifort.so.12"), ("libmpich.so.12", "libmpi.so.12")]),
];
/// MPICH's library of C++ without what it has: its compiler wrapper names it in every program, of which most
/// use the interface of C alone. In a folder of its own, for where there is no other one.
const WITHOUT_CLASSES: &str = "/* MPI:: was removed in MPI-3.0. */\n";
const CXX_ARGUMENTS: [&str; 7] =
    ["-shared", "-fPIC", "-nostdlib", "-o", "libmpicxx.so.12", "mpicxx.c", "-Wl,-soname,libmpicxx.so.12"];
/// The rest, with its mode. The starter cannot be read but by its owner: so the kernel lets no user trace one
/// of its own from its first instruction on, and take root's descriptors from it.
const COMMANDS: [(&str, &str, u32); 7] = [
    ("tutti", "bin/tutti", 0o755),
    ("tuttid", "bin/tuttid", 0o755),
    ("tutti-top", "libexec/tutti/tutti-top", 0o755),
    ("tutti-pmix", "libexec/tutti/tutti-pmix", 0o755),
    ("tutti-slurm", "libexec/tutti/tutti-slurm", 0o755),
    ("tutti-sight", "libexec/tutti/tutti-sight", 0o755),
    ("tutti-starter", "libexec/tutti/tutti-starter", 0o711),
];

/// Other names of files: place, and what it leads to as seen from there.
const LINKS: [(&str, &str); 27] = [
    // Where the headers of OpenSHMEM stood before version 1.1; programs may still include them there
    // (annex F).
    ("include/mpp/shmem.h", "../shmem.h"),
    ("include/mpp/shmemx.h", "../shmemx.h"),
    ("share/man/man1/mpirun.1", "mpiexec.1"),
    // One program, whose name says which command it is.
    ("bin/mpiexec", "tutti"),
    ("bin/mpirun", "tutti"),
    ("bin/oshrun", "tutti"),
    // Slurm's commands, in a folder that only those put on their path who want them.
    ("share/tutti/slurm/bin/sacct", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/sacctmgr", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/salloc", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/sbatch", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/scancel", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/scontrol", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/sinfo", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/squeue", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/srun", "../../../../libexec/tutti/tutti-slurm"),
    ("share/tutti/slurm/bin/sshare", "../../../../libexec/tutti/tutti-slurm"),
    ("share/man/man1/oshrun.1", "mpiexec.1"),
    ("lib/libsma.so", "libsma.so.1"),
    ("bin/oshc++", "oshcxx"),
    ("bin/oshCC", "oshcxx"),
    ("lib/libtutti.so", "libtutti.so.1"),
    ("lib/libmpi_abi.so", "libmpi_abi.so.1"),
    ("lib/libmpifort_abi.so", "libmpifort_abi.so.1"),
    // For build systems that write -lmpi themselves; programs still record libmpi_abi.so.1.
    ("lib/libmpi.so", "libmpi_abi.so.1"),
    // For programs that open a library of that name when they run: they know the interfaces of MPICH and Open
    // MPI.
    ("lib/tutti/mpich/libmpi.so", "libmpi.so.12"),
    ("bin/mpic++", "mpicxx"),
    ("bin/mpiCC", "mpicxx"),
];

/// Words for which `tutti` prints a file, and the file's place.
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
const FORTRAN_WRAPPERS: [(&str, &str, &str, &str); 3] = [
    ("mpifort", "Fortran", "gfortran", FORTRAN_VARIABLES),
    ("mpif90", "Fortran", "gfortran", FORTRAN_VARIABLES),
    ("mpif77", "Fortran", "gfortran", FORTRAN_VARIABLES),
];
/// The wrapper of programs that share memory, and what it links: a program whose code and variables have the
/// same addresses on all ranks, the object that begins before `main`, and functions of the C library that
/// stand behind others.
const PARMACS_WRAPPER: (&str, &str, &str, &str) = ("tutticc", "C", "cc", "TUTTI_CC");
const PARMACS_LIBRARIES: &str = r#"${fixed:+-no-pie} ${globals:+"-Wl,-T,$libdir/tutti/parmacs_globals,--require-defined=tutti_dsm_globals_begin"} "$libdir/tutti/parmacs_start.o" ${noted:+"$noted"} $streams -ltutti "-Wl,@$libdir/tutti/parmacs_wrapped""#;
/// Functions of the C library that have another one in their place, a name a line.
const PARMACS_WRAPPED: &str = include_str!("../../../../dsm/wrapped.txt");
/// Options by which clang 19 loads the plugin, twice: as passes, and for their switches.
const PARMACS_FLAGS: &str = r#" ${loads:+"-fpass-plugin=$loads" -Xclang -load -Xclang "$loads"} $switches"#;
/// The wrapper of programs of `tutti.hpp`.
const INVOCATION_WRAPPER: (&str, &str, &str, &str) = ("tutticxx", "C++", "c++", "TUTTI_CXX");
const FORTRAN_VARIABLES: &str =
    "TUTTI_FC MPIFORT_FC MPICH_FC MPICH_F90 MPICH_F77 OMPI_FC OMPI_F90 OMPI_F77 FC";
/// Sources of the modules; the first is `mpif.h`.
const MODULE_FILES: [&str; 3] = ["tutti_mpi_base.mod", "mpi.mod", "mpi_f08.mod"];

/// Options of gfortran that change the kinds of reals, for which module files are installed, too.
const MODULE_OPTIONS: [&[&str]; 3] =
    [&[], &["-fdefault-real-8"], &["-fdefault-real-8", "-fdefault-double-8"]];

/// A tool in C has no name that a program of Fortran needs, so the linker must not leave it out.
const PROFILE_OF_FORTRAN: &str =
    r#"${profile:+-Wl,--push-state,--no-as-needed "-l$profile" -Wl,--pop-state}"#;

/// Another line of the help of the wrappers of Fortran.
const SHOWME_INSTALL: &str = r#""
    say "  -showme:install         put the module files for this compiler, and mpi-fort of pkg-config, into the tree"#;

/// Actions of the wrappers of Fortran before they use a flag.
const USE_MODULES: &str = r#"find_options "$@"
case $mode in
kind) find_kind; say "$kind"; exit 0 ;;
make=*) find_kind; make_modules "${mode#make=}"; exit ;;
install) find_kind; install_modules; exit ;;
help | version | command | libdirs | libs | link) ;;
*) find_modules ;;
esac
for arg do
    case $arg in
    -fdefault-integer-8 | -i8 | -fdefault-integer-64 | -integer-size=64 | '-integer-size 64')
        say "@NAME@: $arg: an INTEGER of MPI has 4 bytes; declare what must be larger as INTEGER(8)" >&2
        exit 1
        ;;
    esac
done

"#;

/// Steps of the wrapper of programs that share memory before it runs the compiler.
const USE_M4: &str = include_str!("../../../../dsm/tutticc.sh");

/// Steps of the wrapper of programs of `tutti.hpp` before it uses a flag.
const USE_STANDARD: &str = include_str!("../../../../cxx/tutticxx.sh");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, on_the_path, commands] = &arguments[..] else {
        eprintln!("usage: tutti-dist SOURCE TARGET ON_THE_PATH COMMANDS");
        return ExitCode::FAILURE;
    };
    let target = Path::new(target);
    match lay_out(Path::new(source), target, &target.join(on_the_path), &target.join(commands)) {
        Ok(changed) => {
            println!("{}/dist: {changed} files changed", target.display());
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("tutti-dist: {what}");
            ExitCode::FAILURE
        }
    }
}

fn lay_out(source: &Path, target: &Path, on_the_path: &Path, commands: &Path) -> Result<usize, String> {
    let work = target.join("dist-work");
    let facts = source.join("bindings/mpi");
    let table = Table::load(&facts).map_err(|e| e.to_string())?;
    let mut tree = Tree::open(&target.join("dist"), &work, "manifest")?;
    let mut debug = Tree::open(&target.join("dist-debug"), &work, "debug-manifest")?;
    let mut programs = Programs { debug: &mut debug, work: &work };

    let additions = read(&facts.join("additions.h"))?;
    tree.file("include/mpi.h", header::generate(&table, &additions, VERSION).as_bytes(), 0o644)?;
    for (name, place) in ON_THE_PATH {
        programs.place(&mut tree, &on_the_path.join(name), place, 0o755)?;
    }
    for (name, others) in UPSTREAM_OF_MPICH {
        let library = programs.take_apart(&on_the_path.join(name))?.program;
        let mut library = std::fs::read(library).map_err(|e| format!("{name}: {e}"))?;
        for (from, to) in others {
            library = renamed(library, from, to)?;
        }
        let name = others[0].1;
        // Each in a folder of its own: it is for programs that find no other one.
        let folder = if name == "libmpifort.so.12" { "mpifort/" } else { "" };
        tree.file(&format!("lib/tutti/mpich/{folder}{name}"), &library, 0o755)?;
    }
    let cxx =
        compile_in(&work, "mpicxx.c", WITHOUT_CLASSES, "libmpicxx.so.12", &CXX_ARGUMENTS.map(String::from))?;
    tree.copy(&cxx, "lib/tutti/mpich/cxx/libmpicxx.so.12", 0o755)?;
    let filter = filter_library("mpi_abi", &filter::generate(&table), &work)?;
    tree.copy(&filter, "lib/libmpi_abi.so.1", 0o755)?;
    lay_out_shmem(source, &mut tree, &work)?;
    lay_out_parmacs(&source.join("bindings/dsm"), &mut tree, &work)?;
    for header in ["tutti.h", "tutti_board.h", "tutti_call.h", "tutti_dse.h", "tutti_move.h"] {
        let text = read(&source.join("bindings/native").join(header))?;
        tree.file(&format!("include/{header}"), text.as_bytes(), 0o644)?;
        for (name, page) in native_manual::pages(header, &text, VERSION) {
            tree.file(&format!("share/man/man3/{name}"), page.as_bytes(), 0o644)?;
        }
    }
    tree.file("include/tutti.hpp", read(&source.join("bindings/cxx/tutti.hpp"))?.as_bytes(), 0o644)?;
    for (name, page) in page_manual::pages("tutti.hpp", &read(&source.join("docs/user/cxx.md"))?, VERSION) {
        tree.file(&format!("share/man/man3/{name}"), page.as_bytes(), 0o644)?;
    }
    for (name, place, mode) in COMMANDS {
        programs.place(&mut tree, &commands.join(name), place, mode)?;
    }
    write_wrappers(&mut tree, &facts.join("wrappers"))?;
    lay_out_fortran(&table, &facts, &mut tree, &work, &target.join("dist"))?;
    write_manuals(&mut tree, &commands.join("tutti"))?;
    let manual =
        Manual::load(&table, &facts, &source.join("crates/mpi/src/api")).map_err(|e| e.to_string())?;
    for (name, page) in manual::pages(&table, &manual, VERSION) {
        tree.file(&format!("share/man/man3/{name}"), page.as_bytes(), 0o644)?;
    }
    let page = read(&source.join("crates/slurm/tutti-slurm.7"))?.replace("@VERSION@", VERSION);
    tree.file("share/man/man7/tutti-slurm.7", page.as_bytes(), 0o644)?;
    for unit in ["tuttid.service", "tutti-sight.service"] {
        let text = read(&source.join("mk").join(unit))?;
        tree.file(&format!("lib/systemd/system/{unit}"), text.as_bytes(), 0o644)?;
    }
    for name in ["alerts.yml", "dashboard.json"] {
        let text = read(&source.join("crates/sight/monitoring").join(name))?;
        tree.file(&format!("share/tutti/monitoring/{name}"), text.as_bytes(), 0o644)?;
    }
    for (place, to) in LINKS {
        tree.link(place, to)?;
    }
    Ok(tree.finish()? + debug.finish()?)
}

/// A library under another, shorter name: its own name stands once in the file.
fn renamed(mut library: Vec<u8>, from: &str, to: &str) -> Result<Vec<u8>, String> {
    let name = [from.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = (0..library.len().saturating_sub(name.len()))
        .filter(|at| library[*at..].starts_with(&name))
        .collect();
    let [at] = places[..] else {
        return Err(format!(
            "{from} stands {} times in the library of this name, expected once",
            places.len()
        ));
    };
    library[at..at + name.len()].fill(0);
    library[at..at + to.len()].copy_from_slice(to.as_bytes());
    Ok(library)
}

/// Lays out what OpenSHMEM has besides MPI.
fn lay_out_shmem(source: &Path, tree: &mut Tree, work: &Path) -> Result<(), String> {
    let facts = source.join("bindings/shmem");
    let table = Shmem::load(&facts).map_err(|e| e.to_string())?;
    let header = shmem::header::generate(&table, &read(&facts.join("shmem.h"))?, VERSION);
    tree.file("include/shmem.h", header.as_bytes(), 0o644)?;
    let extensions = read(&facts.join("shmemx.h"))?.replace("@VERSION@", VERSION);
    tree.file("include/shmemx.h", extensions.as_bytes(), 0o644)?;
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

/// Files of programs that share memory, besides the library.
fn lay_out_parmacs(facts: &Path, tree: &mut Tree, work: &Path) -> Result<(), String> {
    for header in ["parmacs.h", "parmacs_declarations.h"] {
        tree.file(&format!("include/tutti/{header}"), read(&facts.join(header))?.as_bytes(), 0o644)?;
    }
    tree.file("share/tutti/parmacs.m4", read(&facts.join("parmacs.m4"))?.as_bytes(), 0o644)?;
    let wrapped: String = PARMACS_WRAPPED.lines().map(|name| format!("--wrap={name}\n")).collect();
    tree.file("lib/tutti/parmacs_wrapped", wrapped.as_bytes(), 0o644)?;
    tree.file("lib/tutti/parmacs_globals", read(&facts.join("parmacs_globals.ld"))?.as_bytes(), 0o644)?;
    for name in ["parmacs_start", "parmacs_noted"] {
        let [source, object] = [format!("{name}.c"), format!("{name}.o")];
        let text = read(&facts.join(&source))?;
        let arguments = ["-c", "-O2", "-fPIC", &source, "-o", &object].map(String::from);
        let made = compile_in(work, &source, &text, &object, &arguments)?;
        tree.copy(&made, &format!("lib/tutti/{object}"), 0o644)?;
    }
    // What `make dsm` has built, which needs LLVM.
    let plugin = work.join("../rcop/rcop.so");
    if plugin.is_file() {
        tree.copy(&plugin, "lib/tutti/rcop.so", 0o755)?;
    }
    Ok(())
}

/// Manual pages and completions, which `tutti` prints from its command lines.
fn write_manuals(tree: &mut Tree, tutti: &Path) -> Result<(), String> {
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

/// Lays out what Fortran has besides the library: `mpif.h`, the sources of the modules, and their files for
/// the compiler that is here, with flags for pkg-config. Without one the wrapper makes the modules when it is
/// first used, and there is no `mpi-fort` for pkg-config until `mpifort -showme:install` has made it: flags
/// would name a folder that is not there.
fn lay_out_fortran(
    table: &Table,
    facts: &Path,
    tree: &mut Tree,
    work: &Path,
    dist: &Path,
) -> Result<(), String> {
    let fortran = Fortran::load(facts).map_err(|e| e.to_string())?;
    let templates = facts.join("fortran");
    let mut stamp = String::new();
    for (name, text) in sources::generate(table, &fortran, VERSION, |name| read(&templates.join(name)))? {
        let place =
            if name == "mpif.h" { "include/mpif.h".into() } else { format!("share/tutti/fortran/{name}") };
        tree.file(&place, text.as_bytes(), 0o644)?;
        stamp += &text;
    }
    let mpifort = dist.join("bin/mpifort");
    let asked = Command::new(&mpifort).arg("-showme:kind").env_remove("FC").output();
    let kind = match &asked {
        Ok(said) if said.status.success() => String::from_utf8_lossy(&said.stdout).trim().to_owned(),
        _ => String::new(),
    };
    let package = fill(&read(&facts.join("wrappers/fortran.pc"))?, "mpi-fort");
    tree.file("share/tutti/fortran/mpi-fort.pc.in", package.as_bytes(), 0o644)?;
    if kind.is_empty() {
        return Ok(());
    }
    tree.file("share/pkgconfig/mpi-fort.pc", package.replace("@KIND@", &kind).as_bytes(), 0o644)?;
    let stamp_file = work.join("modules.stamp");
    stamp += &format!("{kind} {MODULE_OPTIONS:?}");
    let is_made = std::fs::read_to_string(&stamp_file).is_ok_and(|old| old == stamp);
    for options in MODULE_OPTIONS {
        let kind = kind.clone() + &options.concat();
        let modules = work.join("modules").join(&kind);
        if !is_made {
            let _ = std::fs::remove_dir_all(&modules);
            let made = Command::new(&mpifort)
                .arg(format!("-showme:make={}", modules.display()))
                .args(options)
                .env_remove("FC")
                .status()
                .map_err(|e| format!("{} cannot be started: {e}", mpifort.display()))?;
            if !made.success() {
                return Err(format!("{} could not make the modules", mpifort.display()));
            }
        }
        for name in MODULE_FILES.into_iter().filter(|name| modules.join(name).is_file()) {
            tree.copy(&modules.join(name), &format!("lib/tutti/fortran/{kind}/{name}"), 0o644)?;
        }
    }
    write(&stamp_file, &stamp)
}

fn write_wrappers(tree: &mut Tree, templates: &Path) -> Result<(), String> {
    let compiler = read(&templates.join("compiler.sh"))?;
    let fortran = read(&templates.join("fortran.sh"))?;
    let all: [(&str, &str, &[_]); 5] = [
        ("Tutti", "-lmpi_abi -ltutti", &[INVOCATION_WRAPPER]),
        ("PARMACS", PARMACS_LIBRARIES, &[PARMACS_WRAPPER]),
        ("MPI", "-lmpi_abi", &WRAPPERS),
        ("OpenSHMEM", "-lsma -lmpi_abi", &SHMEM_WRAPPERS),
        ("MPI", "-lmpifort_abi -lmpi_abi", &FORTRAN_WRAPPERS),
    ];
    for (interface, libraries, wrapper) in all.into_iter().flat_map(|(interface, libraries, wrappers)| {
        wrappers.iter().map(move |wrapper| (interface, libraries, wrapper))
    }) {
        let (name, language, default, variables) = *wrapper;
        let is_fortran = language == "Fortran";
        let modules = match interface {
            "PARMACS" => USE_M4,
            "Tutti" => USE_STANDARD,
            _ if is_fortran => USE_MODULES,
            _ => "",
        };
        let flags = match interface {
            "PARMACS" => PARMACS_FLAGS,
            "Tutti" => r#" ${standard:+"$standard"}"#,
            _ if is_fortran => r#" ${moddir:+"-I$moddir"} $mismatch"#,
            _ => "",
        };
        let text = compiler
            .replace("@INSTALL@", if is_fortran { SHOWME_INSTALL } else { "" })
            .replace("@FORTRAN@", if is_fortran { &fortran } else { "" })
            .replace("@MODULES@", modules)
            .replace("@PROFILE@", if is_fortran { PROFILE_OF_FORTRAN } else { r#"${profile:+"-l$profile"}"# })
            .replace("@FLAGS@", flags);
        let text = fill(&text, name)
            .replace("@INTERFACE@", interface)
            .replace("@LIBRARIES@", libraries)
            .replace("@LANGUAGE@", language)
            .replace("@COMPILER@", default)
            .replace("@VARIABLES@", variables);
        tree.file(&format!("bin/{name}"), text.as_bytes(), 0o755)?;
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
    let file = format!("{name}.c");
    let soname = format!("lib{name}.so.1");
    compile_in(work, &file, text, &soname, &filter::compiler_arguments(&file, &soname))
}

/// Compiles a text as `file` to `result` in `work`, unless that was made from the same text by the same
/// command.
fn compile_in(
    work: &Path,
    file: &str,
    text: &str,
    result: &str,
    arguments: &[String],
) -> Result<PathBuf, String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let (source, stamp) = (work.join(file), work.join(file.replace(".c", ".stamp")));
    let result = work.join(result);
    let made_by = format!("{compiler} {}\n{text}", arguments.join(" "));
    if result.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == made_by) {
        return Ok(result);
    }
    let _ = std::fs::remove_file(&stamp);
    write(&source, text)?;
    // CC may hold options beside the name.
    let mut words = compiler.split_whitespace();
    let status = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .args(arguments)
        .current_dir(work)
        .status()
        .map_err(|e| format!("the C compiler `{compiler}` cannot be started: {e}"))?;
    if !status.success() {
        return Err(format!("`{compiler}` could not build {}: {status}", result.display()));
    }
    write(&stamp, &made_by)?;
    Ok(result)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
