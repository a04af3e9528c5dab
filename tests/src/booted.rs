//! A real systemd, freshly booted in namespaces of its own: the machine's files lie below it, read-only, and
//! nothing that it starts or writes reaches the machine. Dropping it ends all of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{
    Error, Result,
    proc::{self, Proc, tethered},
    scratch::Scratch,
    wait_until,
};

/// What process 1 does before it becomes systemd.
const BOOT: &str = include_str!("boot.sh");
/// How long a boot may take.
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// A running systemd.
#[derive(Debug)]
pub struct Booted {
    /// Ended before its control group is removed.
    proc: Option<Proc>,
    /// Its process 1, as this machine counts.
    init: u32,
    cgroup: PathBuf,
}

impl Booted {
    /// Boots with the tree `files` laid over the machine's root, to where services can be started.
    ///
    /// # Errors
    /// When there is no systemd or no control group hierarchy of version 2, or it does not boot.
    pub fn start(scratch: &Scratch, files: &Path) -> Result<Self> {
        let cgroup = cgroup2()?.join(scratch.name());
        fs::create_dir(&cgroup).map_err(Error::io(format!("make {}", cgroup.display())))?;
        let mut booted = Self { proc: None, init: 0, cgroup };
        let script = scratch.write("boot.sh", BOOT)?;
        // The control group is entered before the namespace that makes it the root of what is inside.
        let mut command = tethered("sh");
        command.args(["-c", "echo 0 >\"$1/cgroup.procs\"; shift; exec \"$@\"", "sh"]);
        command.arg(&booted.cgroup);
        command.args(["unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc"]);
        command.args(["--cgroup", "--net", "sh"]).arg(script).arg(files);
        let proc = booted.proc.insert(Proc::start(scratch, "systemd", &mut command)?);
        let children = format!("/proc/{0}/task/{0}/children", proc.pid());
        booted.init = wait_until("process 1", BOOT_LIMIT, || {
            let text = fs::read_to_string(&children).map_err(Error::io(children.clone()))?;
            Ok(text.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok()))
        })?;
        wait_until("systemd", BOOT_LIMIT, || {
            if let Some(proc) = &mut booted.proc
                && let Some(status) = proc.ended()?
            {
                let output = proc.stdout() + &proc.stderr();
                return Err(Error::Command { line: format!("boot.sh ({status})"), output });
            }
            Ok(booted.run("systemctl is-active -q xvs-test.target").is_ok().then_some(()))
        })?;
        Ok(booted)
    }

    /// Runs a shell command inside and returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut command = Command::new("nsenter");
        command.args([
            "-t",
            &self.init.to_string(),
            "-m",
            "-p",
            "-u",
            "-i",
            "-C",
            "-n",
            "-r",
            "-w",
        ]);
        proc::run(command.args(["--", "sh", "-c", line]))
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        self.proc = None;
        // Its processes are gone a moment after process 1.
        let removed = || Ok(remove_tree(&self.cgroup).then_some(()));
        let _ = wait_until("an empty control group", Duration::from_secs(5), removed);
    }
}

/// Where the hierarchy of version 2 is mounted.
///
/// # Errors
/// When it is not.
pub fn cgroup2() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").map_err(Error::io("read /proc/mounts"))?;
    let found = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let path = words.next()?;
        (words.next() == Some("cgroup2")).then(|| PathBuf::from(path))
    });
    found
        .ok_or_else(|| Error::Check("no cgroup2 is mounted: mount it on /sys/fs/cgroup".to_owned()))
}

/// Removes a control group and those in it; false when one still has a process.
pub(crate) fn remove_tree(cgroup: &Path) -> bool {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    fs::remove_dir(cgroup).is_ok() || !cgroup.exists()
}
