//! Scenarios for the Linux kernel's own initiator, one machine each.

mod boot;
mod csi;
mod fence;
mod filesystem;
mod live_changes;
mod multipath;
mod reservations;
mod session;
mod sg3_utils;
mod take_over;
