//! Rules and MAC tables of bridges.

use serde::Serialize;
use xvs_datapath::MacAddr;

use super::display;

/// A rule of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleInfo {
    /// Table.
    pub table: u8,
    /// Priority; higher wins.
    pub priority: u16,
    /// Chosen by whoever added it.
    pub cookie: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Milliseconds since it was added.
    pub duration_ms: u64,
    /// Seconds without packets after which it goes; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0: never.
    pub hard_timeout: u16,
    /// Match without table and priority; empty matches everything.
    #[serde(rename = "match")]
    pub match_text: String,
    /// Actions.
    pub actions: String,
}

/// An entry of a MAC table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FdbEntry {
    /// Port by number.
    pub port_no: u32,
    /// Port by name.
    pub port: String,
    /// VLAN; 0 for untagged.
    pub vlan: u16,
    /// Address.
    #[serde(serialize_with = "display")]
    pub mac: MacAddr,
    /// Seconds since it was last seen; `None` for a static entry.
    pub age: Option<u64>,
}

/// Counters of a MAC table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FdbStats {
    /// Entries now.
    pub entries: u64,
    /// Most entries.
    pub max_entries: u64,
    /// Static entries now.
    pub static_entries: u64,
    /// Entries ever learned.
    pub learned: u64,
    /// Entries that aged out.
    pub expired: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Entries that moved to another port.
    pub moved: u64,
}
