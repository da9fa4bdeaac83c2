use std::sync::mpsc::Receiver;

use scsi::{DurableReservations, Registrant};

use super::*;
use crate::http::Inbox;

const VOLUME: VolumeId = VolumeId(0x12);

fn open(place: &Path) -> (UnitStates, Receiver<Message>, mio::Poll) {
    let poll = mio::Poll::new().unwrap();
    let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
    let (mailbox, Inbox { others: inbox, .. }) = Mailbox::new(waker);
    (UnitStates::open(place, mailbox).unwrap(), inbox, poll)
}

fn stored(inbox: &Receiver<Message>) -> (SaveId, bool) {
    match inbox.recv().unwrap() {
        Message::Stored { id, stored } => (id, stored),
        _ => panic!("only states are stored here"),
    }
}

fn state(key: u64) -> DurableState {
    let registrant = Registrant {
        initiator_name: "iqn.2026-01.example:host".to_owned(),
        isid: [1, 2, 3, 4, 5, 6],
        relative_target_port: 1,
    };
    let keys = vec![(registrant, key)];
    let reservations = Some(DurableReservations { keys, reservation: None });
    DurableState { reservations, ..DurableState::default() }
}

#[test]
fn the_last_state_of_a_volume_is_there_at_the_next_start() {
    let place = tempfile::tempdir().unwrap();
    let (mut states, inbox, _poll) = open(place.path());
    assert_eq!(states.load(VOLUME).unwrap(), None);
    for key in 1..=3 {
        states.store(SaveId(key), VOLUME, state(key));
    }
    for key in 1..=3 {
        assert_eq!(stored(&inbox), (SaveId(key), true));
    }
    let (mut states, inbox, _poll) = open(place.path());
    assert_eq!(states.load(VOLUME).unwrap(), Some(state(3)));
    states.store(SaveId(4), VOLUME, DurableState::default());
    assert_eq!(stored(&inbox), (SaveId(4), true));
    assert_eq!(states.load(VOLUME).unwrap(), None);
    states.store(SaveId(5), VOLUME, DurableState::default());
    assert_eq!(stored(&inbox), (SaveId(5), true));
}

#[test]
fn a_state_that_cannot_be_stored_is_told_so() {
    let place = tempfile::tempdir().unwrap();
    let (mut states, inbox, _poll) = open(place.path());
    fs::create_dir(path_of(&states.directory, VOLUME)).unwrap();
    states.store(SaveId(1), VOLUME, state(1));
    assert_eq!(stored(&inbox), (SaveId(1), false));
}

#[test]
fn a_deleted_volume_leaves_no_state_and_a_damaged_one_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (mut states, inbox, _poll) = open(place.path());
    states.store(SaveId(1), VOLUME, state(1));
    states.forget(VOLUME);
    states.store(SaveId(2), VolumeId(9), state(1));
    assert_eq!((stored(&inbox), stored(&inbox)), ((SaveId(1), true), (SaveId(2), true)));
    assert_eq!(states.load(VOLUME).unwrap(), None);
    let path = path_of(&states.directory, VolumeId(9));
    for text in ["", "{", "{\"reservations\": null, \"modes\": null, \"surprise\": 1}"] {
        fs::write(&path, text).unwrap();
        assert!(states.load(VolumeId(9)).is_err(), "{text}");
    }
}

// What the daemon wrote before reservations became a room of their own.
#[test]
fn a_file_of_before_is_read_and_written_again_byte_for_byte() {
    const TEXT: &str = r#"{
  "reservations": {
    "keys": [
      [
        {
          "initiator_name": "iqn.2026-01.example:host",
          "isid": [
            1,
            2,
            3,
            4,
            5,
            6
          ],
          "relative_target_port": 1
        },
        7
      ]
    ],
    "reservation": {
      "kind": "WriteExclusiveRegistrantsOnly",
      "holder": {
        "initiator_name": "iqn.2026-01.example:host",
        "isid": [
          1,
          2,
          3,
          4,
          5,
          6
        ],
        "relative_target_port": 1
      }
    }
  },
  "modes": null
}"#;
    let place = tempfile::tempdir().unwrap();
    let (states, ..) = open(place.path());
    let path = path_of(&states.directory, VOLUME);
    fs::write(&path, TEXT).unwrap();
    let (mut states, inbox, _poll) = open(place.path());
    let read = states.load(VOLUME).unwrap().unwrap();
    states.store(SaveId(1), VOLUME, read);
    assert_eq!(stored(&inbox), (SaveId(1), true));
    assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
}
