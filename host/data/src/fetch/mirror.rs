//! The web folder with the four gzip files.

use std::time::Duration;

use super::super::limited::Limited;
use super::{FILES, Failure, IdxFile, MAX_FILE, Staging, progress};

/// The connection timeout: without a network, the user waits this long for the error.
const CONNECT: Duration = Duration::from_secs(3);
/// How long the server may take to respond.
const RESPONSE: Duration = Duration::from_secs(10);
/// How long one file may take: 10 MB over a slow line.
const FILE: Duration = Duration::from_secs(300);

/// Fetches the four files from `base`.
pub(super) fn fetch(base: &str, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let config = ureq::Agent::config_builder()
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(RESPONSE))
        .timeout_global(Some(FILE))
        .build();
    let agent = ureq::Agent::new_with_config(config);
    FILES.iter().try_for_each(|&file| fetch_file(&agent, base, file, staging))
}

fn fetch_file(
    agent: &ureq::Agent,
    base: &str,
    file: IdxFile,
    staging: &mut Staging<'_>,
) -> Result<(), Failure> {
    let address = format!("{base}{}.gz", file.name);
    let reply = agent.get(&address).call().map_err(|error| Failure::Source(error.to_string()))?;
    let body = reply.into_body();
    let progress = progress(file.name, body.content_length());
    // The copy limits the decompressed length. This limits the compressed length too, since an endless stream may decompress
    // to nothing.
    staging.take(file, Limited::new(progress.wrap(body.into_reader()), MAX_FILE))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server with a single reply, the head and what `body` writes. The client may hang up.
    fn serve(body: impl FnOnce(&mut dyn Write) -> std::io::Result<()> + Send + 'static) -> (String, Server) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut request = String::new();
            stream.read_line(&mut request).unwrap();
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let _ = body(stream.get_mut());
            request
        });
        (base, server)
    }

    /// Returns the first line of the request.
    type Server = std::thread::JoinHandle<String>;

    /// Returns why the server's reply is refused, and checks that nothing of it is kept.
    #[track_caller]
    fn refusal(base: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let mut staging = Staging { dir: dir.path(), staged: Vec::new(), is_stopped: &|| false };
        let Err(Failure::Source(reason)) = fetch(base, &mut staging) else { panic!("it was taken") };
        drop(staging);
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        reason
    }

    #[test]
    fn a_file_that_does_not_hash_is_a_failure_of_the_source() {
        let (base, server) =
            serve(|stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"));
        let reason = refusal(&base);
        assert!(reason.contains("has the SHA-256 ba7816bf"), "{reason}");
        assert_eq!(server.join().unwrap().trim_end(), "GET /train-images-idx3-ubyte.gz HTTP/1.1");
    }

    /// An endless reply is not read forever, even if it decompresses to nothing.
    #[test]
    fn endless_replies_are_refused() {
        let endless = |head: &'static [u8], block: &'static [u8]| {
            serve(move |stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
                stream.write_all(head)?;
                let blocks = block.repeat(10_000);
                loop {
                    stream.write_all(&blocks)?;
                }
            })
        };
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\xff";
        // The second is a gzip file of empty stored blocks (RFC 1951, section 3.2.4).
        for (head, block) in [(&b""[..], &b"text"[..]), (gzip, b"\0\0\0\xff\xff")] {
            let (base, server) = endless(head, block);
            let reason = refusal(&base);
            assert!(reason.contains("longer than the limit of 67108864 bytes"), "{reason}");
            server.join().unwrap();
        }
    }
}
