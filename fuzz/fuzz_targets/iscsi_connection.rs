//! A session with sensible and senseless requests, and an owner that answers when it pleases.
#![no_main]

mod initiator;

use std::collections::BTreeSet;
use std::time::Duration;

use arbitrary::Arbitrary;
use block::Rope;
use bytes::Bytes;
use initiator::{NAMES, feed, login, pdu, send_all, take_events};
use iscsi::{
    Completion, Connection, ConnectionConfig, Event, Limits, LoginTerms, TaskManagementResponse,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Action {
    Command { flags: u8, tag: u8, length: u16, immediate: u16, wanted: u16, is_immediate: bool },
    DataOut { is_final: bool, tag: u8, transfer_tag: u8, data_sn: u8, offset: u16, length: u16 },
    Management { function: u8, tag: u8, referenced: u8, lun: u8 },
    Text { flags: u8, transfer_tag: u8, text: Vec<u8> },
    Ping { tag: u8, length: u8 },
    Raw { header: [u8; 16] },
    Respond { tag: u8, status: bool, data: u16 },
    RespondManagement { tag: u8, complete: bool },
    AbortCollecting { lun: Option<u8> },
    Forget { tag: u8 },
    SendTargets { count: u8 },
    Send { count: u8 },
    Tick,
}

/// The owner's knowledge, against which events are checked.
#[derive(Default)]
struct Owner {
    /// Commands whose data was asked for.
    collecting: BTreeSet<u32>,
    /// How much of the next write command's data is wanted; `None` refuses it at once.
    wanted: Option<u32>,
}

impl Owner {
    fn take(&mut self, connection: &mut Connection, event: Event) {
        match event {
            Event::Login(_) => connection.login_admit(LoginTerms::open(1)),
            Event::Authenticated(_) => connection.login_accept(1),
            Event::Command(command) => {
                assert!(!self.collecting.contains(&command.task));
                match self.wanted {
                    Some(wanted) if command.write => {
                        self.collecting.insert(command.task);
                        connection.accept_data(command.task, wanted);
                    }
                    _ if command.write => connection.respond(command.task, Completion::default()),
                    _ => {}
                }
            }
            Event::DataOut { task, .. } | Event::Aborted { task } => {
                assert!(self.collecting.remove(&task), "an event for a task not collecting");
            }
            _ => {}
        }
    }
}

struct World {
    connection: Connection,
    owner: Owner,
    cmd_sn: u32,
    now: Duration,
}

impl World {
    fn new(keys: u8) -> Self {
        let limits = Limits {
            tasks_max: 8,
            memory_max: 200_000,
            data_out_length_max: 50_000,
            ..Limits::default()
        };
        let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
        let mut world = Self {
            connection: Connection::new(config),
            owner: Owner::default(),
            cmd_sn: 0,
            now: Duration::ZERO,
        };
        let word = |bit: u8| if keys >> bit & 1 == 1 { "Yes" } else { "No" };
        let text = format!(
            "{NAMES}InitialR2T={}\0ImmediateData={}\0MaxOutstandingR2T={}\0MaxBurstLength=4096\0",
            word(0),
            word(1),
            1 + (keys >> 2 & 3)
        );
        world.feed(&login(0x87, text.as_bytes()));
        world
    }

    fn feed(&mut self, bytes: &[u8]) {
        let owner = &mut self.owner;
        feed(&mut self.connection, bytes, 5000, &mut |connection, event| {
            owner.take(connection, event);
        });
    }

    fn request(&mut self, mut header: [u8; 48], data: &[u8]) {
        header[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
        self.feed(&pdu(header, data));
    }

    /// A request that counts, unless it is immediate.
    fn numbered_request(&mut self, header: [u8; 48], data: &[u8]) {
        let before = self.connection.tasks();
        self.request(header, data);
        // A full window ignores the request; then its number is used again.
        let accepted = before < 8 || header[0] & 0x3f != 1;
        if header[0] & 0x40 == 0 && accepted {
            self.cmd_sn += 1;
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Command { flags, tag, length, immediate, wanted, is_immediate } => {
                self.owner.wanted = (wanted != 0).then_some(u32::from(wanted));
                let mut header = header(0x01, flags, tag);
                header[0] |= u8::from(is_immediate) << 6;
                header[22..24].copy_from_slice(&length.to_be_bytes());
                let data = if flags & 0x20 != 0 { immediate.min(length) } else { 0 };
                self.numbered_request(header, &vec![1; data.into()]);
            }
            Action::DataOut { is_final, tag, transfer_tag, data_sn, offset, length } => {
                let mut header = header(0x05, u8::from(is_final) << 7, tag);
                let transfer_tag = if transfer_tag == 0 { u32::MAX } else { transfer_tag.into() };
                header[20..24].copy_from_slice(&transfer_tag.to_be_bytes());
                header[39] = data_sn;
                header[42..44].copy_from_slice(&offset.to_be_bytes());
                self.feed(&pdu(header, &vec![2; length.into()]));
            }
            Action::Management { function, tag, referenced, lun } => {
                let mut header = header(0x42, 0x80 | function % 10, tag);
                header[9] = lun;
                header[23] = referenced;
                self.request(header, &[]);
            }
            Action::Text { flags, transfer_tag, text } => {
                let mut header = header(0x44, flags, 200);
                let transfer_tag = if transfer_tag & 1 == 0 { u32::MAX } else { 1 };
                header[20..24].copy_from_slice(&transfer_tag.to_be_bytes());
                self.request(header, &text);
            }
            Action::Ping { tag, length } => {
                self.numbered_request(header(0x00, 0x80, tag), &vec![3; length.into()]);
            }
            Action::Raw { header: start } => {
                let mut header = [0; 48];
                header[..16].copy_from_slice(&start);
                self.request(header, &[]);
            }
            action => self.act_as_owner(action),
        }
    }

    fn act_as_owner(&mut self, action: Action) {
        let connection = &mut self.connection;
        match action {
            Action::Respond { tag, status, data } => {
                self.owner.collecting.remove(&tag.into());
                let data_in = Rope::from(Bytes::from(vec![4; data.into()]));
                let completion = Completion {
                    status: u8::from(status) * 2,
                    sense: vec![],
                    data_in,
                    ..Completion::default()
                };
                connection.respond(tag.into(), completion);
            }
            Action::RespondManagement { tag, complete } => {
                let response = if complete {
                    TaskManagementResponse::FunctionComplete
                } else {
                    TaskManagementResponse::FunctionRejected
                };
                connection.respond_task_management(tag.into(), response);
            }
            Action::AbortCollecting { lun } => {
                connection.abort_collecting(lun.map(|lun| u64::from(lun) << 48));
            }
            Action::Forget { tag } => {
                self.owner.collecting.remove(&tag.into());
                connection.forget(tag.into());
            }
            Action::SendTargets { count } => {
                let record = iscsi::TargetRecord { name: "iqn.b".to_owned(), addresses: vec![] };
                connection.send_targets_response(&vec![record; count.into()]);
            }
            Action::Send { count } => send_all(connection, count.into()),
            _ => {
                self.now += Duration::from_secs(3);
                connection.tick(self.now);
            }
        }
    }

    fn check(&mut self) {
        let owner = &mut self.owner;
        take_events(&mut self.connection, &mut |connection, event| owner.take(connection, event));
        assert!(self.connection.tasks() <= 8 + 16);
        if !self.connection.is_closed() {
            assert!(self.owner.collecting.len() <= self.connection.tasks());
        }
    }
}

fn header(opcode: u8, flags: u8, tag: u8) -> [u8; 48] {
    let mut header = [0; 48];
    header[0] = opcode;
    header[1] = flags;
    header[19] = tag;
    header
}

fuzz_target!(|input: (u8, Vec<Action>)| {
    let (keys, actions) = input;
    let mut world = World::new(keys);
    for action in actions {
        world.act(action);
        world.check();
    }
});
