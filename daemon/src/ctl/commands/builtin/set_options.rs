//! `set-options`: how this connection wants its replies.

use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::protocol::Format;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "set-options",
    usage: "[--format text|json]",
    about: "Choose the form of the replies on this connection.",
    min_args: 0,
    max_args: 2,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let value = match arg {
            "--format" => args.next(),
            _ => arg.strip_prefix("--format="),
        };
        *context.format = match value {
            Some("text") => Format::Text,
            Some("json") => Format::Json,
            Some(other) => {
                let want = "text or json".to_owned();
                return Err(CtlError::BadArgument { what: "format", text: other.to_owned(), want });
            }
            None => return Err(CtlError::UnknownOption(arg.to_owned())),
        };
    }
    Ok(Box::new(Done {}))
}
