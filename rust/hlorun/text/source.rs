//! Files → bytes: plain, `.gz` and `.zst`, with a bound on what a compressed file unpacks to.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ruzstd::decoding::BlockDecodingStrategy;
use ruzstd::decoding::errors::FrameDecoderError;

use crate::error::{HloError, Result};
use crate::module::Source;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first byte of a frame that holds something other than the text, and the three after it.
const ZSTD_SKIPPABLE: RangeInclusive<u8> = 0x50..=0x5f;
const ZSTD_SKIPPABLE_TAIL: [u8; 3] = [0x2a, 0x4d, 0x18];
/// How other packed files begin, and what unpacks them.
const OTHERS: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ\0", "xz -d"),
    (b"BZh", "bunzip2"),
    (b"PK\x03\x04", "unzip"),
    (b"\x04\x22\x4d\x18", "lz4 -d"),
];

/// The text of the file at `path`, unpacked where its first bytes say that it is compressed.
pub(super) fn read(path: &Path, limit: usize) -> Result<Source> {
    read_file(path, limit)
        .map_err(|error| HloError::execution(format!("cannot read {}: {error}", path.display())))
}

fn read_file(path: &Path, limit: usize) -> io::Result<Source> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut magic = [0u8; 6];
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
        return bounded(flate2::read::MultiGzDecoder::new(packed), limit).map(Source::from);
    }
    if head.starts_with(&ZSTD_MAGIC) || is_skippable(&head) {
        return unpack_zstd(io::Cursor::new(head).chain(file), limit).map(Source::from);
    }
    if let Some((_, tool)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(io::Error::other(format!(
            "only gzip and zstd are unpacked here; unpack it with {tool} first"
        )));
    }
    // Pipes and the like have no size; files are read straight into their final place.
    if size < known as u64 || size > limit as u64 {
        return bounded(io::Cursor::new(head).chain(file), limit).map(Source::from);
    }
    let mut bytes = head;
    bytes.try_reserve_exact((size as usize - known).saturating_add(1))?;
    let rest = file.take(size - known as u64 + 1).read_to_end(&mut bytes)?;
    if rest as u64 == size - known as u64 {
        Ok(Source::from(bytes))
    } else {
        // The file changed while it was read.
        bounded(File::open(path)?, limit).map(Source::from)
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

/// Largest window a zstd frame may ask for: what must be kept of its past while it is unpacked.
const ZSTD_WINDOW: u64 = 512 << 20;

/// All frames of a zstd file. The decoder's own assertions, which broken frames can reach, and its
/// failing to get memory, become errors.
fn unpack_zstd(packed: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    // What a panic leaves half done, the reader and the bytes, goes with it.
    catch_unwind(AssertUnwindSafe(|| zstd_frames(packed, limit)))
        .unwrap_or_else(|_| Err(io::Error::other("broken zstd frame")))
}

fn zstd_frames(packed: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut packed = io::BufReader::new(packed);
    let mut bytes = Vec::new();
    while !packed.fill_buf()?.is_empty() {
        zstd_frame(&mut packed, &mut bytes, limit)?;
    }
    Ok(bytes)
}

/// Appends what the next frame holds. Block by block, so that no more than a window and a block are
/// unpacked beyond what `bytes` may hold.
fn zstd_frame(packed: &mut impl BufRead, bytes: &mut Vec<u8>, limit: usize) -> io::Result<()> {
    let truncated = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("incomplete zstd frame"),
        _ => error,
    };
    let mut header = vec![0u8; 5];
    packed.read_exact(&mut header).map_err(truncated)?;
    if is_skippable(&header) {
        let mut rest = [0u8; 3];
        packed.read_exact(&mut rest).map_err(truncated)?;
        let size = u64::from(u32::from_le_bytes([header[4], rest[0], rest[1], rest[2]]));
        return match io::copy(&mut packed.take(size), &mut io::sink())? {
            skipped if skipped == size => Ok(()),
            _ => Err(io::Error::other("incomplete zstd frame")),
        };
    }
    // A frame in one segment, its flag is bit 5, has no window but keeps all it holds.
    if header[4] & 0x20 == 0 {
        let mut window = [0u8];
        packed.read_exact(&mut window).map_err(truncated)?;
        header.push(window[0]);
        let base = 1u64 << (10 + (window[0] >> 3));
        check_window(base + base / 8 * u64::from(window[0] & 7))?;
    }
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    let broken = |error| match error {
        FrameDecoderError::DictNotProvided { dict_id } => {
            io::Error::other(format!("it needs the zstd dictionary {dict_id}"))
        }
        _ => io::Error::other("broken or incomplete zstd frame"),
    };
    decoder
        .init(io::Cursor::new(&header).chain(&mut *packed))
        .map_err(broken)?;
    if header[4] & 0x20 != 0 {
        check_window(decoder.content_size())?;
    }
    let start = bytes.len();
    while !decoder.is_finished() {
        decoder
            .decode_blocks(&mut *packed, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(broken)?;
        let size = decoder.can_collect();
        if size > limit - bytes.len() {
            return Err(too_large(limit));
        }
        bytes.try_reserve(size)?;
        decoder.by_ref().take(size as u64).read_to_end(bytes)?;
    }
    // Two bits say how long the size in the header is; none is only no size in several segments.
    let has_size = header[4] >> 5 != 0;
    if has_size && decoder.content_size() != (bytes.len() - start) as u64 {
        return Err(io::Error::other("corrupt: its size is not the one it says"));
    }
    match decoder.get_checksum_from_data() {
        Some(sum) if Some(sum) != decoder.get_calculated_checksum() => {
            Err(io::Error::other("corrupt: its checksum does not match"))
        }
        _ => Ok(()),
    }
}

fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && ZSTD_SKIPPABLE.contains(&head[0]) && head[1..4] == ZSTD_SKIPPABLE_TAIL
}

fn check_window(size: u64) -> io::Result<()> {
    if size <= ZSTD_WINDOW {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "its zstd window of {size} bytes is larger than {ZSTD_WINDOW}; pack it again without --long"
    )))
}
