//! `4byteTracer` (`eth/tracers/native/4byte.go`).

use super::precompile::precompiles;
use alloy_primitives::{FixedBytes, map::HashMap};
use prestate_types::SelectorCalls;
use revm::{
    Inspector,
    context_interface::{Cfg, ContextTr},
    inspector::JournalExt,
    interpreter::{CallInputs, CallOutcome, interpreter::EthInterpreter},
};

/// Counts selectors called, with the size of their data.
#[derive(Debug, Default)]
pub struct FourByteTracer(HashMap<(FixedBytes<4>, usize), u64>);

impl FourByteTracer {
    /// The counts of the transaction that ended, in no order.
    pub fn finish(&mut self) -> Vec<SelectorCalls> {
        let counts = self.0.drain();
        counts.map(|((selector, size), count)| SelectorCalls { selector, size, count }).collect()
    }
}

impl<CTX> Inspector<CTX, EthInterpreter> for FourByteTracer
where
    CTX: ContextTr<Journal: JournalExt>,
{
    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let input = inputs.input.as_bytes(context);
        if let Some((selector, data)) = input.split_first_chunk::<4>()
            && !precompiles(context.cfg().spec().into()).contains(&inputs.bytecode_address)
        {
            *self.0.entry((FixedBytes(*selector), data.len())).or_default() += 1;
        }
        None
    }
}
