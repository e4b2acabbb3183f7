use super::WriteError;
use crate::metrics;
use parking_lot::Mutex;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where bytes lie: opens the store's file and tells how much space is left. [`Disk`] is the real
/// one; tests put one in front of it that fails on demand.
pub trait Medium: std::fmt::Debug + Send + Sync {
    /// Opens the file under the engine's care. Called when an archive is opened, and again after
    /// a failed write.
    ///
    /// # Errors
    ///
    /// As the file system says; [`io::ErrorKind::NotFound`] unless `access` makes the file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn redb::StorageBackend>>;

    /// Bytes an ordinary user may still write below `folder`. Asked before every batch.
    ///
    /// # Errors
    ///
    /// As the file system says.
    fn available_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading; the file must be there.
    Read,
    /// For writing; the file must be there.
    Write,
    /// For writing; the file must not be there.
    Create,
}

/// Files on the local file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Medium for Disk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn redb::StorageBackend>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true);
        match access {
            Access::Read => {}
            Access::Write => {
                options.write(true);
            }
            Access::Create => {
                options.write(true).create_new(true);
            }
        }
        let backend = redb::backends::FileBackend::new(options.open(path)?);
        backend.map(|backend| Box::new(backend) as _).map_err(|error| match error {
            redb::DatabaseError::Storage(redb::StorageError::Io(error)) => error,
            redb::DatabaseError::DatabaseAlreadyOpen => io::ErrorKind::WouldBlock.into(),
            other => io::Error::other(other),
        })
    }

    fn available_bytes(&self, folder: &Path) -> io::Result<u64> {
        fs4::available_space(folder)
    }
}

/// Keeps the archive from filling the disk its node lives on.
#[derive(Debug)]
pub struct SpaceGuard {
    medium: Arc<dyn Medium>,
    folder: PathBuf,
    reserve_bytes: u64,
    last: Mutex<SpaceState>,
}

/// What the guard saw last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpaceState {
    /// There is space.
    Enough {
        /// Free bytes.
        available_bytes: u64,
    },
    /// Writing is stopped.
    Low {
        /// Free bytes.
        available_bytes: u64,
        /// Bytes that stay free.
        reserve_bytes: u64,
    },
    /// The file system did not say; writing goes on.
    Unknown,
}

impl SpaceGuard {
    pub(crate) fn new(medium: Arc<dyn Medium>, folder: PathBuf, reserve_bytes: u64) -> Self {
        Self { medium, folder, reserve_bytes, last: Mutex::new(SpaceState::Unknown) }
    }

    /// Looks at the disk; also records it as metrics.
    pub fn state(&self) -> SpaceState {
        let state = match self.medium.available_bytes(&self.folder) {
            Ok(available_bytes) if available_bytes < self.reserve_bytes => {
                SpaceState::Low { available_bytes, reserve_bytes: self.reserve_bytes }
            }
            Ok(available_bytes) => SpaceState::Enough { available_bytes },
            Err(_) => SpaceState::Unknown,
        };
        if let SpaceState::Enough { available_bytes } | SpaceState::Low { available_bytes, .. } =
            state
        {
            metrics::set(metrics::ARCHIVE_AVAILABLE_BYTES, available_bytes);
        }
        let low = matches!(state, SpaceState::Low { .. });
        metrics::set(metrics::ARCHIVE_SPACE_LOW, u64::from(low));
        *self.last.lock() = state;
        state
    }

    /// What was seen last, without looking.
    pub fn last_state(&self) -> SpaceState {
        *self.last.lock()
    }

    /// Fails with [`WriteError::LowSpace`] while space is low.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        match self.state() {
            SpaceState::Low { available_bytes, reserve_bytes } => Err(WriteError::LowSpace {
                path: self.folder.clone(),
                available_bytes,
                reserve_bytes,
            }),
            _ => Ok(()),
        }
    }
}
