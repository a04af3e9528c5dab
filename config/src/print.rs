//! Writes a topology as a file that reads back as the same topology, byte for byte the same each time.

use core::fmt::{self, Write};

use crate::{Section, Topology};

impl fmt::Display for Topology {
    /// As TOML, every key with its value in force.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        keys(f, &self.general)?;
        table(f, &self.umem)?;
        table(f, &self.pmd)?;
        table(f, &self.datapath)?;
        table(f, &self.log)?;
        table(f, &self.control)?;
        array(f, &self.bridges)?;
        array(f, &self.ports)
    }
}

fn table<S: Section>(f: &mut impl Write, section: &S) -> fmt::Result {
    write!(f, "\n[{}]\n", S::NAME)?;
    keys(f, section)
}

fn array<S: Section>(f: &mut impl Write, sections: &[S]) -> fmt::Result {
    sections.iter().try_for_each(|section| {
        write!(f, "\n[[{}]]\n", S::NAME)?;
        keys(f, section)
    })
}

fn keys<S: Section>(f: &mut impl Write, section: &S) -> fmt::Result {
    S::KEYS.iter().try_for_each(|key| writeln!(f, "{} = {}", key.name, (key.print)(section)))
}
