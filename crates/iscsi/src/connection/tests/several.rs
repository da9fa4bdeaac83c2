//! Several connections in one session: one order of commands, one window.

use super::initiator::{Initiator, NORMAL, Pdu, status};
use crate::event::{Event, LoginTerms, LogoutScope};
use crate::{ConnectionConfig, Limits};

fn config() -> ConnectionConfig {
    let limits = Limits { max_connections: 4, tasks_max: 4, ..Limits::default() };
    ConnectionConfig { limits, ..ConnectionConfig::default() }
}

fn login(cid: u16) -> Pdu {
    let mut pdu = Pdu::login(0x87, &format!("{NORMAL}HeaderDigest=None\0MaxBurstLength=512\0"));
    pdu.bhs.0[14..16].copy_from_slice(&7_u16.to_be_bytes());
    pdu.bhs.0[20..22].copy_from_slice(&cid.to_be_bytes());
    pdu
}

/// A session with two connections.
fn session() -> [Initiator; 2] {
    let keys = "MaxConnections=8\0InitialR2T=No\0FirstBurstLength=1024\0";
    let first = Initiator::logged_in_with(config(), keys);
    assert_eq!(first.target.parameters().max_connections, 4);
    let mut second = Initiator::new(config());
    second.send(&login(1));
    assert!(matches!(second.event(), Some(Event::Login(request)) if request.tsih == 7));
    let terms = LoginTerms { session: Some(first.target.session()), ..LoginTerms::open(1) };
    second.target.login_admit(terms);
    assert!(matches!(second.event(), Some(Event::Authenticated(_))));
    second.target.login_accept(7);
    let Some(Event::LoggedIn(parameters)) = second.event() else { panic!() };
    assert!(parameters.joined && !parameters.initial_r2t);
    assert_eq!((parameters.cid, parameters.first_burst_length), (1, 1024));
    let answer = second.answer();
    assert!(answer.text().contains("MaxBurstLength=262144"), "{}", answer.text());
    [first, second]
}

fn expect_command(initiator: &mut Initiator) -> u32 {
    match initiator.event() {
        Some(Event::Command(command)) => command.task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_come_in_the_order_of_their_numbers() {
    let [mut first, mut second] = session();
    second.send(&Pdu::command(0xa0, 2, 101, 4).data("abcd"));
    second.send(&Pdu::command(0x80, 3, 102, 0));
    assert!(second.event().is_none(), "an earlier one is on its way");
    first.send(&Pdu::command(0x80, 1, 100, 0));
    assert_eq!(expect_command(&mut first), 1);
    assert_eq!(expect_command(&mut second), 2);
    second.target.accept_data(2, 4);
    match second.event() {
        Some(Event::DataOut { task: 2, data }) => assert_eq!(&data[..], b"abcd"),
        other => panic!("{other:?}"),
    }
    assert_eq!(expect_command(&mut second), 3);
    second.good(3);
    assert_eq!(status(&second.answer()), (0, 0, 0));
    assert!(first.answers().is_empty(), "an answer goes where its command came from");
}

#[test]
fn an_early_command_that_is_refused_leaves_nothing_behind() {
    let [mut first, mut second] = session();
    second.send(&Pdu::command(0xa0, 2, 101, 4).data("abcd"));
    assert!(second.event().is_none());
    assert_eq!(second.target.memory(), 4);
    first.send(&Pdu::command(0x80, 1, 100, 0));
    expect_command(&mut first);
    expect_command(&mut second);
    second.good(2);
    assert_eq!(status(&second.answer()).0, 0);
    assert_eq!(second.target.memory(), 0);
}

#[test]
fn the_window_is_one_for_all_connections() {
    let [mut first, mut second] = session();
    for tag in 0..3 {
        first.send(&Pdu::command(0x80, tag, 100 + tag, 0));
        expect_command(&mut first);
    }
    second.send(&Pdu::command(0x80, 9, 103, 0));
    expect_command(&mut second);
    // The window was open for four and is closed now.
    second.send(&Pdu::command(0x80, 10, 104, 0));
    assert!(second.event().is_none());
    second.good(9);
    let answer = second.answer();
    assert_eq!((answer.bhs.u32(28), answer.bhs.u32(32)), (104, 104));
    first.target.close();
    second.send(&Pdu::command(0x80, 10, 104, 0));
    expect_command(&mut second);
    second.good(10);
    let answer = second.answer();
    assert_eq!(answer.bhs.u32(32), 108, "commands of a closed connection no longer count");
}

#[test]
fn a_number_that_waits_already_is_not_taken_twice() {
    let [mut first, mut second] = session();
    second.send(&Pdu::command(0xa0, 2, 101, 4).data("abcd"));
    second.send(&Pdu::command(0xa0, 2, 101, 4).data("efgh"));
    assert!(second.event().is_none());
    assert_eq!(second.target.memory(), 4);
    first.send(&Pdu::command(0x80, 1, 100, 0));
    expect_command(&mut first);
    assert_eq!(expect_command(&mut second), 2);
    second.target.forget(2);
    assert!(second.event().is_none());
}

#[test]
fn one_connection_or_the_session_is_logged_out() {
    let [_, mut second] = session();
    let mut logout = Pdu::new(0x46, 0x81, 5).word(24, 100);
    logout.bhs.0[21] = 1;
    second.send(&logout);
    assert!(matches!(second.event(), Some(Event::LoggedOut(LogoutScope::Connection))));
    let [mut first, _] = session();
    first.send(&logout);
    let Some(Event::LogoutConnection { initiator_task_tag: 5, cid: 1, .. }) = first.event() else {
        panic!()
    };
    first.target.logout_response(5, true);
    assert_eq!((first.answer().bhs.0[2], first.target.is_closed()), (0, false));
    first.send(&Pdu::new(0x46, 0x80, 6).word(24, 100));
    assert!(matches!(first.event(), Some(Event::LoggedOut(LogoutScope::Session))));
}
