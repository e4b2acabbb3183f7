//! Messages that no block holds: `eth_call`, `eth_estimateGas`.

use crate::ChainState;
use alloy_consensus::Header;
use alloy_evm::{
    Evm, EvmEnv,
    eth::{EthEvmBuilder, EthEvmContext},
    overrides::{apply_block_overrides, apply_state_overrides},
    rpc::{EthTxEnvError, TryIntoTxEnv},
};
use alloy_primitives::{Bytes, TxKind, U256};
use alloy_rpc_types_eth::{
    AccessListResult, BlockOverrides, TransactionRequest, state::StateOverride,
};
use prestate_host::{ChainSpec, ReaderDb, StateReader, evm_env};
use revm::{
    Inspector,
    context::TxEnv,
    context_interface::result::{
        EVMError, ExecutionResult, HaltReason, InvalidTransaction, OutOfGasError,
    },
    database::State,
    inspector::NoOpInspector,
    primitives::hardfork::SpecId,
};
use revm_inspectors::access_list::AccessListInspector;
use std::sync::Arc;

/// Gas that a call gets at most (Geth `--rpc.gascap`).
const GAS_CAP: u64 = 50_000_000;
/// EIP-7825.
const MAX_TX_GAS: u64 = 1 << 24;
/// Gas of a transfer.
const TX_GAS: u64 = 21_000;
/// Gas that a call with value hands on (EIP-150 keeps a 64th back).
const CALL_STIPEND: u64 = 2_300;
/// Geth stops searching when the bounds are this close (`estimateGasErrorRatio`).
const ESTIMATE_ERROR_RATIO: f64 = 0.015;

/// Why a call has no result; in Geth's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// REVERT, with its data.
    #[error("execution reverted{}", reason(.0).map(|reason| format!(": {reason}")).unwrap_or_default())]
    Reverted(Bytes),
    /// Another end of the EVM.
    #[error("{0}")]
    Halted(&'static str),
    /// No message: fields that contradict each other, or overrides that cannot be applied.
    #[error("{0}")]
    Refused(String),
    /// A message that the rules do not let begin.
    #[error("{0}")]
    Invalid(String),
}

/// Where a message runs.
#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    env: EvmEnv,
    state: Arc<ChainState>,
    overrides: Option<StateOverride>,
    block_overrides: Option<BlockOverrides>,
}

impl CallSite {
    /// On the state after a block, in that block's environment.
    pub(crate) fn new(spec: &ChainSpec, header: &Header, state: ChainState) -> Self {
        let mut env = evm_env(spec, header);
        let cfg = &mut env.cfg_env;
        cfg.disable_nonce_check = true;
        cfg.disable_eip3607 = true;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        Self { env, state: Arc::new(state), overrides: None, block_overrides: None }
    }

    /// With accounts and block fields replaced.
    pub(crate) fn overridden(
        mut self,
        accounts: Option<StateOverride>,
        block: Option<BlockOverrides>,
    ) -> Self {
        self.overrides = accounts;
        self.block_overrides = block;
        self
    }

    /// Runs a message and returns what it returned.
    pub(crate) fn call(&self, request: TransactionRequest) -> Result<Bytes, CallError> {
        let (tx, fees) = self.message(request)?;
        let gas = tx.gas_limit;
        let result = fees.and_then(|()| self.execute(tx)).map_err(|error| match error {
            CallError::Invalid(text) => {
                CallError::Invalid(format!("err: {text} (supplied gas {gas})"))
            }
            other => other,
        })?;
        outcome(result)
    }

    /// The slots and accounts that a message touches, and the gas it takes with them declared
    /// (EIP-2930).
    pub(crate) fn access_list(
        &self,
        mut request: TransactionRequest,
    ) -> Result<AccessListResult, CallError> {
        let initial = request.access_list.take().unwrap_or_default();
        let (tx, fees) = self.message(request)?;
        fees?;
        let mut inspector = AccessListInspector::new(initial);
        let ran = self.inspected(tx.clone(), &mut inspector)?;
        let access_list = inspector.into_access_list();
        let error = outcome(ran).err().map(|error| error.to_string());
        // Once more, as what is declared costs something else than what is not.
        let declared = TxEnv { access_list: access_list.clone(), tx_type: tx.tx_type.max(1), ..tx };
        let gas_used = U256::from(self.execute(declared)?.tx_gas_used());
        Ok(AccessListResult { access_list, gas_used, error })
    }

    /// The message, and what the rules say of the fees it offers.
    fn message(
        &self,
        mut request: TransactionRequest,
    ) -> Result<(TxEnv, Result<(), CallError>), CallError> {
        let fees = self.check_fees(&request).map_err(CallError::Invalid);
        if fees.is_err() {
            // It will not be executed.
            (request.max_fee_per_gas, request.max_priority_fee_per_gas) = (None, None);
        }
        let mut tx: TxEnv = request
            .try_into_tx_env(&self.env)
            .map_err(|error: EthTxEnvError| CallError::Refused(error.to_string()))?;
        tx.gas_limit = tx.gas_limit.min(GAS_CAP);
        Ok((tx, fees))
    }

    /// `core/state_transition.go`, `preCheck`: who offers nothing is asked for nothing.
    fn check_fees(&self, request: &TransactionRequest) -> Result<(), String> {
        let both = request.gas_price.is_some()
            && (request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some());
        let from = request.from.unwrap_or_default();
        let cap = request.max_fee_per_gas.or(request.gas_price).unwrap_or_default();
        let tip = request.max_priority_fee_per_gas.or(request.gas_price).unwrap_or_default();
        let base_fee = self.env.block_env.basefee;
        if both || cap == 0 && tip == 0 {
            return Ok(());
        }
        if cap < tip {
            return Err(format!(
                "max priority fee per gas higher than max fee per gas: address {from}, \
                 maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}"
            ));
        }
        if cap < u128::from(base_fee) {
            return Err(format!(
                "max fee per gas less than block base fee: address {from}, maxFeePerGas: {cap}, \
                 baseFee: {base_fee}"
            ));
        }
        Ok(())
    }

    fn execute(&self, tx: TxEnv) -> Result<ExecutionResult, CallError> {
        self.inspected(tx, NoOpInspector)
    }

    fn inspected<I>(&self, tx: TxEnv, inspector: I) -> Result<ExecutionResult, CallError>
    where
        I: for<'s> Inspector<EthEvmContext<&'s mut State<ReaderDb<Arc<ChainState>>>>>,
    {
        let mut db = State::builder().with_database(ReaderDb(self.state.clone())).build();
        let mut env = self.env.clone();
        if let Some(overrides) = &self.block_overrides {
            apply_block_overrides(overrides.clone(), &mut db, &mut env.block_env);
        }
        if let Some(overrides) = &self.overrides {
            apply_state_overrides(overrides.clone(), &mut db)
                .map_err(|error| CallError::Refused(error.to_string()))?;
        }
        if tx.gas_price == 0 {
            // Who offers nothing is asked for nothing.
            env.block_env.basefee = 0;
        }
        let from = tx.caller;
        let mut evm = EthEvmBuilder::new(&mut db, env).activate_inspector(inspector).build();
        let ran = evm.transact(tx).map_err(|error| {
            CallError::Invalid(match error {
                EVMError::Transaction(invalid) => invalid_text(&invalid, from),
                other => other.to_string(),
            })
        })?;
        Ok(ran.result)
    }

    /// The least gas with which a transaction succeeds, as Geth searches for it
    /// (`eth/gasestimator`).
    pub(crate) fn estimate(&self, mut request: TransactionRequest) -> Result<u64, CallError> {
        let mut high =
            request.gas.filter(|gas| *gas >= TX_GAS).unwrap_or(self.env.block_env.gas_limit);
        if self.env.cfg_env.spec >= SpecId::OSAKA {
            high = high.min(MAX_TX_GAS);
        }
        let from = request.from.unwrap_or_default();
        let fee_cap = request.max_fee_per_gas.or(request.gas_price).unwrap_or_default();
        if fee_cap > 0 {
            let balance = self.balance(from);
            let value = request.value.unwrap_or_default();
            if value >= balance {
                return Err(CallError::Refused("insufficient funds for transfer".to_owned()));
            }
            let available = balance - value;
            let allowance: u64 = (available / U256::from(fee_cap)).saturating_to();
            high = high.min(allowance);
        }
        high = high.min(GAS_CAP);
        request.gas = Some(high);
        let (tx, fees) = self.message(request)?;
        let run = |gas_limit| self.execute(TxEnv { gas_limit, ..tx.clone() });
        if fees.is_ok()
            && self.is_plain_transfer(&tx)
            && high >= TX_GAS
            && run(TX_GAS).is_ok_and(|r| r.is_success())
        {
            return Ok(TX_GAS);
        }
        let allowance = || CallError::Refused(format!("gas required exceeds allowance ({high})"));
        let first = match fees.and_then(|()| run(high)) {
            Err(CallError::Invalid(text)) if text.starts_with("intrinsic gas too low") => {
                return Err(allowance());
            }
            Err(CallError::Invalid(text)) => {
                return Err(CallError::Invalid(format!("failed with {high} gas: {text}")));
            }
            other => other?,
        };
        if let ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. } = first {
            return Err(allowance());
        }
        let (used, refunded) = (first.tx_gas_used(), first.gas().final_refunded());
        outcome(first)?;
        let fits = |gas| match run(gas) {
            Ok(result) => Ok(result.is_success()),
            // Below what the message costs before its first opcode.
            Err(CallError::Invalid(text)) if is_gas_text(&text) => Ok(false),
            Err(other) => Err(other),
        };
        let mut low = used - 1;
        let guess = (used + refunded + CALL_STIPEND) * 64 / 63;
        if guess < high {
            if fits(guess)? { high = guess } else { low = guess }
        }
        while low + 1 < high {
            if (high - low) as f64 / (high as f64) < ESTIMATE_ERROR_RATIO {
                break;
            }
            let middle = (high.midpoint(low)).min(low * 2);
            if fits(middle)? { high = middle } else { low = middle }
        }
        Ok(high)
    }

    fn balance(&self, address: alloy_primitives::Address) -> U256 {
        let replaced = self.overrides.as_ref().and_then(|all| all.get(&address)?.balance);
        let held = || self.state.account(address).ok().flatten().unwrap_or_default().balance;
        replaced.unwrap_or_else(held)
    }

    fn is_plain_transfer(&self, tx: &TxEnv) -> bool {
        let TxKind::Call(to) = tx.kind else { return false };
        let code = |to| self.state.account(to).ok().flatten().is_some_and(|to| to.has_code());
        tx.data.is_empty() && self.overrides.is_none() && !code(to)
    }
}

/// What a message returned, or why it did not.
pub(crate) fn outcome(result: ExecutionResult) -> Result<Bytes, CallError> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(CallError::Reverted(output)),
        ExecutionResult::Halt { reason, .. } => Err(CallError::Halted(halt_text(&reason))),
    }
}

fn is_gas_text(text: &str) -> bool {
    text.starts_with("intrinsic gas too low") || text.starts_with("insufficient gas for floor")
}

/// Geth's texts (`core/error.go`, `core/state_transition.go`).
fn invalid_text(error: &InvalidTransaction, from: alloy_primitives::Address) -> String {
    match error {
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => format!(
            "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
        ),
        InvalidTransaction::GasPriceLessThanBasefee => {
            "max fee per gas less than block base fee".to_owned()
        }
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => {
            "max priority fee per gas higher than max fee per gas".to_owned()
        }
        InvalidTransaction::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        other => other.to_string(),
    }
}

/// Geth's texts (`core/vm/errors.go`).
fn halt_text(reason: &HaltReason) -> &'static str {
    match reason {
        HaltReason::OutOfGas(OutOfGasError::ReentrancySentry) => {
            "out of gas: not enough gas for reentrancy sentry"
        }
        HaltReason::OutOfGas(_) => "out of gas",
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode",
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID",
        HaltReason::InvalidJump => "invalid jump destination",
        HaltReason::StackUnderflow => "stack underflow",
        HaltReason::StackOverflow => "stack limit reached 1024 (1023)",
        HaltReason::OutOfOffset => "return data out of bounds",
        HaltReason::CreateCollision => "contract address collision",
        HaltReason::NonceOverflow => "nonce uint64 overflow",
        HaltReason::CreateContractSizeLimit => "max code size exceeded",
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded",
        HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef",
        HaltReason::StateChangeDuringStaticCall | HaltReason::CallNotAllowedInsideStatic => {
            "write protection"
        }
        HaltReason::OutOfFunds => "insufficient balance for transfer",
        HaltReason::CallTooDeep => "max call depth exceeded",
        _ => "execution failed",
    }
}

/// What Solidity says in the data of a revert: `Error(string)` or `Panic(uint256)`
/// (`accounts/abi`, `UnpackRevert`).
fn reason(data: &Bytes) -> Option<String> {
    const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
    let (selector, rest) = data.split_first_chunk::<4>()?;
    let word = |at: usize| Some(U256::from_be_slice(rest.get(at..at + 32)?));
    match *selector {
        ERROR => {
            let offset: usize = word(0)?.try_into().ok()?;
            let length: usize = word(offset)?.try_into().ok()?;
            let begin = offset.checked_add(32)?;
            let text = rest.get(begin..begin.checked_add(length)?)?;
            Some(String::from_utf8_lossy(text).into_owned())
        }
        PANIC => {
            let code = word(0)?;
            Some(match u8::try_from(code).unwrap_or(u8::MAX) {
                0x00 => "generic panic".to_owned(),
                0x01 => "assert(false)".to_owned(),
                0x11 => "arithmetic underflow or overflow".to_owned(),
                0x12 => "division or modulo by zero".to_owned(),
                0x21 => "enum overflow".to_owned(),
                0x22 => "invalid encoded storage byte array accessed".to_owned(),
                0x31 => "out-of-bounds array access; popping on an empty array".to_owned(),
                0x32 => "out-of-bounds access of an array or bytesN".to_owned(),
                0x41 => "out of memory".to_owned(),
                0x51 => "uninitialized function".to_owned(),
                _ => format!("unknown panic code: {code:#x}"),
            })
        }
        _ => None,
    }
}
