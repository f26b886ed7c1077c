//! How the ranks find each other: rank 0 listens, and the others connect and receive the NCCL communicator's name. The
//! connections stay open for [`super::watch`].
//!
//! A rank sends its [`Hello`]. Once all have arrived, rank 0 answers each with a status byte, a length and that many bytes:
//! the name, or an error text. Rank 0 answers a hello that cannot be right with an error and goes on waiting, so a stranger
//! cannot end the run.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{CollectiveError, ranks};
use super::world::World;

/// The first bytes of a hello, with the version of the protocol.
const MAGIC: &[u8; 8] = b"ferroW-2";

/// Bytes of an NCCL communicator's name.
const NAME_BYTES: usize = 128;

/// The pause between two polls of the connections.
const PAUSE: Duration = Duration::from_millis(5);

/// How much longer the other ranks wait than rank 0, to receive its answer with the missing ranks.
const GRACE: Duration = Duration::from_secs(2);

/// A connection to another rank.
#[derive(Debug)]
pub(super) struct Peer {
    pub rank: u32,
    pub stream: TcpStream,
}

/// What a rank knows after the ranks have met.
#[derive(Debug)]
pub(super) struct Meeting {
    /// Rank 0's connections to all others, or another rank's to rank 0.
    pub peers: Vec<Peer>,
    /// The name that rank 0 sent to all.
    pub name: [u8; NAME_BYTES],
}

/// Waits until all ranks have connected. Only rank 0's `name` is used.
pub(super) fn meet(world: &World, name: [u8; NAME_BYTES]) -> Result<Meeting, CollectiveError> {
    let deadline = Instant::now() + world.join_limit();
    let met = match world.rank() {
        0 => listen(world, deadline).and_then(|peers| welcome(peers, name)),
        _ => connect(world, deadline),
    };
    met.map_err(|reason| {
        let (host, port) = world.address();
        let (rank, size) = (world.rank(), world.size());
        CollectiveError::Join { rank, size, address: format!("{host}:{port}"), reason }
    })
}

/// Magic bytes, rank, number of ranks, and the hash of the key.
type Hello = [u8; 24];

fn hello(world: &World) -> Hello {
    let mut hello = [0; 24];
    hello[..8].copy_from_slice(MAGIC);
    hello[8..12].copy_from_slice(&world.rank().to_le_bytes());
    hello[12..16].copy_from_slice(&world.size().to_le_bytes());
    hello[16..].copy_from_slice(&world.key.to_le_bytes());
    hello
}

/// The rank of a hello to rank 0 of `world`; `None` if the sender is not one of our processes.
///
/// # Errors
/// The sender cannot be a rank of `world`.
fn parse_hello(hello: Hello, world: &World) -> Option<Result<u32, String>> {
    let number = |at: usize| u32::from_le_bytes(hello[at..at + 4].try_into().unwrap_or_default());
    let (rank, size) = (number(8), number(12));
    if !hello.starts_with(MAGIC) {
        return None;
    }
    Some(if hello[16..] != world.key.to_le_bytes() {
        Err("a process has another key; give all ranks the same FERROWARP_COLLECTIVE_KEY, and two jobs on one machine \
             different ports (MASTER_PORT)"
            .to_owned())
    } else if size != world.size() {
        Err(format!(
            "rank {rank} belongs to a world of {size} ranks and rank 0 to one of {}; give all ranks the same number, and \
             two jobs on one machine different ports (MASTER_PORT)",
            world.size()
        ))
    } else if rank >= size {
        Err(format!("a process has rank {rank} of {size}; number the ranks from 0"))
    } else {
        Ok(rank)
    })
}

/// A connection with an incomplete hello.
struct Arrival {
    stream: TcpStream,
    hello: Hello,
    len: usize,
}

impl Arrival {
    /// Reads the available bytes. Returns true once the hello is complete or the connection is closed.
    fn has_ended(&mut self) -> bool {
        while self.len < self.hello.len() {
            match self.stream.read(&mut self.hello[self.len..]) {
                Ok(0) => return true,
                Ok(bytes) => self.len += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        true
    }
}

/// Accepts the connections of all other ranks, on rank 0, and sorts them by rank.
fn listen(world: &World, deadline: Instant) -> Result<Vec<Peer>, String> {
    let (size, (host, port)) = (world.size(), world.address());
    let in_use = |error: io::Error| {
        format!(
            "listening there failed: {error}; set MASTER_PORT or FERROWARP_COLLECTIVE_PORT to another port, the same for all \
             ranks"
        )
    };
    let listener = TcpListener::bind(bind_address(host, port)).map_err(in_use)?;
    listener.set_nonblocking(true).map_err(in_use)?;
    let mut joined: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut last_refusal = None;
    loop {
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                arrivals.push(Arrival { stream, hello: [0; 24], len: 0 });
            }
        }
        let mut at = 0;
        while at < arrivals.len() {
            if !arrivals[at].has_ended() {
                at += 1;
                continue;
            }
            let Arrival { mut stream, hello, .. } = arrivals.swap_remove(at);
            let Some(rank) = parse_hello(hello, world) else { continue };
            let reason = match rank.map(|rank| (rank, joined.get_mut(rank as usize).filter(|_| rank > 0))) {
                Ok((_, Some(seat @ None))) => {
                    *seat = Some(stream);
                    continue;
                }
                Ok((rank, _)) => format!(
                    "two processes have rank {rank}; give each process its own rank, and two jobs on one machine different \
                     ports (MASTER_PORT)"
                ),
                Err(reason) => reason,
            };
            // A rank that is gone needs no answer.
            let _ = answer(&mut stream, 1, reason.as_bytes());
            last_refusal = Some(reason);
        }
        let missing: Vec<u32> =
            (1..size).zip(&joined[1..]).filter(|(_, seat)| seat.is_none()).map(|(rank, _)| rank).collect();
        if missing.is_empty() {
            let peers =
                (0..size).zip(joined).filter_map(|(rank, stream)| Some(Peer { rank, stream: stream? }));
            return Ok(peers.collect());
        }
        if Instant::now() >= deadline {
            let refused = last_refusal.map(|reason| format!("; it refused a connection: {reason}"));
            let reason = format!(
                "{} of {size} did not connect within {:?}; see the errors of the missing ranks, or set \
                 FERROWARP_JOIN_SECONDS to wait longer{}",
                ranks(&missing),
                world.join_limit(),
                refused.unwrap_or_default()
            );
            for mut stream in joined.into_iter().flatten() {
                let _ = answer(&mut stream, 1, reason.as_bytes());
            }
            return Err(reason);
        }
        thread::sleep(PAUSE);
    }
}

/// The address rank 0 binds: the loopback interface if `host` is a loopback address, otherwise all interfaces.
fn bind_address(host: &str, port: u16) -> SocketAddr {
    let resolved = (host, port).to_socket_addrs().ok();
    let loopback = resolved.and_then(|mut addresses| addresses.find(|address| address.ip().is_loopback()));
    loopback.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
}

fn answer(stream: &mut TcpStream, status: u8, text: &[u8]) -> io::Result<()> {
    let len = u16::try_from(text.len()).map_err(io::Error::other)?;
    // The answer is smaller than any socket buffer, so this does not block.
    stream.write_all(&[&[status][..], &len.to_le_bytes(), text].concat())
}

fn welcome(mut peers: Vec<Peer>, name: [u8; NAME_BYTES]) -> Result<Meeting, String> {
    for Peer { rank, stream } in &mut peers {
        answer(stream, 0, &name)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|error| format!("rank {rank} has closed its connection: {error}; see its error"))?;
    }
    Ok(Meeting { peers, name })
}

/// Connects to rank 0, on any other rank, and reads its answer.
fn connect(world: &World, deadline: Instant) -> Result<Meeting, String> {
    let (host, port) = world.address();
    let mut stream = loop {
        match try_connect(host, port, deadline) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() >= deadline => {
                return Err(format!(
                    "rank 0 did not listen there within {:?}: {error}; see the error of rank 0, or set MASTER_ADDR and \
                     MASTER_PORT to where it runs",
                    world.join_limit()
                ));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut join = || {
        stream.set_nodelay(true)?;
        stream.write_all(&hello(world))?;
        let patience = deadline.saturating_duration_since(Instant::now()) + GRACE;
        stream.set_read_timeout(Some(patience))?;
        let mut head = [0; 3];
        stream.read_exact(&mut head)?;
        let mut text = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
        stream.read_exact(&mut text)?;
        stream.set_nonblocking(true)?;
        Ok((head[0], text))
    };
    let (status, text) = join().map_err(|error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            "rank 0 did not answer; see the error of rank 0".to_owned()
        }
        _ => format!("rank 0 closed the connection: {error}; see the error of rank 0"),
    })?;
    if status != 0 {
        return Err(String::from_utf8_lossy(&text).into_owned());
    }
    let name = text.try_into().map_err(|_| "what listens there is not rank 0; set MASTER_PORT".to_owned())?;
    Ok(Meeting { peers: vec![Peer { rank: 0, stream }], name })
}

fn try_connect(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(rank: u32, size: u32, port: u16, limit: Duration) -> World {
        World::new(rank, size, rank, "127.0.0.1", port).unwrap().with_join_limit(limit)
    }

    /// A port that was free a moment ago.
    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    /// Runs each rank in a thread and returns the results.
    fn meet_all(worlds: Vec<World>) -> Vec<Result<Meeting, CollectiveError>> {
        let threads: Vec<_> = worlds
            .into_iter()
            .map(|world| thread::spawn(move || meet(&world, [7 - world.rank() as u8; NAME_BYTES])))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[test]
    fn all_ranks_get_the_name_of_rank_0() {
        let port = free_port();
        let limit = Duration::from_secs(30);
        let met = meet_all((0..4).rev().map(|rank| world(rank, 4, port, limit)).collect());
        assert!(met.iter().all(|meeting| meeting.as_ref().is_ok_and(|meeting| meeting.name == [7; 128])));
        let peers: Vec<u32> = met[3].as_ref().unwrap().peers.iter().map(|peer| peer.rank).collect();
        assert_eq!(peers, [1, 2, 3]);
    }

    #[test]
    fn a_missing_rank_is_named_by_all_others() {
        let port = free_port();
        let limit = Duration::from_millis(500);
        let start = Instant::now();
        let met = meet_all(vec![world(0, 4, port, limit), world(2, 4, port, limit)]);
        for (result, rank) in met.into_iter().zip([0, 2]) {
            let error = result.unwrap_err().to_string();
            let expected = format!(
                "joining the world at 127.0.0.1:{port} failed on rank {rank} of 4: ranks 1 and 3 of 4 did not connect within \
                 500ms; see the errors of the missing ranks"
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_rank_0_is_named() {
        let error = meet(&world(1, 2, free_port(), Duration::from_millis(200)), [0; 128]).unwrap_err();
        assert!(error.to_string().contains("rank 0 did not listen there within 200ms"), "{error}");
    }

    #[test]
    fn a_rank_that_cannot_be_right_is_told_so_at_once_and_named_by_rank_0() {
        let limit = Duration::from_secs(2);
        for (other, expected) in [
            (world(1, 3, 0, limit), "two processes have rank 1"),
            (world(0, 3, 0, limit), "two processes have rank 0"),
            (world(1, 2, 0, limit), "rank 1 belongs to a world of 2 ranks and rank 0 to one of 3"),
            (world(1, 3, 0, limit).with_key("other"), "another key"),
        ] {
            let port = free_port();
            let hello = hello(&other);
            let refused = thread::spawn(move || say(port, &hello, Duration::from_millis(300)));
            let error =
                meet_all(vec![world(0, 3, port, limit), world(1, 3, port, limit)]).remove(0).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("rank 2 of 3 did not connect") && error.contains(expected), "{error}");
            assert!(refused.join().unwrap().contains(expected));
        }
    }

    #[test]
    fn strangers_are_not_counted() {
        let limit = Duration::from_secs(30);
        let hello_of = |rank: u32, size: u32| {
            let mut hello = hello(&world(1, 2, 0, limit));
            hello[8..12].copy_from_slice(&rank.to_le_bytes());
            hello[12..16].copy_from_slice(&size.to_le_bytes());
            hello
        };
        let key = |world: World| world.with_key("secret");
        let port = free_port();
        let zero = thread::spawn(move || meet(&key(world(0, 2, port, limit)), [1; 128]));
        say(port, b"GET / HTTP/1.1\r\n\r\n and more", PAUSE);
        say(port, b"ferroW-1\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0", PAUSE);
        for (rank, size) in [(9, 2), (0, 2), (1, 3), (1, 2), (u32::MAX, u32::MAX)] {
            say(port, &hello_of(rank, size), PAUSE);
        }
        assert_eq!(meet(&key(world(1, 2, port, limit)), [0; 128]).unwrap().name, [1; 128]);
        assert!(zero.join().unwrap().is_ok());
    }

    #[test]
    fn any_limit_can_be_set() {
        let port = free_port();
        let met = meet_all((0..2).map(|rank| world(rank, 2, port, Duration::MAX)).collect());
        assert!(met.iter().all(Result::is_ok), "{met:?}");
    }

    /// Sends `bytes` to whatever listens at `port`, after `pause`, and returns the answer.
    fn say(port: u16, bytes: &[u8], pause: Duration) -> String {
        let connect = |_| match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => Some(stream),
            Err(_) => {
                thread::sleep(PAUSE);
                None
            }
        };
        let mut stream = (0..1000).find_map(connect).unwrap();
        thread::sleep(pause);
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // The other side closes the connection.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}
