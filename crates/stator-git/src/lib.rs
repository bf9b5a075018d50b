//! Both ends of git: where models are read from (`source`) and where results are reported (`forge`).

pub mod forge;
pub mod source;
