//! The daemon `xvswitchd` and its client `xvsctl`.

pub mod args;
pub mod client;
pub mod clock;
pub mod ctl;
pub mod log;
pub mod mainloop;
pub mod notify;
pub mod numa;
pub mod pidfile;
pub mod pmd;
pub mod registry;
pub mod rundir;
pub mod start;
pub mod switchd;
