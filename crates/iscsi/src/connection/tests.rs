mod commands;
mod initiator;
mod login;
mod requests;
mod splits;
