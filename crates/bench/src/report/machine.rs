use serde::{Deserialize, Serialize};
use std::{fmt, fs, path::Path, process::Command, thread};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// What a run ran on, as far as the system tells. No names and no addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Kind of processor.
    pub processor: String,
    /// Cores that may be used.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// `linux x86_64`.
    pub system: String,
}

impl Machine {
    /// This one.
    pub(super) fn this() -> Self {
        let line = |file: &str, key: &str| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = line("/proc/meminfo", "MemTotal");
        let kibibytes = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            processor: line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes.map(|kibibytes| kibibytes * 1024),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores of {}", self.cores, self.processor)?;
        if let Some(bytes) = self.memory_bytes {
            write!(f, ", {} GiB", bytes.div_ceil(1 << 30))?;
        }
        write!(f, " · {}", self.system)
    }
}

/// The commit of the working folder, if that is a clone of this program's sources; with `-dirty`
/// at its end where files differ from it.
pub(super) fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let manifest = fs::read_to_string(Path::new(&root).join("crates/bench/Cargo.toml")).ok()?;
    if !manifest.contains(concat!("name = \"", env!("CARGO_PKG_NAME"), "\"")) {
        return None;
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

/// RFC 3339, UTC, to the second.
pub(super) fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    now.format(&Rfc3339).unwrap_or_default()
}
