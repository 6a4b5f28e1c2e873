//! Programs of `examples/shared` in their forms: with shared memory by `tutticc`, with messages by each MPI's
//! `mpicc`, on threads. All by the same compiler, so that the forms are compared and not compilers.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use crate::{
    cases::{self, Case, Form},
    child::{self, End, Ran},
    figures::Line,
    mpis::{self, Kind, Places},
};

const COMPILER_LIMIT: Duration = Duration::from_secs(120);

/// Compiles the programs of all cases that an MPI can run. The error is one line for the user.
pub fn prepare(places: &Places, kind: Kind) -> Result<(), String> {
    let folder = places.programs(kind);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut made = Vec::new();
    for case in cases::all().into_iter().filter(|case| is_one(case) && case.is_for(kind)) {
        let program = program(places, kind, &case);
        if made.contains(&program) {
            continue;
        }
        let mut command = compiler_of(places, kind, &case)?;
        command.arg("-o").arg(&program).arg("-lm");
        match child::run(&mut command, COMPILER_LIMIT).end {
            End::Well => made.push(program),
            End::Timeout => return Err(format!("{}: the compiler did not end", program.display())),
            End::Failed(why) => return Err(format!("{}: {why}", program.display())),
        }
    }
    Ok(())
}

/// Whether a case is a program of this folder.
pub fn is_one(case: &Case) -> bool {
    matches!(case.form, Form::Shared | Form::Messages | Form::Threads)
}

/// Whether an MPI runs the form with messages.
fn sends(kind: Kind, case: &Case) -> bool {
    case.form == Form::Messages || kind != Kind::Tutti
}

/// Where the program of a case is.
pub fn program(places: &Places, kind: Kind, case: &Case) -> PathBuf {
    let form = match case.form {
        Form::Threads => "threads",
        _ if sends(kind, case) => "messages",
        _ => "shared",
    };
    places.programs(kind).join(format!("{}-{form}", case.program))
}

/// The program's words: the forms without messages are told how many processes there are.
pub fn arguments(kind: Kind, case: &Case) -> Vec<String> {
    let mut words: Vec<String> = case.args.split_whitespace().map(str::to_owned).collect();
    if !sends(kind, case) {
        let option = if case.args.starts_with('-') { "-p" } else { "" };
        words.push(format!("{option}{}", case.ranks));
    }
    words
}

fn compiler_of(places: &Places, kind: Kind, case: &Case) -> Result<Command, String> {
    let ours = places.bin(Kind::Tutti).join("tutticc");
    let shown = child::run(Command::new(&ours).arg("-showme:command"), COMPILER_LIMIT);
    let compiler = shown.stdout.trim();
    if compiler.is_empty() {
        return Err(format!("{} names no compiler (make builds it)", ours.display()));
    }
    let folder = places.root.join("examples/shared");
    let with_macros = folder.join(format!("{}.c.in", case.program));
    let is_with_macros = with_macros.exists();
    let source = if is_with_macros { with_macros } else { folder.join(format!("{}.c", case.program)) };
    let mut command = match case.form {
        Form::Threads => {
            let mut command = Command::new(compiler);
            command.args(["-D_GNU_SOURCE", "-pthread", "-I"]).arg(folder.join("threads"));
            if is_with_macros {
                command.args(["-x", "c", "-include", "tutti/parmacs.h"]);
            }
            command.arg(source);
            // Libraries follow, which are no sources.
            if is_with_macros {
                command.args(["-x", "none"]);
            }
            command
        }
        _ if sends(kind, case) => {
            let mut command = Command::new(places.bin(kind).join("mpicc"));
            if kind != Kind::OpenMpi {
                command.arg(format!("-cc={compiler}"));
            }
            command.arg(folder.join(format!("{}_mpi.c", case.program)));
            command
        }
        _ => {
            let mut command = Command::new(ours);
            command.arg(source);
            command
        }
    };
    mpis::forget_others(&mut command);
    if kind == Kind::OpenMpi {
        command.env("OMPI_CC", compiler);
    }
    command.args(["-std=c11", "-O2"]);
    Ok(command)
}

/// The command of threads alone, without a launcher.
pub fn threads(places: &Places, kind: Kind, case: &Case, args: &[String]) -> Command {
    let mut command = Command::new(program(places, kind, case));
    command.args(args);
    command
}

/// The time that a program of this folder has printed (`lu: 1234 us`), as a line.
pub fn lines(ran: &Ran, case: &Case) -> Vec<Line> {
    ran.stderr.lines().filter_map(|line| time_in(line, case.program)).collect()
}

fn time_in(line: &str, program: &str) -> Option<Line> {
    let us = line.strip_prefix(program)?.strip_prefix(": ")?.strip_suffix(" us")?;
    let ns = us.parse::<f64>().ok()? * 1e3;
    Line::parse(&format!("{program} median_ns={ns}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_time_is_what_the_program_prints() {
        let line = time_in("lu: 1500 us", "lu").expect("a time");
        assert_eq!(line.figure("median_ns"), Some(1.5e6));
        assert!(time_in("lu: 160 x 160, blocks of 16", "lu").is_none());
        assert!(time_in("radix: 1500 us", "lu").is_none());
    }

    #[test]
    fn shared_forms_without_messages_take_the_number_of_processes() {
        let cases = cases::all();
        let case = |id| cases.iter().find(|case| case.id == id).expect("a case");
        assert_eq!(arguments(Kind::Tutti, case("shared_lu")), ["-n2048", "-b16", "-p2"]);
        assert_eq!(arguments(Kind::Tutti, case("shared_sor_threads")), ["2048", "50", "2"]);
        assert_eq!(arguments(Kind::Mpich, case("net_shared_sor")), ["2048", "50"]);
        assert_eq!(arguments(Kind::Tutti, case("net_shared_lu_messages")), ["-n2048", "-b16"]);
    }
}
