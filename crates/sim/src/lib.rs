//! The simulated world of the pool engine: disk, clock, workload, model, checkers, planted bugs.
//!
//! Everything that happens in a run follows from its seed. A [`World`] drives a
//! [`store::Store`] on a [`SimDisk`] that forgets, tears and reorders what was not flushed when
//! the power fails; an [`Oracle`] knows what every sector must hold; an audit reads the bytes on
//! the disk without the engine's help. A [`campaign`] runs many seeds and counts.
#![forbid(unsafe_code)]

mod action;
mod audit;
mod backup;
pub mod campaign;
mod content;
pub mod controllers;
mod disk;
pub mod limits;
mod oracle;
mod planted;
mod profile;
mod random;
mod reserve;
mod scan;
mod trace;
mod workload;
mod world;

pub use action::{Action, Fill, Span};
pub use audit::{Audit, Copies, Image};
pub use disk::{Condition, Crash, DiskStatistics, Faults, Rot, SimDisk};
pub use oracle::{Oracle, Violation};
pub use planted::PlantedBug;
pub use profile::{Mirrors, Profile, Weights};
pub use random::Random;
pub use world::{Figures, MirrorShare, Run, RunReport, World};
