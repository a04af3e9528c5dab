//! How many `sendto` calls a process makes, counted by the kernel from outside: the same way for every
//! switch.

use std::os::unix::fs::MetadataExt;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use nix::libc::SYS_sendto;
use xvs_tests::{Error, Result};

use crate::bpf::{Program, failed};

/// A count that goes on until it is dropped.
#[derive(Debug)]
pub(crate) struct Calls {
    _link: Link,
    state: MapHandle,
}

/// Where the count is in the state.
const CALLS: usize = 4;

impl Calls {
    /// Counts from now on.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/calls.bpf.o"));
        let mut program = Program::load("calls", object)?;
        let state = program.map()?;
        let path = "/proc/self/ns/pid";
        let namespace = std::fs::metadata(path).map_err(Error::io(path))?;
        let syscall = u64::try_from(SYS_sendto).unwrap_or_default();
        let words = [namespace.dev(), namespace.ino(), u64::from(pid), syscall, 0];
        let value: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        state.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY).map_err(failed("calls"))?;
        let link = program.program()?.attach().map_err(failed("count system calls"))?;
        Ok(Self { _link: link, state })
    }

    /// How many so far.
    pub(crate) fn count(&self) -> Result<u64> {
        let key = 0u32.to_ne_bytes();
        let value = self.state.lookup(&key, MapFlags::ANY).map_err(failed("calls"))?;
        let word = value.unwrap_or_default().chunks_exact(8).nth(CALLS).map(<[u8]>::to_vec);
        let word = word.as_deref().and_then(<[u8]>::first_chunk).copied();
        Ok(u64::from_ne_bytes(word.unwrap_or_default()))
    }
}
