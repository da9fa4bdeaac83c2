//! Subcommands for users, tokens and the audit log.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use api::{AuditEntry, ChangeUser, CreateToken, CreateUser, NewToken, Role, Token, User};
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;

use crate::commands::{Invocation, check_segment};
use crate::tables::{Table, or_dash, table, yes_or_no};
use notation::format_time;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Create a user.
    Create {
        name: String,
        /// What the user may do.
        #[arg(long, value_enum)]
        role: RoleArgument,
        #[command(flatten)]
        password: PasswordArguments,
    },
    /// List all users.
    List,
    /// Give a user another role or password. With a new password the user's tokens end.
    Change {
        name: String,
        /// What the user may do.
        #[arg(long, value_enum)]
        role: Option<RoleArgument>,
        /// Ask for a new password on the terminal.
        #[arg(long, conflicts_with = "password_file")]
        password: bool,
        #[command(flatten)]
        how: PasswordArguments,
    },
    /// Delete a user and the user's tokens.
    Delete { name: String },
}

/// A new password. It is never on the command line, which others see.
#[derive(Debug, Args)]
pub(crate) struct PasswordArguments {
    /// File with the password on its first line, 10 to 128 bytes; - for the standard input.
    /// Without it a terminal is asked.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Let the user keep this password. Otherwise another one must be chosen at the next login.
    #[arg(long)]
    own: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a program, and print its secret, which is shown this once.
    Create {
        /// What it is for.
        name: String,
        /// What it allows; never more than its user may do. Over the socket it is the first
        /// administrator's.
        #[arg(long, value_enum, default_value = "viewer")]
        role: RoleArgument,
        /// Days until it expires, 1 to 3650; it never does when left out.
        #[arg(long)]
        days: Option<u32>,
    },
    /// List your tokens; an administrator sees all.
    List,
    /// Delete a token; it is good for nothing from then on.
    Delete {
        /// As 'gantry token list' shows it.
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    /// How many changes to show, 1 to 1000, the latest ones.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    last: u16,
}

/// What a user may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArgument {
    /// See everything but users and the audit log.
    Viewer,
    /// Make, change and delete volumes, snapshots, hosts and maps too.
    Operator,
    /// Everything.
    Admin,
}

impl From<RoleArgument> for Role {
    fn from(argument: RoleArgument) -> Self {
        match argument {
            RoleArgument::Viewer => Self::Viewer,
            RoleArgument::Operator => Self::Operator,
            RoleArgument::Admin => Self::Admin,
        }
    }
}

impl Invocation {
    pub(crate) fn user(&self, command: &UserCommand) -> Result<()> {
        match command {
            UserCommand::Create { name, role, password } => {
                let body = CreateUser {
                    name: name.clone(),
                    role: (*role).into(),
                    password: read_password(password.password_file.as_deref())?,
                    must_change_password: !password.own,
                };
                self.changed::<User>(Method::POST, "/v1/users", &body, |user| {
                    format!("Created user {} ({}).", user.name, user.role.name())
                })
            }
            UserCommand::List => {
                self.show(&self.client.get::<Vec<User>>("/v1/users")?, |users| users_table(users))
            }
            UserCommand::Change { name, role, password, how } => {
                check_segment("user", name)?;
                let asks = *password || how.password_file.is_some();
                let new =
                    if asks { Some(read_password(how.password_file.as_deref())?) } else { None };
                let must_change_password = how.own.then_some(false);
                let role = role.map(Role::from);
                let body = ChangeUser { role, password: new, must_change_password };
                let route = format!("/v1/users/{name}");
                self.changed::<User>(Method::PATCH, &route, &body, |user| {
                    format!("Changed user {} ({}).", user.name, user.role.name())
                })
            }
            UserCommand::Delete { name } => {
                check_segment("user", name)?;
                self.delete(&format!("/v1/users/{name}"), &format!("Deleted user {name}."))
            }
        }
    }

    pub(crate) fn token(&self, command: &TokenCommand) -> Result<()> {
        match command {
            TokenCommand::Create { name, role, days } => {
                let role = (*role).into();
                let body = CreateToken { name: name.clone(), role, expires_in_days: *days };
                self.changed::<NewToken>(Method::POST, "/v1/tokens", &body, |new| {
                    new.secret.clone()
                })
            }
            TokenCommand::List => {
                let tokens = self.client.get::<Vec<Token>>("/v1/tokens")?;
                self.show(&tokens, |tokens| tokens_table(tokens))
            }
            TokenCommand::Delete { id } => {
                check_segment("token", id)?;
                self.delete(&format!("/v1/tokens/{id}"), &format!("Deleted token {id}."))
            }
        }
    }

    pub(crate) fn audit(&self, arguments: &AuditArguments) -> Result<()> {
        let route = format!("/v1/audit?limit={}", arguments.last);
        let entries = self.client.get::<Vec<AuditEntry>>(&route)?;
        self.show(&entries, |entries| audit_table(entries))
    }
}

/// The first line of a file or of the standard input; or what is typed at a terminal, twice.
fn read_password(file: Option<&Path>) -> Result<String> {
    let text = match file {
        Some(path) if path == Path::new("-") => {
            io::read_to_string(io::stdin()).context("cannot read the standard input")?
        }
        Some(path) => {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => return ask_password(),
    };
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => bail!("there is no password: put it on the first line"),
    }
}

fn ask_password() -> Result<String> {
    ensure!(io::stdin().is_terminal(), "no terminal can be asked: use --password-file FILE or -");
    let password = rpassword::prompt_password("New password: ")?;
    let again = rpassword::prompt_password("Again: ")?;
    ensure!(password == again, "the two are not the same: nothing was changed");
    Ok(password)
}

fn users_table(users: &[User]) -> Table {
    let mut rows = table(&["USER", "ROLE", "MUST CHANGE PASSWORD", "CREATED"]);
    for user in users {
        rows.add_row([
            user.name.clone(),
            user.role.name().to_owned(),
            yes_or_no(user.must_change_password),
            format_time(user.created),
        ]);
    }
    rows
}

fn tokens_table(tokens: &[Token]) -> Table {
    let mut rows = table(&["TOKEN", "NAME", "USER", "ROLE", "CREATED", "EXPIRES"]);
    for token in tokens {
        rows.add_row([
            token.id.clone(),
            token.name.clone(),
            token.user.clone(),
            token.role.name().to_owned(),
            format_time(token.created),
            token.expires.map_or_else(|| "never".to_owned(), format_time),
        ]);
    }
    rows
}

fn audit_table(entries: &[AuditEntry]) -> Table {
    let mut rows = table(&["TIME", "USER", "VIA", "FROM", "STATUS", "CHANGE"]);
    for entry in entries {
        rows.add_row([
            format_time(entry.time),
            or_dash(entry.user.clone()),
            entry.via.clone(),
            or_dash(entry.source.clone()),
            entry.status.to_string(),
            format!("{} {}", entry.method, entry.path),
        ]);
    }
    rows
}
