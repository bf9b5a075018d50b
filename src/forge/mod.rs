//! The git hosts: what they tell stator (webhooks).

pub mod webhook;
