//! Counts of each rank, printed by rank 0 at the end of a job on several nodes: `TUTTI_STATS=1`, or
//! `TUTTI_STATS=json` for programs, beside the table of messages.

use std::io::Write;

use tutti_mpi::abi::*;
use tutti_mpi::api;

use crate::{executor, note};

/// Number of counts.
const COUNTS: usize = 15;
/// Counts of a rank, in order.
type Counts = [u64; COUNTS];

/// Form in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

fn form() -> Option<Form> {
    match std::env::var("TUTTI_STATS").ok()?.as_str() {
        "json" => Some(Form::Json),
        "1" | "on" | "yes" | "table" => Some(Form::Text),
        _ => None,
    }
}

/// Counts of this rank, and their names.
fn counted() -> Option<([&'static str; COUNTS], Counts)> {
    let (notes, work) = (note::counters().named(), executor::counters()?.named());
    let mut all = notes.into_iter().chain(work);
    let pairs: [_; COUNTS] = std::array::from_fn(|_| all.next().expect("a count for each place"));
    Some((pairs.map(|(name, _)| name), pairs.map(|(_, count)| count)))
}

fn line(form: Form, rank: usize, names: &[&str; COUNTS], counts: &Counts) -> String {
    let pairs = names.iter().zip(counts);
    match form {
        Form::Json => {
            let pairs: String = pairs.map(|(name, count)| format!(",\"{name}\":{count}")).collect();
            format!("{{\"shared_memory_of\":{rank}{pairs}}}\n")
        }
        Form::Text => {
            let pairs: Vec<_> =
                pairs.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
            format!("shared memory of rank {rank}: {}\n", pairs.join(", "))
        }
    }
}

/// Prints them, when the user wants it. All ranks of a job on several nodes call it, before MPI ends.
pub(crate) fn print(me: usize, ranks: usize) {
    let (Some(form), Some((names, own))) = (form(), counted()) else { return };
    let mut all: Vec<Counts> = vec![[0; COUNTS]; if me == 0 { ranks } else { 0 }];
    let bytes = size_of::<Counts>() as core::ffi::c_int;
    // SAFETY: rank 0 has room for all, of numbers alone; the communicator is MPI's.
    unsafe {
        api::MPI_Gather(
            own.as_ptr().cast(),
            bytes,
            MPI_BYTE,
            all.as_mut_ptr().cast(),
            bytes,
            MPI_BYTE,
            0,
            MPI_COMM_WORLD,
        )
    };
    let text: String =
        all.iter().enumerate().map(|(rank, counts)| line(form, rank, &names, counts)).collect();
    // Nobody is there to tell when it fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_name_each_count_in_both_forms() {
        let counts: Counts = std::array::from_fn(|place| place as u64);
        let mut names = ["one_name"; COUNTS];
        names[COUNTS - 1] = "last";
        let json = line(Form::Json, 3, &names, &counts);
        assert!(
            json.starts_with("{\"shared_memory_of\":3,\"one_name\":0,") && json.ends_with("\"last\":14}\n")
        );
        let text = line(Form::Text, 3, &names, &counts);
        assert!(text.starts_with("shared memory of rank 3: 0 one name, 1 one name,"), "{text}");
        assert!(text.ends_with(", 14 last\n"), "{text}");
    }
}
