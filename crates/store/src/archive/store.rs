//! The engine's file, shared by the one writer and all readers.

use super::{
    Access, EngineCause, EngineError, Medium, OpenError, ReadError,
    layout::{META, STORE_FILE, TOTALS_KEY, Totals},
};
use parking_lot::RwLock;
use redb::{
    BackendError, Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase,
    ReadTransaction, ReadableDatabase, StorageBackend, WriteTransaction,
};
use std::{
    any::Any,
    fmt, io,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

/// An open store. Reads run inside [`Store::read`], so that the engine can be closed and opened
/// again underneath after a failure.
pub(super) struct Store {
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
    medium: Arc<dyn Medium>,
    cache_bytes: usize,
    writable: bool,
    engine: RwLock<Engine>,
}

enum Engine {
    Writable(Database),
    ReadOnly(ReadOnlyDatabase),
    /// Closed after a failure, which is told to whoever asks.
    Closed(String),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("file", &self.file)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn open(
        folder: &Path,
        medium: Arc<dyn Medium>,
        cache_bytes: usize,
        access: Access,
    ) -> Result<Self, OpenError> {
        let file = folder.join(STORE_FILE);
        let engine = open_engine(&file, &*medium, cache_bytes, access)?;
        Ok(Self {
            folder: folder.to_owned(),
            file,
            medium,
            cache_bytes,
            writable: access != Access::Read,
            engine: RwLock::new(engine),
        })
    }

    /// What is being done, for the error if it fails.
    pub(super) fn during(&self, operation: &'static str) -> During<'_> {
        During { store: self, operation }
    }

    /// Runs a read on one snapshot. A failed write closes the engine for reading as well; it is
    /// then opened again, and the read tried once more.
    pub(super) fn read<T>(
        &self,
        read: impl Fn(&ReadTransaction) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match self.read_once(&read) {
            Err(ReadError::Engine(EngineError { cause: EngineCause::Closed(_), .. })) => {
                self.reopen();
                self.read_once(&read)
            }
            result => result,
        }
    }

    fn read_once<T>(
        &self,
        read: impl Fn(&ReadTransaction) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let engine = self.engine.read();
        let snapshot = match &*engine {
            Engine::Writable(database) => database.begin_read(),
            Engine::ReadOnly(database) => database.begin_read(),
            Engine::Closed(reason) => return Err(self.closed("read", reason).into()),
        };
        self.guarded("read", || read(&snapshot.at(self.during("read"))?))
    }

    fn closed(&self, operation: &'static str, reason: &str) -> EngineError {
        let cause = EngineCause::Closed(reason.to_owned());
        EngineError { operation, path: self.file.clone(), cause }
    }

    /// Starts a write. There is one writer by type, so this never waits for another.
    pub(super) fn begin_write(&self) -> Result<WriteTransaction, EngineError> {
        let mut transaction = match self.begin_write_once() {
            // Closed, reading only, or in a bad way since an earlier failure.
            Err(_) => {
                self.reopen();
                self.begin_write_once()?
            }
            Ok(transaction) => transaction,
        };
        // Opening after a crash must not walk the whole file: at 100 GB that takes minutes.
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    fn begin_write_once(&self) -> Result<WriteTransaction, EngineError> {
        let operation = "begin writing to";
        match &*self.engine.read() {
            Engine::Writable(database) => {
                self.guarded(operation, || database.begin_write().at(self.during(operation)))
            }
            Engine::ReadOnly(_) => {
                Err(self.closed(operation, "it could be opened for reading only"))
            }
            Engine::Closed(reason) => Err(self.closed(operation, reason)),
        }
    }

    /// Runs something on the database itself, once no read is under way.
    pub(super) fn exclusive<T>(
        &self,
        operation: &'static str,
        run: impl FnOnce(&mut Database) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match &mut *self.engine.write() {
            Engine::Writable(database) => self.guarded(operation, || run(database)),
            Engine::ReadOnly(_) => Err(self.closed(operation, "it is open for reading only")),
            Engine::Closed(reason) => Err(self.closed(operation, reason)),
        }
    }

    /// Closes the engine and opens it again, after a failure. A writer that cannot have its file
    /// back settles for reading until the next attempt.
    pub(super) fn reopen(&self) {
        let mut engine = self.engine.write();
        // Closing may fail as well; what counts is on disk already.
        *engine = Engine::Closed("being opened again".into());
        let open = |access| open_engine(&self.file, &*self.medium, self.cache_bytes, access);
        let wanted = if self.writable { Access::Write } else { Access::Read };
        *engine = open(wanted)
            .or_else(|error| if self.writable { open(Access::Read) } else { Err(error) })
            .unwrap_or_else(|error| Engine::Closed(error.to_string()));
    }

    /// The engine trusts its own pages and may panic on one that rotted; that must cost a request,
    /// not the node.
    pub(super) fn guarded<T, E: From<EngineError>>(
        &self,
        operation: &'static str,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let cause = EngineCause::Damaged(message(&*panic));
            Err(EngineError { operation, path: self.file.clone(), cause }.into())
        })
    }

    pub(super) fn totals(&self, snapshot: &ReadTransaction) -> Result<Totals, EngineError> {
        let failed = "read totals of";
        let table = snapshot.open_table(META).at(self.during(failed))?;
        let value = redb::ReadableTable::get(&table, TOTALS_KEY).at(self.during(failed))?;
        Ok(value.map(|value| Totals::from_bytes(&value.value())).unwrap_or_default())
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the engine gave up").to_owned()
}

fn open_engine(
    file: &Path,
    medium: &dyn Medium,
    cache_bytes: usize,
    access: Access,
) -> Result<Engine, OpenError> {
    let opened = medium.open(file, access).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { path: file.to_owned() },
        io::ErrorKind::NotFound => {
            OpenError::Damaged { path: file.to_owned(), reason: "the file is missing".into() }
        }
        _ => OpenError::Io { operation: "open", path: file.to_owned(), source },
    })?;
    let backend = Boxed(opened);
    if access != Access::Create && backend.0.len().is_ok_and(|len| len == 0) {
        return Err(OpenError::Damaged { path: file.to_owned(), reason: "it is empty".into() });
    }
    let mut builder = Builder::new();
    // One process writes while others read and follow: what a read replica needs.
    builder.set_concurrency_mode(ConcurrencyMode::SingleWriter).set_cache_size(cache_bytes);
    let open = || match access {
        Access::Read => builder.open_read_only_with_backend(backend).map(Engine::ReadOnly),
        Access::Write | Access::Create => {
            builder.create_with_backend(backend).map(Engine::Writable)
        }
    };
    let damaged = |reason: String| OpenError::Damaged { path: file.to_owned(), reason };
    let opened = catch_unwind(AssertUnwindSafe(open)).map_err(|panic| damaged(message(&*panic)))?;
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            OpenError::Locked { path: file.to_owned() }
        }
        DatabaseError::RepairAborted => OpenError::NeedsWriter { path: file.to_owned() },
        DatabaseError::Storage(redb::StorageError::Corrupted(reason)) => damaged(reason),
        DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == io::ErrorKind::InvalidData =>
        {
            damaged(error.to_string())
        }
        other => OpenError::Engine(EngineError {
            operation: "open",
            path: file.to_owned(),
            cause: EngineCause::from(redb::Error::from(other)),
        }),
    })
}

/// An operation under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct During<'a> {
    store: &'a Store,
    operation: &'static str,
}

/// Turns the engine's errors into ours.
pub(super) trait EngineResult<T> {
    /// Says what was being done.
    fn at(self, during: During<'_>) -> Result<T, EngineError>;
}

impl<T, E: Into<redb::Error>> EngineResult<T> for Result<T, E> {
    fn at(self, During { store, operation }: During<'_>) -> Result<T, EngineError> {
        self.map_err(|error| EngineError {
            operation,
            path: store.file.clone(),
            cause: EngineCause::from(error.into()),
        })
    }
}

/// A backend of a type known at run time only.
#[derive(Debug)]
struct Boxed(Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
