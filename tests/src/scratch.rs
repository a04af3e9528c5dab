//! A temporary directory for one rig: configuration, run directory and the output of every process.
//! It is removed by Drop.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

/// How many were made: makes names unique within the process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The common beginning of the names of everything this process makes: `xvs-<pid>-`.
#[must_use]
pub fn prefix() -> String {
    format!("xvs-{}-", std::process::id())
}

/// A directory `/tmp/xvs-<pid>-<n>`.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    path: PathBuf,
}

impl Scratch {
    /// Makes a new one.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new() -> Result<Self> {
        let name = format!("{}{}", prefix(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(&name);
        fs::create_dir(&path).map_err(Error::io(format!("make {}", path.display())))?;
        Ok(Self { name, path })
    }

    /// Its name, unique on this machine: what is made for it begins with it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it and returns its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))?;
        Ok(path)
    }

    /// The last lines of every log in it, for the report of a failure.
    #[must_use]
    pub fn logs(&self, lines: usize) -> String {
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.path)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort();
        let mut report = String::new();
        for path in paths {
            let text = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let all: Vec<&str> = text.lines().collect();
            let tail = all.get(all.len().saturating_sub(lines)..).unwrap_or_default();
            if !tail.is_empty() {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                report.push_str(&format!("--- {name}\n{}\n", tail.join("\n")));
            }
        }
        report
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
