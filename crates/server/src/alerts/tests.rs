use std::collections::BTreeMap;

use array::Secret;

use super::*;

fn settings(signed: bool, user: Option<&str>) -> Settings {
    let webhook =
        array::Webhook { url: "http://127.0.0.1:9/".to_owned(), level: AlertLevel::Error, signed };
    let mail = array::Mail {
        relay: "localhost:9".to_owned(),
        tls: array::MailTls::Starttls,
        user: user.map(str::to_owned),
        from: "a@b".to_owned(),
        to: vec!["c@d".to_owned()],
        level: AlertLevel::Warning,
    };
    Settings { webhooks: BTreeMap::from([("hook".to_owned(), webhook)]), mail: Some(mail) }
}

#[test]
fn who_should_prove_something_is_told_nothing_without_the_secret() {
    let none = Secrets::default();
    assert_eq!(addresses(&settings(false, None), &none).len(), 2);
    assert_eq!(addresses(&settings(true, Some("u")), &none).len(), 0);
    let secrets = Secrets {
        webhooks: BTreeMap::from([("hook".to_owned(), Secret::new("x".repeat(12)).unwrap())]),
        mail: Some(Secret::password("p".to_owned()).unwrap()),
        ..none
    };
    assert_eq!(addresses(&settings(true, Some("u")), &secrets).len(), 2);
}

#[test]
fn pauses_double_up_to_a_minute() {
    let pauses = std::iter::successors(Some(ALERT_BACKOFF_MIN), |&pause| Some(next_pause(pause)));
    let seconds: Vec<u64> = pauses.take(8).map(|pause| pause.as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn what_others_say_becomes_one_short_line() {
    assert_eq!(printable("a\r\nb\tc\x1b"), "a  b c ");
    assert_eq!(printable(&"ü".repeat(1000)).chars().count(), DELIVERY_DETAIL_MAX);
}

#[test]
fn the_oldest_attempt_makes_room() {
    let deliveries = Deliveries::default();
    let (address, _) = addresses(&settings(false, None), &Secrets::default()).remove(0);
    for event in 0..DELIVERIES_MAX as u64 + 5 {
        deliveries.note(&address, event, Ok(()));
    }
    let kept = deliveries.lock();
    assert_eq!(kept.len(), DELIVERIES_MAX);
    assert_eq!(kept[0].event, DELIVERIES_MAX as u64 + 4);
}
