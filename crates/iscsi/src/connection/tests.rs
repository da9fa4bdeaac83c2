mod commands;
mod initiator;
mod login;
mod reassign;
mod recovery;
mod requests;
mod several;
mod splits;
