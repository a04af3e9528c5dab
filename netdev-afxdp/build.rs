//! Compiles the BPF programs to objects that the crate includes.
//!
//! clang for the bpf target knows nothing of the host's multiarch directory, where Debian and its
//! relatives keep `asm/types.h`; it is added when it is there.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

const SOURCES: &str = "src/bpf";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-env-changed=CLANG");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    if let Err(error) = Command::new(&clang).arg("--version").output() {
        return Err(format!(
            "{clang} compiles the BPF programs and does not run ({error}): install clang 14 or \
             later (apt install clang), or set CLANG"
        ));
    }
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo only")?;
    let mut args = vec!["-Wall".to_owned(), "-Werror".to_owned()];
    args.extend(arch_include().map(|dir| format!("-I{}", dir.display())));
    for name in ["redirect", "tags"] {
        let source = format!("{SOURCES}/{name}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(Path::new(&out_dir).join(format!("{name}.bpf.o")))
            .clang(&clang)
            .clang_args(&args)
            .build()
            .map_err(|error| one_line(&format!("cannot compile {source}: {error:#}")))?;
    }
    Ok(())
}

/// The directory under which `asm/types.h` of the build machine is found, unless it is in clang's
/// own search path.
fn arch_include() -> Option<PathBuf> {
    let has_types = |dir: &Path| dir.join("asm/types.h").exists();
    let include = Path::new("/usr/include");
    if has_types(include) {
        return None;
    }
    let of_gcc = Command::new("gcc")
        .arg("-print-multiarch")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|name| include.join(name.trim()));
    of_gcc.filter(|dir| has_types(dir)).or_else(|| {
        let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let mut dirs: Vec<PathBuf> =
            fs::read_dir(include).ok()?.flatten().map(|entry| entry.path()).collect();
        dirs.sort();
        dirs.retain(|dir| has_types(dir));
        let of_arch = |dir: &&PathBuf| dir.to_string_lossy().contains(&arch);
        dirs.iter().find(of_arch).or(dirs.first()).cloned()
    })
}

/// cargo shows one line.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
