//! A port made of options, as `xvsctl port add` and `dpctl/add-if` take them.

use crate::settings::Presence;
use crate::{Error, Errors, Port, Problem, Raw, Section, Subject};

/// Collects options of a port by the same table as the file. Mistakes are kept until the end, so that
/// all of them are reported.
#[derive(Debug)]
pub struct PortSpec {
    port: Port,
    subject: Subject,
    given: Vec<&'static str>,
    errors: Vec<Error>,
}

impl PortSpec {
    /// A port on this interface with no options yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let subject = Subject::Named(Port::NAME, name.to_owned());
        let spec = Self { port: Port::preset(), subject, given: Vec::new(), errors: Vec::new() };
        spec.set("name", name)
    }

    /// To change a port that there is: what is not set stays.
    #[must_use]
    pub fn of(port: Port) -> Self {
        let subject = Subject::Named(Port::NAME, port.name.to_string());
        let required = Port::KEYS.iter().filter(|key| key.presence == Presence::Required);
        let given = required.map(|key| key.name).collect();
        Self { port, subject, given, errors: Vec::new() }
    }

    /// From `name,key=value,…`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        parts.fold(Self::new(name), Self::option)
    }

    /// Adds an option `key=value`.
    #[must_use]
    pub fn option(mut self, option: &str) -> Self {
        if let Some((key, value)) = option.split_once('=') {
            return self.set(key, value);
        }
        let port = self.port.name.to_string();
        self.errors.push(Problem::NotAnOption { port, option: option.to_owned() }.into());
        self
    }

    /// Sets a key; `_` may stand for `-`, as Open vSwitch writes some of them.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        let subject = self.subject.clone();
        let Some(key) = Port::KEYS.iter().find(|row| row.name == key.replace('_', "-")) else {
            let allowed = Port::KEYS.iter().map(|row| row.name).collect();
            let key = key.to_owned();
            self.errors.push(Problem::UnknownKey { subject, key, allowed }.into());
            return self;
        };
        if self.given.contains(&key.name) {
            let (key, value) = (key.name, value.to_owned());
            self.errors.push(Problem::Duplicate { subject, key, value }.into());
            return self;
        }
        self.given.push(key.name);
        if !Raw::of_option(value).iter().any(|raw| (key.set)(&mut self.port, raw)) {
            let (found, allowed) = (format!("{value:?}"), (key.allowed)());
            self.errors.push(Problem::Value { subject, key: key.name, found, allowed }.into());
        }
        self
    }

    /// The bridge to join when no option names one.
    #[must_use]
    pub fn bridge_or(self, bridge: &str) -> Self {
        if self.given.contains(&"bridge") { self } else { self.set("bridge", bridge) }
    }

    /// The port. Whether it fits to the others is for [`Topology::check`](crate::Topology::check) to say.
    ///
    /// # Errors
    /// All that is wrong with the options.
    pub fn build(mut self) -> Result<Port, Errors> {
        for key in Port::KEYS {
            if key.presence == Presence::Required && !self.given.contains(&key.name) {
                let (subject, allowed) = (self.subject.clone(), (key.allowed)());
                self.errors.push(Problem::Missing { subject, key: key.name, allowed }.into());
            }
        }
        Errors::collect(self.errors).map_or(Ok(self.port), Err)
    }
}
