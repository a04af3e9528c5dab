//! Action lists as text.

use crate::text::PortNames;
use crate::text::table::{self, Group, Member};
use crate::wire::ETH_VLAN;
use crate::{Action, Controller, Field, HashOver, Match, Userspace};

/// Writes an action list as Open vSwitch does, for packets that `m` matches.
#[must_use]
pub fn print_actions(actions: &[Action], m: &Match, ports: &dyn PortNames) -> String {
    let mut printer = Printer { out: String::new(), open: None, m, ports };
    for action in actions {
        match action {
            Action::Set { field, value, mask } => printer.set(field, *value, *mask),
            Action::Output(port) => {
                printer.item(&ports.name(*port).unwrap_or_else(|| port.to_string()));
            }
            Action::PushVlan { tpid, tci } => printer.push_vlan(*tpid, *tci),
            Action::PopVlan => printer.item("pop_vlan"),
            Action::Trunc(len) => printer.item(&format!("trunc({len})")),
            Action::Recirc(id) => printer.item(&format!("recirc({id:#x})")),
            Action::Meter(id) => printer.item(&format!("meter({id})")),
            Action::Hash { over, basis } => {
                let over = match over {
                    HashOver::L4 => "l4",
                    HashOver::SymmetricL4 => "sym_l4",
                };
                printer.item(&format!("hash({over}({basis}))"));
            }
            Action::Clone(list) => {
                printer.item(&format!("clone({})", print_actions(list, m, ports)))
            }
            Action::Sample { probability, actions } => {
                let (percent, list) = (percent(*probability), print_actions(actions, m, ports));
                printer.item(&format!("sample(sample={percent},actions({list}))"));
            }
            Action::CheckPktLen { size, greater, less_equal } => {
                let [gt, le] = [greater, less_equal].map(|list| print_actions(list, m, ports));
                printer.item(&format!("check_pkt_len(size={size},gt({gt}),le({le}))"));
            }
            Action::Userspace(spec) => printer.item(&userspace(spec)),
        }
    }
    printer.close();
    if printer.out.is_empty() { "drop".to_owned() } else { printer.out }
}

/// With one digit after the point as Open vSwitch has it, or as many as it takes to read the same again.
fn percent(probability: u32) -> String {
    let percent = f64::from(probability) / f64::from(u32::MAX) * 100.0;
    let mut texts = (1..16).map(|digits| format!("{percent:.digits$}%"));
    texts.find(|text| super::probability(text) == Some(probability)).unwrap_or_default()
}

fn userspace(Userspace { pid, controller }: &Userspace) -> String {
    let Some(controller) = controller else { return format!("userspace(pid={pid})") };
    let Controller { reason, recirc_id, rule_cookie, controller_id, max_len } = controller;
    // As C's %#x, which writes a bare 0.
    let cookie = if *rule_cookie == 0 { "0".to_owned() } else { format!("{rule_cookie:#x}") };
    format!(
        "userspace(pid={pid},controller(reason={reason},dont_send=0,continuation=0,\
         recirc_id={recirc_id},rule_cookie={cookie},controller_id={controller_id},max_len={max_len}))"
    )
}

/// Writes actions; neighbouring sets of one header share a `set()`.
struct Printer<'a> {
    out: String,
    /// The header whose `set()` is not closed yet, and its last member.
    open: Option<(&'static Group, usize)>,
    m: &'a Match,
    ports: &'a dyn PortNames,
}

impl Printer<'_> {
    fn close(&mut self) {
        if self.open.take().is_some() {
            self.out.push_str("))");
        }
    }

    fn item(&mut self, text: &str) {
        self.close();
        if !self.out.is_empty() {
            self.out.push(',');
        }
        self.out.push_str(text);
    }

    fn push_vlan(&mut self, tpid: u16, tci: u16) {
        let tpid = if tpid == ETH_VLAN { String::new() } else { format!("tpid={tpid:#06x},") };
        self.item(&format!("push_vlan({tpid}vid={},pcp={})", tci & 0xfff, tci >> 13));
    }

    fn set(&mut self, field: &Field, value: u128, mask: u128) {
        let Some(group) = table::rewriting(field, self.m) else { return };
        let is_here =
            |member: &Member| member.rewritable && member.field == field && member.part(mask) != 0;
        // In one set(), members are in order, and those of one field belong together.
        let first = group.members.iter().position(is_here).unwrap_or(0);
        let joins = self.open.is_some_and(|(open, last)| {
            let other = group.members.get(last).is_some_and(|member| member.field != field);
            open.name == group.name && last < first && other
        });
        if !joins {
            self.item(&format!("set({}(", group.name));
        }
        for (i, member) in group.members.iter().enumerate().filter(|(_, member)| is_here(member)) {
            member.print(&mut self.out, member.part(value), member.part(mask), self.ports);
            self.open = Some((group, i));
        }
    }
}
