//! Which NUMA node a core belongs to.

use std::fs;

use xvs_datapath::CoreId;

/// The node of a core; 0 where the system tells of none.
#[must_use]
pub fn node_of(core: CoreId) -> u32 {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{}", core.0));
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok()).next().unwrap_or(0)
}
