//! Settings of a port beside the values in force, and what to say when those do not fit together.

use slog::warn;
use xvs_config::{Auto, Port as Settings};
use xvs_netdev_afxdp::{InForce, Tunable};

use super::Switchd;
use super::ports::Queue;
use crate::ctl::{PortInfo, Setting};
use crate::pmd::most_per_pass;

/// A number, or the daemon's choice.
fn configured<T: ToString>(value: Auto<T>) -> String {
    match value {
        Auto::Auto => "auto".to_owned(),
        Auto::Fixed(value) => value.to_string(),
    }
}

fn setting(configured: impl ToString, value: Option<Tunable>) -> Setting {
    Setting {
        configured: configured.to_string(),
        in_force: match value {
            Some(Tunable::InForce(value)) => Some(value.into()),
            Some(Tunable::Off | Tunable::Unsupported) | None => None,
        },
        unsupported: value == Some(Tunable::Unsupported),
    }
}

/// Fills in the settings; `in_force`: of its sockets, which have the same, when there are any.
pub(super) fn show(info: &mut PortInfo, port: &Settings, in_force: Option<&InForce>, batch: u32) {
    let fixed = |value: fn(&InForce) -> u32| in_force.map(|f| Tunable::InForce(value(f)));
    info.tx_budget = setting(configured(port.tx_budget), fixed(|f| f.tx_budget));
    info.sndbuf = setting(configured(port.sndbuf), fixed(|f| f.sndbuf));
    info.xmit_batch = setting(port.xmit_batch, in_force.map(|f| f.xmit_batch));
    info.busy_poll_us = setting(port.busy_poll_us, in_force.map(|f| f.busy_poll_us));
    info.busy_poll_budget =
        setting(configured(port.busy_poll_budget), in_force.map(|f| f.busy_poll_budget));
    info.prefer_busy_poll = setting(port.prefer_busy_poll, in_force.map(|f| f.prefer_busy_poll));
    info.batch = batch;
    info.warnings = in_force.map_or_else(Vec::new, |in_force| warnings(port, in_force, batch));
}

/// Which values in force make it the normal case that the kernel takes a part only of what it is given. In
/// zero-copy mode there is neither budget nor send buffer.
fn warnings(port: &Settings, in_force: &InForce, batch: u32) -> Vec<String> {
    let mut warnings = Vec::new();
    if in_force.zero_copy {
        return warnings;
    }
    let budget = in_force.tx_budget;
    // More than the ring holds is never handed over together.
    let per_call = most_per_pass(batch.into()).min(in_force.tx_ring.into());
    if per_call > budget.into() && in_force.budget_supported {
        warnings.push(format!(
            "up to {per_call} packets are handed over together (pmd batch-size is {batch}) and the \
             kernel takes {budget} per call: set tx-budget to {per_call} or \"auto\""
        ));
    } else if batch > budget && !in_force.budget_supported {
        warnings.push(format!(
            "batch-size is {batch} and this kernel takes {budget} packets per call, whatever is \
             configured: set batch-size to {budget} or use Linux 6.17 or later"
        ));
    }
    let needed = u64::from(in_force.truesize) * u64::from(budget);
    if u64::from(in_force.sndbuf) < needed {
        let remedy = match port.sndbuf {
            Auto::Fixed(_) => format!("set sndbuf to at least {needed} or \"auto\""),
            Auto::Auto => format!("grant CAP_NET_ADMIN or raise net.core.wmem_max to {needed}"),
        };
        warnings.push(format!(
            "the send buffer of {} bytes is full before the kernel has taken {budget} packets of \
             {} bytes each: {remedy}",
            in_force.sndbuf, in_force.truesize
        ));
    }
    warnings
}

impl Switchd {
    /// Logs what does not fit together of the values of a port's queues.
    pub(super) fn warn_of_values(&self, port: &Settings, queues: &[Queue], batch: u32) {
        let warnings = queues.first().map(|queue| warnings(port, &queue.in_force, batch));
        for warning in warnings.into_iter().flatten() {
            warn!(self.log, "port {}: {warning}", port.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use xvs_config::PortSpec;

    use super::*;

    fn port(options: &str) -> Settings {
        PortSpec::parse(&format!("v1,bridge=b{options}")).build().expect("a good port")
    }

    /// What a socket on a kernel with all options has when everything is `auto`.
    fn best() -> InForce {
        InForce {
            tx_ring: 2048,
            tx_budget: 256,
            budget_supported: true,
            truesize: 2304,
            sndbuf: 2304 * 2048,
            ..InForce::default()
        }
    }

    fn check(options: &str, in_force: InForce, batch: u32, expected: &[&str]) {
        let found = warnings(&port(options), &in_force, batch);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.ends_with(expected), "{found}");
        }
    }

    #[test]
    fn the_daemons_own_choice_is_never_warned_of() {
        for batch in [1, 3, 32, 100, 255, 256] {
            check("", best(), batch, &[]);
            check("", InForce { tx_ring: 64, tx_budget: 64, ..best() }, batch, &[]);
        }
        let old = InForce { tx_budget: 32, budget_supported: false, ..best() };
        check("", old, 32, &[]);
    }

    #[test]
    fn a_budget_below_what_is_handed_over_is_warned_of() {
        let small = InForce { tx_budget: 32, ..best() };
        check(",tx-budget=32", small, 128, &["set tx-budget to 256 or \"auto\""]);
        check(",tx-budget=32", small, 100, &["set tx-budget to 200 or \"auto\""]);
        let short = InForce { tx_ring: 64, ..small };
        check(",tx-budget=32", short, 32, &["set tx-budget to 64 or \"auto\""]);
        let old = InForce { tx_budget: 32, budget_supported: false, ..best() };
        check("", old, 33, &["set batch-size to 32 or use Linux 6.17 or later"]);
    }

    #[test]
    fn a_send_buffer_below_one_call_is_warned_of() {
        let needed = 256 * 2304;
        check("", InForce { sndbuf: needed, ..best() }, 32, &[]);
        let small = InForce { sndbuf: needed - 1, ..best() };
        check(",sndbuf=589823", small, 32, &["set sndbuf to at least 589824 or \"auto\""]);
        check("", small, 32, &["grant CAP_NET_ADMIN or raise net.core.wmem_max to 589824"]);
        let zero_copy = InForce { zero_copy: true, tx_budget: 32, ..small };
        check("", zero_copy, 256, &[]);
    }

    #[test]
    fn what_the_kernel_lacks_is_shown_as_unsupported() {
        let mut info = PortInfo::default();
        let port = port(",xmit-batch=32");
        show(&mut info, &port, None, 32);
        assert_eq!(info.xmit_batch, Setting { configured: "32".to_owned(), ..Setting::default() });
        let lacks = InForce { xmit_batch: Tunable::Unsupported, ..best() };
        show(&mut info, &port, Some(&lacks), 32);
        assert!(info.xmit_batch.unsupported && info.xmit_batch.in_force.is_none());
        let has = InForce { xmit_batch: Tunable::InForce(32), ..best() };
        show(&mut info, &port, Some(&has), 32);
        assert!(!info.xmit_batch.unsupported && info.xmit_batch.in_force == Some(32));
        assert_eq!(info.tx_budget.in_force, Some(256));
    }
}
