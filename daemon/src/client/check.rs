//! `config check FILE`: works without a daemon; with one it also says what the file would change.

use std::path::{Path, absolute};

use serde_json::{Value, json};

use super::{Args, ClientError, Connection, PATIENCE, pretty};

/// Checks a file here, then asks the daemon, if there is one, what it would change.
pub(super) fn run(args: &Args, file: &Path) -> Result<String, ClientError> {
    xvs_config::load(file).map_err(ClientError::Config)?;
    let path = absolute(file)
        .map_err(|source| ClientError::Io { what: "find the current directory", source })?;
    let changes = match changes(args, &path) {
        // The file is fine; there is only nobody to compare it with.
        Err(ClientError::NoDaemon { .. } | ClientError::NoPermission { .. }) => None,
        outcome => Some(outcome?),
    };
    let name = file.display().to_string();
    if args.json {
        return pretty(&json!({ "file": name, "valid": true, "changes": changes }));
    }
    let mut text = format!("{name}: valid\n");
    match changes {
        None => text += "no daemon to compare it with\n",
        Some(lines) if lines.is_empty() => text += "the running configuration is the same\n",
        Some(lines) => {
            text += "compared with the running configuration:\n";
            lines.iter().for_each(|line| text += &format!("  {line}\n"));
        }
    }
    Ok(text)
}

fn changes(args: &Args, path: &Path) -> Result<Vec<String>, ClientError> {
    let mut connection = Connection::open(&args.run_dir, PATIENCE)?;
    connection.set_json()?;
    let reply = connection.call("xvs/config-check", &[path.display().to_string()])?;
    let lines = reply.get("changes").and_then(Value::as_array).into_iter().flatten();
    Ok(lines.filter_map(|line| line.as_str().map(str::to_owned)).collect())
}
