//! What the kernel tells of interfaces: carrier and MTU for the transmit queues, and ports whose device
//! went away or came back.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use slog::{info, warn};
use xvs_datapath::PortNo;

use super::Switchd;
use super::ports::{Port, State};

impl Switchd {
    /// The descriptor to watch for [`Switchd::on_link_events`].
    #[must_use]
    pub fn link_source(&self) -> Option<RawFd> {
        Some(self.links.as_ref()?.as_fd().as_raw_fd())
    }

    /// Acts on what has changed since the last call.
    pub fn on_link_events(&mut self) {
        let Some(Ok(found)) = self.links.as_mut().map(xvs_netdev_afxdp::LinkMonitor::drain) else {
            return;
        };
        if found.lost {
            self.look_at_all_links();
        }
        for event in found.events {
            // Another MTU below that of the start only needs to be known; above it, frames and send
            // buffer may be too small.
            let bound = self.ports.iter().find_map(|(no, port)| match &port.state {
                State::Bound(bound) if bound.netdev.device().ifindex == event.ifindex => {
                    Some((*no, bound))
                }
                State::Bound(_) | State::Waiting(_) => None,
            });
            match bound {
                Some((no, _)) if event.deleted => self.lose_device(no),
                Some((no, bound)) if event.mtu > bound.netdev.device().mtu => {
                    self.unbind(no, format!("its MTU was raised to {}", event.mtu));
                }
                Some((_, bound)) => {
                    bound.netdev.link().set_carrier(event.carrier);
                    bound.netdev.link().set_mtu(event.mtu);
                }
                None if !event.deleted => self.try_soon(&event.name),
                None => {}
            }
        }
    }

    /// The device of a bound port is gone: the port waits for one of the same name.
    fn lose_device(&mut self, no: PortNo) {
        let Some(port) = self.ports.get(&no) else { return };
        let settings = port.settings.clone();
        warn!(self.log, "port {}: its interface is gone", settings.name);
        self.unbind(no, format!("interface {} is gone", settings.name));
    }

    /// Opens ports anew whose transmit queue the kernel has stopped for good.
    pub(super) fn restart_stopped(&mut self) {
        let stopped = |port: &Port| port.queues().iter().any(|queue| queue.tx.stopped.get() > 0);
        let found: Vec<_> = self.ports.iter().filter(|(_, port)| stopped(port)).collect();
        let found: Vec<_> = found.into_iter().map(|(no, port)| (*no, port.name())).collect();
        for (no, name) in found {
            warn!(self.log, "port {name}: the kernel sends nothing more on its socket");
            self.unbind(no, "the kernel stopped its socket".to_owned());
        }
    }

    /// A device appeared: a port that waits for its name need not wait longer.
    fn try_soon(&mut self, name: &str) {
        let now = self.clock.now();
        for port in self.ports.values_mut().filter(|port| port.settings.name.as_str() == name) {
            if let State::Waiting(waiting) = &mut port.state {
                info!(self.log, "port {name}: its interface is there");
                waiting.retry_at = now;
            }
        }
    }

    /// Events were lost: asks for every port's device.
    fn look_at_all_links(&mut self) {
        let mut gone = Vec::new();
        for (no, port) in &self.ports {
            let State::Bound(bound) = &port.state else { continue };
            match xvs_netdev_afxdp::Device::find(port.settings.name.as_str()) {
                Ok(device) if device.ifindex == bound.netdev.device().ifindex => {
                    bound.netdev.link().set_carrier(device.carrier);
                    bound.netdev.link().set_mtu(device.mtu);
                }
                _ => gone.push(*no),
            }
        }
        gone.into_iter().for_each(|no| self.lose_device(no));
    }
}
