//! Counts of each rank, printed by rank 0 at the end of a job on several nodes: `TUTTI_STATS=1`, or
//! `TUTTI_STATS=json` for programs, beside the table of messages.

use std::io::Write;

use tutti_mpi::abi::*;
use tutti_mpi::api;

use crate::executor::{self, All, COUNTS};

/// Counts of a rank: of all, and of the part between CREATE and WAIT_FOR_END.
type Counts = [All; 2];

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

fn line(form: Form, rank: usize, names: &[&str; COUNTS], [all, part]: &Counts) -> String {
    match form {
        Form::Json => {
            let pairs = |counts: &All| {
                let pairs = names.iter().zip(counts).map(|(name, count)| format!("\"{name}\":{count}"));
                pairs.collect::<Vec<_>>().join(",")
            };
            format!("{{\"shared_memory_of\":{rank},{},\"parallel\":{{{}}}}}\n", pairs(all), pairs(part))
        }
        Form::Text => {
            let pairs: Vec<_> = names
                .iter()
                .zip(all)
                .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
                .collect();
            format!("shared memory of rank {rank}: {}\n", pairs.join(", "))
        }
    }
}

/// Prints them, when the user wants it. All ranks of a job on several nodes call it, before MPI ends.
pub(crate) fn print(me: usize, ranks: usize) {
    let (Some(form), Some((names, whole, part))) = (form(), executor::counted()) else { return };
    let own = [whole, part];
    let mut all: Vec<Counts> = vec![[[0; COUNTS]; 2]; if me == 0 { ranks } else { 0 }];
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
        let counts: Counts =
            std::array::from_fn(|part| std::array::from_fn(|place| (part * 100 + place) as u64));
        let mut names = ["one_name"; COUNTS];
        names[COUNTS - 1] = "last";
        let json = line(Form::Json, 3, &names, &counts);
        assert!(json.starts_with("{\"shared_memory_of\":3,\"one_name\":0,"), "{json}");
        let last = COUNTS - 1;
        assert!(json.contains(&format!("\"last\":{last},\"parallel\":{{\"one_name\":100,")), "{json}");
        assert!(json.ends_with(&format!("\"last\":{}}}}}\n", 100 + last)), "{json}");
        let text = line(Form::Text, 3, &names, &counts);
        assert!(text.starts_with("shared memory of rank 3: 0 one name, 1 one name,"), "{text}");
        assert!(text.ends_with(&format!(", {last} last\n")), "{text}");
    }
}
