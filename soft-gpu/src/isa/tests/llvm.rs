//! LLVM's disassembler as the judge.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::encode::encode;
use super::generate::{Random, instruction};
use crate::isa::inst::Inst;
use crate::isa::op::Arch;

/// Instructions for each architecture; `SOFTGPU_LLVM_SAMPLES` gives another number (scripts/test --full: 100,000).
const SAMPLES: usize = 5_000;

/// What LLVM prints for each of `codes`. `None` where it knows no such instruction, or crashes.
fn llvm(arch: Arch, codes: &[Vec<u8>]) -> Vec<Option<String>> {
    let listing =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(",");
    let mut input = String::new();
    for code in codes {
        writeln!(input, "{}", listing(code)).expect("a string");
    }
    let mut child = Command::new("llvm-mc-19")
        .args(["-arch=amdgcn", "--disassemble", "--show-encoding"])
        .arg(format!("-mcpu={}", arch.name()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("llvm-mc-19 (package llvm-19, which scripts/setup installs)");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("llvm-mc-19 ends");
    let written = writer.join().expect("no panic");
    if !output.status.success() && output.status.code().is_none() {
        // It crashed on one of them, which is no verdict on any.
        return match codes {
            [_] => vec![None],
            _ => codes.chunks(codes.len().div_ceil(2)).flat_map(|half| llvm(arch, half)).collect(),
        };
    }
    written.expect("input is taken");
    let text = String::from_utf8(output.stdout).expect("text");
    let by_code: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once("; encoding: ["))
        .map(|(text, code)| (code.trim_end_matches(']'), text.trim()))
        .collect();
    codes.iter().map(|code| by_code.get(listing(code).as_str()).map(|text| (*text).to_string())).collect()
}

/// LLVM's remarks on registers that a class does not hold, and spaces, are no difference.
fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn generated_instructions_print_as_llvm_prints_them() {
    let samples =
        std::env::var("SOFTGPU_LLVM_SAMPLES").map_or(SAMPLES, |text| text.parse().expect("a number"));
    let seed = std::env::var("SOFTGPU_SEED").map_or(1, |text| text.parse().expect("a number"));
    for arch in [Arch::Gfx90a, Arch::Gfx942] {
        let mut random = Random::new(seed);
        let insts: Vec<Inst> = (0..samples).map(|_| instruction(&mut random, arch)).collect();
        let codes: Vec<Vec<u8>> = insts.iter().map(encode).collect();
        let theirs: Vec<_> = codes.chunks(2000).flat_map(|chunk| llvm(arch, chunk)).collect();
        let mut unknown = 0;
        let mut wrong = Vec::new();
        for ((inst, code), theirs) in insts.iter().zip(&codes).zip(theirs) {
            match theirs {
                Some(theirs) if normalized(&theirs) == normalized(&inst.to_string()) => {}
                Some(theirs) => wrong.push(format!("{code:02x?}\n   ours {inst}\n   LLVM {theirs}")),
                None => {
                    unknown += 1;
                    if std::env::var_os("SOFTGPU_SHOW_UNKNOWN").is_some() {
                        println!("unknown to LLVM: {code:02x?} {inst}");
                    }
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {samples} differ on {} (seed {seed}):\n{}",
            wrong.len(),
            arch.name(),
            wrong[..wrong.len().min(400)].join("\n")
        );
        assert!(unknown * 20 < samples, "LLVM does not know {unknown} of {samples} on {}", arch.name());
    }
}
