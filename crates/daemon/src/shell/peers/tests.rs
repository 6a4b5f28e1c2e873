use tokio::io::duplex;
use tutti_protocol::version::Versions;

use super::*;
use crate::key::Credential;

fn now<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}

fn credential() -> Credential {
    let path = std::env::temp_dir().join(format!("tutti-peers-{}", std::process::id()));
    tutti_protocol::key::make(&path).unwrap();
    let credential = Credential::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    credential
}

/// Lets the other end of a link say this; returns what we make of it.
fn meet(theirs: &[u8]) -> io::Result<Met> {
    now(async {
        let (mut here, mut there) = duplex(1 << 16);
        there.write_all(theirs).await.unwrap();
        let met = greet(&mut here).await;
        let ours = read_payload(&mut there, GREETING_BYTES_MAX).await.unwrap();
        assert_eq!(codec::decode::<Greeting>(&ours), Ok(Greeting::ours()), "both say it, whatever they hear");
        met
    })
}

fn greeting(wire: Versions, release: &str) -> Vec<u8> {
    framed(|bytes| codec::encode_behind(&Greeting::of(wire, release), bytes))
}

#[test]
fn link_speaks_the_highest_version_that_both_know() {
    let Versions { min, max } = version::WIRE;
    for (wire, agreed) in [
        (Versions { min, max }, max),
        (Versions { min, max: max + 5 }, max),
        (Versions { min: 1, max: min }, min),
    ] {
        assert!(
            matches!(meet(&greeting(wire, "0.9.0")), Ok(Met::Agreed(found)) if found == agreed),
            "{wire:?}"
        );
    }
    // As a later release may say more.
    let mut more = greeting(Versions { min, max }, "0.9.0");
    more.extend([1, 2, 3]);
    more[0] += 3;
    more[4] += 3;
    assert!(matches!(meet(&more), Ok(Met::Agreed(_))));
    for wrong in [&[0xff; 8][..], &[3, 0, 0, 0, 1, 2, 3], b"GET / HTTP/1.1\r\n\r\n"] {
        assert!(meet(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn link_of_another_release_is_refused_with_one_line_on_each_side() {
    let max = version::WIRE.max;
    let Ok(Met::Apart(stranger)) = meet(&greeting(Versions { min: max + 1, max: max + 2 }, "7.3.1")) else {
        panic!("they have no version in common");
    };
    let line = stranger.to_string();
    assert!(
        line.contains("release 7.3.1 ") && line.contains(version::RELEASE) && line.lines().count() == 1,
        "{line}"
    );
    // A daemon of release 0.1.0 dials: TLS says what it is, and it reads a message of its own language.
    let credential = credential();
    now(async {
        let (near, far) = duplex(1 << 16);
        let server = async {
            let mut stream = TlsAcceptor::from(Arc::clone(&credential.server)).accept(near).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(version::SILENT.1));
            refuse_silent(&mut stream).await
        };
        let client = async {
            let name = ServerName::try_from("tutti").unwrap();
            let connector = TlsConnector::from(Arc::clone(&credential.silent));
            let mut stream = connector.connect(name, far).await.unwrap();
            let refused = read_payload(&mut stream, 1 << 10).await.unwrap();
            let _ = stream.shutdown().await;
            refused
        };
        let (_, refused) = tokio::join!(server, client);
        let text = codec::decode::<String>(&refused[1..]).unwrap();
        assert_eq!(refused[0], 2, "its kind was the third");
        assert!(text.contains("release 0.1.0") && text.contains(version::RELEASE), "{text}");
    });
    // One that we dial does not know our name for a wire.
    now(async {
        let (near, far) = duplex(1 << 16);
        let mut server = (*credential.server).clone();
        server.alpn_protocols = vec![version::SILENT.1.to_vec()];
        let client = async {
            let connector = TlsConnector::from(Arc::clone(&credential.client));
            connector.connect(ServerName::try_from("tutti").unwrap(), far).await.map(drop)
        };
        let (_, dialled) = tokio::join!(TlsAcceptor::from(Arc::new(server)).accept(near), client);
        assert!(is_other_wire(&dialled.unwrap_err()));
    });
    assert!(version::silent().to_string().contains("0.1.0"));
}

#[test]
fn link_leaves_out_a_message_of_a_later_release_and_goes_on() {
    // A kind that is not known, with something in it; then one that is.
    let later = framed(|mut bytes| {
        bytes.extend([100, 3, 7, 7, 7]);
        bytes
    });
    let known = Message::Alive { controller_silent_ms: 7 };
    let both = [later, encode(&known)].concat();
    now(async {
        let mut reader = &both[..];
        let left_out = read_message(&mut reader).await.unwrap();
        assert_eq!(left_out, Err(DecodeError::UnknownVariant { name: "Message", variant: 100 }));
        assert_eq!(read_message(&mut reader).await.unwrap(), Ok(known));
        assert!(read_message(&mut &[2, 0, 0, 0, 9, 0xff][..]).await.is_err(), "half a message is none");
    });
}
