use alloy_primitives::map::AddressMap;
use revm::primitives::U256;
use revm::{
    context_interface::{Cfg, ContextTr, JournalTr, Transaction, transaction::AuthorizationTr},
    inspector::JournalExt,
    primitives::hardfork::SpecId,
};

/// What the refund counter holds before the first opcode: EIP-7702 gives back part of the price of
/// each authorization whose authority was in the state. revm counts it only after execution; Geth
/// shows it from the first step on (`core/state_transition.go`, `applyAuthorization`).
///
/// Called when the first frame starts, when the authorizations are applied already. What decides
/// is worked out from the state before: nonces grow by one with each that is valid.
pub(super) fn refund_of_authorizations<CTX>(context: &CTX) -> i64
where
    CTX: ContextTr<Journal: JournalExt>,
{
    let (tx, cfg) = (context.tx(), context.cfg());
    let spec: SpecId = cfg.spec().into();
    if tx.authorization_list_len() == 0 || !spec.is_enabled_in(SpecId::PRAGUE) {
        return 0;
    }
    let state = context.journal().evm_state();
    // Nonce and existence as the list is gone through.
    let mut authorities: AddressMap<(u64, bool)> = AddressMap::default();
    let mut existing = 0;
    for authorization in tx.authorization_list() {
        let chain_id = authorization.chain_id();
        if !(chain_id.is_zero() || chain_id == U256::from(cfg.chain_id()))
            || authorization.nonce() == u64::MAX
        {
            continue;
        }
        let Some(authority) = authorization.authority() else { continue };
        let Some(account) = state.get(&authority) else { continue };
        // A contract's code is the same before and after, and refuses.
        let contract = !account.info.is_empty_code_hash()
            && account.info.code.as_ref().is_none_or(|code| !code.is_eip7702());
        if contract {
            continue;
        }
        let (nonce, exists) = authorities.entry(authority).or_insert_with(|| {
            let sent = u64::from(tx.caller() == authority);
            let nonce = account.original_info().nonce.saturating_add(sent);
            (nonce, !account.is_loaded_as_not_existing())
        });
        if authorization.nonce() != *nonce {
            continue;
        }
        existing += i64::from(*exists);
        (*nonce, *exists) = (nonce.saturating_add(1), true);
    }
    let refund = cfg.gas_params().tx_eip7702_auth_refund_regular();
    i64::try_from(refund).unwrap_or_default() * existing
}
