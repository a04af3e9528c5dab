//! `xvsctl`: asks the daemon over the control socket and prints what it answers.
//!
//! The daemon writes the text, tables included, or the JSON; the client only chooses which. So both
//! always show the same, and a client of another version still works.

mod args;
mod check;
mod connection;
mod error;
mod trace;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use clap::Parser;
use serde_json::{Value, json};

pub use args::{Args, Verb};
pub use connection::{Connection, PATIENCE};
pub use error::ClientError;

/// The client's own part of `version`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a command line (with the program's name first); returns the exit status.
pub fn run<I>(line: I, out: &mut dyn Write, err: &mut dyn Write) -> u8
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let outcome = match Args::try_parse_from(line) {
        Ok(args) => answer(&args).and_then(|text| print(&text, out)),
        Err(usage) => {
            // Help and version are no mistakes; and nobody is left to tell when writing fails.
            let text = usage.render();
            let mistake = usage.use_stderr();
            let _ = if mistake { write!(err, "{text}") } else { write!(out, "{text}") };
            return if mistake { error::USAGE } else { 0 };
        }
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // As above.
            let _ = writeln!(err, "xvsctl: {error}");
            error.exit_code()
        }
    }
}

/// Writes the answer; a reader who has had enough (`| head`) is no failure.
fn print(text: &str, out: &mut dyn Write) -> Result<(), ClientError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| ClientError::Io { what: "write the answer", source }),
    }
}

/// What is to be printed for a command line.
fn answer(args: &Args) -> Result<String, ClientError> {
    if let Some(file) = args.verb.file_to_check() {
        return check::run(args, file);
    }
    let (command, mut words) = args.verb.request();
    if let Verb::Trace(what) = &args.verb {
        words = what.words()?;
    }
    let mut connection = Connection::open(&args.run_dir, PATIENCE)?;
    let own = matches!(args.verb, Verb::Version);
    if !args.json {
        let text = connection.text(command, &words)?;
        return Ok(if own { format!("xvsctl (xvswitch) {VERSION}\n{text}") } else { text });
    }
    connection.set_json()?;
    let reply = connection.call(command, &words)?;
    if own {
        return pretty(&json!({ "xvsctl": VERSION, "xvswitchd": reply }));
    }
    pretty(&reply)
}

fn pretty(value: &Value) -> Result<String, ClientError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| ClientError::Io { what: "write JSON", source: io::Error::from(error) })?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests;
