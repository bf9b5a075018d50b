//! Every integration test in one binary: one link, shared helpers.

mod cluster;
