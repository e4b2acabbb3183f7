//! A disk that fails on demand.

use crate::{
    basics::{append_plain, fresh, options},
    chain::{self, Random, block_ref, hash, plain},
};
use prestate_store::{
    Access, Archive, ArchiveOptions, ArchiveReader, ArchiveWriter, Medium, OpenError, ReadError,
    RecordId, Retention, SpaceState, WriteError,
};
use redb::{BackendError, StorageBackend};
use std::{
    fs, io,
    ops::Bound,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};
use tempfile::TempDir;

/// A disk in memory. What was written since the last sync is lost with the power, in part.
#[derive(Debug, Default)]
struct Memory(Mutex<State>);

#[derive(Debug)]
struct State {
    exists: bool,
    /// As a reader sees it.
    current: Vec<u8>,
    /// As it was at the last sync.
    durable: Vec<u8>,
    /// Since then, in order.
    unsynced: Vec<Change>,
    available_bytes: u64,
    fault: Option<Fault>,
    changes: u64,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// From the change of this number on, everything fails.
    PowerLoss { at: u64 },
    /// The change of this number writes half and fails.
    ShortWrite { at: u64 },
    /// The next sync fails, once.
    Sync,
    /// The file cannot grow.
    Full,
}

impl Default for State {
    fn default() -> Self {
        Self {
            exists: false,
            current: Vec::new(),
            durable: Vec::new(),
            unsynced: Vec::new(),
            available_bytes: u64::MAX,
            fault: None,
            changes: 0,
        }
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write(offset, bytes) => {
                let end = *offset as usize + bytes.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset as usize..end].copy_from_slice(bytes);
            }
            Self::Length(length) => image.resize(*length as usize, 0),
        }
    }
}

impl State {
    fn change(&mut self, change: Change) -> io::Result<()> {
        let number = self.changes;
        self.changes += 1;
        match self.fault {
            Some(Fault::PowerLoss { at }) if number >= at => {
                return Err(io::Error::other("no power"));
            }
            Some(Fault::ShortWrite { at }) if number == at => {
                if let Change::Write(offset, bytes) = change {
                    let half = Change::Write(offset, bytes[..bytes.len() / 2].to_vec());
                    half.apply(&mut self.current);
                    self.unsynced.push(half);
                }
                return Err(io::Error::other("short write"));
            }
            Some(Fault::Full) => {
                if let Change::Length(length) = change
                    && length as usize > self.current.len()
                {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            _ => {}
        }
        change.apply(&mut self.current);
        self.unsynced.push(change);
        Ok(())
    }

    /// Any part of what was not synced made it, in any order, whole sectors of 512 bytes each.
    fn lose_power(&mut self, random: &mut Random) {
        let mut image = std::mem::take(&mut self.durable);
        for change in self.unsynced.drain(..) {
            match change {
                Change::Length(_) => {
                    if random.below(2) == 0 {
                        change.apply(&mut image);
                    }
                }
                Change::Write(offset, bytes) => {
                    let fate = random.below(4);
                    for (sector, bytes) in bytes.chunks(512).enumerate() {
                        if fate == 0 || (fate == 1 && random.below(2) == 0) {
                            let offset = offset + 512 * sector as u64;
                            Change::Write(offset, bytes.to_vec()).apply(&mut image);
                        }
                    }
                }
            }
        }
        self.durable = image.clone();
        self.current = image;
        self.fault = None;
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn options(self: &Arc<Self>) -> ArchiveOptions {
        ArchiveOptions { medium: Arc::new(Handle(self.clone())), ..options() }
    }

    fn fail(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }
}

#[derive(Debug)]
struct Handle(Arc<Memory>);

impl Medium for Handle {
    fn open(&self, _path: &Path, access: Access) -> io::Result<Box<dyn StorageBackend>> {
        let mut state = self.0.state();
        if access != Access::Create && !state.exists {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.exists = true;
        Ok(Box::new(Handle(self.0.clone())))
    }

    fn available_bytes(&self, _folder: &Path) -> io::Result<u64> {
        Ok(self.0.state().available_bytes)
    }
}

/// One process, one handle at a time: every lock is free.
impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.state();
        let from = offset as usize;
        let bytes = state.current.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.state().change(Change::Length(len))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.state().change(Change::Write(offset, data.to_vec()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.state();
        match state.fault {
            Some(Fault::Sync) => {
                state.fault = None;
                return Err(io::Error::other("sync failed"));
            }
            Some(Fault::PowerLoss { at }) if state.changes >= at => {
                return Err(io::Error::other("no power"));
            }
            _ => {}
        }
        let State { durable, unsynced, .. } = &mut *state;
        for change in unsynced.drain(..) {
            change.apply(durable);
        }
        Ok(())
    }

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }
}

fn in_memory() -> (TempDir, Arc<Memory>, ArchiveWriter, ArchiveReader) {
    let folder = TempDir::new().unwrap();
    let memory = Arc::new(Memory::default());
    let (writer, reader) =
        Archive::create(folder.path(), chain::chain_id(), &memory.options()).unwrap();
    (folder, memory, writer, reader)
}

fn try_append(writer: &mut ArchiveWriter, number: u64) -> Result<(), WriteError> {
    let (facts, codes) = plain(number);
    writer.append(&facts, &codes, true).map(drop)
}

fn holds(reader: &ArchiveReader, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        assert_eq!(reader.facts(&hash(number, 0)).unwrap(), Some(plain(number).0));
    }
}

#[test]
fn power_loss_at_any_change_loses_no_committed_block() {
    let (folder, memory, mut writer, mut reader) = in_memory();
    let mut random = Random::new(5);
    let mut tip = 0;
    for round in 0..120 {
        let at = memory.state().changes + random.below(300);
        memory.fail(Fault::PowerLoss { at });
        while try_append(&mut writer, tip + 1).is_ok() {
            tip += 1;
            if random.below(40) == 0 && writer.prune(Retention::Blocks(64)).is_err() {
                break;
            }
        }
        drop((writer, reader));
        memory.state().lose_power(&mut random);
        (writer, reader) =
            Archive::open(folder.path(), chain::chain_id(), &memory.options()).unwrap();
        let (first, last) = reader.range().unwrap().map_or((0, 0), |(a, b)| (a.number, b.number));
        // The one that was not acknowledged may be there, whole.
        assert!(last == tip || last == tip + 1, "round {round}: {last} after {tip}");
        tip = last;
        if tip > 0 {
            holds(&reader, first.max(tip.saturating_sub(5))..=tip);
        }
        let report = reader.verify(|_| {}).unwrap();
        assert_eq!(report.problems, vec![], "round {round}");
    }
    assert!(tip > 120);
}

#[test]
fn after_a_failed_sync_everything_goes_on() {
    let (_folder, memory, mut writer, reader) = in_memory();
    try_append(&mut writer, 1).unwrap();
    for number in 2..12 {
        memory.fail(Fault::Sync);
        let error = try_append(&mut writer, number).unwrap_err();
        assert!(matches!(error, WriteError::Engine(_)), "{error}");
        holds(&reader, 1..=number - 1);
        try_append(&mut writer, number).unwrap();
        holds(&reader, 1..=number);
    }
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn after_a_short_write_everything_goes_on() {
    let (_folder, memory, mut writer, reader) = in_memory();
    let mut random = Random::new(9);
    for number in 1..60 {
        let at = memory.state().changes + random.below(60);
        memory.fail(Fault::ShortWrite { at });
        if try_append(&mut writer, number).is_err() {
            if number > 1 {
                holds(&reader, 1..=number - 1);
            }
            memory.state().fault = None;
            try_append(&mut writer, number).unwrap();
        }
    }
    holds(&reader, 1..=59);
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn a_full_disk_stops_writing_and_nothing_else() {
    let (_folder, memory, mut writer, reader) = in_memory();
    try_append(&mut writer, 1).unwrap();
    memory.fail(Fault::Full);
    let mut number = 2;
    let error = loop {
        match try_append(&mut writer, number) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, WriteError::Engine(error) if error.is_disk_full()), "{error}");
    holds(&reader, 1..=number - 1);
    try_append(&mut writer, number).unwrap_err();
    holds(&reader, 1..=number - 1);
    memory.state().fault = None;
    try_append(&mut writer, number).unwrap();
    holds(&reader, 1..=number);
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn low_space_stops_writing_and_recovers_by_itself() {
    let folder = TempDir::new().unwrap();
    let memory = Arc::new(Memory::default());
    let options = ArchiveOptions { reserve_bytes: 1000, ..memory.options() };
    let (mut writer, reader) = Archive::create(folder.path(), chain::chain_id(), &options).unwrap();
    append_plain(&mut writer, 1..=100);
    memory.state().available_bytes = 999;
    let changes = memory.state().changes;
    let error = try_append(&mut writer, 101).unwrap_err();
    assert!(
        matches!(error, WriteError::LowSpace { available_bytes: 999, reserve_bytes: 1000, .. }),
        "{error}"
    );
    assert_eq!(memory.state().changes, changes, "nothing was written");
    let low = SpaceState::Low { available_bytes: 999, reserve_bytes: 1000 };
    assert_eq!((writer.space().last_state(), reader.stats().unwrap().space), (low, low));
    holds(&reader, 1..=100);
    // What makes space is allowed.
    assert_eq!(writer.prune(Retention::Blocks(64)).unwrap().blocks, 36);
    memory.state().available_bytes = 1000;
    try_append(&mut writer, 101).unwrap();
    assert_eq!(writer.space_state(), SpaceState::Enough { available_bytes: 1000 });
}

/// Bytes of the file that hold a block's record from its start.
fn find_record(image: &[u8], block: &prestate_types::BlockRef) -> usize {
    // Header, then the block's own hash.
    image
        .windows(64)
        .position(|window| window.starts_with(b"PSR1") && window[32..] == block.hash[..])
        .unwrap()
}

#[test]
fn a_rotten_record_is_named_and_not_served() {
    let (folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=20);
    drop((writer, reader));
    let path = folder.path().join("archive");
    let file = path.join("archive.redb");
    let mut image = fs::read(&file).unwrap();
    let at = find_record(&image, &block_ref(7, 0));
    image[at + 200] ^= 4;
    fs::write(&file, &image).unwrap();

    let (_writer, reader) = Archive::open(&path, chain::chain_id(), &options()).unwrap();
    let error = reader.facts(&hash(7, 0)).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, ReadError::Record { record: RecordId::Block(block), .. }
            if block == block_ref(7, 0)),);
    assert!(message.contains("archive.redb") && message.contains("7 ("), "{message}");
    assert!(reader.transaction(&plain(7).0.txs[0].hash).is_err());
    assert!(reader.export(5..=9, io::sink()).is_err());
    holds(&reader, 1..=6);
    holds(&reader, 8..=20);
    let report = reader.verify(|_| {}).unwrap();
    assert_eq!(report.problem_count, 1);
}

#[test]
fn rot_anywhere_is_never_served_and_never_panics() {
    let (folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=30);
    drop((writer, reader));
    let path = folder.path().join("archive");
    let file = path.join("archive.redb");
    let good = fs::read(&file).unwrap();
    let mut random = Random::new(11);
    let (mut refused, mut failed) = (0, 0);
    for _ in 0..60 {
        let mut image = good.clone();
        for _ in 0..8 {
            let at = random.below(image.len() as u64) as usize;
            image[at] = image[at].wrapping_add(1 + random.below(255) as u8);
        }
        fs::write(&file, &image).unwrap();
        let (writer, reader) = match Archive::open(&path, chain::chain_id(), &options()) {
            Ok(handles) => handles,
            Err(OpenError::Damaged { .. } | OpenError::Engine(_)) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        for number in 1..=30 {
            match reader.facts(&hash(number, 0)) {
                Ok(Some(facts)) => assert_eq!(facts, plain(number).0),
                // The way to it is gone.
                Ok(None) => failed += 1,
                Err(_) => failed += 1,
            }
        }
        let _ = reader.verify(|_| {});
        drop((writer, reader));
    }
    assert!(refused + failed > 0, "the flips hit something");
}
