//! `softgpu disasm FILE`.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use object::elf::EM_AMDGPU;
use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::isa::{Arch, decode};

/// `softgpu disasm FILE`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Code object: an ELF file for amdgcn, as `clang -target amdgcn-amd-amdhsa -mcpu=gfx90a` makes it
    file: PathBuf,
    /// Processor, where the file does not say: gfx90a or gfx942
    #[arg(long, value_name = "NAME")]
    mcpu: Option<String>,
}

/// `EF_AMDGPU_MACH_AMDGCN_GFX90A` and `_GFX942` of LLVM's `ELF.h`.
const MACHINES: [(u32, Arch); 2] = [(0x3f, Arch::Gfx90a), (0x4c, Arch::Gfx942)];

/// The section of a HIP program that holds a bundle of code objects, and what a bundle begins with (LLVM's ClangOffloadBundler).
const FAT_BINARY: &str = ".hip_fatbin";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// How a code object comes out of a bundle.
fn unbundle(file: &str) -> String {
    format!(
        "`clang-offload-bundler-19 --unbundle --type=o --targets=hipv4-amdgcn-amd-amdhsa--gfx90a --input={file} --output=CODE` \
         takes the one for gfx90a out"
    )
}

/// Prints every section of code: symbols, then address, words and text of each instruction.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let name = args.file.display();
    let bytes = std::fs::read(&args.file).map_err(|error| format!("{name}: {error}"))?;
    if bytes.starts_with(BUNDLE) {
        return Err(format!("{name}: a bundle of code objects; {}", unbundle("FILE")).into());
    }
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).map_err(|error| format!("{name}: {error}"))?;
    if file.elf_header().e_machine(LittleEndian) != EM_AMDGPU {
        let why = match file.section_by_name(FAT_BINARY) {
            Some(_) => format!(
                "a HIP program, whose code objects are in a section of it: \
                 `objcopy --dump-section {FAT_BINARY}=BUNDLE {name}`, then {}",
                unbundle("BUNDLE")
            ),
            None => "not code for AMD GPUs".to_owned(),
        };
        return Err(format!("{name}: {why}").into());
    }
    let arch = architecture(args, &file).map_err(|error| format!("{name}: {error}"))?;
    let mut out = BufWriter::new(io::stdout().lock());
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let code = section.data().map_err(|error| format!("{name}: {error}"))?;
        let mut labels: Vec<(u64, &str)> = file
            .symbols()
            .filter(|symbol| {
                symbol.section_index() == Some(section.index()) && symbol.kind() != SymbolKind::Section
            })
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
            .collect();
        labels.sort_unstable();
        list(&mut out, arch, section.address(), code, &labels)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn architecture(args: &Args, file: &ElfFile64<'_, LittleEndian>) -> Result<Arch, String> {
    if let Some(name) = &args.mcpu {
        return Arch::from_name(name)
            .ok_or_else(|| format!("processor {name} is not known, gfx90a and gfx942 are"));
    }
    let machine = file.elf_header().e_flags(LittleEndian) & 0xff;
    MACHINES.iter().find(|(number, _)| *number == machine).map(|(_, arch)| *arch).ok_or_else(|| {
        format!("processor {machine:#x} of the ELF flags is not known, gfx90a and gfx942 are; see --mcpu")
    })
}

/// What is no instruction is printed as a word, and the listing goes on behind it.
fn list(out: &mut impl Write, arch: Arch, base: u64, code: &[u8], labels: &[(u64, &str)]) -> io::Result<()> {
    let mut at = 0;
    let mut labels = labels.iter().peekable();
    while at < code.len() {
        let address = base.wrapping_add(at as u64);
        while let Some((_, label)) = labels.next_if(|(place, _)| *place <= address) {
            writeln!(out, "{label}:")?;
        }
        let rest = &code[at..];
        let (size, text) = match decode(arch, rest) {
            Ok(inst) => (usize::from(inst.size), inst.to_string()),
            Err(error) => (rest.len().min(4), format!("; {error}")),
        };
        let words: Vec<String> = rest[..size]
            .chunks(4)
            .map(|word| word.iter().rev().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        writeln!(out, "{address:8x}: {:26} {text}", words.join(" "))?;
        at += size;
    }
    Ok(())
}
