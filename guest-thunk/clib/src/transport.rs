//! The way to a KFD that this process takes: `KFDVIRT_TRANSPORT`, `KFDVIRT_RENDER`, `KFDVIRT_SPIN_US`.
//!
//! | `KFDVIRT_TRANSPORT` | |
//! |---|---|
//! | not set, or `auto` | a virtio-gpu device that offers GPUs, if there is one (in a virtual machine); else the kernel's KFD |
//! | `native` | the kernel's KFD |
//! | `virtio` | a virtio-gpu device |
//!
//! `KFDVIRT_RENDER` names the render node of the device, where there are several. `KFDVIRT_SPIN_US` is for how many microseconds
//! a thread looks for an answer of the host before it sleeps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hsakmt::Result;
use hsakmt::virtio::{Node, NodeError, SPIN, Virtio, render_nodes};
use protocol::Errno;
use protocol::hsakmt::Status;

/// What the log calls this library.
const VERSION: &str = concat!("libhsakmt of kfdvirt ", env!("CARGO_PKG_VERSION"));
/// Longest time to look for an answer: beyond that, sleeping costs nothing in comparison.
const MOST_SPIN: Duration = Duration::from_millis(10);

/// What the environment says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    way: Way,
    render: Option<PathBuf>,
    spin: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Auto,
    Native,
    Virtio,
}

/// What there is.
pub enum Found {
    /// The kernel's KFD is to be tried.
    Native,
    /// A host answers.
    Virtio(Virtio),
}

/// Looks where GPUs are.
///
/// # Errors
/// `KERNEL_IO_CHANNEL_NOT_OPENED`, with the reason in the log: a variable that says nothing, a device that cannot be opened, or a
/// host that does not answer.
pub fn find() -> Result<Found> {
    let wish = wish(|name| std::env::var_os(name)).map_err(refused)?;
    match wish.way {
        Way::Native => Ok(native()),
        Way::Virtio => connect(&wish).map(Found::Virtio),
        Way::Auto => match path(&wish) {
            Ok(path) => connect_to(&path, &wish).map(Found::Virtio),
            // A render node that was named is meant.
            Err(why) if wish.render.is_some() => Err(refused(why)),
            Err(why) => {
                log::debug!("no virtio-gpu device: {why}");
                Ok(native())
            }
        },
    }
}

/// A virtio-gpu device and nothing else (`vhsaKmtOpenKFD`).
///
/// # Errors
/// As [`find`].
pub fn find_virtio() -> Result<Virtio> {
    connect(&wish(|name| std::env::var_os(name)).map_err(refused)?)
}

fn native() -> Found {
    log::info!("{VERSION}: GPUs are reached through the kernel's KFD");
    Found::Native
}

fn connect(wish: &Wish) -> Result<Virtio> {
    connect_to(&path(wish).map_err(refused)?, wish)
}

fn connect_to(path: &Path, wish: &Wish) -> Result<Virtio> {
    log::info!("{VERSION}: GPUs are reached through the virtio-gpu device {}", path.display());
    Virtio::connect(path, wish.spin).map_err(|error| refused(error.to_string()))
}

fn refused(why: String) -> Status {
    log::error!("{why}");
    Status::KernelIoChannelNotOpened
}

fn wish(variable: impl Fn(&str) -> Option<OsString>) -> std::result::Result<Wish, String> {
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    let way = match text("KFDVIRT_TRANSPORT").as_deref() {
        None | Some("" | "auto") => Way::Auto,
        Some("native") => Way::Native,
        Some("virtio") => Way::Virtio,
        Some(other) => return Err(format!("KFDVIRT_TRANSPORT={other} is none of auto, native, virtio")),
    };
    let render = variable("KFDVIRT_RENDER").filter(|path| !path.is_empty()).map(PathBuf::from);
    let spin = match text("KFDVIRT_SPIN_US") {
        None => SPIN,
        Some(value) => {
            let spin = value.trim().parse().ok().map(Duration::from_micros);
            spin.filter(|spin| *spin <= MOST_SPIN).ok_or_else(|| {
                format!("KFDVIRT_SPIN_US={value} is no number up to {}", MOST_SPIN.as_micros())
            })?
        }
    };
    Ok(Wish { way, render, spin })
}

/// The render node: the one that was named, or the first that offers GPUs.
fn path(wish: &Wish) -> std::result::Result<PathBuf, String> {
    let offers = |path: &Path| Node::open(path).map(drop);
    if let Some(path) = &wish.render {
        return offers(path).map(|()| path.clone()).map_err(|error| error.to_string());
    }
    first(render_nodes(Path::new("/dev/dri")), offers)
}

fn first(
    nodes: Vec<PathBuf>,
    offers: impl Fn(&Path) -> std::result::Result<(), NodeError>,
) -> std::result::Result<PathBuf, String> {
    let mut why = "there is no render node of the driver virtio_gpu in /dev/dri".to_owned();
    for node in nodes {
        match offers(&node) {
            Ok(()) => return Ok(node),
            Err(error) => {
                // Whoever may not open the device hears of it: nothing else can be wrong with the machine.
                let denied = matches!(error, NodeError::Open(_, Errno::EACCES | Errno::EPERM));
                log::log!(if denied { log::Level::Warn } else { log::Level::Debug }, "{error}");
                why = error.to_string();
            }
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wished(variables: &[(&str, &str)]) -> std::result::Result<Wish, String> {
        wish(|name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn wrong_values_are_named() {
        assert_eq!(wished(&[]), Ok(Wish { way: Way::Auto, render: None, spin: SPIN }));
        for (value, way) in [("auto", Way::Auto), ("native", Way::Native), ("virtio", Way::Virtio)] {
            assert_eq!(wished(&[("KFDVIRT_TRANSPORT", value)]).unwrap().way, way);
        }
        for (name, value) in [
            ("KFDVIRT_TRANSPORT", "Virtio"),
            ("KFDVIRT_TRANSPORT", "model"),
            ("KFDVIRT_SPIN_US", "-1"),
            ("KFDVIRT_SPIN_US", "10001"),
            ("KFDVIRT_SPIN_US", ""),
        ] {
            let why = wished(&[(name, value)]).unwrap_err();
            assert!(why.starts_with(&format!("{name}={value}")), "{why}");
        }
        assert_eq!(wished(&[("KFDVIRT_SPIN_US", "0")]).unwrap().spin, Duration::ZERO);
    }

    #[test]
    fn the_first_node_that_offers_gpus_is_taken() {
        let nodes = || (128..131).map(|minor| PathBuf::from(format!("/dev/dri/renderD{minor}"))).collect();
        let denied = |path: &Path| Err(NodeError::Open(path.to_owned(), Errno::EACCES));
        let second = |path: &Path| if path.ends_with("renderD128") { denied(path) } else { Ok(()) };
        assert_eq!(first(nodes(), second), Ok("/dev/dri/renderD129".into()));
        let why = first(nodes(), denied).unwrap_err();
        assert!(why.contains("renderD130"), "{why}");
        assert!(first(Vec::new(), denied).unwrap_err().contains("virtio_gpu"));
    }
}
