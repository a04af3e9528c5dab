//! Loading the BPF programs of source and sink.

use libbpf_rs::{MapHandle, Object, ObjectBuilder, ProgramMut};
use nix::net::if_::if_nametoindex;
use xvs_tests::{Error, Result};

/// The number of an interface of the current network namespace.
pub(crate) fn ifindex(interface: &str) -> Result<u32> {
    if_nametoindex(interface).map_err(Error::io(format!("interface {interface}")))
}

/// What libbpf says, as an error of ours.
pub(crate) fn failed(what: &str) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let what = what.to_owned();
    move |error| Error::Io { what, source: std::io::Error::other(error) }
}

/// A loaded object with one program.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    object: Object,
}

impl Program {
    pub(crate) fn load(name: &'static str, object: &[u8]) -> Result<Self> {
        let opened = ObjectBuilder::default().open_memory(object).map_err(failed(name))?;
        Ok(Self { name, object: opened.load().map_err(failed(name))? })
    }

    pub(crate) fn program(&mut self) -> Result<ProgramMut<'_>> {
        let missing = || Error::Check(format!("no program in {}", self.name));
        self.object.progs_mut().next().ok_or_else(missing)
    }

    pub(crate) fn map(&self) -> Result<MapHandle> {
        let missing = || Error::Check(format!("no map in {}", self.name));
        let map = self.object.maps().next().ok_or_else(missing)?;
        MapHandle::try_from(&map).map_err(failed(self.name))
    }
}
