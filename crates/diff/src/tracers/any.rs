use super::{
    calls::CallTracer, deadline::StopsItself, four_byte::FourByteTracer, struct_log::StructLogger,
};
use crate::{
    LookupInspector, PlainOptions, TxLookups, TxStep, changes::state_diff, driver::BlockState,
    replay::fetch,
};
use alloy_consensus::{EthereumTxEnvelope, TxEip4844, transaction::Recovered};
use alloy_evm::eth::EthEvmContext;
use alloy_primitives::Log;
use prestate_host::{StateError, StateReader};
use prestate_types::{
    Codes, FlatCallOptions, FlatFrames, PrestateOptions, StepSink, TraceOutput, TracePlace, Tracer,
    TxDiff,
};
use revm::{
    Inspector,
    context_interface::{ContextTr, result::ExecutionResult},
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter::EthInterpreter,
    },
};

/// Any of the tracers, running. The struct logger's steps go to an `S`.
#[derive(Debug)]
pub struct TraceInspector<S>(Kind<S>);

#[derive(Debug)]
enum Kind<S> {
    Prestate(PrestateOptions, Box<LookupInspector>),
    Call(Box<CallTracer>),
    FlatCall(FlatCallOptions, Box<CallTracer>),
    FourByte(FourByteTracer),
    Noop,
    Mux(Vec<(String, TraceInspector<S>)>),
    StructLog(Box<StructLogger<S>>),
}

/// A transaction that ended, for [`TraceInspector::finish`].
#[derive(Debug, Clone, Copy)]
pub struct TxContext<'a> {
    /// The transaction and its sender.
    pub tx: Recovered<&'a EthereumTxEnvelope<TxEip4844>>,
    /// Where it stands.
    pub place: TracePlace,
}

impl<S: StepSink> TraceInspector<S> {
    /// Starts a tracer. `max_step_bytes` is the most text that a struct logger may make, and the
    /// most that a call tracer may keep, of one transaction before it stops the EVM; `sink` makes the place its steps go to.
    pub fn new(tracer: &Tracer, max_step_bytes: u64, sink: &mut impl FnMut() -> S) -> Self {
        Self(match tracer {
            Tracer::Prestate(options) => Kind::Prestate(*options, Box::default()),
            Tracer::Call(options) => {
                Kind::Call(Box::new(CallTracer::new(*options).limited(max_step_bytes)))
            }
            Tracer::FlatCall(options) => {
                let calls = CallTracer::flat(*options).limited(max_step_bytes);
                Kind::FlatCall(*options, Box::new(calls))
            }
            Tracer::FourByte => Kind::FourByte(FourByteTracer::default()),
            Tracer::Mux(tracers) => Kind::Mux(
                tracers
                    .iter()
                    .map(|(name, tracer)| (name.clone(), Self::new(tracer, max_step_bytes, sink)))
                    .collect(),
            ),
            Tracer::StructLog(options) => {
                Kind::StructLog(Box::new(StructLogger::new(*options, max_step_bytes, sink())))
            }
            _ => Kind::Noop,
        })
    }

    /// A tracer that does nothing.
    pub(super) const fn noop() -> Self {
        Self(Kind::Noop)
    }

    /// Bytes that the struct logger's steps or the recorded calls take, if they are more than
    /// allowed.
    pub fn too_many_step_bytes(&self) -> Option<u64> {
        match &self.0 {
            Kind::StructLog(logger) => logger.too_many_bytes(),
            Kind::Call(calls) | Kind::FlatCall(_, calls) => calls.too_many_bytes(),
            Kind::Mux(tracers) => {
                tracers.iter().find_map(|(_, tracer)| tracer.too_many_step_bytes())
            }
            _ => None,
        }
    }

    /// Passes over a transaction of the block that ran without this inspector.
    pub fn skip(&mut self, result: &ExecutionResult) {
        match &mut self.0 {
            Kind::Call(calls) | Kind::FlatCall(_, calls) => {
                calls.skip(result);
            }
            Kind::Mux(tracers) => {
                tracers.iter_mut().for_each(|(_, tracer)| tracer.skip(result));
            }
            _ => {}
        }
    }

    /// Passes over logs of the block that stand before.
    pub(crate) fn skip_logs(&mut self, logs: u64) {
        match &mut self.0 {
            Kind::Call(calls) | Kind::FlatCall(_, calls) => calls.skip_logs(logs),
            Kind::Mux(tracers) => {
                tracers.iter_mut().for_each(|(_, tracer)| tracer.skip_logs(logs));
            }
            _ => {}
        }
    }

    /// What was found in the transaction that ended, and a fresh start for the next of the block.
    /// `step` is the driver's, with any other inspector in this one's place.
    ///
    /// # Errors
    /// The state around the transaction could not be read; the prestate tracer does.
    pub fn finish<R, I>(
        &mut self,
        step: &mut TxStep<'_, '_, R, I>,
        context: TxContext<'_>,
        codes: &mut Codes,
        sink: &mut impl FnMut() -> S,
    ) -> Result<TraceOutput<S>, StateError>
    where
        R: StateReader + 'static,
        I: for<'s> Inspector<EthEvmContext<&'s mut BlockState<R>>>,
    {
        Ok(match &mut self.0 {
            Kind::Prestate(options, seen) => {
                prestate(*options, std::mem::take(seen), step, context.tx, codes)?
            }
            Kind::Call(calls) => TraceOutput::Call(calls.finish(step.result).unwrap_or_default()),
            Kind::FlatCall(options, calls) => TraceOutput::FlatCall(FlatFrames {
                root: calls.finish(step.result).unwrap_or_default(),
                place: context.place,
                parity_errors: options.convert_parity_errors,
            }),
            Kind::FourByte(selectors) => TraceOutput::FourByte(selectors.finish()),
            Kind::Noop => TraceOutput::Noop,
            Kind::Mux(tracers) => {
                let mut outputs = Vec::with_capacity(tracers.len());
                for (name, tracer) in tracers {
                    let output = tracer.finish(step, context, codes, sink)?;
                    outputs.push((name.clone(), output));
                }
                TraceOutput::Mux(outputs)
            }
            Kind::StructLog(logger) => TraceOutput::StructLog(logger.finish(step.result, sink())),
        })
    }
}

fn prestate<S, R, I>(
    options: PrestateOptions,
    seen: Box<LookupInspector>,
    step: &mut TxStep<'_, '_, R, I>,
    tx: Recovered<&EthereumTxEnvelope<TxEip4844>>,
    codes: &mut Codes,
) -> Result<TraceOutput<S>, StateError>
where
    R: StateReader + 'static,
    I: for<'s> Inspector<EthEvmContext<&'s mut BlockState<R>>>,
{
    let PrestateOptions { diff_mode, fields, include_empty, exact } = options;
    if diff_mode && !exact {
        let mut missing = Vec::new();
        let (diff, mut zero_reads) = state_diff(step.changes, codes, &mut missing);
        fetch(codes, &missing, step.evm.db_mut())?;
        zero_reads.retain_mut(|(address, slots)| {
            slots.retain(|slot| seen.looked_up_slot(address, slot));
            !slots.is_empty()
        });
        let tx = TxDiff { hash: step.hash, index: step.index, diff, zero_reads };
        return Ok(TraceOutput::PrestateDiff(tx, fields));
    }
    let lookups = TxLookups::of(*seen, step, tx, codes)?;
    Ok(if diff_mode {
        TraceOutput::PrestateExact(lookups.exact_diff(fields))
    } else {
        TraceOutput::Prestate(lookups.plain(PlainOptions { fields, include_empty }))
    })
}

impl<S: StepSink> StopsItself for TraceInspector<S> {
    fn is_full(&self) -> bool {
        self.too_many_step_bytes().is_some()
    }
}

/// Calls one hook of whatever runs.
macro_rules! each {
    ($self:ident, $inspector:ident => $call:expr) => {
        match &mut $self.0 {
            Kind::Prestate(_, $inspector) => {
                $call;
            }
            Kind::Call($inspector) | Kind::FlatCall(_, $inspector) => {
                $call;
            }
            Kind::FourByte($inspector) => {
                $call;
            }
            Kind::StructLog($inspector) => {
                $call;
            }
            Kind::Noop => {}
            Kind::Mux(tracers) => {
                for (_, $inspector) in tracers {
                    $call;
                }
            }
        }
    };
}

impl<CTX, S> Inspector<CTX, EthInterpreter> for TraceInspector<S>
where
    CTX: ContextTr<Journal: JournalExt>,
    S: StepSink,
{
    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        each!(self, inspector => inspector.step(interp, context));
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        each!(self, inspector => inspector.step_end(interp, context));
    }

    fn log(&mut self, context: &mut CTX, log: Log) {
        // The others do not look at logs.
        match &mut self.0 {
            Kind::Call(calls) | Kind::FlatCall(_, calls) => calls.log(context, log),
            Kind::Mux(tracers) => {
                for (_, tracer) in tracers {
                    tracer.log(context, log.clone());
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        each!(self, inspector => inspector.call(context, inputs));
        None
    }

    fn call_end(&mut self, context: &mut CTX, inputs: &CallInputs, outcome: &mut CallOutcome) {
        each!(self, inspector => inspector.call_end(context, inputs, outcome));
    }

    fn create(&mut self, context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        each!(self, inspector => inspector.create(context, inputs));
        None
    }

    fn create_end(
        &mut self,
        context: &mut CTX,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        each!(self, inspector => inspector.create_end(context, inputs, outcome));
    }
}
