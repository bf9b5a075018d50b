//! Nothing but a manifest: with it, the tests of one crate are built with the features that the whole workspace has.
