//! Where delays outside of pure code get their random part from: [`stator_core::retry`] draws none itself.

/// Bits that differ at every call, and between processes. The high ones are random; they decide a delay.
pub fn random_bits() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
