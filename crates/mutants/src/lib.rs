//! Mutation testing: the pool engine with deliberate mistakes, of which one at a time can be switched
//! on. The simulator must notice each.
//!
//! The source of `store` knows nothing of them. The build script copies it and splices the mistakes
//! in, each a file of the folder `mistakes` that looks like a patch: what the engine does, and what
//! would be wrong. When the engine changes at such a place this crate does not build, and says which
//! mistake has to be written anew.
#![forbid(unsafe_code)]
// Of each pair one side may leave something unused, and each pair is a block wherever it stands.
#![allow(unused_braces, unused_variables, clippy::blocks_in_conditions)]

// The engine's unit tests are for the engine as it is.
#[cfg(not(test))]
mod switch;

#[cfg(not(test))]
pub use switch::{NAMES, plant};

#[cfg(not(test))]
include!(concat!(env!("OUT_DIR"), "/engine/lib.rs"));
