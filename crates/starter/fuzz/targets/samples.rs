//! Real bytes for each of the readers, with the byte in front that selects it.

use tutti_protocol::wire::{
    self, Binding, Cause, Daemon, Ended, Inherits, Input, Job, Kind, Part, Program, Reached, Reattach,
    Report, Told,
};
use tutti_shm::peers::Peers;
use tutti_shm::ticket::{Attach, Face, Notice, Ticket, Welcome};

/// One or more of each.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    wire::put(&mut stream, Kind::Output, 3, b"hello\n");
    wire::put(&mut stream, Kind::Resume, 0, b"");
    wire::put_json(&mut stream, Kind::Report, &Report::Addresses(reached()));
    let table = Peers::new(0x5eed, 1472, vec![0, 2], 3, reached().addresses).expect("two nodes");
    let ticket = Ticket { socket: "tutti-1".into(), rank: 7, secret: [0xa5; 16] };
    let ended = Ended { rank: 1, pid: 2, cause: Cause::Signal { signal: 11, core_dumped: true } };
    let back = Reattach {
        job: 1,
        token: 2,
        base: 3,
        piece: 4,
        taken: true,
        told: Told { frozen: false, has_peers: true, ..Told::default() },
        greeting: None,
    };
    let json = |which: u8, text: Vec<u8>| (which, text);
    [
        (0, stream),
        (1, table.encode()),
        (2, Attach { rank: 3, secret: [9; 16], face: Face::Mpich }.encode().to_vec()),
        (2, Welcome::Granted.encode().to_vec()),
        (2, Notice::Abort(77).encode().to_vec()),
        (2, ticket.to_string().into_bytes()),
        (
            3,
            b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=k key=a value=b\\ c\ncmd=barrier_in\n"
                .to_vec(),
        ),
        (3, b"mcmd=spawn\nnprocs=2\nendcmd\ncmd=getbyidx idx=1\ncmd=abort exitcode=-7\n".to_vec()),
        (4, [&1_u32.to_le_bytes()[..], b"a", &2_u32.to_le_bytes(), b"bc"].concat()),
        json(5, serde_json::to_vec(&job()).expect("a job")),
        json(6, serde_json::to_vec(&Report::Ended(ended)).expect("a report")),
        json(
            6,
            serde_json::to_vec(&Report::Started { pids: vec![7], cores: vec!["0-1".into()] })
                .expect("a report"),
        ),
        json(7, serde_json::to_vec(&reached()).expect("addresses")),
        json(7, serde_json::to_vec(&back).expect("what a starter says")),
    ]
    .into_iter()
    .map(|(which, bytes)| [&[which], &bytes[..]].concat())
    .collect()
}

fn reached() -> Reached {
    let addresses = ["10.213.0.1:4000", "10.213.0.1:4001", "[fd00::7]:99"];
    Reached {
        addresses: addresses.map(|text| text.parse().expect("an address")).to_vec(),
        later: Vec::new(),
        datagram_bytes: 1472,
    }
}

fn job() -> Job {
    let program = Program {
        file: "a.out".into(),
        arguments: vec!["a.out".into(), "1".into()],
        ranks: 3,
        directory: Some("/".into()),
        inherits: Inherits::Only(vec!["TERM".into()]),
        variables: vec![("A".into(), "b".into())],
    };
    let part = Part {
        node: 1,
        first_ranks: vec![0, 2],
        address: [127, 0, 0, 1].into(),
        key: 7,
        shares_machine: true,
        ports: None,
        names: vec!["a".into(), "b".into()],
    };
    Job {
        id: 0xab,
        front_end: 1,
        programs: vec![program.clone(), program],
        input: Input::Rank(0),
        input_inherited: false,
        terminal: Some((24, 80)),
        pty: false,
        binding: Binding::Share,
        cores_per_rank: Some(1),
        no_oversubscribe: false,
        label: false,
        part: Some(part),
        debug: false,
        daemon: Some(Daemon { socket: "/run/tutti".into(), job: 1, token: 2, reconnect_ms: 3 }),
        memory: Some(tutti_protocol::wire::MemoryLimit {
            bytes: 1 << 29,
            reached: "it reached 512 MiB".into(),
        }),
        universe: None,
        shared_slots: None,
        idle_ms: None,
        adopted: None,
        number: None,
    }
}
