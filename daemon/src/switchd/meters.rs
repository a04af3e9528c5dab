//! Meters, and what `userspace()` queued.

use core::fmt::Write;

use xvs_datapath::{Action, MeterError, Rule, RuleAction, UserspacePacket};

use super::{Error, Switchd};
use crate::ctl::{Control, ControllerInfo, CtlError, Upcall};

pub(super) fn refused(error: MeterError) -> CtlError {
    CtlError::Refused(error.to_string())
}

/// True when the action is `meter(id)`, or has it within it.
fn names(action: &Action, id: u32) -> bool {
    *action == Action::Meter(id) || action.nested().flatten().any(|action| names(action, id))
}

impl Switchd {
    /// Removes a meter that no flow or rule names.
    pub(super) fn del_unused_meter(&mut self, id: u32) -> Result<(), CtlError> {
        let mut in_flows = 0;
        self.show_flows(None, &mut |_, flow| {
            in_flows += usize::from(flow.actions.iter().any(|action| names(action, id)));
            Ok(())
        })?;
        let mut in_rules = 0;
        for bridge in self.bridges() {
            let rules = self.switch.rules(&bridge, "", self.clock.now()).map_err(Error::Bridge)?;
            let users =
                rules.iter().filter(|row| row.rule.actions.contains(&RuleAction::Meter(id)));
            in_rules += users.count();
        }
        match in_flows + in_rules {
            0 => self.meters.del(id).map_err(refused),
            _ => Err(CtlError::Refused(format!(
                "meter {id} is in use by {in_flows} flows and {in_rules} rules; delete them first"
            ))),
        }
    }

    /// Refuses a rule that names a meter that is not there.
    pub(super) fn check_meters(&self, rule: &Rule) -> Result<(), CtlError> {
        let named = rule
            .actions
            .iter()
            .filter_map(|action| if let RuleAction::Meter(id) = action { Some(*id) } else { None });
        match named.into_iter().find(|&id| !self.meters.has(id)) {
            Some(id) => Err(refused(MeterError::Missing(id))),
            None => Ok(()),
        }
    }

    /// The oldest packets that threads queued, thread by thread.
    pub(super) fn take_upcalls(&self, max: usize) -> Result<Vec<Upcall>, CtlError> {
        let now = self.clock.now();
        let mut upcalls = Vec::new();
        for thread in &self.threads {
            let left = max - upcalls.len();
            let read = move |pmd: &mut crate::pmd::Pmd| pmd.datapath.userspace().read(left);
            let packets = thread.handle.call(read).map_err(Error::Pmd)?;
            upcalls.extend(packets.into_iter().map(|packet| Upcall {
                core: thread.core().0,
                age_ms: now.since(packet.at).0 / 1_000_000,
                ..upcall(&packet)
            }));
        }
        Ok(upcalls)
    }
}

fn upcall(packet: &UserspacePacket) -> Upcall {
    let mut data = String::with_capacity(2 * packet.bytes.len());
    for byte in &packet.bytes {
        // Writing to a string does not fail.
        let _ = write!(data, "{byte:02x}");
    }
    Upcall {
        core: 0,
        age_ms: 0,
        in_port: packet.in_port.0,
        pid: packet.userspace.pid,
        controller: packet.userspace.controller.map(|said| ControllerInfo {
            reason: said.reason,
            recirc_id: said.recirc_id,
            rule_cookie: said.rule_cookie,
            controller_id: said.controller_id,
        }),
        len: packet.len,
        data,
    }
}
