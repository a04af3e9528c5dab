//! A decision told step by step, for people; it changes nothing.

use crate::{FlowKey, Nanos, Translation};

use super::rule::Rule;
use super::translate::{self, Context};
use super::{Limit, Switch};

/// One step of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// How many tables led here.
    pub depth: usize,
    /// What happened.
    pub what: TraceWhat,
}

/// What happens in a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceWhat {
    /// The packet was looked up in a table.
    Table {
        /// Which.
        table: u8,
        /// The rule that it met; without one it is dropped there.
        rule: Option<Box<Rule>>,
    },
    /// An action of the rule, as written.
    Action(String),
    /// What the action came to.
    Note(String),
}

/// A whole decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The bridge that decided; without one the packet is dropped.
    pub bridge: Option<String>,
    /// What happened, in order.
    pub steps: Vec<TraceStep>,
    /// What was decided.
    pub translation: Translation,
    /// The bound that was met, so that the packet is dropped.
    pub limit: Option<&'static str>,
}

impl Switch {
    /// What a packet that no flow matches would be told now, and why. Nothing is learned or counted. The
    /// decision is the one that the next such packet gets, unless the MAC table is full and learning its
    /// source would displace its destination.
    #[must_use]
    pub fn trace(&self, key: &FlowKey, now: Nanos) -> Trace {
        let topology = self.snapshot();
        let bridge = topology.bridge_of(translate::in_port(key));
        let Some(bridge) = bridge.filter(|_| !translate::is_again(key)) else {
            let bridge = bridge.map(|bridge| bridge.name.to_string());
            let translation = translate::nothing(key);
            return Trace { bridge, steps: Vec::new(), translation, limit: None };
        };
        let mut context = Context::tracing(bridge, key, now);
        context.run();
        let limit = context.limit.map(Limit::describe);
        let bridge = Some(bridge.name.to_string());
        let steps = context.take_steps();
        Trace { bridge, steps, translation: context.finish(), limit }
    }
}
