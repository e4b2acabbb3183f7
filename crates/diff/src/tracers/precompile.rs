//! Which precompiles there are, and what Geth says when one refuses its input
//! (`core/vm/contracts.go`).

use alloy_primitives::{Address, U256, uint};
use prestate_types::VmError;
use revm::{
    precompile::{PrecompileSpecId, Precompiles},
    primitives::hardfork::SpecId,
};

/// Order of the field of BN254.
const BN254: U256 =
    uint!(21888242871839275222246405745257275088696311157297823662689037894645226208583_U256);
/// Order of the field of BLS12-381, upper 16 and lower 32 bytes.
const BLS12_381: (U256, U256) = (
    uint!(0x1a0111ea397fe69a4b1ba7b6434bacd7_U256),
    uint!(0x64774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab_U256),
);

/// Order of the group of BLS12-381, which the scalars of EIP-4844 are below.
const BLS12_381_SCALARS: U256 =
    uint!(0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001_U256);

/// The precompiles of a fork.
pub(super) fn precompiles(spec: SpecId) -> &'static Precompiles {
    Precompiles::new(PrecompileSpecId::from_spec_id(spec))
}

/// Why a precompile refused this input. The EVM says only that it did; the input is gone through
/// again in Geth's order, gas first, without doing the curve's arithmetic a second time: where all
/// encodings are right, the point is to blame.
pub(super) fn refusal(precompile: &Address, input: &[u8], gas: u64, spec: SpecId) -> VmError {
    let Some((&last, _)) = precompile.split_last() else { return VmError::OutOfGas };
    if required_gas(last, input, spec) > gas {
        return VmError::OutOfGas;
    }
    let text = match last {
        0x05 => "one or more of base/exponent/modulus length exceeded 1024 bytes",
        0x06 => bn254(input, &[64, 64]),
        0x07 => bn254(input, &[64]),
        0x08 if input.len().is_multiple_of(192) => {
            bn254(input, &[64, 128].repeat(input.len() / 192))
        }
        0x08 => "bad elliptic curve pairing size",
        0x09 if input.len() == 213 => "invalid final flag",
        0x0a => kzg(input),
        0x0b..=0x11 => bls(last, input),
        _ => "invalid input length",
    };
    VmError::Precompile(text.into())
}

/// Gas that Geth asks for before it looks at the input, where revm looks first.
fn required_gas(last: u8, input: &[u8], spec: SpecId) -> u64 {
    use revm::precompile::{bls12_381_const as bls, bls12_381_utils::msm_required_gas, modexp};
    match last {
        // Before EIP-7823 any length is good; what revm refuses costs Geth more than there is.
        0x05 if !spec.is_enabled_in(SpecId::OSAKA) => u64::MAX,
        0x05 => {
            let length = |at: usize| {
                u64::try_from(U256::from_be_slice(&padded::<32>(input, at))).unwrap_or(u64::MAX)
            };
            let (base, exponent, modulus) = (length(0), length(32), length(64));
            let start = usize::try_from(base).unwrap_or(usize::MAX).saturating_add(96);
            let highest = usize::try_from(exponent).unwrap_or(usize::MAX).min(32);
            let head = U256::from_be_slice(&padded::<32>(input, start)[..highest]);
            modexp::osaka_gas_calc(base, exponent, modulus, &head)
        }
        0x09 if input.len() == 213 => u64::from(u32::from_be_bytes(padded::<4>(input, 0))),
        0x0a => 50_000,
        0x0b => bls::G1_ADD_BASE_GAS_FEE,
        0x0c => {
            let table = &bls::DISCOUNT_TABLE_G1_MSM;
            msm_required_gas(input.len() / 160, table, bls::G1_MSM_BASE_GAS_FEE)
        }
        0x0d => bls::G2_ADD_BASE_GAS_FEE,
        0x0e => {
            let table = &bls::DISCOUNT_TABLE_G2_MSM;
            msm_required_gas(input.len() / 288, table, bls::G2_MSM_BASE_GAS_FEE)
        }
        0x0f => 37_700 + 32_600 * (input.len() / 384) as u64,
        0x10 => bls::MAP_FP_TO_G1_BASE_GAS_FEE,
        0x11 => bls::MAP_FP2_TO_G2_BASE_GAS_FEE,
        _ => 0,
    }
}

/// Bytes of the input from `at` on, zeros where it ends.
fn padded<const N: usize>(input: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let given = input.get(at..).unwrap_or_default();
    let given = &given[..given.len().min(N)];
    bytes[..given.len()].copy_from_slice(given);
    bytes
}

/// Points of these lengths, one after the other; missing bytes are zero.
fn bn254(input: &[u8], points: &[usize]) -> &'static str {
    let mut at = 0;
    for length in points {
        let mut point = vec![0; *length];
        let given = input.get(at..).unwrap_or_default();
        let given = &given[..given.len().min(*length)];
        point[..given.len()].copy_from_slice(given);
        at += length;
        if point.chunks(32).any(|number| U256::from_be_slice(number) >= BN254) {
            return "invalid fp.Element encoding";
        }
        if *length == 64 && !on_bn254(&point) {
            return "point is not on curve";
        }
    }
    // Of the pairing's second group, points off the curve and off the subgroup look alike here.
    "point is not on curve"
}

/// y² = x³ + 3, or the point at infinity.
fn on_bn254(point: &[u8]) -> bool {
    let (x, y) = (U256::from_be_slice(&point[..32]), U256::from_be_slice(&point[32..]));
    if x.is_zero() && y.is_zero() {
        return true;
    }
    let cube = x.mul_mod(x, BN254).mul_mod(x, BN254);
    y.mul_mod(y, BN254) == cube.add_mod(uint!(3_U256), BN254)
}

fn kzg(input: &[u8]) -> &'static str {
    if input.len() != 192 {
        return "invalid input length";
    }
    let hash = revm::precompile::kzg_point_evaluation::kzg_to_versioned_hash(&input[96..144]);
    if hash[..] != input[..32] {
        return "mismatched versioned hash";
    }
    let scalars = [&input[32..64], &input[64..96]];
    if scalars.iter().any(|scalar| U256::from_be_slice(scalar) >= BLS12_381_SCALARS) {
        "error verifying kzg proof: scalar is not canonical when interpreted as a big integer in big-endian"
    } else {
        "error verifying kzg proof: can't verify opening proof"
    }
}

/// EIP-2537: lengths of the parts of one input unit; 64 bytes an element, 32 a scalar.
fn bls(kind: u8, input: &[u8]) -> &'static str {
    // Elements a unit has, its length in bytes, whether there may be many units.
    let (elements, unit, many) = match kind {
        0x0b => (4, 256, false),
        0x0c => (2, 160, true),
        0x0d => (8, 512, false),
        0x0e => (4, 288, true),
        0x0f => (6, 384, true),
        0x10 => (1, 64, false),
        _ => (2, 128, false),
    };
    let fits = if many {
        !input.is_empty() && input.len().is_multiple_of(unit)
    } else {
        input.len() == unit
    };
    if !fits {
        return "invalid input length";
    }
    for unit in input.chunks(unit) {
        for element in unit.chunks(64).take(elements) {
            if element[..16].iter().any(|byte| *byte != 0) {
                return "invalid field element top bytes";
            }
            let high = U256::from_be_slice(&element[16..32]);
            let low = U256::from_be_slice(&element[32..]);
            if (high, low) >= BLS12_381 {
                return "invalid fp.Element encoding";
            }
        }
    }
    match kind {
        0x0b | 0x0d => "invalid point: not on curve",
        0x0c => "g1 point is not on correct subgroup",
        0x0e => "g2 point is not on correct subgroup",
        _ => "invalid point: not on curve",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(last: u8, input: &[u8]) -> String {
        refusal(&Address::with_last_byte(last), input, 1 << 40, SpecId::OSAKA).to_string()
    }

    #[test]
    fn gas_comes_first() {
        let refused = |last, input: &[u8], gas, spec| {
            refusal(&Address::with_last_byte(last), input, gas, spec)
        };
        assert_eq!(refused(0x0b, &[], 374, SpecId::PRAGUE), VmError::OutOfGas);
        assert_ne!(refused(0x0b, &[], 375, SpecId::PRAGUE), VmError::OutOfGas);
        assert_eq!(refused(5, &[0xff; 96], u64::MAX - 1, SpecId::CANCUN), VmError::OutOfGas);
        assert_eq!(refused(5, &[0xff; 96], u64::MAX - 1, SpecId::OSAKA), VmError::OutOfGas);
    }

    #[test]
    fn texts_by_input() {
        assert_eq!(said(8, &[0; 191]), "bad elliptic curve pairing size");
        assert_eq!(said(9, &[0; 1]), "invalid input length");
        assert_eq!(said(9, &[9; 213]), "invalid final flag");
        assert_eq!(said(6, &[0xff; 32]), "invalid fp.Element encoding");
        let mut off_curve = [0; 64];
        off_curve[31] = 1;
        assert_eq!(said(7, &off_curve), "point is not on curve");
        assert_eq!(said(10, &[0; 5]), "invalid input length");
        assert_eq!(said(10, &[0; 192]), "mismatched versioned hash");
        assert_eq!(said(0x0b, &[1; 256]), "invalid field element top bytes");
        assert_eq!(said(0x0c, &[]), "invalid input length");
    }
}
