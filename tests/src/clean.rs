//! Removing what a process of ours made, when its Drop implementations cannot: on a signal, and after it
//! was killed. Names say whose a thing is: `xvs-<pid>-…`. Child processes need no care here: the kernel
//! kills them with their parent (see [`crate::proc`]).

use std::fs;
use std::path::Path;
use std::process::Command;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{Error, Result, booted, scratch};

/// Where `ip netns` keeps the names.
const NETNS_DIR: &str = "/run/netns";

/// From now on SIGINT, SIGTERM and SIGHUP remove all that this process made and end it with the status a
/// shell gives (128 + signal).
///
/// # Errors
/// When the handler cannot be installed.
pub fn on_signal() -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::io("install signal handlers"))?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\ninterrupted: cleaning up");
            let mine = scratch::prefix();
            remove(&|name| name.starts_with(&mine));
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Removes what processes that no longer run have left behind; returns the names.
#[must_use]
pub fn leftovers() -> Vec<String> {
    remove(&|name| owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()))
}

/// The process id in a name of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix("xvs-")?.split('-').next()?.parse().ok()
}

/// Deletes the namespaces, temporary directories and control groups whose name `is_mine` claims.
fn remove(is_mine: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut removed = Vec::new();
    for name in names(Path::new(NETNS_DIR)).filter(|name| is_mine(name)) {
        // A failure here means that somebody else was faster.
        let _ = Command::new("ip").args(["netns", "del", &name]).output();
        removed.push(name);
    }
    let temp = std::env::temp_dir();
    for name in names(&temp).filter(|name| is_mine(name)) {
        let _ = fs::remove_dir_all(temp.join(&name));
        removed.push(name);
    }
    if let Ok(cgroups) = booted::cgroup2() {
        for name in names(&cgroups).filter(|name| is_mine(name)) {
            let _ = booted::remove_tree(&cgroups.join(&name));
            removed.push(name);
        }
    }
    removed
}

/// The names in a directory; none when there is no such directory.
fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_an_owner() {
        assert_eq!(owner("xvs-12-3-dut"), Some(12));
        assert_eq!(owner("xvs-12"), Some(12));
        assert_eq!(owner("xvs-a-b"), None);
        assert_eq!(owner("other-12-3"), None);
    }
}
