use crate::{BlockFile, BlockFileError};
use flate2::read::MultiGzDecoder;
use std::{
    ffi::OsStr,
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

/// Largest unpacked block file read; the largest mainnet block's is well under 100 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Why a path could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file system said no.
    #[error("{}: {operation} failed: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A folder without any block file.
    #[error("{}: no .json or .json.gz file in this folder", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// Larger than any block can be.
    #[error("{}: unpacks to more than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// The content is no block file.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<BlockFileError>,
    },
}

/// The block files that a path stands for: the file itself, or the `.json` and `.json.gz` files of
/// a folder, sorted by name. `index.json`, `genesis.json` and hidden files are left
/// out.
pub fn block_paths(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let failed =
        |operation| move |source| LoadError::Io { path: path.to_owned(), operation, source };
    if !fs::metadata(path).map_err(failed("open"))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(failed("list"))? {
        let file = entry.map_err(failed("list"))?.path();
        if is_block_file(&file) && file.is_file() {
            paths.push(file);
        }
    }
    if paths.is_empty() {
        return Err(LoadError::NoFiles { path: path.to_owned() });
    }
    // By number where names are numbers, by name otherwise.
    paths.sort_by_key(|path| (number_in_name(path), path.clone()));
    Ok(paths)
}

/// Loads one block file, unpacking it if its content is gzip.
pub fn load_path(path: &Path) -> Result<BlockFile, LoadError> {
    let failed =
        |operation| move |source| LoadError::Io { path: path.to_owned(), operation, source };
    let raw = fs::read(path).map_err(failed("read"))?;
    let json = if raw.starts_with(&[0x1f, 0x8b]) {
        let mut json = Vec::new();
        MultiGzDecoder::new(raw.as_slice())
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut json)
            .map_err(failed("unpack"))?;
        if json.len() as u64 > MAX_FILE_BYTES {
            return Err(LoadError::TooLarge { path: path.to_owned(), limit_bytes: MAX_FILE_BYTES });
        }
        json
    } else {
        raw
    };
    BlockFile::parse(&json)
        .map_err(|source| LoadError::Content { path: path.to_owned(), source: Box::new(source) })
}

fn is_block_file(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    (name.ends_with(".json") || name.ends_with(".json.gz"))
        && !matches!(name, "index.json" | "genesis.json")
        && !name.starts_with('.')
}

fn number_in_name(path: &Path) -> u64 {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.split('.').next().and_then(|stem| stem.parse().ok()).unwrap_or(u64::MAX)
}
