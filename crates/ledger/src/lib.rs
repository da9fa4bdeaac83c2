//! Statistics: the offload ledger, detection of copies that hosts make themselves although the
//! array could, lock contention, latencies, a week of history, and the forecast of when a pool will
//! be full.
//!
//! A plain value without I/O: what happened comes in, time is told, and everything that it keeps is
//! bounded ([`limits`]).
//!
//! VMware's names: ATS = COMPARE AND WRITE, XCOPY = EXTENDED COPY, Zero = WRITE SAME,
//! Delete = UNMAP.
#![forbid(unsafe_code)]

mod explain;
mod forecast;
mod histogram;
mod history;
mod hosts;
mod ledger;
pub mod limits;
mod locks;
mod reason;
mod rows;
mod series;
mod sketch;

pub use block::Primitive;
pub use explain::{Facts, zero_reason};
pub use forecast::{Forecast, forecast};
pub use histogram::{Histogram, Latency, UPPER_BOUNDS_US};
pub use history::{History, Subject};
pub use hosts::HostId;
pub use ledger::{CommandEnded, Ledger, RequestEnded};
pub use locks::{Attempt, LockMap, LockOutcome, LockRange};
pub use reason::{Reason, turned_off};
pub use rows::{Effects, Outcome, Refusal, Refused, Row, Sums};
pub use series::{Columns, Flow, FlowSample, Sample, Series, SpaceSample};
pub use sketch::HostCopy;
