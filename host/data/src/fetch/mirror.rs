//! The web folder with the four gzip files.

use std::time::Duration;

use super::super::limited::Limited;
use super::{FILES, Failure, MAX_FILE, Staging, progress};

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
    for file in FILES {
        let address = format!("{base}{}.gz", file.name);
        let reply = agent.get(&address).call().map_err(|error| Failure::Source(error.to_string()))?;
        let body = reply.into_body();
        let progress = progress(file.name, body.content_length());
        // The copy limits the decompressed length. This limits the compressed length too, since an endless stream may
        // decompress to nothing.
        staging.take(file, Limited::new(progress.wrap(body.into_reader()), MAX_FILE))?;
    }
    Ok(())
}
