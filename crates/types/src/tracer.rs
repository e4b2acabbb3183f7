use crate::GethOptions;

/// What to trace with, and how: the tracers of Geth that are offered, with their options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tracer {
    /// `prestateTracer`.
    Prestate(PrestateOptions),
    /// `callTracer`.
    Call(CallOptions),
    /// `flatCallTracer`.
    FlatCall(FlatCallOptions),
    /// `4byteTracer`.
    FourByte,
    /// `noopTracer`.
    Noop,
    /// `muxTracer`: several under their names, ascending and distinct.
    Mux(Vec<(String, Tracer)>),
    /// The struct logger, which is what runs when no tracer is named.
    StructLog(StructLogOptions),
}

/// Options of `prestateTracer` (`eth/tracers/native/prestate.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PrestateOptions {
    /// Both sides of what changed, instead of all that was looked up.
    pub diff_mode: bool,
    /// What is printed of an account.
    pub fields: GethOptions,
    /// Keep empty accounts; never together with `diff_mode`.
    pub include_empty: bool,
    /// Reproduce the three artefacts of Geth that contradict the state (rules D9, E2, E3).
    /// An option of ours: Geth ignores it and always does.
    pub exact: bool,
}

/// Options of `callTracer` (`eth/tracers/native/call.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CallOptions {
    /// Leave out everything below the transaction's own call.
    pub only_top_call: bool,
    /// Add logs.
    pub with_log: bool,
}

/// Options of `flatCallTracer` (`eth/tracers/native/call_flat.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FlatCallOptions {
    /// Error texts of OpenEthereum instead of Geth's.
    pub convert_parity_errors: bool,
    /// Keep calls to precompiles.
    pub include_precompiles: bool,
}

/// Options of the struct logger (`eth/tracers/logger/logger.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StructLogOptions {
    /// Add memory.
    pub enable_memory: bool,
    /// Leave out the stack.
    pub disable_stack: bool,
    /// Leave out storage.
    pub disable_storage: bool,
    /// Add return data.
    pub enable_return_data: bool,
    /// No further step once the steps' JSON is longer than this, in bytes. Zero is no limit;
    /// below zero there are no steps at all.
    pub limit: i64,
}
