use crate::{GethDiff, GethState, TxDiff, VmError};
use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256};

/// The opcode that opened a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameKind {
    /// CALL, or a transaction with a recipient.
    #[default]
    Call,
    /// CALLCODE.
    CallCode,
    /// DELEGATECALL.
    DelegateCall,
    /// STATICCALL.
    StaticCall,
    /// CREATE, or a transaction without a recipient.
    Create,
    /// CREATE2.
    Create2,
    /// SELFDESTRUCT, which Geth shows as a frame of its own.
    SelfDestruct,
}

impl FrameKind {
    /// The opcode's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "CALL",
            Self::CallCode => "CALLCODE",
            Self::DelegateCall => "DELEGATECALL",
            Self::StaticCall => "STATICCALL",
            Self::Create => "CREATE",
            Self::Create2 => "CREATE2",
            Self::SelfDestruct => "SELFDESTRUCT",
        }
    }

    /// Whether the frame makes a contract.
    pub const fn is_create(self) -> bool {
        matches!(self, Self::Create | Self::Create2)
    }
}

/// One call with those it made: the result of `callTracer`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallFrame {
    /// How it was opened.
    pub kind: FrameKind,
    /// The caller; for DELEGATECALL the contract that runs.
    pub from: Address,
    /// The callee, new contract or beneficiary; `None` for a creation that failed.
    pub to: Option<Address>,
    /// Gas given; for the transaction's own call its gas limit.
    pub gas: u64,
    /// Gas used; for the transaction's own call the receipt's.
    pub gas_used: u64,
    /// Call data or init code.
    pub input: Bytes,
    /// Returned data, deployed code, or what REVERT gave.
    pub output: Bytes,
    /// Why it failed.
    pub error: Option<VmError>,
    /// The reason decoded from a revert's output: text as it came, UTF-8 or not.
    pub revert_reason: Bytes,
    /// Frames opened, in order.
    pub calls: Vec<CallFrame>,
    /// Logs of the frame itself.
    pub logs: Vec<CallLog>,
    /// Wei sent; `None` for STATICCALL.
    pub value: Option<U256>,
}

/// A log inside a [`CallFrame`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLog {
    /// The contract.
    pub address: Address,
    /// Its topics.
    pub topics: Vec<B256>,
    /// Its data.
    pub data: Bytes,
    /// Its index in the block at the time it was emitted.
    pub index: u64,
    /// Number of frames the same call had opened before.
    pub position: u64,
}

/// Where a traced transaction stands; `None` and zero for a call that is in no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TracePlace {
    /// The block's hash.
    pub block_hash: Option<B256>,
    /// Its number.
    pub block_number: u64,
    /// The transaction's hash.
    pub tx_hash: Option<B256>,
    /// Its index.
    pub tx_index: u64,
}

/// The result of `flatCallTracer`: the frames as a list, the outer before the inner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlatFrames {
    /// The transaction's own call; calls to precompiles are left out unless asked for.
    pub root: CallFrame,
    /// The transaction.
    pub place: TracePlace,
    /// OpenEthereum's error texts instead of Geth's.
    pub parity_errors: bool,
}

/// An entry of `4byteTracer`: how often a selector was called with so much data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorCalls {
    /// The first four bytes of the call data.
    pub selector: FixedBytes<4>,
    /// Bytes after them.
    pub size: usize,
    /// Calls.
    pub count: u64,
}

/// One step of the struct logger, as it was before the opcode ran.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Place in the code.
    pub pc: u64,
    /// The opcode.
    pub opcode: u8,
    /// Gas before.
    pub gas: u64,
    /// What the opcode costs, a call's gas included.
    pub gas_cost: u64,
    /// 1 for the transaction's own call.
    pub depth: usize,
    /// Why the opcode could not start. What goes wrong while it runs is not shown.
    pub error: Option<&'a VmError>,
    /// The stack, the top last; `None` if switched off.
    pub stack: Option<&'a [U256]>,
    /// What the last call returned; empty if switched off.
    pub return_data: &'a [u8],
    /// Memory; empty if switched off.
    pub memory: &'a [u8],
    /// After SLOAD and SSTORE, all slots of the contract that were read or written so far,
    /// ascending; else empty.
    pub storage: &'a [(B256, B256)],
    /// The refund counter, this opcode's refund included.
    pub refund: u64,
}

/// Takes a struct logger's steps one by one, so that they need not be held twice.
pub trait StepSink {
    /// Takes a step and returns the length of its text in bytes.
    fn step(&mut self, step: &Step<'_>) -> usize;
}

/// Drops the steps.
impl StepSink for () {
    fn step(&mut self, _: &Step<'_>) -> usize {
        0
    }
}

/// The result of the struct logger; `S` holds the steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StructLogs<S> {
    /// The receipt's gas used.
    pub gas: u64,
    /// Whether the transaction's own call failed.
    pub failed: bool,
    /// What it returned; empty if it failed otherwise than by REVERT.
    pub return_value: Bytes,
    /// The steps.
    pub steps: S,
}

/// What a tracer found in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceOutput<S> {
    /// `prestateTracer`, plain mode.
    Prestate(GethState),
    /// `prestateTracer`, diff mode, exact as Geth prints it.
    PrestateExact(GethDiff),
    /// `prestateTracer`, diff mode: what really changed.
    PrestateDiff(TxDiff, crate::GethOptions),
    /// `callTracer`.
    Call(CallFrame),
    /// `flatCallTracer`.
    FlatCall(FlatFrames),
    /// `4byteTracer`, in no order.
    FourByte(Vec<SelectorCalls>),
    /// `noopTracer`.
    Noop,
    /// `muxTracer`.
    Mux(Vec<(String, TraceOutput<S>)>),
    /// The struct logger.
    StructLog(StructLogs<S>),
}
