//! The file that says what the folder is, read before the engine touches anything.

use super::{
    ChainId, OpenError,
    layout::{
        DESCRIPTOR_CHAIN_ID_OFFSET, DESCRIPTOR_CHECKSUM_OFFSET, DESCRIPTOR_FILE,
        DESCRIPTOR_GENESIS_OFFSET, DESCRIPTOR_LEN, DESCRIPTOR_MAGIC, DESCRIPTOR_MAGIC_OFFSET,
        DESCRIPTOR_RESERVED_OFFSET, DESCRIPTOR_TEMPORARY_FILE, DESCRIPTOR_VERSION_OFFSET,
        FORMAT_VERSION, STORE_FILE,
    },
};
use alloy_primitives::B256;
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// What an archive says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Version of its layout.
    pub format_version: u16,
    /// Chain whose blocks it holds.
    pub chain: ChainId,
}

pub(super) fn io_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { operation, path, source }
}

/// What stands at a path.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    /// An empty folder, or one in which making an archive was interrupted.
    Vacant,
    Archive(Descriptor),
}

impl Descriptor {
    fn to_bytes(self) -> [u8; DESCRIPTOR_LEN] {
        let mut bytes = [0; DESCRIPTOR_LEN];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(DESCRIPTOR_MAGIC_OFFSET, &DESCRIPTOR_MAGIC);
        put(DESCRIPTOR_VERSION_OFFSET, &self.format_version.to_le_bytes());
        put(DESCRIPTOR_CHAIN_ID_OFFSET, &self.chain.chain_id.to_le_bytes());
        put(DESCRIPTOR_GENESIS_OFFSET, self.chain.genesis_hash.as_slice());
        let checksum = checksum(&bytes);
        bytes[DESCRIPTOR_CHECKSUM_OFFSET..DESCRIPTOR_CHAIN_ID_OFFSET]
            .copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn from_bytes(folder: &Path, file: &Path, bytes: &[u8]) -> Result<Self, OpenError> {
        let damaged = |reason: String| OpenError::Damaged { path: file.to_owned(), reason };
        if !bytes.starts_with(&DESCRIPTOR_MAGIC) {
            return Err(OpenError::NotAnArchive {
                path: folder.to_owned(),
                reason: "its descriptor is of something else",
            });
        }
        let version = bytes
            .get(DESCRIPTOR_VERSION_OFFSET..DESCRIPTOR_RESERVED_OFFSET)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u16::from_le_bytes)
            .ok_or_else(|| damaged("it ends early".into()))?;
        // A newer version may have another length and checksum: say so before checking either.
        if version > FORMAT_VERSION {
            return Err(OpenError::NewerVersion {
                path: folder.to_owned(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let bytes: &[u8; DESCRIPTOR_LEN] = bytes
            .try_into()
            .map_err(|_| damaged(format!("{} bytes instead of {DESCRIPTOR_LEN}", bytes.len())))?;
        let mut stored = [0; 4];
        stored.copy_from_slice(&bytes[DESCRIPTOR_CHECKSUM_OFFSET..DESCRIPTOR_CHAIN_ID_OFFSET]);
        if u32::from_le_bytes(stored) != checksum(bytes) {
            return Err(damaged("its checksum does not match".into()));
        }
        let mut chain_id = [0; 8];
        chain_id.copy_from_slice(&bytes[DESCRIPTOR_CHAIN_ID_OFFSET..DESCRIPTOR_GENESIS_OFFSET]);
        Ok(Self {
            format_version: version,
            chain: ChainId {
                chain_id: u64::from_le_bytes(chain_id),
                genesis_hash: B256::from_slice(&bytes[DESCRIPTOR_GENESIS_OFFSET..]),
            },
        })
    }

    /// Looks at a path without changing anything.
    pub(super) fn find(folder: &Path) -> Result<Found, OpenError> {
        let file = folder.join(DESCRIPTOR_FILE);
        match fs::read(&file) {
            Ok(bytes) => return Self::from_bytes(folder, &file, &bytes).map(Found::Archive),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(OpenError::NotAnArchive {
                    path: folder.to_owned(),
                    reason: "it is a file, not a folder",
                });
            }
            Err(error) => return Err(io_error("read", &file)(error)),
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(io_error("list", folder)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(io_error("list", folder))?.file_name());
        }
        let unfinished = names.iter().any(|name| name == DESCRIPTOR_TEMPORARY_FILE);
        let ours = |name: &std::ffi::OsString| {
            name == DESCRIPTOR_TEMPORARY_FILE || name == STORE_FILE || name == "lost+found"
        };
        if names.iter().all(|name| name == "lost+found") || (unfinished && names.iter().all(ours)) {
            Ok(Found::Vacant)
        } else {
            Err(OpenError::NotAnArchive {
                path: folder.to_owned(),
                reason: "it is not empty and holds no descriptor",
            })
        }
    }

    /// First step of making an archive: from here on the folder is known to be unfinished.
    pub(super) fn prepare(self, folder: &Path) -> Result<(), OpenError> {
        fs::create_dir_all(folder).map_err(io_error("make folder", folder))?;
        let store = folder.join(STORE_FILE);
        let temporary = folder.join(DESCRIPTOR_TEMPORARY_FILE);
        // Left over only where an earlier attempt was interrupted: see `find`.
        match fs::remove_file(&store) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &store)(error));
            }
            _ => {}
        }
        let write = || {
            let mut file = fs::File::create(&temporary)?;
            file.write_all(&self.to_bytes())?;
            file.sync_all()
        };
        write().map_err(io_error("write", &temporary))?;
        sync_folder(folder)
    }

    /// Last step: the archive is complete.
    pub(super) fn finish(folder: &Path) -> Result<(), OpenError> {
        let path = folder.join(DESCRIPTOR_FILE);
        fs::rename(folder.join(DESCRIPTOR_TEMPORARY_FILE), &path)
            .map_err(io_error("name", &path))?;
        sync_folder(folder)
    }
}

/// Makes new names in a folder, and the folder's own name, durable.
fn sync_folder(folder: &Path) -> Result<(), OpenError> {
    let sync = |path: &Path| fs::File::open(path)?.sync_all();
    sync(folder).map_err(io_error("sync", folder))?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    sync(&parent).map_err(io_error("sync", &parent))
}

fn checksum(bytes: &[u8; DESCRIPTOR_LEN]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..DESCRIPTOR_CHECKSUM_OFFSET]);
    hasher.update(&bytes[DESCRIPTOR_CHAIN_ID_OFFSET..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Descriptor {
        let chain = ChainId { chain_id: 1, genesis_hash: B256::repeat_byte(0xd4) };
        Descriptor { format_version: FORMAT_VERSION, chain }
    }

    fn parse(bytes: &[u8]) -> Result<Descriptor, OpenError> {
        Descriptor::from_bytes(Path::new("/a"), Path::new("/a/d"), bytes)
    }

    #[test]
    fn a_descriptor_comes_back() {
        assert_eq!(parse(&sample().to_bytes()).unwrap(), sample());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = sample().to_bytes();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good;
                bad[at] ^= 1 << bit;
                assert!(parse(&bad).is_err(), "byte {at} bit {bit}");
            }
            assert!(parse(&good[..at]).is_err(), "cut at {at}");
        }
    }
}
