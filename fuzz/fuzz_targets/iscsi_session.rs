//! A session with two connections at error recovery level 2: commands in any order and on either
//! connection, SNACKs, acknowledgements, aborts, connections that end and commands that are taken
//! over.
#![no_main]

mod initiator;

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use block::Rope;
use bytes::Bytes;
use initiator::{NAMES, feed, login, pdu, send_all, take_events};
use iscsi::{
    Completion, Connection, ConnectionConfig, Event, Limits, LoginTerms, Orphan, SessionHandle,
    TaskManagementResponse,
};
use libfuzzer_sys::fuzz_target;

const MEMORY_MAX: usize = 100_000;
const TASKS_MAX: u32 = 8;

/// Commands without a connection that the owner keeps.
const ORPHANS_MAX: usize = 24;

#[derive(Debug, Arbitrary)]
enum Action {
    /// The number lies so far behind the next one that was not sent yet.
    Command {
        ahead: u8,
        write: bool,
        length: u16,
        immediate: u16,
    },
    Ping {
        ahead: u8,
        length: u8,
    },
    DataOut {
        task: u8,
        is_final: bool,
        transfer_tag: u8,
        data_sn: u8,
        offset: u16,
        length: u16,
    },
    Snack {
        kind: u8,
        task: u8,
        begin: u8,
        length: u8,
    },
    Abort {
        task: u8,
    },
    Acknowledge {
        count: u8,
    },
    Logout {
        reason: u8,
        cid: u8,
    },
    Answer {
        task: u8,
        length: u16,
    },
    Send,
    /// The connection ends and another takes its place.
    Lose {
        segment_length: u16,
    },
    Reassign {
        task: u8,
        exp_data_sn: u8,
    },
}

struct World {
    connections: [Connection; 2],
    next_cmd_sn: u32,
    acknowledged: [u32; 2],
    owner: Owner,
}

#[derive(Default)]
struct Owner {
    /// The last command that was delivered: they are named by their numbers.
    delivered: Option<u32>,
    orphans: BTreeMap<u32, Orphan>,
}

fn config() -> ConnectionConfig {
    let limits = Limits {
        tasks_max: TASKS_MAX,
        memory_max: MEMORY_MAX,
        max_recv_data_segment_length: 8192,
        max_connections: 2,
        error_recovery_level: 2,
        ..Limits::default()
    };
    ConnectionConfig { limits, ..ConnectionConfig::default() }
}

impl World {
    fn new() -> Self {
        let keys = "MaxConnections=2\0ErrorRecoveryLevel=2\0InitialR2T=No\0MaxBurstLength=4096\0";
        let mut first = Connection::new(config());
        let text = format!("{NAMES}{keys}");
        feed(
            &mut first,
            &login(0x87, text.as_bytes()),
            5000,
            &mut |connection, event| match event {
                Event::Login(_) => connection.login_admit(LoginTerms::open(1)),
                Event::Authenticated(_) => connection.login_accept(1),
                _ => {}
            },
        );
        let second = joining(&first.session(), 8192);
        Self {
            connections: [first, second],
            next_cmd_sn: 0,
            acknowledged: [0; 2],
            owner: Owner::default(),
        }
    }

    fn lose(&mut self, which: usize, segment_length: u16) {
        let session = self.connections[which].session();
        let mut connection = std::mem::replace(
            &mut self.connections[which],
            joining(&session, segment_length.max(512)),
        );
        connection.close();
        let room = ORPHANS_MAX - self.owner.orphans.len();
        self.owner.orphans.extend(connection.take_orphans().into_iter().take(room));
        self.acknowledged[which] = 0;
    }

    fn feed(&mut self, which: usize, mut header: [u8; 48], data: &[u8]) {
        header[28..32].copy_from_slice(&self.acknowledged[which].to_be_bytes());
        let owner = &mut self.owner;
        feed(&mut self.connections[which], &pdu(header, data), 5000, &mut |connection, event| {
            owner.answer(connection, event);
        });
        // What came here may be what the other connection waited for.
        for connection in &mut self.connections {
            take_events(connection, &mut |connection, event| owner.answer(connection, event));
        }
    }

    fn number(&mut self, ahead: u8) -> u32 {
        let number = self.next_cmd_sn + u32::from(ahead % 4);
        self.next_cmd_sn += u32::from(ahead % 4 == 0);
        number
    }

    fn act(&mut self, which: usize, action: &Action) {
        match *action {
            Action::Command { ahead, write, length, immediate } => {
                let number = self.number(ahead);
                let mut header = header(0x01, if write { 0xa0 } else { 0xc0 }, number);
                header[22..24].copy_from_slice(&length.to_be_bytes());
                header[24..28].copy_from_slice(&number.to_be_bytes());
                let data = if write { immediate.min(length).min(8000) } else { 0 };
                self.feed(which, header, &vec![1; data.into()]);
            }
            Action::Ping { ahead, length } => {
                let number = self.number(ahead);
                let mut header = header(0x00, 0x80, number | 1 << 31);
                header[24..28].copy_from_slice(&number.to_be_bytes());
                self.feed(which, header, &vec![2; length.into()]);
            }
            Action::DataOut { task, is_final, transfer_tag, data_sn, offset, length } => {
                let mut header = header(0x05, u8::from(is_final) << 7, task.into());
                let tag = if transfer_tag == 0 { u32::MAX } else { transfer_tag.into() };
                header[20..24].copy_from_slice(&tag.to_be_bytes());
                header[39] = data_sn;
                header[42..44].copy_from_slice(&offset.to_be_bytes());
                self.feed(which, header, &vec![3; length.min(8000).into()]);
            }
            Action::Snack { kind, task, begin, length } => {
                let task = if kind == 1 { u32::MAX } else { task.into() };
                let mut header = header(0x10, 0x80 | kind & 0x0f, task);
                header[20..24].copy_from_slice(&[0xff; 4]);
                header[43] = begin;
                header[47] = length;
                self.feed(which, header, &[]);
            }
            Action::Abort { task } => {
                let mut header = header(0x42, 0x81, 1 << 30);
                header[23] = task;
                self.feed(which, header, &[]);
            }
            Action::Acknowledge { count } => {
                self.acknowledged[which] = self.acknowledged[which].wrapping_add(count.into());
            }
            Action::Logout { reason, cid } => {
                let mut header = header(0x46, 0x80 | reason & 3, 1 << 29);
                header[21] = cid;
                self.feed(which, header, &[]);
            }
            Action::Answer { task, length } => {
                let data_in = Rope::from(Bytes::from(vec![4; length.into()]));
                let completion = Completion { data_in, ..Completion::default() };
                match self.owner.orphans.remove(&task.into()) {
                    Some(orphan) => {
                        self.owner.orphans.insert(task.into(), orphan.answered(completion));
                    }
                    None => self.connections[which].respond(task.into(), completion),
                }
            }
            Action::Lose { segment_length } => self.lose(which, segment_length),
            Action::Reassign { task, exp_data_sn } => {
                let mut header = header(0x42, 0x88, 1 << 28);
                header[23] = task;
                header[39] = exp_data_sn;
                self.feed(which, header, &[]);
            }
            Action::Send => send_all(&mut self.connections[which], 3000),
        }
    }

    fn check(&self) {
        for connection in &self.connections {
            assert!(connection.tasks() <= TASKS_MAX as usize + 16 + ORPHANS_MAX);
            assert!(connection.history_bytes() <= MEMORY_MAX);
        }
    }
}

/// A connection that joins a session.
fn joining(session: &SessionHandle, segment_length: u16) -> Connection {
    let mut connection = Connection::new(config());
    let text = format!("{NAMES}MaxRecvDataSegmentLength={segment_length}\0");
    feed(&mut connection, &login(0x87, text.as_bytes()), 5000, &mut |connection, event| {
        let session = Some(session.clone());
        match event {
            Event::Login(_) => {
                connection.login_admit(LoginTerms { session, ..LoginTerms::open(1) });
            }
            Event::Authenticated(_) => connection.login_accept(1),
            _ => {}
        }
    });
    connection
}

impl Owner {
    /// Commands are delivered once each and in order, whichever connection they came on.
    fn answer(&mut self, connection: &mut Connection, event: Event) {
        match event {
            Event::Command(command) => {
                let is_next = self.delivered.is_none_or(|last| last < command.task);
                assert!(is_next, "{command:?} {:?}", self.delivered);
                self.delivered = Some(command.task);
                if command.write {
                    connection.accept_data(command.task, command.expected_data_transfer_length);
                }
            }
            Event::DataOut { task, .. } => connection.respond(task, Completion::default()),
            Event::TaskManagement(request) => connection.respond_task_management(
                request.initiator_task_tag,
                TaskManagementResponse::FunctionComplete,
            ),
            Event::LogoutConnection { initiator_task_tag, .. } => {
                connection.logout_response(initiator_task_tag, false);
            }
            Event::TaskReassign(request) => {
                let orphan = self.orphans.remove(&request.referenced_task);
                let none = TaskManagementResponse::TaskDoesNotExist;
                connection.reassign(request, orphan.ok_or(none));
            }
            _ => {}
        }
    }
}

fn header(opcode: u8, flags: u8, tag: u32) -> [u8; 48] {
    let mut header = [0; 48];
    header[0] = opcode;
    header[1] = flags;
    header[16..20].copy_from_slice(&tag.to_be_bytes());
    header
}

fuzz_target!(|actions: Vec<(bool, Action)>| {
    let mut world = World::new();
    for (which, action) in &actions {
        world.act(usize::from(*which), action);
        world.check();
    }
    world.connections.iter_mut().for_each(|connection| send_all(connection, usize::MAX));
});
