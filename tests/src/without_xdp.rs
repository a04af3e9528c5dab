//! Runs a program as if the kernel had been built without AF_XDP sockets: a seccomp filter answers
//! `socket(AF_XDP, …)` as such a kernel does.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Becomes `program` under the filter; returns only why not.
#[must_use]
pub fn become_program(program: &str, arguments: &[String]) -> io::Error {
    match filter().and_then(|filter| seccompiler::apply_filter(&filter)) {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => io::Error::other(error),
    }
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let family = u64::from(libc::AF_XDP.unsigned_abs());
    let xdp = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family)?;
    let rules = [(libc::SYS_socket, vec![SeccompRule::new(vec![xdp])?])].into();
    let refuse = SeccompAction::Errno(libc::EAFNOSUPPORT.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?)
}
