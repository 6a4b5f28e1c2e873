//! Address of a daemon: where it hears other daemons and their switch threads.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::TcpListener;
use tutti_protocol::paths;

use super::error::{ShellError, failed};
use super::settings::Settings;

/// Time that a controller waits for its port, and how often it looks.
const PORT_MAX: Duration = Duration::from_secs(10);
const PORT_AGAIN: Duration = Duration::from_millis(100);
/// With port 0 a daemon hears where the one before it did: others look for it there. Where that is taken, a
/// node of another controller hears elsewhere, and tells the controller so. A controller waits for it, and
/// ends: at another address it would be the controller of a second cluster.
pub(super) async fn listen(settings: &Settings) -> Result<TcpListener, ShellError> {
    let bind_at = async |address: SocketAddr| TcpListener::bind(address).await;
    let before = paths::read_address(&settings.folders.address);
    let asked = settings.network.listen;
    let before =
        before.filter(|before| before.ip() == asked.ip() && [0, before.port()].contains(&asked.port()));
    // One that was started on demand is a cluster of one node, whatever its address.
    let is_controller = settings.is_controller() && settings.delays.leave_ms.is_none();
    let Some(before) = before else {
        return bind_at(asked).await.map_err(failed(format!("listen on {asked}")));
    };
    let mut result = bind_at(before).await;
    if let Err(error) = &result {
        if !is_controller {
            return bind_at(asked).await.map_err(failed(format!("listen on {asked}")));
        }
        let limit_s = PORT_MAX.as_secs();
        tracing::warn!(
            "cannot listen on {before}, where the controller was: {error}; it is tried for {limit_s} s"
        );
    }
    let deadline = tokio::time::Instant::now() + PORT_MAX;
    while result.is_err() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(PORT_AGAIN).await;
        result = bind_at(before).await;
    }
    let file = settings.folders.address.display();
    result.map_err(failed(format!(
        "listen on {before}, where the controller of this cluster was (without {file} a new cluster begins)"
    )))
}

/// For the switch thread: at the address where other daemons dial this one.
pub(super) fn switch_socket(settings: &Settings) -> Option<UdpSocket> {
    let bound = UdpSocket::bind(settings.network.listen)
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound
        .inspect_err(|error| {
            let listen = settings.network.listen;
            tracing::warn!("no datagrams of switch threads at {listen} (UDP), switches are slower: {error}");
        })
        .ok()
}
