//! Names: of interfaces, bridges and groups, so that they cannot be mixed up.

use core::fmt;
use core::str::FromStr;

use crate::value::quote;
use crate::{Limit, Raw, Value};

macro_rules! name {
    ($(#[doc = $doc:literal])+ $name:ident, $allowed:literal, $check:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// A name known to be good, for defaults.
            pub(crate) fn literal(name: &'static str) -> Self {
                Self(name.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            /// What is allowed.
            type Err = &'static str;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let check: fn(&str) -> bool = $check;
                if check(name) { Ok(Self(name.to_owned())) } else { Err($allowed) }
            }
        }

        impl Value for $name {
            fn allowed(_: Limit) -> String {
                $allowed.to_owned()
            }

            fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
                if let Raw::Text(text) = raw { text.parse().ok() } else { None }
            }

            fn print(&self) -> String {
                quote(&self.0)
            }
        }
    };
}

name! {
    /// Name of a network interface: what Linux accepts (`dev_valid_name`), in UTF-8, and no comma,
    /// which ends a name in the options of `dpctl/add-if`.
    IfName,
    "an interface name: 1 to 15 bytes without '/', ':', ',' or white space",
    is_interface
}

name! {
    /// Name of a bridge.
    BridgeName,
    "a bridge name: 1 to 15 bytes without '/', ':', ',' or white space",
    is_interface
}

name! {
    /// Name of a group of users, or nothing for the daemon's own group.
    GroupName,
    "a group name: at most 32 letters, digits, '_', '-' or '.', not beginning with '-' (\"\" for none)",
    is_group
}

/// The longest interface name: IFNAMSIZ of `linux/if.h` less the terminating zero.
const IF_NAME_MAX: usize = 15;

fn is_interface(name: &str) -> bool {
    let allowed = |c: char| !matches!(c, '/' | ':' | ',') && !c.is_whitespace() && !c.is_control();
    (1..=IF_NAME_MAX).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.chars().all(allowed)
}

fn is_group(name: &str) -> bool {
    name.len() <= 32
        && !name.starts_with('-')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}
