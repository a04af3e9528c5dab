//! What the kernel tells of interfaces: carrier and MTU for the transmit queues, and ports whose device
//! went away or came back.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use slog::{info, warn};
use xvs_datapath::PortNo;
use xvs_netdev_afxdp::Device;

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
            match self.bound_to(event.ifindex) {
                Some(no) if event.deleted => self.lose_device(no),
                Some(no) => self.observe(no, &event.name, event.carrier, event.mtu),
                None if !event.deleted => self.try_soon(&event.name),
                None => {}
            }
        }
    }

    /// The port whose sockets are bound to this interface.
    fn bound_to(&self, ifindex: u32) -> Option<PortNo> {
        self.ports.iter().find_map(|(no, port)| match &port.state {
            State::Bound(bound) if bound.netdev.device().ifindex == ifindex => Some(*no),
            State::Bound(_) | State::Waiting(_) => None,
        })
    }

    /// Notes how the interface of a bound port is now. Another MTU below that of the start only needs to be
    /// known; above it, frames and send buffer may be too small. Another name disturbs nobody: the port
    /// keeps its interface, and looks for one of its own name when it is opened again.
    fn observe(&mut self, no: PortNo, name: &str, carrier: bool, mtu: u32) {
        let Some(port) = self.ports.get_mut(&no) else { return };
        let State::Bound(bound) = &mut port.state else { return };
        if mtu > bound.netdev.device().mtu {
            return self.unbind(no, format!("its MTU was raised to {mtu}"));
        }
        bound.netdev.link().set_carrier(carrier);
        bound.netdev.link().set_mtu(mtu);
        let renamed = (name != port.settings.name.as_str()).then(|| name.to_owned());
        if renamed != bound.renamed {
            let port = &port.settings.name;
            warn!(self.log, "port {port}: its interface is called {name} now, the port keeps it");
            bound.renamed = renamed;
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
        let ports: Vec<_> = self.ports.iter().map(|(no, port)| (*no, port.name())).collect();
        for (no, name) in ports {
            let bound = self.ports.get(&no).and_then(|port| match &port.state {
                State::Bound(bound) => Some(bound.netdev.device().ifindex),
                State::Waiting(_) => None,
            });
            let Some(ifindex) = bound else {
                self.try_soon(&name);
                continue;
            };
            match Device::find_index(ifindex, &name) {
                Ok(device) => self.observe(no, &device.name, device.carrier, device.mtu),
                Err(_) => self.lose_device(no),
            }
        }
    }
}
