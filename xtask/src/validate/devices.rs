//! Device latencies of a pool during a validation: what of slow commands is the disk's.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use harness::Array;
use harness::http::Request;

/// The metric, up to its labels.
const BUCKET: &str = "gantry_device_operation_duration_seconds_bucket{";

/// For each operation: how many there were, and within what time 9,999 of 10,000 ended.
pub(super) fn times(array: &Array, pool: &str) -> Result<String> {
    let socket = array.data().join("gantry.sock");
    let metrics = Request::new("GET", "/metrics").send_to_socket(&socket)?.body;
    let mut operations: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix(BUCKET)) {
        let (labels, count) = line.rsplit_once("} ").context("a sample")?;
        if label(labels, "pool") == Some(pool) {
            let operation = label(labels, "operation").context("an operation")?;
            let bound = label(labels, "le").context("a bound")?;
            operations.entry(operation).or_default().push((bound, count.parse()?));
        }
    }
    let rows = operations.iter().filter_map(|(operation, buckets)| {
        let (_, all) = buckets.last().filter(|(_, all)| *all > 0.0)?;
        let (bound, _) = buckets.iter().find(|(_, count)| *count >= all * 0.9999)?;
        Some(format!("device: {all} × {operation}, 9,999 of 10,000 within {bound} s\n"))
    });
    Ok(rows.collect())
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}
