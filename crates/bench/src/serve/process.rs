use std::{
    fs, io,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Clock ticks a second in `/proc/PID/stat`; fixed by the kernel's interface on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// A server under load. Ended when dropped. Its standard input is open as long as this process runs,
/// so that it can tell when that was killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Processes it started that do the work (nginx).
    workers: Vec<u32>,
}

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// The system's.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.stdin(Stdio::piped()).spawn()?;
        Ok(Self { child, workers: Vec::new() })
    }

    /// The child itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Counts its children's time as its own from now on.
    pub fn adopt_workers(&mut self) {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        self.workers = children.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    }

    /// CPU time spent so far, user and system, to a hundredth of a second.
    pub fn cpu(&self) -> Duration {
        let ids = std::iter::once(self.child.id()).chain(self.workers.iter().copied());
        ids.map(cpu_of).sum()
    }

    /// The most memory it ever had resident, in bytes.
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        kib.unwrap_or(0u64) * 1024
    }
}

fn cpu_of(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name in parentheses may hold blanks; the fields after it do not.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis((field(11) + field(12)) * 1000 / TICKS_PER_SECOND)
}

impl Drop for Process {
    fn drop(&mut self) {
        // nginx's master ends its workers on SIGTERM; a plain server goes at once either way.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
