//! What the host grants each context, as the command line says it.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use crate::worker::kfd::Config;

/// The options that say it; the daemon and its workers have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct GrantArgs {
    /// Guest memory that one context may share with GPUs at a time, in MiB. No limit but the VM's memory if it is not given.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_memory: Option<u32>,

    /// Lets guests enable what debuggers need (RUNTIME_ENABLE).
    #[arg(long)]
    pub debug: bool,

    /// UUID of the VM. Guests see ids of GPUs that are made from it, so that those of two VMs differ.
    #[arg(long, value_name = "UUID")]
    pub vm_id: Option<VmId>,
}

impl GrantArgs {
    /// What an executor may do and spend.
    #[must_use]
    pub fn config(&self) -> Config {
        let default = Config::default();
        Config {
            memory: self.max_memory.map_or(default.memory, |mebibytes| u64::from(mebibytes) << 20),
            debug: self.debug,
            identity: self.vm_id.map_or(default.identity, |id| id.0),
            ..default
        }
    }

    /// The options that say it.
    #[must_use]
    pub fn to_args(&self) -> Vec<OsString> {
        let memory = self.max_memory.map(|mebibytes| format!("--max-memory={mebibytes}"));
        let debug = self.debug.then(|| "--debug".to_owned());
        let id = self.vm_id.map(|id| format!("--vm-id={id}"));
        [memory, debug, id].into_iter().flatten().map(Into::into).collect()
    }
}

/// A UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmId(pub u128);

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Not a UUID.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a UUID: 32 hexadecimal digits, with or without hyphens")]
pub struct NoUuid;

impl FromStr for VmId {
    type Err = NoUuid;

    fn from_str(text: &str) -> Result<VmId, NoUuid> {
        let digits = text.replace('-', "");
        if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoUuid);
        }
        u128::from_str_radix(&digits, 16).map(VmId).map_err(|_| NoUuid)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        grants: GrantArgs,
    }

    fn parse(args: &[&str]) -> Result<GrantArgs, clap::Error> {
        Line::try_parse_from([&["x"], args].concat()).map(|line| line.grants)
    }

    #[test]
    fn grants_come_back_from_their_arguments_and_reach_the_executor() {
        assert_eq!(parse(&[]).expect("valid"), GrantArgs::default());
        let id = "--vm-id=01234567-89ab-cdef-0123-456789ABCDEF";
        let grants = parse(&["--max-memory=3", "--debug", id]).expect("valid");
        let config = grants.config();
        assert_eq!((config.memory, config.debug), (3 << 20, true));
        assert_eq!(config.identity, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let args: Vec<String> =
            grants.to_args().into_iter().map(|arg| arg.into_string().expect("text")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(parse(&args).expect("valid"), grants);
        let default = Config::default();
        let config = GrantArgs::default().config();
        assert_eq!((config.memory, config.debug, config.identity), (default.memory, false, default.identity));
    }

    #[test]
    fn wrong_grants_are_refused() {
        for args in ["--max-memory=0", "--vm-id=", "--vm-id=x", "--vm-id=+123456789abcdef0123456789abcdef"] {
            assert!(parse(&[args]).is_err(), "{args}");
        }
    }
}
