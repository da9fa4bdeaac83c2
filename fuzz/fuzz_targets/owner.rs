//! An owner of a connection that answers every event at once.

use block::Rope;
use bytes::Bytes;
use iscsi::{Completion, Connection, Event, LoginTerms, TargetRecord, TaskManagementResponse};

/// Answers at once, as an owner with an empty and infinitely fast array does.
pub fn answer_at_once(connection: &mut Connection, event: Event) {
    match event {
        Event::Login(_) => connection.login_admit(LoginTerms::open(1)),
        Event::Authenticated(_) => connection.login_accept(1),
        Event::SendTargets(_) => {
            let addresses = vec![("127.0.0.1:3260".to_owned(), 1)];
            connection
                .send_targets_response(&[TargetRecord { name: "iqn.b".to_owned(), addresses }]);
        }
        Event::TaskManagement(request) => connection.respond_task_management(
            request.initiator_task_tag,
            TaskManagementResponse::FunctionComplete,
        ),
        Event::Command(command) if command.write => {
            connection.accept_data(command.task, u32::from(command.cdb[8]) * 512);
        }
        Event::Command(command) => {
            let data_in = Rope::from(Bytes::from(vec![0; usize::from(command.cdb[8]) * 512]));
            connection.respond(command.task, Completion { data_in, ..Completion::default() });
        }
        Event::DataOut { task, .. } => connection.respond(task, Completion::default()),
        Event::LoggedIn(_)
        | Event::Aborted { .. }
        | Event::LoggedOut(_)
        | Event::LogoutConnection { .. }
        | Event::TaskReassign(_)
        | Event::Closed(_) => {}
    }
}
