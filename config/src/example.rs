//! The commented example file, made from the table of settings.

use crate::settings::{OnChange, Presence};
use crate::{Bridge, Control, Datapath, General, Key, Log, Pmd, Port, Section, Umem};

const INTRODUCTION: &str = "\
# Configuration of xvswitchd. `xvsctl config check FILE` says what is wrong with a file;
# `xvsctl config reload` or SIGHUP applies the changes of this one.
#
# Explanations begin with \"# \"; settings that begin with \"#\" alone show the default.
";

/// The file `xvswitch.toml` as it is installed: one bridge, no port, and every key explained.
#[must_use]
pub fn example() -> String {
    let mut text = INTRODUCTION.to_owned();
    keys::<General>(&mut text, "");
    section::<Umem>(&mut text, "[umem]");
    section::<Pmd>(&mut text, "[pmd]");
    section::<Datapath>(&mut text, "[datapath]");
    section::<Log>(&mut text, "[log]");
    section::<Control>(&mut text, "[control]");
    section::<Bridge>(&mut text, "[[bridge]]");
    section::<Port>(&mut text, "#[[port]]");
    text
}

fn section<S: Section>(text: &mut String, heading: &str) {
    text.push('\n');
    for line in S::DOC {
        *text += &format!("# {}\n", line.trim());
    }
    *text += &format!("{heading}\n");
    keys::<S>(text, if heading.starts_with('#') { "#" } else { "" });
}

/// `comment` goes before the keys that have to be there.
fn keys<S: Section>(text: &mut String, comment: &str) {
    let preset = S::preset();
    for key in S::KEYS {
        text.push('\n');
        for line in key.doc {
            *text += &format!("# {}\n", line.trim());
        }
        *text += &format!("# Allowed: {}{}.\n", (key.allowed)(), effect(key));
        let comment = if key.presence == Presence::Required { comment } else { "#" };
        *text += &format!("{comment}{} = {}\n", key.name, (key.print)(&preset));
    }
}

fn effect<S>(key: &Key<S>) -> &'static str {
    match key.on_change {
        OnChange::Identity | OnChange::Live => "",
        OnChange::Recreate => "; a change closes and reopens the port",
        OnChange::Restart => "; a change needs a restart",
    }
}
