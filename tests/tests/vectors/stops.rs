//! Traces that are not allowed to go on: nothing of them is handed out.

use crate::transaction::{Vector, vectors};
use prestate_diff::{
    Deadline, ReplayError, TraceError, TraceLimits, trace_block, trace_block_parity,
};
use prestate_tests::fixtures::{folder, skipped};
use prestate_types::{CallOptions, StructLogOptions, Tracer};
use prestate_wire::StepText;
use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Passes when it is asked for the last time.
#[derive(Clone)]
struct Looks(Arc<AtomicU64>);

impl Looks {
    fn new(left: u64) -> Self {
        Self(Arc::new(AtomicU64::new(left)))
    }
}

impl Deadline for Looks {
    fn passed(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }
}

/// A transaction of some hundred thousand opcodes.
fn long() -> Option<Vector> {
    let root = folder("geth-tracers")?;
    vectors(&root, "call_tracer_flat").into_iter().find(|vector| vector.name.ends_with("big_slow"))
}

fn run(
    vector: &Vector,
    tracer: &Tracer,
    max_step_bytes: u64,
    looks: u64,
) -> Result<u32, TraceError> {
    let mut traces = 0;
    let limits = TraceLimits { only: Some(0), max_step_bytes };
    let state = vector.state();
    let deadline = Looks::new(looks);
    trace_block(
        vector.execution(),
        state,
        tracer,
        limits,
        deadline,
        StepText::default,
        |_, _, _, _| {
            traces += 1;
            ControlFlow::Continue(())
        },
    )?;
    Ok(traces)
}

#[test]
fn a_deadline_stops_the_evm_inside_a_transaction() {
    let Some(vector) = long() else { return skipped("deadlines") };
    let calls = Tracer::Call(CallOptions::default());
    let timeout = Err(TraceError::Replay(ReplayError::Timeout { index: 0 }));
    assert_eq!(run(&vector, &calls, u64::MAX, u64::MAX), Ok(1));
    for looks in [0, 1, 100] {
        for tracer in [&calls, &Tracer::Noop, &Tracer::StructLog(StructLogOptions::default())] {
            assert_eq!(run(&vector, tracer, u64::MAX, looks), timeout, "{tracer:?}, {looks} looks");
        }
    }
    // It was asked inside: a transaction of few frames is asked about more often than it has any.
    let deadline = Looks::new(u64::MAX);
    let limits = TraceLimits { only: Some(0), max_step_bytes: u64::MAX };
    let left = deadline.0.clone();
    trace_block(
        vector.execution(),
        vector.state(),
        &calls,
        limits,
        deadline,
        || (),
        |_, _, _, _| ControlFlow::Continue(()),
    )
    .expect("it ends");
    assert!(u64::MAX - left.load(Ordering::Relaxed) > 100);

    let types = std::iter::once(alloy_rpc_types_trace::parity::TraceType::Trace).collect();
    let state = vector.state();
    let parity =
        trace_block_parity(vector.execution(), state, &types, Some(0), Looks::new(9), |_, _, _| {
            panic!("nothing is handed out")
        });
    assert_eq!(parity.map(|()| 0), timeout);
}

#[test]
fn a_struct_log_stops_at_its_limit() {
    let Some(vector) = long() else { return skipped("struct log limits") };
    let tracer = Tracer::StructLog(StructLogOptions { enable_memory: true, ..Default::default() });
    match run(&vector, &tracer, 100_000, u64::MAX) {
        Err(TraceError::TooManySteps { index: 0, limit: 100_000, bytes }) => {
            // One step more than fits, not many.
            assert!((100_001..1_000_000).contains(&bytes), "{bytes}");
        }
        other => panic!("{other:?}"),
    }
    let options = StructLogOptions { limit: 5_000, ..Default::default() };
    assert_eq!(run(&vector, &Tracer::StructLog(options), 100_000, u64::MAX), Ok(1));
}
