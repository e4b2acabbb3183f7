//! `debug_traceCall`: a call that no block holds, on the state after a block or inside it.

use crate::{
    args::{Args, invalid},
    block_param::BlockParam,
    call_args::{self, CallArgs},
    debug::Made,
    faults,
    rpc::Shared,
    run::{Cancel, Clock},
    service::{Answer, Outcome, Reply, Timing},
    trace_config::{TraceCallConfig, TraceConfig},
};
use prestate_diff::{
    Before, BlockOverrides, CallEnvironment, CallError, CallState, CallTrace, Execution,
    OverrideError, PrefixError, StateOverrides, state_before, trace_call,
};
use prestate_host::{RecoveredBlock, StateError, summary};
use prestate_rpc_api::RpcError;
use prestate_wire::{KnownCodes, RopeBuilder, StepText, write_trace};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Instant};

impl Shared {
    pub(crate) async fn trace_call(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let call = CallArgs::parse(args.required(0)?).map_err(|text| invalid(0, &text))?;
        let param = match args.optional(1) {
            Some(_) => BlockParam::any(&args, 1)?,
            None => BlockParam::Latest,
        };
        let config = TraceCallConfig::parse(args.optional(2), 2)?;
        args.end(3)?;
        let wrong = |text: String| invalid(2, &text);
        let accounts =
            call_args::state_overrides(config.state_overrides.as_deref()).map_err(wrong)?;
        let (header, refused) =
            call_args::block_overrides(config.block_overrides.as_deref()).map_err(wrong)?;
        let tx_index = call_args::tx_index(config.tx_index.as_deref()).map_err(wrong)?;

        let block = match param {
            BlockParam::Pending => {
                return Err(RpcError::server("tracing on top of pending is not supported"));
            }
            // Geth does not look at `requireCanonical` here.
            BlockParam::Hash { hash, .. } => self.by_hash(hash)?,
            param => self.block(param)?,
        };
        let work = CallWork {
            shared: Arc::clone(self),
            block,
            call,
            accounts,
            header,
            refused,
            tx_index,
            config: config.trace,
        };
        let (rope, timing) = self.execute(move |cancel| work.run(cancel)).await?;
        Ok(Answer { reply: Reply::Whole(rope), outcome: Outcome::Uncached, timing })
    }
}

/// One call to be traced.
struct CallWork {
    shared: Arc<Shared>,
    block: Arc<RecoveredBlock>,
    call: CallArgs,
    accounts: StateOverrides,
    header: BlockOverrides,
    /// An override that a trace cannot have.
    refused: Option<&'static str>,
    tx_index: Option<u64>,
    config: TraceConfig,
}

impl CallWork {
    /// In Geth's order: state, overrides, the call, the tracer, execution.
    fn run(self, cancel: &Cancel) -> Result<Made, RpcError> {
        let started = Instant::now();
        let Before { state, logs } = self.place(cancel)?;
        let Self { shared, block, call, accounts, header, refused, config, .. } = self;
        if let Some(refused) = refused {
            return Err(RpcError::server(refused));
        }
        let spec = shared.host.spec();
        let environment = CallEnvironment::new(spec, block.header(), &header);
        let state = CallState::new(state, summary(&block).block, &accounts, &environment)
            .map_err(override_fault)?;
        let message =
            call.into_message(environment.base_fee(), spec.chain_id()).map_err(RpcError::server)?;
        let tracer = shared.normalised(config.tracer?);
        let trace = CallTrace {
            tracer: &tracer,
            max_step_bytes: shared.config.max_struct_log_bytes,
            deadline: Clock::new(config.timeout, cancel),
            logs_before: logs,
        };
        let (output, codes) = trace_call(&message, environment, state, trace, StepText::default)
            .map_err(call_fault)?;
        let execute = started.elapsed();
        let mut out = RopeBuilder::new();
        write_trace(&mut out, output, &KnownCodes::new(&shared.codes, &codes))
            .map_err(faults::code)?;
        let encode = started.elapsed().saturating_sub(execute);
        Ok((out.finish(), Timing { execute, encode }))
    }

    /// Where the call runs.
    fn place(&self, cancel: &Cancel) -> Result<Before, RpcError> {
        let Self { shared, block, tx_index, .. } = self;
        let host = &shared.host;
        let Some(index) = *tx_index else {
            let state = host.state_after(block.hash()).map_err(faults::state)?;
            return Ok(Before { state, logs: 0 });
        };
        if block.number == 0 {
            return Err(RpcError::server("no transaction in genesis"));
        }
        let parent = host.state_after(block.parent_hash).map_err(|fault| match fault {
            StateError::UnknownBlock(hash) => RpcError::server(format!("parent {hash} not found")),
            other => faults::state(other),
        })?;
        let execution = Execution { spec: host.spec(), block };
        state_before(execution, parent, index, || cancel.check().is_continue()).map_err(|fault| {
            match fault {
                // Geth prints the index as a signed number.
                PrefixError::OutOfRange { index, block } => RpcError::server(format!(
                    "transaction index {} out of range for block {block}",
                    index as i64
                )),
                PrefixError::Replay(fault) => faults::replay(fault),
                other => faults::logged(&other),
            }
        })
    }
}

fn override_fault(fault: OverrideError) -> RpcError {
    match fault {
        OverrideError::State(fault) => faults::state(fault),
        other => RpcError::server(other.to_string()),
    }
}

fn call_fault(fault: CallError) -> RpcError {
    match fault {
        CallError::Refused(reason) => RpcError::server(format!("tracing failed: {reason}")),
        CallError::State(fault) => faults::state(fault),
        CallError::Timeout => RpcError::server("execution timeout"),
        CallError::TooManySteps { limit, bytes } => {
            RpcError::limit(fault.to_string(), "structLogBytes", limit, bytes)
        }
        other => faults::logged(&other),
    }
}
