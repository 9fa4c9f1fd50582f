// SPDX-License-Identifier: BSL-1.0
//
// Passes the version of the compiler to the program, which names it in its results.
use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".into());
    let said = Command::new(rustc).arg("--version").output();
    let said = String::from_utf8(said.expect("cannot run rustc").stdout).unwrap_or_default();
    println!("cargo:rustc-env=RUSTC_VERSION={}", said.split_whitespace().nth(1).unwrap_or("unknown"));
    println!("cargo:rerun-if-changed=build.rs");
}
