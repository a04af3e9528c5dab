//! The types of settings that are neither numbers nor names.

use core::fmt;
use std::path::{Path, PathBuf};

use xvs_datapath::CoreId;

use crate::value::quote;
use crate::{Limit, Raw, Value};

/// Declares an enum that is written as one of a few words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl Value for $name {
            fn allowed(_: Limit) -> String {
                let words: Vec<_> = Self::ALL.iter().map(|word| quote(word.name())).collect();
                match words.split_last() {
                    Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                    _ => words.concat(),
                }
            }

            fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
                let Raw::Text(text) = raw else { return None };
                Self::ALL.iter().copied().find(|word| word.name() == *text)
            }

            fn print(&self) -> String {
                quote(self.name())
            }
        }
    };
}

words! {
    /// How a port's packets get from the device into the sockets.
    XdpMode {
        /// The first of zero-copy, native and generic that the device can do.
        BestEffort = "best-effort",
        /// The driver's own XDP, and frames that the device reads and writes itself.
        NativeWithZerocopy = "native-with-zerocopy",
        /// The driver's own XDP; the kernel copies.
        Native = "native",
        /// XDP after the kernel has made an skb; works on every device.
        Generic = "generic",
    }
}

words! {
    /// The kind of a port.
    PortType {
        /// AF_XDP sockets on a network interface.
        Afxdp = "afxdp",
    }
}

words! {
    /// How receive queues are spread over the threads.
    RxqAssign {
        /// The busiest first, in turns up and down the threads.
        Cycles = "cycles",
        /// In turns, whatever they have to do.
        Roundrobin = "roundrobin",
        /// The busiest first, each to the thread that has least to do so far.
        Group = "group",
    }
}

words! {
    /// The least important messages that are logged.
    LogLevel {
        /// Something does not work.
        Error = "error",
        /// Someone should look.
        Warn = "warn",
        /// What an operator did or should know.
        Info = "info",
        /// For those who look for a fault.
        Debug = "debug",
    }
}

/// A number, or the daemon's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Auto<T> {
    /// Written `"auto"`.
    Auto,
    /// This one.
    Fixed(T),
}

impl<T> Auto<T> {
    /// The number, unless it is the daemon's choice.
    pub fn fixed(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Fixed(value) => Some(value),
        }
    }
}

impl<T: Value> Value for Auto<T> {
    fn allowed(limit: Limit) -> String {
        format!("\"auto\" or {}", T::allowed(limit))
    }

    fn read(raw: &Raw<'_>, limit: Limit) -> Option<Self> {
        if *raw == Raw::Text("auto") {
            Some(Self::Auto)
        } else {
            T::read(raw, limit).map(Self::Fixed)
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Auto => quote("auto"),
            Self::Fixed(value) => value.print(),
        }
    }
}

/// A set of CPU cores, never empty; cores 0 to 1023, as the kernel's own sets hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuMask([u64; 16]);

impl CpuMask {
    /// Core 0 alone.
    pub(crate) const CORE_0: Self = {
        let mut words = [0; 16];
        words[0] = 1;
        Self(words)
    };

    /// The cores, lowest first.
    pub fn cores(&self) -> impl Iterator<Item = CoreId> + '_ {
        let bits = self.0.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1));
        (0..).zip(bits).filter(|&(_, bit)| bit == 1).map(|(core, _)| CoreId(core))
    }

    /// How many cores; at least one.
    #[must_use]
    pub fn n_cores(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.is_empty() {
            return None;
        }
        let mut words = [0; 16];
        for (n, digit) in digits.chars().rev().enumerate() {
            let digit = digit.to_digit(16)?;
            match words.get_mut(n / 16) {
                Some(word) => *word |= u64::from(digit) << (n % 16 * 4),
                None if digit == 0 => {}
                None => return None,
            }
        }
        Some(Self(words)).filter(|mask| mask.n_cores() > 0)
    }
}

impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.0.iter().rev().map(|word| format!("{word:016x}")).collect();
        write!(f, "0x{}", digits.trim_start_matches('0'))
    }
}

impl Value for CpuMask {
    fn allowed(_: Limit) -> String {
        "a hexadecimal mask of cores 0 to 1023 with at least one bit set, as \"0x3\"".to_owned()
    }

    fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
        if let Raw::Text(text) = raw { Self::parse(text) } else { None }
    }

    fn print(&self) -> String {
        quote(&self.to_string())
    }
}

/// Permission bits of a file, 0 to 0o777.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub(crate) u32);

impl FileMode {
    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl Value for FileMode {
    fn allowed(_: Limit) -> String {
        "permission bits as octal string from \"0\" to \"0777\"".to_owned()
    }

    fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
        let Raw::Text(text) = raw else { return None };
        let octal = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let bits = u32::from_str_radix(text, 8).ok().filter(|&bits| octal && bits <= 0o777);
        bits.map(Self)
    }

    fn print(&self) -> String {
        quote(&format!("{:04o}", self.0))
    }
}

/// The directory of the control socket and the pid file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(pub(crate) PathBuf);

/// A socket's path has at most 107 bytes (`sun_path`), of which `/xvswitchd.<pid>.ctl` takes up to 25.
const RUN_DIR_MAX: usize = 80;

impl RunDir {
    /// A directory given on the command line; `None` when its path is too long.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        (path.as_os_str().len() <= RUN_DIR_MAX).then_some(Self(path))
    }

    /// The path, absolute.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Value for RunDir {
    fn allowed(_: Limit) -> String {
        format!("an absolute path of at most {RUN_DIR_MAX} bytes")
    }

    fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
        let Raw::Text(text) = raw else { return None };
        let good = text.starts_with('/') && text.len() <= RUN_DIR_MAX && !text.contains('\0');
        good.then(|| Self(PathBuf::from(text)))
    }

    fn print(&self) -> String {
        quote(&self.0.to_string_lossy())
    }
}

/// One rule of a bridge, as it was written. Whether it means anything is the bridge's business.
#[derive(Clone, Debug, Eq)]
pub struct Rule {
    /// The rule, as `ovs-ofctl` would take it.
    pub text: String,
    /// The line of the file on which it begins, for messages; 0 when it is not from a file.
    pub line: u32,
}

/// The place is no part of the rule.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Value for Vec<Rule> {
    fn allowed(_: Limit) -> String {
        "a list of strings".to_owned()
    }

    fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
        let Raw::List(rules) = raw else { return None };
        let rule = |&(line, text): &(u32, &str)| Rule { text: text.to_owned(), line };
        Some(rules.iter().map(rule).collect())
    }

    fn print(&self) -> String {
        if self.is_empty() {
            return "[]".to_owned();
        }
        let rules: String =
            self.iter().map(|rule| format!("    {},\n", quote(&rule.text))).collect();
        format!("[\n{rules}]")
    }
}
