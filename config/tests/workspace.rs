//! Rules that hold for every crate of the workspace and that no compiler checks: inherited lints,
//! shared dependencies and the shape of source files.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The only crate that may have unsafe code, and so a table of lints of its own.
const UNSAFE_CRATE: &str = "netdev-afxdp";
const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn manifest(path: &Path) -> Table {
    fs::read_to_string(path.join("Cargo.toml")).unwrap().parse().unwrap()
}

fn members() -> Vec<String> {
    let workspace = manifest(&root());
    let members = workspace["workspace"]["members"].as_array().unwrap();
    members.iter().map(|member| member.as_str().unwrap().to_owned()).collect()
}

/// Every file below a directory, but for what builds and git put there.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") || path.ends_with(".git") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Every source file of a crate.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = files(directory);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

fn all_sources() -> Vec<PathBuf> {
    members().iter().flat_map(|member| sources(&root().join(member))).collect()
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    let workspace = manifest(&root());
    let wanted = &workspace["workspace"]["lints"];
    for member in members() {
        let lints = manifest(&root().join(&member)).remove("lints");
        let mut lints = lints.unwrap_or_else(|| panic!("{member} has no [lints]"));
        if member == UNSAFE_CRATE {
            let rust = lints["rust"].as_table_mut().unwrap();
            assert_eq!(rust.insert("unsafe_code".into(), "forbid".into()), Some("deny".into()));
            assert_eq!(&lints, wanted, "{member}");
        } else {
            assert_eq!(lints.get("workspace"), Some(&Value::Boolean(true)), "{member}");
        }
    }
}

#[test]
fn dependencies_are_listed_in_the_workspace_only() {
    for member in members() {
        let manifest = manifest(&root().join(&member));
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(kind) else { continue };
            for (name, dependency) in dependencies.as_table().unwrap() {
                let inherited = dependency.get("workspace") == Some(&Value::Boolean(true));
                assert!(inherited, "{member}: {kind}: {name} has a version of its own");
            }
        }
    }
}

#[test]
fn every_source_file_says_what_it_is_and_is_short() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//! "), "{} does not begin with //!", path.display());
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines, over {MAX_LINES}", path.display());
    }
}

#[test]
fn crates_and_source_files_are_named_alike() {
    for member in members() {
        let name = manifest(&root().join(&member))["package"]["name"].as_str().unwrap().to_owned();
        assert_eq!(name, format!("xvs-{member}"));
    }
    for path in all_sources() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        // Programs and examples have the names that people type.
        let typed = ["bin", "examples", "fuzz_targets"];
        let typed =
            path.parent().is_some_and(|parent| typed.iter().any(|dir| parent.ends_with(dir)));
        assert!(typed || name.bytes().all(plain), "{}", path.display());
    }
}

#[test]
fn the_doors_can_be_run() {
    for door in ["x", ".ci/run"] {
        let mode = fs::metadata(root().join(door)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{door} is not executable");
        assert!(fs::read_to_string(root().join(door)).unwrap().starts_with("#!/bin/sh\n"));
    }
}
