use proptest::prelude::*;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::client::READ_BYTES;
use super::*;
use tutti_protocol::wire::{Inherits, Part, Program};

fn job(programs: &[u32], part: Option<Part>) -> Job {
    let program = |ranks: &u32| Program {
        file: "a.out".into(),
        arguments: Vec::new(),
        ranks: *ranks,
        directory: None,
        inherits: Inherits::All,
        variables: Vec::new(),
    };
    Job { id: 0xab, front_end: 1, part, ..Job::of_programs(programs.iter().map(program).collect()) }
}

fn part(node: u32, first_ranks: &[u32]) -> Option<Part> {
    let address = [127, 0, 0, 1].into();
    Some(Part {
        node,
        first_ranks: first_ranks.to_vec(),
        address,
        key: 7,
        shares_machine: true,
        names: Vec::new(),
        ports: None,
    })
}

/// A server and the ends of its ranks.
fn server(job: &Job) -> (Pmi, Vec<OwnedFd>) {
    let mut pmi = Pmi::new(job, 0);
    let ends = job.local_ranks().map(|_| pmi.add().expect("a socket")).collect();
    (pmi, ends)
}

/// Sends lines as a rank; gives the events of the server.
fn send_lines(pmi: &mut Pmi, ends: &[OwnedFd], rank: u32, text: &str) -> Vec<PmiEvent> {
    send(&ends[rank as usize], text.as_bytes(), SendFlags::DONTWAIT).expect("room");
    pmi.handle_ready(rank)
}

fn recv_lines(end: &OwnedFd) -> String {
    let mut bytes = vec![0; 256 << 10];
    let read = recv(end, &mut bytes[..], RecvFlags::DONTWAIT).map_or(0, |(read, _)| read);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[test]
fn pmi_program_starts_as_with_its_own_launcher() {
    let (mut pmi, ends) = server(&job(&[1, 1], None));
    let request = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_appnum\ncmd=get_universe_size\n\
        cmd=get_my_kvsname\ncmd=get kvsname=kvs_00000000000000ab key=PMI_process_mapping\ncmd=get key=nothing\n";
    assert_eq!(send_lines(&mut pmi, &ends, 1, request), [PmiEvent::Started(1)]);
    assert_eq!(
        recv_lines(&ends[1]),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n\
         cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n\
         cmd=appnum rc=0 appnum=1\n\
         cmd=universe_size rc=0 size=2\n\
         cmd=my_kvsname rc=0 kvsname=kvs_00000000000000ab\n\
         cmd=get_result rc=0 value=(vector,(0,1,2))\n\
         cmd=get_result rc=-1 msg=key_nothing_not_found\n"
    );
    assert_eq!(
        send_lines(&mut pmi, &ends, 0, "cmd=put key=a value=b\ncmd=put kvsname=x key=a value=c\n"),
        []
    );
    assert_eq!(
        recv_lines(&ends[0]),
        "cmd=put_result rc=0 msg=success\ncmd=put_result rc=-1 msg=no_such_kvs\n"
    );
    assert_eq!(send_lines(&mut pmi, &ends, 0, "cmd=getbyidx idx=1\ncmd=getbyidx idx=2\n"), []);
    assert_eq!(
        recv_lines(&ends[0]),
        "cmd=getbyidx_results rc=0 nextidx=2 key=a value=b\ncmd=getbyidx_results rc=-2 reason=no_more_keyvals\n"
    );
    assert_eq!(send_lines(&mut pmi, &ends, 1, "cmd=finalize\n"), [PmiEvent::Finished(1)]);
    assert_eq!(recv_lines(&ends[1]), "cmd=finalize_ack rc=0\n");
    assert_eq!(
        send_lines(&mut pmi, &ends, 1, "cmd=abort exitcode=7 message=so be it\n"),
        [PmiEvent::Abort(1, 7)]
    );
}

#[test]
fn pmi_barrier_completes_when_all_ranks_enter() {
    let (mut pmi, ends) = server(&job(&[3], None));
    // Requests behind the barrier wait for its end.
    send_lines(&mut pmi, &ends, 0, "cmd=barrier_in\ncmd=get_appnum\n");
    send_lines(&mut pmi, &ends, 2, "cmd=barrier_in\n");
    assert_eq!((recv_lines(&ends[0]), recv_lines(&ends[2])), (String::new(), String::new()));
    assert_eq!(pmi.polled().map(|(rank, _, _)| rank).collect::<Vec<_>>(), [1]);
    send_lines(&mut pmi, &ends, 1, "cmd=barrier_in\n");
    assert_eq!(recv_lines(&ends[0]), "cmd=barrier_out rc=0\ncmd=appnum rc=0 appnum=0\n");
    assert_eq!(
        (recv_lines(&ends[1]), recv_lines(&ends[2])),
        ("cmd=barrier_out rc=0\n".into(), "cmd=barrier_out rc=0\n".into())
    );
    assert_eq!(pmi.poll_fence(), None);
}

#[test]
fn pmi_barrier_exchanges_keys_between_nodes() {
    let firsts = [0, 2];
    let (mut here, here_ends) = server(&job(&[3], part(0, &firsts)));
    let (mut there, there_ends) = server(&job(&[3], part(1, &firsts)));
    send_lines(
        &mut here,
        &here_ends,
        0,
        "cmd=get key=PMI_process_mapping\ncmd=put key=a value=1\ncmd=barrier_in\n",
    );
    assert_eq!(here.poll_fence(), None);
    send_lines(&mut here, &here_ends, 1, "cmd=barrier_in\n");
    send_lines(&mut there, &there_ends, 0, "cmd=put key=b value=2\ncmd=barrier_in\n");
    let ((one, mut puts), (other, more)) = (here.poll_fence().unwrap(), there.poll_fence().unwrap());
    assert_eq!((one, other, here.poll_fence()), (1, 1, None));
    puts.extend(more);
    for _ in 0..2 {
        assert_eq!(here.handle_fence(1, &puts), Ok(Vec::new()));
        assert_eq!(there.handle_fence(1, &puts), Ok(Vec::new()));
    }
    assert_eq!(
        recv_lines(&here_ends[0]),
        "cmd=get_result rc=0 value=(vector,(0,1,2),(1,1,1))\ncmd=put_result rc=0 msg=success\ncmd=barrier_out rc=0\n"
    );
    assert_eq!(recv_lines(&here_ends[1]), "cmd=barrier_out rc=0\n");
    send_lines(&mut there, &there_ends, 0, "cmd=get key=a\n");
    assert!(recv_lines(&there_ends[0]).ends_with("cmd=barrier_out rc=0\ncmd=get_result rc=0 value=1\n"));
    // The next barrier has the next number, and nothing new to report.
    send_lines(&mut there, &there_ends, 0, "cmd=barrier_in\n");
    assert_eq!(there.poll_fence(), Some((2, Vec::new())));
    assert_eq!(there.handle_fence(1, &puts), Ok(Vec::new()));
    assert_eq!(recv_lines(&there_ends[0]), "");
    assert_eq!(there.handle_fence(2, b"rubbish"), Err(NoPmi));
}

/// All words of both servers, in one order, taken by both; whether the last could be done.
fn tell(servers: [&mut Pmi; 2], words: &[Word]) -> bool {
    let mut is_done = false;
    for server in servers {
        for word in words {
            is_done = server.handle_word(word).expect("keys and values").0;
        }
    }
    is_done
}

#[test]
fn pmi_spawn_makes_a_group_over_several_nodes() {
    let (mut here, mut here_ends) = server(&job(&[2], part(0, &[0, 1])));
    let (mut there, mut there_ends) = server(&job(&[2], part(1, &[0, 1])));
    let one = "mcmd=spawn\nnprocs=2\nexecname=a.out\ntotspawns=2\nspawnssofar=1\narg1=cmd=finalize\nendcmd\n";
    assert_eq!(send_lines(&mut here, &here_ends, 0, one), []);
    let events = send_lines(&mut here, &here_ends, 0, one);
    assert!(matches!(&events[..], [PmiEvent::Spawn(0, commands)] if commands.len() == 2), "{events:?}");
    // Three ranks, the second on the other node; order 4 of the hub.
    let preput = [(b"PORT".to_vec(), b"p q".to_vec())];
    for (pmi, node, ends, ranks) in [(&mut here, 0, &mut here_ends, 2), (&mut there, 1, &mut there_ends, 1)] {
        let at = Placement { nodes: &[0, 1, 0], here: node };
        assert_eq!(pmi.begin_group(4, &[1, 2], &preput, at), 4);
        ends.extend((1..=ranks).map(|rank| pmi.add_to(rank, 4).expect("a socket")));
    }
    let ask = "cmd=get_appnum\ncmd=get key=PMI_process_mapping\ncmd=get key=PORT\n";
    send_lines(&mut there, &there_ends, 1, ask);
    assert_eq!(
        recv_lines(&there_ends[1]),
        "cmd=appnum rc=0 appnum=1\ncmd=get_result rc=0 value=(vector,(0,1,1),(1,1,1),(0,1,1))\n\
         cmd=get_result rc=0 value=p q\n"
    );
    let long = "x".repeat(1000);
    for key in 0..100 {
        send_lines(&mut here, &here_ends, 1, &format!("cmd=put key=k{key} value={long}\n"));
    }
    send_lines(&mut here, &here_ends, 1, "cmd=barrier_in\n");
    assert_eq!(here.poll_words(0), []);
    send_lines(&mut here, &here_ends, 2, "cmd=barrier_in\ncmd=get key=a\n");
    let mine = here.poll_words(0);
    // More than a word takes; told once.
    assert!(mine.len() > 1 && mine.iter().all(|word| word.encode().is_some()), "{}", mine.len());
    assert_eq!(here.poll_words(0), []);
    send_lines(&mut there, &there_ends, 1, "cmd=put key=a value=b\ncmd=barrier_in\ncmd=get key=k99\n");
    assert_eq!(recv_lines(&there_ends[1]), "cmd=put_result rc=0 msg=success\n");
    let theirs = there.poll_words(1);
    tell([&mut here, &mut there], &mine[..1]);
    tell([&mut here, &mut there], &theirs);
    assert_eq!(recv_lines(&here_ends[2]), "");
    tell([&mut here, &mut there], &mine[1..]);
    assert_eq!(recv_lines(&here_ends[2]), "cmd=barrier_out rc=0\ncmd=get_result rc=0 value=b\n");
    assert!(recv_lines(&there_ends[1]).ends_with(&format!("value={long}\n")));
    let rubbish = Word::Fence { group: 4, number: 2, node: 0, is_last: true, puts: b"rubbish".to_vec() };
    assert_eq!(here.handle_word(&rubbish), Ok((true, Vec::new())));
    let rubbish = Word::Fence { group: 4, number: 2, node: 1, is_last: true, puts: Vec::new() };
    assert_eq!(here.handle_word(&rubbish), Err(NoPmi));
}

#[test]
fn pmi_name_is_known_on_all_nodes_before_its_rank_is_answered() {
    let (mut here, here_ends) = server(&job(&[2], part(0, &[0, 1])));
    let (mut there, there_ends) = server(&job(&[2], part(1, &[0, 1])));
    let events = send_lines(&mut here, &here_ends, 0, "cmd=publish_name service=a port=b\ncmd=get key=x\n");
    let [PmiEvent::Name(0, change)] = &events[..] else { panic!("{events:?}") };
    let word = Word::Publish { rank: 0, service: b"a".to_vec(), port: b"b".to_vec() };
    assert_eq!(*change, NameChange::Publish(b"a".to_vec(), b"b".to_vec()));
    assert!(tell([&mut here, &mut there], std::slice::from_ref(&word)));
    assert_eq!(recv_lines(&here_ends[0]), "");
    here.answer_name(0, change, true);
    let answer = "cmd=publish_result rc=0 info=ok\ncmd=get_result rc=-1 msg=key_x_not_found\n";
    assert_eq!(recv_lines(&here_ends[0]), answer);
    send_lines(&mut there, &there_ends, 0, "cmd=lookup_name service=a\n");
    assert_eq!(recv_lines(&there_ends[0]), "cmd=lookup_result rc=0 info=ok port=b\n");
    assert!(!tell([&mut here, &mut there], &[word]), "a name twice");
    // The rank's number is another process's: its names are gone.
    there.forget_names(&[0]);
    send_lines(&mut there, &there_ends, 0, "cmd=lookup_name service=a\n");
    assert!(recv_lines(&there_ends[0]).contains("no_such_name"));
}

#[test]
fn pmi_spawn_makes_a_group_with_a_store_of_its_own() {
    let (mut pmi, mut ends) = server(&job(&[1], None));
    let request = "mcmd=spawn\nnprocs=2\nexecname=a.out\npreput_num=1\npreput_key_0=PORT\npreput_val_0=p q\n\
        endcmd\ncmd=get_appnum\n";
    let events = send_lines(&mut pmi, &ends, 0, request);
    let [PmiEvent::Spawn(0, commands)] = &events[..] else { panic!("{events:?}") };
    // What comes behind it waits for the answer.
    assert_eq!((recv_lines(&ends[0]), pmi.polled().count()), (String::new(), 0));
    let at = Placement { nodes: &[0, 0], here: 0 };
    let group = pmi.begin_group(1, &[1, 1], &commands[0].preput, at);
    ends.extend((1..3).map(|rank| pmi.add_to(rank, group).expect("a socket")));
    pmi.answer_spawn(0, 2, true);
    assert_eq!(recv_lines(&ends[0]), "cmd=spawn_result rc=0 errcodes=0,0\ncmd=appnum rc=0 appnum=0\n");
    let name = "kvs_00000000000000ab_1";
    send_lines(&mut pmi, &ends, 2, &format!("cmd=get_appnum\ncmd=get kvsname={name} key=PORT\n"));
    assert_eq!(recv_lines(&ends[2]), "cmd=appnum rc=0 appnum=1\ncmd=get_result rc=0 value=p q\n");
    // Barriers are of a group, and so are keys.
    send_lines(&mut pmi, &ends, 1, "cmd=put key=a value=b\ncmd=barrier_in\n");
    send_lines(&mut pmi, &ends, 2, "cmd=barrier_in\ncmd=get key=a\n");
    assert!(recv_lines(&ends[2]).ends_with("barrier_out rc=0\ncmd=get_result rc=0 value=b\n"));
    send_lines(&mut pmi, &ends, 0, "cmd=get key=a\ncmd=barrier_in\n");
    assert_eq!(recv_lines(&ends[0]), "cmd=get_result rc=-1 msg=key_a_not_found\ncmd=barrier_out rc=0\n");
    // Names are of the job.
    send_lines(&mut pmi, &ends, 1, "cmd=publish_name service=s port=p\ncmd=publish_name service=s port=q\n");
    assert!(
        recv_lines(&ends[1])
            .ends_with("rc=0 info=ok\ncmd=publish_result rc=-1 msg=name_is_published info=duplicate\n")
    );
    send_lines(
        &mut pmi,
        &ends,
        0,
        "cmd=lookup_name service=s\ncmd=unpublish_name service=s\ncmd=lookup_name service=s\n",
    );
    let answers = recv_lines(&ends[0]);
    assert!(
        answers.starts_with("cmd=lookup_result rc=0 info=ok port=p\ncmd=unpublish_result rc=0"),
        "{answers}"
    );
    assert!(answers.contains("no_such_name"), "{answers}");
    pmi.end_group(group);
    send_lines(&mut pmi, &ends, 0, "cmd=get_appnum\n");
    assert_eq!(recv_lines(&ends[0]), "cmd=appnum rc=0 appnum=0\n");
}

#[test]
fn pmi_memory_of_a_rank_is_bounded() {
    let (mut pmi, ends) = server(&job(&[2], None));
    let mut refused = 0;
    let mut lines = Vec::new();
    for number in 0..2000 {
        let value = "x".repeat(1000);
        lines.extend(send_lines(&mut pmi, &ends, 0, &format!("cmd=put key=key{number} value={value}\n")));
        refused += usize::from(recv_lines(&ends[0]).contains("rc=-1"));
    }
    assert!((900..1200).contains(&refused), "{refused}");
    assert_eq!(lines, [PmiEvent::Full(0, 1024)]);
    // The other one has its own share.
    send_lines(&mut pmi, &ends, 1, "cmd=put key=mine value=1\n");
    assert_eq!(recv_lines(&ends[1]), "cmd=put_result rc=0 msg=success\n");
    // A rank that does not take its answers is not read from.
    let mut sent = 0;
    while let Ok(bytes) = send(&ends[1], &b"cmd=get key=key0\n".repeat(100), SendFlags::DONTWAIT) {
        sent += bytes;
        assert_eq!(pmi.handle_ready(1), []);
        assert!(sent < 64 << 20, "it takes everything");
    }
    let (answer_bytes, line_bytes) = pmi.clients[1].held_bytes();
    assert!(answer_bytes < 2000 && line_bytes < 2 * READ_BYTES);
}

#[test]
fn pmi_violation_is_reported_once() {
    for rubbish in ["hello\n", "cmd=\n", "\0\0\0\n", "cmd=put\n"] {
        let (mut pmi, ends) = server(&job(&[2], None));
        assert_eq!(send_lines(&mut pmi, &ends, 0, rubbish), [PmiEvent::NoPmi(0)], "{rubbish:?}");
        assert_eq!(pmi.handle_ready(0), []);
        send_lines(&mut pmi, &ends, 1, "cmd=get_appnum\n");
        assert_eq!(recv_lines(&ends[1]), "cmd=appnum rc=0 appnum=0\n");
    }
    let (mut pmi, ends) = server(&job(&[1], None));
    let mut events = Vec::new();
    for _ in 0..64 {
        if send(&ends[0], &[b'a'; 16 << 10], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err() {
            break;
        }
        events.extend(pmi.handle_ready(0));
    }
    assert_eq!(events, [PmiEvent::NoPmi(0)]);
}

#[test]
fn pmi_last_requests_of_a_dead_rank_are_handled() {
    let (mut pmi, mut ends) = server(&job(&[2], None));
    send(&ends[0], b"cmd=init pmi_version=1\ncmd=finalize\ncmd=abo", SendFlags::empty()).expect("room");
    drop(ends.remove(0));
    assert_eq!(pmi.handle_death(0), [PmiEvent::Started(0), PmiEvent::Finished(0)]);
    assert_eq!(pmi.handle_death(0), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn pmi_server_survives_any_requests(
        requests in proptest::collection::vec((0_u32..3, proptest::collection::vec(prop_oneof![
            6 => prop::sample::select(vec![
                "cmd=init pmi_version=1\n", "cmd=barrier_in\n", "cmd=put key=a value=b\n", "cmd=get key=a\n", "cmd=finalize\n",
                "mcmd=spawn\n", "endcmd\n", "totspawns=3\n", "cmd=getbyidx idx=0\n", "cmd=abort exitcode=9\n", "cmd=pu", "\n",
            ]).prop_map(|text| text.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..40),
        ], 0..6)), 0..40),
        alone in any::<bool>(),
    ) {
        let (mut pmi, ends) = server(&job(&[3], if alone { None } else { part(0, &[0]) }));
        for (rank, pieces) in requests {
            let _ = send(&ends[rank as usize], &pieces.concat(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            pmi.handle_ready(rank);
            if let Some((fence, puts)) = pmi.poll_fence() {
                prop_assert!(pmi.handle_fence(fence, &puts).is_ok());
            }
            let barriers = recv_lines(&ends[rank as usize]).matches("barrier_out").count();
            prop_assert!(barriers as u32 <= pmi.groups[&FIRST_GROUP].fences);
        }
        for rank in 0..3 {
            pmi.handle_death(rank);
        }
    }
}
