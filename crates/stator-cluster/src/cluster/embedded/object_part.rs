//! The two halves of an object that are written apart.

/// Which half of an object an update writes; the other half of what it returns is ignored, as an API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// Everything but the status.
    Main,
    /// The status subresource.
    Status,
}
