//! The daemon `xvswitchd` and its client `xvsctl`.

pub mod clock;
pub mod ctl;
pub mod pidfile;
pub mod pmd;
pub mod registry;
pub mod rundir;
