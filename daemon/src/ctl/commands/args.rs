//! What arguments of several commands have in common.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use std::collections::BTreeSet;

use xvs_datapath::{MacAddr, VlanId};

use crate::ctl::{Context, CtlError, PortSpec};

/// The one datapath's name.
pub(super) const DATAPATH: &str = "netdev@xvs-netdev";

/// Names by which scripts written for Open vSwitch call its userspace datapath.
const ALIASES: [&str; 2] = ["xvs-netdev", "netdev@ovs-netdev"];

/// Refuses what does not name the datapath.
pub(super) fn datapath(text: &str) -> Result<(), CtlError> {
    if text == DATAPATH || ALIASES.contains(&text) {
        return Ok(());
    }
    let what = format!("opening datapath {text} failed");
    Err(CtlError::Datapath { what, why: "No such device".to_owned() })
}

/// Arguments told apart: options that were given, and the rest in order.
#[derive(Debug, Default)]
pub(super) struct Args<'a> {
    options: Vec<(&'a str, Option<&'a str>)>,
    /// What is no option.
    pub(super) rest: Vec<&'a str>,
}

impl<'a> Args<'a> {
    /// Tells options from the rest. `flags` stand alone, `valued` are followed by their value.
    pub(super) fn parse(
        args: &'a [String],
        flags: &[&str],
        valued: &[&str],
    ) -> Result<Self, CtlError> {
        let mut found = Self::default();
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            if flags.contains(&arg) {
                found.options.push((arg, None));
            } else if valued.contains(&arg) {
                let value = args.next().ok_or_else(|| CtlError::BadArgument {
                    what: "option",
                    text: arg.to_owned(),
                    want: "a value after it".to_owned(),
                })?;
                found.options.push((arg, Some(value)));
            } else if arg.starts_with('-') {
                return Err(CtlError::UnknownOption(arg.to_owned()));
            } else {
                found.rest.push(arg);
            }
        }
        Ok(found)
    }

    /// True when the flag was given.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == flag)
    }

    /// The value of an option, last given wins.
    pub(super) fn value(&self, option: &str) -> Option<&'a str> {
        self.options.iter().rev().find(|(name, _)| *name == option)?.1
    }

    /// The number that an option has, within bounds; `preset` without it.
    pub(super) fn bounded<T: FromStr + PartialOrd + fmt::Display>(
        &self,
        option: &'static str,
        preset: T,
        bounds: RangeInclusive<T>,
    ) -> Result<T, CtlError> {
        let Some(text) = self.value(option) else { return Ok(preset) };
        let want = format!("{} to {}", bounds.start(), bounds.end());
        match number(option, text, &want)? {
            value if bounds.contains(&value) => Ok(value),
            _ => Err(CtlError::BadArgument { what: option, text: text.to_owned(), want }),
        }
    }

    /// Removes the first of the rest, which must be the datapath's name.
    pub(super) fn take_datapath(&mut self) -> Result<(), CtlError> {
        if let Some(first) = self.rest.first() {
            datapath(first)?;
            self.rest.remove(0);
        }
        Ok(())
    }

    /// Removes `key=value` from the rest and returns the value.
    pub(super) fn take_assigned(&mut self, key: &str) -> Option<&'a str> {
        let value = |arg: &'a str| arg.strip_prefix(key)?.strip_prefix('=');
        let at = self.rest.iter().position(|arg| value(arg).is_some())?;
        value(self.rest.remove(at))
    }
}

/// A number, or what was expected.
pub(super) fn number<T: FromStr>(
    what: &'static str,
    text: &str,
    want: &str,
) -> Result<T, CtlError> {
    text.parse().map_err(|_| CtlError::BadArgument {
        what,
        text: text.to_owned(),
        want: want.to_owned(),
    })
}

/// The core of a PMD thread, from the value of an option.
pub(super) fn core(value: Option<&str>) -> Result<Option<u32>, CtlError> {
    value.map(|text| number("core", text, "the number of a PMD thread's core")).transpose()
}

/// A VLAN identifier.
pub(super) fn vlan(text: &str) -> Result<VlanId, CtlError> {
    let want = "0 to 4095, 0 for untagged";
    let vlan = number("VLAN", text, want)?;
    if vlan > 4095 {
        let (what, text, want) = ("VLAN", text.to_owned(), want.to_owned());
        return Err(CtlError::BadArgument { what, text, want });
    }
    Ok(VlanId(vlan))
}

/// An Ethernet address.
pub(super) fn mac(text: &str) -> Result<MacAddr, CtlError> {
    number("MAC address", text, "six hex pairs, as 02:00:00:00:00:01")
}

/// The bridge that was named, or all of them.
pub(super) fn bridges(
    context: &mut Context<'_>,
    name: Option<&str>,
) -> Result<Vec<String>, CtlError> {
    let all = context.control.bridges();
    let Some(name) = name else { return Ok(all) };
    if all.iter().any(|bridge| bridge == name) {
        return Ok(vec![name.to_owned()]);
    }
    Err(CtlError::NotFound { kind: "bridge", name: name.to_owned() })
}

/// The bridge that was named, or the only one there is.
pub(super) fn the_bridge(
    context: &mut Context<'_>,
    name: Option<&str>,
) -> Result<String, CtlError> {
    let mut found = bridges(context, name)?;
    if found.len() == 1
        && let Some(bridge) = found.pop()
    {
        return Ok(bridge);
    }
    Err(CtlError::BadArgument {
        what: "bridge",
        text: String::new(),
        want: format!("one of: {}", found.join(", ")),
    })
}

/// A port and its options: `name[,option=value...]`.
pub(super) fn port_spec(text: &str) -> Result<PortSpec, CtlError> {
    let mut words = text.split(',');
    let name = words.next().unwrap_or_default().to_owned();
    let options = words.map(port_option).collect::<Result<_, _>>()?;
    Ok(PortSpec { name, options })
}

/// An option of a port: `option=value`, underscores as good as dashes.
pub(super) fn port_option(text: &str) -> Result<(String, String), CtlError> {
    let (key, value) = text.split_once('=').ok_or_else(|| CtlError::BadArgument {
        what: "port option",
        text: text.to_owned(),
        want: "option=value, as xdp-mode=native".to_owned(),
    })?;
    Ok((key.replace('_', "-"), value.to_owned()))
}

/// The name of a port that was given by name or number.
pub(super) fn port_name(context: &mut Context<'_>, text: &str) -> Result<String, CtlError> {
    let ports = context.control.ports()?;
    let named = ports.iter().find(|port| port.name == text);
    let numbered = || ports.iter().find(|port| text.parse() == Ok(port.port_no));
    let found = named.or_else(numbered).map(|port| port.name.clone());
    found.ok_or_else(|| CtlError::NotFound { kind: "port", name: text.to_owned() })
}

/// Removes ports, by name or number, if all of them exist.
pub(super) fn del_ports(context: &mut Context<'_>, ports: &[String]) -> Result<(), CtlError> {
    let names = ports.iter().map(|port| port_name(context, port));
    let names = names.collect::<Result<BTreeSet<String>, _>>()?;
    names.iter().try_for_each(|name| context.control.del_port(name))
}
