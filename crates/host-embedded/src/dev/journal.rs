//! What a dev chain keeps on disk: its genesis and the canonical blocks, in `chain.redb`.
//!
//! State is not kept: it follows from the blocks, which are executed and checked when the chain is
//! opened. Every append is durable (synced) when it returns, so a block that anybody heard of is
//! there after a kill or a power cut; a torn append is rolled back by redb when the file is opened.

use alloy_consensus::BlockHeader;
use alloy_genesis::Genesis;
use alloy_rlp::{Decodable, Encodable};
use prestate_host::{Block, ChainSpec, IrregularChange, RecoveredBlock};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Number to RLP of the block.
const BLOCKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("blocks");
/// Number to RLP of the irregular change of the block, where it has one.
const CHANGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");
/// `version`, `genesis` (JSON).
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const VERSION: &[u8] = b"1";
const FILE: &str = "chain.redb";

/// Why a chain on disk cannot be used. After any of these the file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The folder cannot be made.
    #[error("{}: {operation} failed: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{}: another process has this chain open", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The store said no.
    #[error("{}: {operation} failed: {source}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The store's reason.
        source: Box<redb::Error>,
    },
    /// Written by a later version of this program.
    #[error("{}: format version {found}, this program reads version 1", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// An entry is not what it should be.
    #[error("{}: {what}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which entry.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The file of a dev chain, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    db: Database,
    path: PathBuf,
}

impl Journal {
    /// Opens the chain in a folder, or makes one there.
    pub(crate) fn open(folder: &Path) -> Result<Self, JournalError> {
        fs::create_dir_all(folder).map_err(|source| JournalError::Io {
            path: folder.to_owned(),
            operation: "create",
            source,
        })?;
        let path = folder.join(FILE);
        let db = Database::create(&path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => JournalError::InUse { path: path.clone() },
            other => store(&path, "open")(other),
        })?;
        let journal = Self { db, path };
        if let Some(found) = journal.meta("version")?
            && found != VERSION
        {
            let found = String::from_utf8_lossy(&found).into_owned();
            return Err(JournalError::Version { path: journal.path, found });
        }
        Ok(journal)
    }

    fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        let failed = "read";
        let read = self.db.begin_read().map_err(store(&self.path, failed))?;
        match read.open_table(META) {
            Ok(table) => {
                let value = table.get(key).map_err(store(&self.path, failed))?;
                Ok(value.map(|value| value.value().to_vec()))
            }
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(other) => Err(store(&self.path, failed)(other)),
        }
    }

    /// The genesis of the chain, `None` if it is new.
    pub(crate) fn genesis(&self) -> Result<Option<Genesis>, JournalError> {
        let Some(json) = self.meta("genesis")? else { return Ok(None) };
        serde_json::from_slice(&json)
            .map(Some)
            .map_err(|error| self.corrupt("genesis".to_owned(), error))
    }

    /// Begins a chain.
    pub(crate) fn begin(&self, genesis: &Genesis) -> Result<(), JournalError> {
        let json = serde_json::to_vec(genesis)
            .map_err(|error| self.corrupt("genesis".to_owned(), error))?;
        self.write("write genesis", |transaction| {
            let mut meta = transaction.open_table(META)?;
            meta.insert("version", VERSION)?;
            meta.insert("genesis", json.as_slice())?;
            transaction.open_table(BLOCKS)?;
            transaction.open_table(CHANGES)?;
            Ok(())
        })
    }

    /// Hands out the blocks in order, and puts their irregular changes into the rules. `each` may
    /// end the walk.
    pub(crate) fn replay<E: From<JournalError>>(
        &self,
        spec: &ChainSpec,
        mut each: impl FnMut(RecoveredBlock) -> Result<(), E>,
    ) -> Result<(), E> {
        let fault = |error: redb::Error| E::from(store(&self.path, "read")(error));
        let read = self.db.begin_read().map_err(|error| fault(error.into()))?;
        let blocks = read.open_table(BLOCKS).map_err(|error| fault(error.into()))?;
        let changes = read.open_table(CHANGES).map_err(|error| fault(error.into()))?;
        for entry in blocks.iter().map_err(|error| fault(error.into()))? {
            let (number, rlp) = entry.map_err(|error| fault(error.into()))?;
            let number = number.value();
            let what = || format!("block {number}");
            let block =
                Block::decode(&mut rlp.value()).map_err(|error| self.corrupt(what(), error))?;
            let block =
                RecoveredBlock::try_recover(block).map_err(|error| self.corrupt(what(), error))?;
            let change = changes.get(number).map_err(|error| fault(error.into()))?;
            if let Some(change) = change {
                let change = IrregularChange::decode(&mut change.value())
                    .map_err(|error| self.corrupt(what(), error))?;
                spec.decree(block.hash(), change);
            }
            each(block)?;
        }
        Ok(())
    }

    /// Appends blocks, each on the one before; what stood at their numbers and above is replaced.
    /// Durable when it returns; after an error the file is as it was.
    pub(crate) fn append<'a>(
        &self,
        spec: &ChainSpec,
        blocks: impl IntoIterator<Item = &'a RecoveredBlock>,
    ) -> Result<(), JournalError> {
        let mut rlp = Vec::new();
        self.write("append a block", |transaction| {
            let mut table = transaction.open_table(BLOCKS)?;
            let mut changes = transaction.open_table(CHANGES)?;
            let mut first = true;
            for block in blocks {
                if std::mem::take(&mut first) {
                    table.retain_in(block.number().., |_, _| false)?;
                    changes.retain_in(block.number().., |_, _| false)?;
                }
                rlp.clear();
                block.sealed_block().encode(&mut rlp);
                table.insert(block.number(), rlp.as_slice())?;
                if let Some(change) = spec.irregular_change(&block.hash()) {
                    changes.insert(block.number(), alloy_rlp::encode(&*change).as_slice())?;
                }
            }
            Ok(())
        })
    }

    fn write(
        &self,
        operation: &'static str,
        change: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), JournalError> {
        let attempt = || {
            // Immediate durability is redb's default: the commit returns after the sync.
            let mut transaction = self.db.begin_write()?;
            transaction.set_quick_repair(true);
            change(&transaction)?;
            transaction.commit()?;
            Ok(())
        };
        attempt().map_err(|error: redb::Error| store(&self.path, operation)(error))
    }

    fn corrupt(&self, what: String, reason: impl ToString) -> JournalError {
        JournalError::Corrupt { path: self.path.clone(), what, reason: reason.to_string() }
    }
}

fn store<E: Into<redb::Error>>(
    path: &Path,
    operation: &'static str,
) -> impl FnOnce(E) -> JournalError {
    move |error| JournalError::Store {
        path: path.to_owned(),
        operation,
        source: Box::new(error.into()),
    }
}
