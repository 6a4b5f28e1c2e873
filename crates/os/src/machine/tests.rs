use std::fs::{create_dir_all, write};

use super::*;

/// Two cores with two threads each, which share a last cache, and a fifth one of another.
fn folder(scratch: &tutti_testkit::Scratch) {
    for core in 0..5 {
        let of_core = scratch.path().join(format!("cpu{core}"));
        let siblings = match core {
            0 | 2 => "0,2",
            1 | 3 => "1,3",
            _ => "4",
        };
        let shared = if core < 4 { "0-3" } else { "4" };
        create_dir_all(of_core.join("topology")).unwrap();
        write(of_core.join("topology/thread_siblings_list"), format!("{siblings}\n")).unwrap();
        for (index, level, kind, size, cores) in [
            (0, 1, "Data", "48K", siblings),
            (1, 2, "Unified", "2048K", siblings),
            (2, 3, "Unified", "32M", shared),
        ] {
            let cache = of_core.join(format!("cache/index{index}"));
            create_dir_all(&cache).unwrap();
            let files = [("level", level.to_string()), ("type", kind.into()), ("size", size.into())];
            for (name, text) in files
                .into_iter()
                .chain([("coherency_line_size", "64".to_owned()), ("shared_cpu_list", cores.to_owned())])
            {
                write(cache.join(name), text + "\n").unwrap();
            }
        }
    }
}

#[test]
fn machine_topology_tells_siblings_from_cores_of_one_cache_and_of_others() {
    let scratch = tutti_testkit::Scratch::new("topology");
    folder(&scratch);
    let cores = [0, 1, 2, 3, 4];
    let topology = Topology::read(scratch.path(), &cores);
    let pairs = topology.pairs(&cores);
    assert_eq!(pairs, [(Nearness::Cache, [0, 1]), (Nearness::Siblings, [0, 2]), (Nearness::Far, [0, 4])]);
    let cache = |level, kind: &str, bytes, cores: &[&str]| Cache {
        level,
        kind: kind.into(),
        bytes,
        line_bytes: 64,
        cores: cores.iter().map(|&text| text.to_owned()).collect(),
    };
    let shared = ["0,2", "1,3", "4"];
    let expected = [
        cache(1, "Data", 48 << 10, &shared),
        cache(2, "Unified", 2 << 20, &shared),
        cache(3, "Unified", 32 << 20, &["0-3", "4"]),
    ];
    assert_eq!(topology.caches, expected);
    assert_eq!(topology.pairs(&[3]), []);
    // Where the kernel says nothing: of other cores no more is known than that they are there.
    let unknown = Topology::read(&scratch.path().join("nothing"), &cores);
    assert_eq!((unknown.caches.len(), unknown.pairs(&cores)), (0, vec![(Nearness::Far, [0, 1])]));
    assert_eq!(["48K", "2M", "7", "3Q", ""].map(size), [Some(48 << 10), Some(2 << 20), Some(7), None, None]);
}

#[test]
fn machine_figures_have_a_value_or_say_why_not() {
    let machine = Machine::measure();
    assert_eq!(machine.figures.len(), 10);
    for (name, figure) in &machine.figures {
        assert!(figure.value.is_some_and(|value| value > 0.0) != figure.why.is_some(), "{name}: {figure:?}");
    }
    let of = |name: &str| machine.figures[name].value;
    // What one core does alone is always there; a copy of 64 KiB takes longer than one of 8 B.
    let (yields, copies) = (of("yield_ns"), of("copy_8k_gbs"));
    assert!(yields.is_some() && copies.is_some(), "{machine:?}");
    let cores = cpu_list::parse(&machine.cores);
    assert!(machine.figures.values().flat_map(|figure| &figure.between).all(|core| cores.contains(core)));
    let mut other = machine.clone();
    other.boot.push('0');
    assert!(!other.is_of_now(), "of another boot");
    other = Machine { form: FORM + 1, ..machine };
    assert!(!other.is_of_now(), "of another form");
}
