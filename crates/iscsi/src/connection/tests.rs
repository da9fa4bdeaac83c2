mod commands;
mod initiator;
mod login;
mod recovery;
mod requests;
mod several;
mod splits;
