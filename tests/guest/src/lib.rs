//! A Linux machine of our own, emulated, whose kernel is the initiator: built from Debian's
//! packages, booted by the test, told what to run line by line.
//!
//! Nothing here needs root or hardware virtualisation, and nothing leaves the loopback interface.
#![forbid(unsafe_code)]

pub mod bench;
pub mod initramfs;
pub mod lio;
pub mod machine;
pub mod packages;
pub mod relay;
pub mod report;
pub mod scst;

pub use bench::Bench;
pub use lio::Lio;
pub use machine::{Finished, Hardware, Machine};
pub use packages::Root;
pub use relay::Relay;
pub use report::{Need, Report};
pub use scst::Scst;
