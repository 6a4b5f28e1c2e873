#!/bin/bash
# A value of a label in the text format of Prometheus "can be any sequence of UTF-8 characters" with \, " and newline escaped,
# and a metric's name may have colons. The crate prometheus-parse 0.2.5 splits labels at each comma and each piece at each =.
# So the nodes of a job, "n[1,3]", become "n[1"; a label whose value has a = is not there; a quotation mark at the end of a
# value leaves a backslash in its place. A sample with } in a value, and one with a colon in its name, as recording rules
# have, are not there at all. Nothing is said. Samples whose labels it has cut in the same way cannot be told apart any more.
# prometheus-client 0.26.0 of PyPI reads all six.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >metrics <<'END'
plain{job="12",user="eva"} 1
list{nodes="n[1,3]",user="eva"} 2
equals{command="lmp -var x=3",user="eva"} 3
quoted{name="the \"last\"",user="eva"} 4
braces{name="run{1}",user="eva"} 5
job:cpus:sum{user="eva"} 6
END
mkdir src
cat >Cargo.toml <<'END'
[package]
name = "labels"
version = "0.1.0"
edition = "2021"

[dependencies]
prometheus-parse = "=0.2.5"
END
cat >src/main.rs <<'END'
use std::collections::BTreeMap;
use std::io::BufRead;

fn main() {
    let file = std::io::BufReader::new(std::fs::File::open("metrics").unwrap());
    for sample in prometheus_parse::Scrape::parse(file.lines()).unwrap().samples {
        let labels: BTreeMap<_, _> = sample.labels.iter().collect();
        println!("prometheus-parse: {} {labels:?} {:?}", sample.metric, sample.value);
    }
}
END
cat >read.py <<'END'
from prometheus_client.parser import text_string_to_metric_families

for family in text_string_to_metric_families(open("metrics").read()):
    for sample in family.samples:
        print(f"prometheus-client: {sample.name} {sample.labels} {sample.value}")
END
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check prometheus-client==0.26.0
cargo build --quiet --target-dir target 2>/dev/null || cargo build --target-dir target
{ target/debug/labels && venv/bin/python read.py; } | tee said
cat >expected <<'END'
prometheus-parse: plain {"job": "12", "user": "eva"} Untyped(1.0)
prometheus-parse: list {"nodes": "n[1", "user": "eva"} Untyped(2.0)
prometheus-parse: equals {"user": "eva"} Untyped(3.0)
prometheus-parse: quoted {"name": "the \\\"last\\", "user": "eva"} Untyped(4.0)
prometheus-client: plain {'job': '12', 'user': 'eva'} 1
prometheus-client: list {'nodes': 'n[1,3]', 'user': 'eva'} 2
prometheus-client: equals {'command': 'lmp -var x=3', 'user': 'eva'} 3
prometheus-client: quoted {'name': 'the "last"', 'user': 'eva'} 4
prometheus-client: braces {'name': 'run{1}', 'user': 'eva'} 5
prometheus-client: job:cpus:sum {'user': 'eva'} 6
END
cmp -s said expected || { echo "this has changed"; exit 1; }
