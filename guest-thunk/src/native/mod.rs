//! [`Kfd`](protocol::kfd::Kfd) over the kernel's `/dev/kfd` and render nodes.
