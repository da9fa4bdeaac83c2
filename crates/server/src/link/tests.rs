//! The link over real sockets on loopback: pairing, what both sides see of each other, and attackers
//! who send garbage, too much, too little, come too often, or have no certificate that is known.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use access::{PasswordHash, Users};
use api::Route;
use axum::body::Bytes;
use control::limits::LINK_SILENCE;
use control::link::{Message, Readiness, emit};
use control::precondition::Preconditions;

use super::*;
use crate::http::{Audit, Call, Gate, Inbox, Mailbox};
use crate::limits::{
    HEARTBEAT_MAX, LINK_ANSWER_BYTES_MAX, LINK_CALL_BYTES_MAX, LINK_CONNECTIONS_MAX,
    LINK_LINE_BYTES_MAX, LINK_PATIENCE,
};

const ARRAY: &str = "0123456789abcdef";

/// A controller with a folder of its own.
struct Node {
    _folder: tempfile::TempDir,
    link: Link,
    inbox: Inbox,
    gate: Arc<Gate>,
    /// Its mailbox wakes it.
    _poll: mio::Poll,
    /// Its loop goes on while this is not set.
    stands_still: Arc<AtomicBool>,
}

fn node(number: u16, array: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let directory = Arc::new(DataDirectory::open(folder.path()).unwrap());
    let poll = mio::Poll::new().unwrap();
    let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
    let (mailbox, inbox) = Mailbox::new(waker);
    let audit = Arc::new(Audit::open(folder.path()).unwrap());
    directory.save_users(&users_of(number)).unwrap();
    let gate = Arc::new(Gate::open(Arc::clone(&directory), audit).unwrap());
    let place = Place {
        array: array.to_owned(),
        number,
        listen: Some("127.0.0.1:0".parse().unwrap()),
        peers: BTreeMap::new(),
        pulse: Arc::new(Heartbeat::new()),
        desk: Desk { mailbox, gate: Arc::clone(&gate) },
    };
    let stands_still = Arc::new(AtomicBool::new(false));
    let (pulse, is_over) = (Arc::clone(&place.pulse), Arc::clone(&stands_still));
    thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            pulse.beat();
            thread::sleep(Duration::from_millis(100));
        }
    });
    let link = Link::start(&directory, place).unwrap();
    Node { _folder: folder, link, inbox, gate, _poll: poll, stands_still }
}

/// An administrator, of whom each controller says something else. Hashing a password takes long.
fn users_of(number: u16) -> Users {
    static HASH: OnceLock<PasswordHash> = OnceLock::new();
    let hash = HASH.get_or_init(|| PasswordHash::new("a password", &[7; 16]).unwrap());
    let mut users = Users::default();
    users.add("admin", api::Role::Admin, hash.clone(), false, u64::from(number)).unwrap();
    users
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stands_still.store(true, Ordering::Relaxed);
    }
}

impl Node {
    fn address(&self) -> SocketAddr {
        self.link.shared.listens_at.unwrap()
    }

    fn code(&self) -> String {
        self.link.pair(&PairController::default()).unwrap().code
    }

    fn join(&self, code: &str) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        self.link.join(code, reply);
        answer.blocking_recv().unwrap().map(drop).map_err(|problem| problem.detail)
    }

    /// Hands a request on to another controller, which `answer` answers if it comes there.
    fn hand_on(&self, to: &Self, call: Asked, answer: impl FnOnce(&Call) -> Reply) -> Reply {
        let (reply, answered) = oneshot::channel();
        let (route, parameters, body) = call;
        let parameters =
            parameters.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.link.hand_on(
            to.link.shared.number,
            Call {
                route,
                parameters: parameters.collect(),
                body: Bytes::copy_from_slice(body.as_bytes()),
                preconditions: Preconditions {
                    if_match: Some("\"1\"".to_owned()),
                    if_none_match: None,
                },
                is_handed_on: false,
                reply,
            },
        );
        if let Ok(call) = to.inbox.calls.recv_timeout(Duration::from_secs(5)) {
            let answer = answer(&call);
            call.reply.send(answer).unwrap();
        }
        answered.blocking_recv().unwrap()
    }

    fn report(&self) -> Message {
        Message::Report(Box::new(self.link.shared.first_report().unwrap()))
    }

    fn hears(&self, number: u16) -> bool {
        self.link.views().get(&number).is_some_and(|view| view.is_reachable)
    }
}

/// A route, parameters and a body.
type Asked<'a> = (Route, &'a [(&'a str, &'a str)], &'a str);

fn text_of(reply: Reply) -> Vec<u8> {
    reply.unwrap().written().unwrap().into_text().into()
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn paired() -> [Node; 2] {
    let nodes = [node(1, ARRAY), node(2, ARRAY)];
    nodes[1].join(&nodes[0].code()).unwrap();
    soon("both are heard", || nodes[0].hears(2) && nodes[1].hears(1));
    nodes
}

#[test]
fn two_that_were_paired_know_what_each_says() {
    let [one, two] = paired();
    let portals = BTreeMap::from([("192.0.2.1:3260".parse().unwrap(), 1)]);
    for state in [PathState::Transitioning, PathState::ActiveOptimized] {
        let pools = BTreeMap::from([("ab".to_owned(), state)]);
        let configured = BTreeMap::from([("p".to_owned(), serde_json::json!({"state": state}))]);
        let readiness = Readiness { reaches: ["cd".to_owned()].into(), ..Readiness::default() };
        let heard = Some(BTreeMap::from([("ef".to_owned(), Mark { opening: 1, to: 2 })]));
        let turns = TurnReport { returned: 3, ..TurnReport::default() };
        one.link.tell(&Own {
            portals: portals.clone(),
            pools: pools.clone(),
            configured: &configured,
            gone: BTreeSet::new(),
            readiness: readiness.clone(),
            records: BTreeMap::new(),
            heard: heard.clone(),
            turns: turns.clone(),
        });
        soon("what it says", || two.link.views()[&1].pools.as_ref() == Some(&pools));
        let view = &two.link.views()[&1];
        assert_eq!((&view.configured, view.readiness.as_ref()), (&configured, Some(&readiness)));
        assert_eq!((&view.heard, view.turns.as_ref()), (&heard, Some(&turns)));
    }
    let view = two.link.views()[&1].clone();
    assert_eq!((view.portals, view.version.as_deref()), (portals.clone(), Some("0.1.0")));
    soon("portals are kept", || {
        two.link.shared.directory.load_peers().unwrap().peers[&1].portals == portals
    });
}

#[test]
fn a_request_is_answered_by_the_other_controller_and_noted_there() {
    let [one, two] = paired();
    let asked: Asked<'_> =
        (Route::CreateVolume, &[("asker", "ann"), ("peer", "socket")], "{\"name\":\"v\"}");
    let answer = one.hand_on(&two, asked, |call| {
        assert!(call.is_handed_on);
        assert_eq!((call.route, &call.body[..]), (Route::CreateVolume, &b"{\"name\":\"v\"}"[..]));
        assert_eq!(call.parameters["asker"], "ann");
        assert_eq!(call.preconditions.if_match.as_deref(), Some("\"1\""));
        Ok(Described::Written(serde_json::json!({"made": true})))
    });
    assert_eq!(text_of(answer), b"{\"made\":true}");
    soon("it is in the audit log", || !two.gate.audit.latest().is_empty());
    let entry = two.gate.audit.latest().remove(0);
    assert_eq!((&*entry.user, &*entry.via, &*entry.source), ("ann", "controller", "1"));
    assert_eq!((&*entry.method, &*entry.path, entry.status), ("POST", "/v1/volumes", 200));
    // The other way round, and a refusal as it is.
    let asked: Asked<'_> = (Route::ShowVolume, &[("pool", "p"), ("volume", "v")], "");
    let refused = two.hand_on(&one, asked, |_| Err(problems::not_found(&"no volume")));
    let problem = refused.unwrap_err();
    assert_eq!((problem.status, &*problem.detail), (404, "no volume"));
    assert!(one.gate.audit.latest().is_empty(), "it changes nothing");
}

#[test]
fn users_are_those_of_the_controller_that_has_the_pools() {
    let [one, two] = paired();
    let say = |node: &Node| {
        node.link.tell(&Own {
            portals: BTreeMap::new(),
            pools: BTreeMap::new(),
            configured: &BTreeMap::new(),
            gone: BTreeSet::new(),
            readiness: Readiness::default(),
            records: BTreeMap::new(),
            heard: None,
            turns: TurnReport::default(),
        });
    };
    assert_ne!(one.gate.digest(), two.gate.digest(), "each has its own administrator");
    say(&one);
    thread::sleep(LINK_SILENCE);
    assert_ne!(one.gate.digest(), two.gate.digest(), "nobody has the pools");
    two.link.follow(Some(1));
    soon("they are taken over", || one.gate.digest() == two.gate.digest());
    assert_eq!(
        two.link.shared.directory.load_users().unwrap(),
        one.link.shared.directory.load_users().unwrap()
    );
    let changed = two.gate.change(|users| users.remove("admin"));
    let problem = two.link.runtime.block_on(changed).unwrap_err();
    assert!(problem.detail.contains("at controller 1"), "{problem:?}");
    // What is changed while the other one is away gives way to what that one has.
    two.link.follow(None);
    let must_change = |users: &mut Users| users.set_must_change_password("admin", true);
    two.link.runtime.block_on(two.gate.change(must_change)).unwrap();
    assert_ne!(one.gate.digest(), two.gate.digest());
    two.link.follow(Some(1));
    soon("they are taken over again", || one.gate.digest() == two.gate.digest());
    one.link.runtime.block_on(one.gate.change(must_change)).unwrap();
    say(&one);
    soon("a change follows", || one.gate.digest() == two.gate.digest());
}

#[test]
fn long_answers_come_whole_and_too_long_ones_are_refused() {
    let [one, two] = paired();
    let asked: Asked<'_> = (Route::ListVolumes, &[], "");
    let long = format!("[\"{}\"]", "x".repeat(3 << 20));
    let text = long.clone();
    let answer = one.hand_on(&two, asked, move |_| Ok(Described::of_another(text.into())));
    assert_eq!(text_of(answer).len(), long.len());
    let text = "1".repeat(LINK_ANSWER_BYTES_MAX as usize + 1);
    let answer = one.hand_on(&two, asked, move |_| Ok(Described::of_another(text.into())));
    assert!(answer.unwrap_err().detail.contains("too long"));
    let body = "x".repeat(LINK_CALL_BYTES_MAX as usize);
    let answer = one.hand_on(&two, (Route::CreateVolume, &[], &body), |_| unreachable!());
    assert!(answer.unwrap_err().detail.contains("Nothing was changed"));
}

#[test]
fn who_hands_on_is_told_when_the_other_one_falls_silent_or_cannot_be_asked() {
    let [one, two] = paired();
    let asked: Asked<'_> = (Route::CreateVolume, &[], "{}");
    let answer = one.hand_on(&two, asked, |_| {
        let (reply, forgotten) = oneshot::channel();
        two.link.forget(1, reply);
        forgotten.blocking_recv().unwrap().unwrap();
        thread::sleep(2 * LINK_SILENCE);
        Ok(Described::Written(serde_json::json!({})))
    });
    assert!(answer.unwrap_err().detail.contains("how that ended is not known"));
    let [one, two] = paired();
    let (reply, forgotten) = oneshot::channel();
    two.link.forget(1, reply);
    forgotten.blocking_recv().unwrap().unwrap();
    let answer = one.hand_on(&two, asked, |_| unreachable!());
    let detail = answer.unwrap_err().detail;
    assert!(detail.contains("not known") || detail.contains("Nothing was changed"), "{detail}");
    assert!(two.inbox.calls.try_recv().is_err(), "one that is not paired is not heard");
}

#[test]
fn a_code_is_taken_once_and_only_from_controllers_of_the_array() {
    let [one, _two] = paired();
    let (three, stranger) = (node(3, ARRAY), node(4, "another"));
    let code = one.code();
    assert!(stranger.join(&code).unwrap_err().contains("another array"));
    assert!(three.join(&code).is_err(), "it was used");
    let code = one.code();
    let (head, _) = code.rsplit_once('/').unwrap();
    for _ in 0..5 {
        let wrong = format!("{head}/{}", Secret([3; 16]));
        assert!(three.join(&wrong).unwrap_err().contains("not the code"));
    }
    assert!(three.join(&code).is_err(), "no more attempts");
    assert!(node(1, ARRAY).join(&one.code()).unwrap_err().contains("this one"));
    let code = one.code();
    let other = code.replacen(&code[code.len() - 90..code.len() - 80], "0000000000", 1);
    assert!(three.join(&other).unwrap_err().contains("another certificate"));
    three.join(&one.code()).unwrap();
    soon("it is heard", || one.hears(3));
}

#[test]
fn one_that_is_forgotten_is_not_heard_any_more() {
    let [one, two] = paired();
    let (reply, answer) = oneshot::channel();
    one.link.forget(2, reply);
    answer.blocking_recv().unwrap().unwrap();
    soon("it falls silent", || !two.hears(1));
    assert!(one.link.views().is_empty());
    assert!(one.link.shared.directory.load_peers().unwrap().peers.is_empty());
    thread::sleep(LINK_PATIENCE);
    assert!(one.link.views().is_empty() && two.link.views()[&1].problem.is_some());
    let (reply, answer) = oneshot::channel();
    one.link.forget(2, reply);
    assert!(answer.blocking_recv().unwrap().is_err());
}

#[test]
fn one_that_is_paired_again_is_connected_to_once() {
    let [one, two] = paired();
    for _ in 0..3 {
        two.join(&one.code()).unwrap();
    }
    thread::sleep(LINK_PATIENCE);
    soon("both are heard", || one.hears(2) && two.hears(1));
    let connection = |node: &Node| node.link.shared.state().newest.clone();
    let settled = (connection(&one), connection(&two));
    thread::sleep(LINK_PATIENCE);
    assert_eq!((connection(&one), connection(&two)), settled, "no connection replaces another");
}

/// A TLS connection to a node, as a client with the certificate of another one.
fn tls(to: &Node, by: &Node) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let config = by.link.shared.identity.client(to.link.shared.identity.fingerprint).unwrap();
    let name = identity::NAME.try_into().unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(to.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    rustls::StreamOwned::new(connection, stream)
}

/// Sends bytes; whether the node closes the connection, without an answer of more than a line.
fn is_closed_on(node: &Node, by: &Node, bytes: &[u8]) -> bool {
    let mut stream = tls(node, by);
    let sent = stream.write_all(bytes).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    let read = Read::by_ref(&mut stream).take(1024).read_to_end(&mut answer);
    let timed_out = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    drop(sent);
    !timed_out && answer.iter().filter(|&&byte| byte == b'\n').count() <= 1
}

#[test]
fn whatever_a_known_peer_sends_that_is_no_report_ends_its_connection_only() {
    let [one, two] = paired();
    let huge = vec![b'a'; 2 * LINK_LINE_BYTES_MAX as usize];
    let report = |number| {
        let report = Report { number, ..two.link.shared.first_report().unwrap() };
        emit(&Message::Report(Box::new(report)))
    };
    let foreign = Report { array: "b".to_owned(), ..two.link.shared.first_report().unwrap() };
    let messages: [&[u8]; 7] = [
        b"\n",
        b"{}\n",
        b"GET / HTTP/1.1\r\n\r\n",
        &huge,
        b"{\"message\":\"report\"",
        &report(1),
        &emit(&Message::Report(Box::new(foreign))),
    ];
    for message in messages {
        assert!(is_closed_on(&one, &two, message), "{:?}", &message[..message.len().min(40)]);
    }
    soon("the link goes on", || one.hears(2) && two.hears(1));
}

#[test]
fn nobody_without_a_known_certificate_is_heard() {
    let [one, _two] = paired();
    let stranger = node(2, ARRAY);
    let report = emit(&Message::Report(Box::new(stranger.link.shared.first_report().unwrap())));
    assert!(is_closed_on(&one, &stranger, &report));
    // While a code may be used a stranger may show it, and say nothing else.
    let _code = one.code();
    assert!(is_closed_on(&one, &stranger, &report));
    let views = one.link.views();
    assert_eq!(views.keys().copied().collect::<Vec<_>>(), [2]);
    let mut plain = TcpStream::connect(one.address()).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = plain.write_all(&report);
    let mut answer = Vec::new();
    let read = plain.read_to_end(&mut answer);
    assert!(read.is_ok() || read.unwrap_err().kind() != std::io::ErrorKind::WouldBlock);
}

/// As the process beside a daemon does when that has ended.
#[test]
fn the_end_of_a_process_is_told_by_its_own_certificate_and_counts_for_that_start() {
    let [one, two] = paired();
    let life = one.link.life();
    let ended = || two.link.views()[&1].clone();
    assert!(ended().ended.is_none() && !ended().has_ended());
    let tell = |by: &Node, life| {
        let text = serde_json::to_vec(&end_notice::Orders::of(&by.link.shared, life)).unwrap();
        let orders: end_notice::Orders = serde_json::from_slice(&text).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(orders.tell_all())
    };
    tell(&one, life + 1).unwrap();
    assert!(ended().ended == Some(life + 1) && !ended().has_ended(), "another start of it");
    tell(&one, life).unwrap();
    let gone = ended();
    assert!(gone.has_ended() && !gone.is_reachable && gone.pools.is_none());
    assert!(two.inbox.calls.try_recv().is_err());
    // Nobody says it of another one, and a stranger of nobody.
    assert!(!one.link.views()[&2].has_ended());
    let stranger = node(2, ARRAY);
    assert!(is_closed_on(&one, &stranger, &emit(&Message::Ended { life: two.link.life() })));
    assert!(one.link.views()[&2].ended.is_none());
    // In the middle of a conversation it is no report.
    assert!(is_closed_on(
        &one,
        &two,
        &[emit(&two.report()), emit(&Message::Ended { life })].concat()
    ));
    assert!(one.link.views()[&2].ended.is_none());
}

#[test]
fn a_thousand_connections_that_say_nothing_keep_no_peer_away() {
    let [one, two] = paired();
    let mut crowd = Vec::new();
    for at in 0..1000 {
        if let Ok(stream) = TcpStream::connect(one.address()) {
            crowd.push(stream);
        }
        // Slow bytes: a TLS record that never ends.
        if let Some(stream) = crowd.last_mut() {
            let _ = stream.write_all(&[0x16, 3, 1, 2, 0][..1 + at % 4]);
        }
    }
    assert!(crowd.len() > LINK_CONNECTIONS_MAX);
    let heard = |node: &Node, number| node.link.views()[&number].heard_at;
    let before = (heard(&one, 2), heard(&two, 1));
    thread::sleep(LINK_PATIENCE);
    assert!(one.hears(2) && two.hears(1));
    assert!(heard(&one, 2) > before.0 && heard(&two, 1) > before.1);
}

/// Its threads live, and would go on saying what its loop said last.
#[test]
fn a_daemon_whose_loop_stands_still_is_not_heard_until_it_goes_on() {
    let [one, two] = paired();
    assert!(two.link.silence(1, Instant::now()).unwrap() < LINK_PATIENCE);
    assert_eq!(two.link.silence(3, Instant::now()), None, "it is not paired");
    one.stands_still.store(true, Ordering::Relaxed);
    thread::sleep(HEARTBEAT_MAX);
    soon("it is silent", || !two.hears(1));
    assert!(one.hears(2), "it still hears the other one");
    assert!(two.link.silence(1, Instant::now()).unwrap() >= Duration::from_secs(3));
    let before = Instant::now().checked_sub(HEARTBEAT_MAX).unwrap();
    assert_eq!(two.link.silence(1, before), Some(Duration::ZERO), "it was heard since");
    one.link.shared.pulse.beat();
    soon("it is heard again", || two.hears(1));
}
