//! The program `xvsctl` itself: a socket without permission, and a reader who has had enough.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};

/// A directory that everyone may enter, with a copy of the program in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("xvsctl-{name}-{}", process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_xvsctl"), path.join("xvsctl")).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn no_permission() {
    let place = Place::new("permission");
    let socket = place.0.join("ctl");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o000)).unwrap();
    let program = place.0.join("xvsctl");
    // Root may use any socket, so root becomes somebody else for this.
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = if root { Command::new("setpriv") } else { Command::new("env") };
    if root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let output =
        command.arg(&program).arg("--run-dir").arg(&place.0).arg("status").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.starts_with("xvsctl: no permission to use "), "{error}");
    assert!(error.contains("as root or as a member of the socket's group"), "{error}");
}

#[test]
fn a_reader_who_has_had_enough() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xvsctl"))
        .args(["--help"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
