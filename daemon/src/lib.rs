//! The daemon `xvswitchd` and its client `xvsctl`.

pub mod ctl;
pub mod pidfile;
pub mod registry;
pub mod rundir;
