//! Login requests with any text and any stages.
#![no_main]

mod initiator;
mod owner;

use initiator::{NAMES, feed, login, send_all};
use iscsi::{Connection, ConnectionConfig};
use libfuzzer_sys::fuzz_target;
use owner::answer_at_once;

fuzz_target!(|input: (bool, Vec<(u8, &[u8])>)| {
    let (named, requests) = input;
    let mut connection = Connection::new(ConnectionConfig::default());
    let limits = ConnectionConfig::default().limits;
    for (index, (flags, text)) in requests.iter().enumerate() {
        let names = if named && index == 0 { NAMES.as_bytes() } else { &[] };
        let text = [names, text].concat();
        feed(&mut connection, &login(*flags, &text), usize::MAX, &mut answer_at_once);
        send_all(&mut connection, usize::MAX);
    }
    let parameters = connection.parameters();
    assert!(parameters.max_connections == 1 && parameters.error_recovery_level == 0);
    assert!(parameters.data_pdu_in_order && parameters.data_sequence_in_order);
    assert!(parameters.initiator_max_recv_data_segment_length >= 512);
    assert!(parameters.max_outstanding_r2t <= limits.max_outstanding_r2t);
    assert!(parameters.max_burst_length <= limits.max_burst_length);
});
