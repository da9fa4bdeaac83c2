use super::*;

#[test]
fn every_key_has_its_own_bit() {
    assert!(KEYS.len() <= 32);
    for (index, row) in KEYS.iter().enumerate() {
        assert!(KEYS[..index].iter().all(|earlier| earlier.key != row.key), "{} twice", row.key);
    }
}

#[test]
fn full_feature_phase_changes_only_the_segment_length() {
    let mut parameters = SessionParameters::default();
    let mut reply = Vec::new();
    let mut settle = |pair| settle_in_full_feature_phase(pair, &mut parameters, &mut reply);
    settle(("MaxRecvDataSegmentLength", "65536"));
    settle(("MaxRecvDataSegmentLength", "1"));
    settle(("HeaderDigest", "CRC32C"));
    assert_eq!(reply, b"MaxRecvDataSegmentLength=Reject\0HeaderDigest=Reject\0");
    assert_eq!(parameters.initiator_max_recv_data_segment_length, 65536);
    assert!(!parameters.header_digest);
}
