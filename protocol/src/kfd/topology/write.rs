//! [`Topology`] to [`Tree`], in the kernel's line format and order.

use std::fmt::Write;

use super::records::{Record, Scope};
use super::{Cache, IoLink, Layout, Node, Topology, Tree};

impl Topology {
    /// The files as a kernel with this layout writes them.
    ///
    /// Counts are written as they stand in the properties ([`Node::set_counts`] makes them right).
    #[must_use]
    pub fn tree(&self, layout: Layout) -> Tree {
        let mut tree = Tree::default();
        tree.put("generation_id", format!("{}\n", self.generation_id));
        tree.put("system_properties", text(&self.system, layout, Scope::Gpu));
        for node in &self.nodes {
            tree.put_node(node, layout);
        }
        tree
    }
}

impl Tree {
    fn put(&mut self, path: &str, text: String) {
        self.files.insert(path.to_owned(), text.into_bytes());
    }

    fn put_node(&mut self, node: &Node, layout: Layout) {
        let dir = format!("nodes/{}", node.id);
        self.put(&format!("{dir}/gpu_id"), format!("{}\n", node.gpu_id));
        self.put(&format!("{dir}/name"), format!("{}\n", node.name));
        let scope = if node.is_gpu() { Scope::Gpu } else { Scope::All };
        self.put(&format!("{dir}/properties"), text(&node.properties, layout, scope));
        for (i, bank) in node.mem_banks.iter().enumerate() {
            self.put(&format!("{dir}/mem_banks/{i}/properties"), text(bank, layout, scope));
        }
        for (i, cache) in node.caches.iter().enumerate() {
            self.put(&format!("{dir}/caches/{i}/properties"), cache_text(cache, layout));
        }
        self.put_links(&format!("{dir}/io_links"), &node.io_links, layout);
        self.put_links(&format!("{dir}/p2p_links"), &node.p2p_links, layout);
    }

    fn put_links(&mut self, dir: &str, links: &[IoLink], layout: Layout) {
        for (i, link) in links.iter().enumerate() {
            self.put(&format!("{dir}/{i}/properties"), text(link, layout, Scope::Gpu));
        }
    }
}

/// The key lines of one file. `scope` is what the node is: CPU nodes have no keys of scope GPU.
fn text<R: Record>(record: &R, layout: Layout, scope: Scope) -> String {
    let mut out = String::new();
    for (key, value) in R::KEYS.iter().zip(record.values()) {
        if key.since.is_in(layout) && (key.scope == Scope::All || scope == Scope::Gpu) {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{} {value}", key.name);
        }
    }
    out
}

/// A cache has one more line, the last one: `sibling_map 1,0,1`.
fn cache_text(cache: &Cache, layout: Layout) -> String {
    let mut out = text(&cache.properties, layout, Scope::Gpu);
    let map: Vec<&str> = cache.sibling_map.iter().map(|&shares| if shares { "1" } else { "0" }).collect();
    let _ = writeln!(out, "sibling_map {}", map.join(","));
    out
}
