//! Why a command was refused; the text is what the client prints.

use core::fmt;

/// A refused command. Nothing was changed, unless the variant says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CtlError {
    /// No command has that name.
    UnknownCommand(String),
    /// Fewer arguments than the command needs.
    TooFewArguments {
        /// The command.
        command: String,
        /// How many it needs.
        min: usize,
    },
    /// More arguments than the command takes.
    TooManyArguments {
        /// The command.
        command: String,
        /// How many it takes.
        max: usize,
    },
    /// An argument that is not a string.
    NonStringArgument {
        /// The command.
        command: String,
    },
    /// An option that the command does not have.
    UnknownOption(String),
    /// An argument that means nothing where it stands.
    BadArgument {
        /// What was expected, as `VLAN`.
        what: &'static str,
        /// What was given.
        text: String,
        /// What is allowed.
        want: String,
    },
    /// No such object.
    NotFound {
        /// Its kind, as `port`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// No PMD thread runs on that core.
    NoThread {
        /// The core.
        core: u32,
        /// The cores on which there is one.
        cores: Vec<u32>,
    },
    /// There is one already.
    Exists {
        /// Its kind, as `port`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A flow, rule or list of actions that cannot be understood.
    Parse {
        /// What was read, as `flow key`.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// A failed operation of the datapath, worded as Open vSwitch does: `WHAT (WHY)`.
    Datapath {
        /// What was tried, as `updating flow table`.
        what: String,
        /// Why it failed, as `File exists`.
        why: String,
    },
    /// What a dpctl command refused: the text begins with the name of the program.
    Dpctl(Box<CtlError>),
    /// The reply would not fit into the memory for replies.
    ReplyTooLong {
        /// Its bytes.
        size: usize,
        /// How many are allowed now.
        limit: usize,
    },
    /// A thread did not answer in time.
    Timeout(String),
    /// Anything else the daemon refuses: a lower-case sentence with the object's name and the remedy.
    Refused(String),
}

impl fmt::Display for CtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(name) => write!(
                f,
                "\"{name}\" is not a valid command \
                 (use \"list-commands\" to see a list of valid commands)"
            ),
            Self::TooFewArguments { command, min } => {
                write!(f, "\"{command}\" command requires at least {min} arguments")
            }
            Self::TooManyArguments { command, max } => {
                write!(f, "\"{command}\" command takes at most {max} arguments")
            }
            Self::NonStringArgument { command } => {
                write!(f, "\"{command}\" command has non-string argument")
            }
            Self::UnknownOption(option) => write!(f, "Unrecognized option {option}"),
            Self::BadArgument { what, text, want } => {
                write!(f, "bad {what} \"{text}\" (want {want})")
            }
            Self::NotFound { kind, name } => write!(f, "no {kind} named {name}"),
            Self::NoThread { core, cores } => {
                let cores: Vec<_> = cores.iter().map(u32::to_string).collect();
                let there = if cores.is_empty() { "none".to_owned() } else { cores.join(", ") };
                write!(f, "no PMD thread on core {core} (there are: {there})")
            }
            Self::Exists { kind, name } => write!(
                f,
                "there is already a {kind} named {name}: delete it first, or take another name"
            ),
            Self::Parse { what, detail } => {
                write!(f, "parsing {what} ({detail}) (Invalid argument)")
            }
            Self::Datapath { what, why } => write!(f, "{what} ({why})"),
            Self::Dpctl(error) => write!(f, "xvswitchd: {error}"),
            Self::ReplyTooLong { size, limit } => write!(
                f,
                "the reply has {size} bytes and {limit} are allowed now: \
                 ask for less (filter=, pmd=) or let other clients read theirs"
            ),
            Self::Timeout(what) => write!(f, "{what} did not answer in time"),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for CtlError {}

impl CtlError {
    /// As dpctl words it: all but unknown options begin with the name of the program.
    #[must_use]
    pub fn of_dpctl(self) -> Self {
        if matches!(self, Self::UnknownOption(_)) { self } else { Self::Dpctl(Box::new(self)) }
    }
}
