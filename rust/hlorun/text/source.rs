//! Files → bytes: plain, `.gz` and `.zst`, with a bound on what a compressed file unpacks to.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use crate::error::{HloError, Result};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The text of the file at `path`, unpacked where its first bytes say that it is compressed.
pub(super) fn read(path: &Path, limit: usize) -> Result<Arc<[u8]>> {
    read_file(path, limit)
        .map_err(|error| HloError::execution(format!("cannot read {}: {error}", path.display())))
}

fn read_file(path: &Path, limit: usize) -> io::Result<Arc<[u8]>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut magic = [0u8; 4];
    let mut known = 0;
    while known < magic.len() {
        match file.read(&mut magic[known..])? {
            0 => break,
            n => known += n,
        }
    }
    let head = magic[..known].to_vec();
    if head.starts_with(&GZIP_MAGIC) {
        let packed = io::Cursor::new(head).chain(file);
        return bounded(flate2::read::MultiGzDecoder::new(packed), limit).map(Arc::from);
    }
    if head == ZSTD_MAGIC {
        return unpack_zstd(io::Cursor::new(head).chain(file), limit).map(Arc::from);
    }
    // Pipes and the like have no size; files are read straight into their final place.
    if size < known as u64 || size > limit as u64 {
        return bounded(io::Cursor::new(head).chain(file), limit).map(Arc::from);
    }
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0u8, size as usize).collect();
    let complete = match Arc::get_mut(&mut bytes) {
        Some(place) => {
            place[..known].copy_from_slice(&head);
            file.read_exact(&mut place[known..]).is_ok() && file.read(&mut [0u8])? == 0
        }
        None => false,
    };
    if complete {
        Ok(bytes)
    } else {
        // The file changed while it was read.
        bounded(File::open(path)?, limit).map(Arc::from)
    }
}

/// Everything `reader` gives, up to `limit` bytes.
fn bounded(reader: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

fn too_large(limit: usize) -> io::Error {
    io::Error::other(format!(
        "it holds more than {limit} bytes, the limit for a text"
    ))
}

/// All frames of a zstd file.
fn unpack_zstd(mut packed: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut start = io::Cursor::new(Vec::new());
    loop {
        let frame = (&mut start).chain(&mut packed);
        let decoder = ruzstd::decoding::StreamingDecoder::new(frame)
            .map_err(|_| io::Error::other("broken or incomplete zstd frame"))?;
        let left = (limit - bytes.len()) as u64;
        decoder.take(left + 1).read_to_end(&mut bytes)?;
        if bytes.len() > limit {
            return Err(too_large(limit));
        }
        // Whether another frame follows shows in its first byte.
        let mut next = [0u8];
        if packed.read(&mut next)? == 0 {
            return Ok(bytes);
        }
        start = io::Cursor::new(next.to_vec());
    }
}
