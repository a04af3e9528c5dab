//! `vlog/set`: changes log levels.

use core::str::FromStr;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Done;
use crate::ctl::{CtlError, Level, LogLevel};

pub(super) const COMMAND: Command = Command {
    name: "vlog/set",
    usage: "spec...",
    about: "Set log levels; a spec is [MODULE:][console:]LEVEL, LEVEL off|emer|err|warn|info|dbg.",
    min_args: 1,
    max_args: usize::MAX,
    run,
};

/// What a spec asks for; without a module all are meant, without a level the most talkative.
struct Spec {
    module: Option<String>,
    level: Level,
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let modules = context.control.log_levels();
    let specs: Vec<Spec> = args.iter().map(|arg| parse(arg, &modules)).collect::<Result<_, _>>()?;
    for Spec { module, level } in specs {
        context.control.set_log_level(module.as_deref(), level)?;
    }
    Ok(Box::new(Done {}))
}

fn parse(text: &str, modules: &[LogLevel]) -> Result<Spec, CtlError> {
    let mut spec = Spec { module: None, level: Level::Dbg };
    for word in text.split([' ', ',', ':']).filter(|word| !word.is_empty()) {
        if let Ok(level) = Level::from_str(word) {
            spec.level = level;
        } else if modules.iter().any(|known| known.module == word) {
            spec.module = Some(word.to_owned());
        } else if !["any", "console"].iter().any(|known| known.eq_ignore_ascii_case(word)) {
            let error = format!("no destination, level, or module \"{word}\"");
            return Err(CtlError::Refused(error));
        }
    }
    Ok(spec)
}
