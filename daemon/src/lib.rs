//! The daemon `xvswitchd` and its client `xvsctl`.

pub mod ctl;
