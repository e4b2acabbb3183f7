use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Series: how many things are wrong at the moment.
const PROBLEMS: &str = "prestate_problems";

/// What can be wrong while the node goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Area {
    Archive,
    Disk,
    Retention,
    Pipeline,
    Notifications,
    Backfill,
    Lane,
}

impl Area {
    const fn name(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Disk => "disk",
            Self::Retention => "retention",
            Self::Pipeline => "pipeline",
            Self::Notifications => "notifications",
            Self::Backfill => "backfill",
            Self::Lane => "lane",
        }
    }
}

/// What is wrong at the moment: for `prestate_status`, the log and a gauge.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<BTreeMap<Area, Problem>>);

#[derive(Debug, PartialEq, Eq)]
struct Problem {
    reason: String,
    remedy: &'static str,
}

impl Health {
    /// Notes a problem; said in the log once for as long as it stays the same.
    pub(crate) fn report(&self, area: Area, reason: String, remedy: &'static str) {
        let problem = Problem { reason, remedy };
        let mut problems = self.0.lock();
        if problems.get(&area) != Some(&problem) {
            tracing::error!(
                target: "prestate", area = area.name(), reason = %problem.reason, remedy,
                "prestate is degraded, the node goes on"
            );
            problems.insert(area, problem);
        }
        gauge(problems.len());
    }

    /// Takes a problem back.
    pub(crate) fn clear(&self, area: Area) {
        let mut problems = self.0.lock();
        if problems.remove(&area).is_some() {
            tracing::info!(target: "prestate", area = area.name(), "prestate is well again");
        }
        gauge(problems.len());
    }

    /// As `prestate_status` shows it.
    pub(crate) fn json(&self) -> Value {
        let problems = self.0.lock();
        let shown = |(area, problem): (&Area, &Problem)| {
            json!({
                "area": area.name(), "reason": problem.reason, "remedy": problem.remedy,
            })
        };
        problems.iter().map(shown).collect()
    }
}

fn gauge(problems: usize) {
    metrics::gauge!(PROBLEMS).set(problems as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_stands_until_it_is_taken_back() {
        let health = Health::default();
        health.report(Area::Disk, "full".into(), "make room");
        health.report(Area::Disk, "still full".into(), "make room");
        health.report(Area::Lane, "port taken".into(), "free it");
        let shown = health.json();
        assert_eq!(shown.as_array().unwrap().len(), 2);
        assert_eq!(shown[0]["reason"], "still full");
        health.clear(Area::Disk);
        assert_eq!(health.json()[0]["area"], "lane");
    }
}
