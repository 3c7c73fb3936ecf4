//! Runs in a guest whose virtio-gpu device is `vhost-device-kfd`: what the stock driver makes of the device, line by line.
//!
//! `virtgpu_probe [BLOBS]` makes that many blobs of one page (default 1,000) to see how many there are in a second.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hsakmt::virtio::{Device as _, Node, Submission};
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// The context save area of a compute queue on MI210, rounded up: the biggest blob that is made all the time.
const SAVE_AREA: u64 = 61 << 20;
/// Rings of the context, as many as the driver allows.
const RINGS: u32 = 64;
/// A fence of a device that answers at once.
const DEADLINE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let blobs = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    match probe(blobs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("virtgpu_probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn probe(blobs: u32) -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::open(&render_node()?)?;
    let capset = node.capset();
    println!("capset version {} wire {} to {}", capset.version, capset.wire_min, capset.wire_max);
    println!("window {}", node.has_window());
    println!("context {:?}", node.init_context(RINGS));
    println!("second context {:?}", node.init_context(RINGS));
    println!("one page {:?}", round_trip(&node, PAGE));
    println!("save area {:?}", round_trip(&node, SAVE_AREA));
    println!("no bytes {:?}", node.blob(0).map(drop));
    fences(&node)?;
    rate(&node, blobs)
}

/// The first render node of this machine.
fn render_node() -> io::Result<PathBuf> {
    let mut nodes: Vec<_> =
        std::fs::read_dir("/dev/dri")?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    nodes.retain(|path| path.to_string_lossy().contains("renderD"));
    nodes.sort();
    nodes.into_iter().next().ok_or_else(|| io::Error::other("/dev/dri has no render node"))
}

/// Writes the first and the last word of a blob and reads them back through another mapping.
fn round_trip(node: &Node, size: u64) -> Result<bool, protocol::Errno> {
    let blob = node.blob(size)?;
    let last = usize::try_from(size).unwrap_or(usize::MAX) - 4;
    let view = blob.map()?;
    let written = view.write(0, b"ours") && view.write(last, b"last");
    let mut words = [[0; 4]; 2];
    let again = blob.map()?;
    let read = again.read(0, &mut words[0]) && again.read(last, &mut words[1]);
    Ok(written && read && words == [*b"ours", *b"last"])
}

/// Fences of several rings, each signalled by the device's answer, whatever that is.
fn fences(node: &Node) -> Result<(), Box<dyn std::error::Error>> {
    for ring in [0, 1, RINGS - 1] {
        let fence = node.submit_with_fence(Submission { ring: Some(ring), bytes: b"kfd?" })?;
        let mut wait = [PollFd::new(&fence, PollFlags::IN)];
        let signalled = poll(&mut wait, Some(&DEADLINE.try_into()?))? == 1;
        println!("fence of ring {ring} signalled {signalled}");
    }
    let beyond = node.submit(Submission { ring: Some(RINGS), bytes: b"kfd?" });
    println!("ring {RINGS} {beyond:?}");
    Ok(())
}

/// Blobs of a page: all alive at once, then given back.
fn rate(node: &Node, count: u32) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut blobs = Vec::new();
    for _ in 0..count {
        blobs.push(node.blob(PAGE)?);
    }
    // The driver does not wait for the device; an answered fence says that it has seen them all.
    let fence = node.submit_with_fence(Submission { ring: Some(0), bytes: b"kfd?" })?;
    poll(&mut [PollFd::new(&fence.as_fd(), PollFlags::IN)], Some(&DEADLINE.try_into()?))?;
    let made = start.elapsed();
    let different =
        blobs.iter().map(hsakmt::virtio::Blob::resource).collect::<std::collections::BTreeSet<_>>();
    println!("blobs {} different {}", blobs.len(), different.len());
    drop(blobs);
    eprintln!(
        "{:.0} blobs a second, {:.2?} to give them back",
        f64::from(count) / made.as_secs_f64(),
        start.elapsed() - made
    );
    Ok(())
}
