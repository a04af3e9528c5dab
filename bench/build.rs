//! Compiles the BPF programs of source, sink, counter and peers to objects that the crate includes, and tells it
//! its compiler.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use libbpf_cargo::SkeletonBuilder;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=RUSTC");
    println!("cargo::rustc-env=XVS_COMPILER={}", compiler());
    for name in ["source", "sink", "calls", "redirect_xdp", "redirect_tc"] {
        if let Err(message) = compile(name) {
            println!("cargo::error={}", message.replace('\n', " "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Version and target of rustc, in one line.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let target = std::env::var("TARGET").unwrap_or_default();
    format!("{} for {target}", version.unwrap_or_else(|_| "unknown".to_owned()))
}

fn compile(name: &str) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out_dir = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo only")?;
    // Where Debian keeps asm/types.h, which clang for the bpf target does not look for by itself.
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let include = format!("-I/usr/include/{arch}-linux-gnu");
    let source = format!("src/bpf/{name}.bpf.c");
    SkeletonBuilder::new()
        .source(&source)
        .obj(PathBuf::from(out_dir).join(format!("{name}.bpf.o")))
        .clang(clang)
        .clang_args([include.as_str(), "-Wall", "-Werror"])
        .build()
        .map_err(|error| format!("cannot compile {source} with clang: {error:#}"))
}
