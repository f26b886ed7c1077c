//! The web folder with the four gzip files.

use std::time::Duration;

use super::{FILES, Failure, IdxFile, Staging, progress};

/// Where there is no network, this is how long the user waits to be told.
const CONNECT: Duration = Duration::from_secs(3);
/// How long the server may keep silent before it answers.
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
    // The decompressed length is what is bounded, where it is copied.
    staging.take(file, progress.wrap(body.into_reader()))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_file_that_does_not_hash_is_a_failure_of_the_source() {
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
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").unwrap();
            request
        });
        let dir = tempfile::tempdir().unwrap();
        let mut staging = Staging { dir: dir.path(), staged: Vec::new() };
        let Err(Failure::Source(reason)) = fetch(&base, &mut staging) else { panic!("it was taken") };
        assert!(reason.contains("has the SHA-256 ba7816bf"), "{reason}");
        assert_eq!(server.join().unwrap().trim_end(), "GET /train-images-idx3-ubyte.gz HTTP/1.1");
    }
}
