//! The ports by name and number, for texts in which either may stand.

use xvs_datapath::PortNo;
use xvs_datapath::text::PortNames;

use crate::ctl::CtlError;
use crate::ctl::command::Context;

/// The ports by name and number.
pub(super) struct Ports(Vec<(PortNo, String)>);

impl Ports {
    pub(super) fn of(context: &mut Context<'_>) -> Result<Self, CtlError> {
        let ports = context.control.ports()?.into_iter();
        Ok(Self(ports.map(|port| (PortNo(port.port_no), port.name)).collect()))
    }
}

impl PortNames for Ports {
    fn number(&self, name: &str) -> Option<PortNo> {
        self.0.iter().find(|(_, known)| known == name).map(|(number, _)| *number)
    }

    fn name(&self, port: PortNo) -> Option<String> {
        self.0.iter().find(|(known, _)| *known == port).map(|(_, name)| name.clone())
    }
}
