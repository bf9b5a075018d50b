//! Where delays outside the machine get their random part from.

/// Bits that differ at every call, and between processes. The high ones are random; they decide a delay.
pub(crate) fn random_bits() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
