use revm::precompile::kzg_point_evaluation::verify_kzg_proof;

/// Loads what the EVM loads at first use: the trusted setup of the point evaluation precompile
/// (EIP-4844) takes seconds, longer than a trace may take. Call it where nobody waits.
pub fn warm_up() {
    // The proof does not hold; looking at it is what loads the setup.
    let _ = verify_kzg_proof(&[0; 48], &[0; 32], &[0; 32], &[0; 48]);
}
