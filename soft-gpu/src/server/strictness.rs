//! What the kernel refuses on hardware, so that what was tested here works there: each rule, and the test that holds
//! the server to it. A `+` is in front of a test that runs a program under `softgpu run`.
//!
//! | rule | test |
//! |---|---|
//! | a buffer of a queue is exactly one mapping | `buffers_are_exactly_one_mapping` |
//! | a larger allocation that contains it is none | `a_slab_is_no_queue_buffer` |
//! | a buffer of a live queue cannot be unmapped: `EBUSY` | `buffers_of_a_live_queue_stay_mapped` |
//! | MES: a write pointer in userptr memory is `EPERM` | `mes_wants_the_write_pointer_in_pinned_memory_of_the_same_gpu` |
//! | MES: a write pointer in memory of another GPU is `EINVAL` | `mes_refuses_a_write_pointer_of_another_gpu` |
//! | event page: userptr, too small, a second one are `EINVAL`; it is never freed | `the_event_page_cannot_be_freed_and_must_be_driver_memory_of_32_kib` |
//! | export of userptr memory is `EPERM` | `userptr_memory_cannot_be_exported` |
//! | export without WRITABLE gives a read-only descriptor | `a_buffer_without_writable_gives_a_read_only_descriptor` |
//! | PUBLIC VRAM on a small BAR is `EINVAL` | `public_vram_on_a_small_bar_is_einval` |
//! | userptr with `mmap_offset` 0 is `EINVAL` | `userptr_with_mmap_offset_0_is_einval` |
//! | buffers and SVM ranges exclude each other, both ways: `EADDRINUSE` | `buffers_and_shared_virtual_memory_do_not_share_addresses` |
//! | SVM over memory of a device is `EFAULT` | `memory_that_is_not_mapped_or_a_devices_is_efault` |
//! | the same for memory of this device | + `memory_of_the_device_is_no_shared_virtual_memory` |
//! | the SVM ioctl per profile | `each_profile_with_a_gpu_has_shared_virtual_memory_and_the_one_without_has_not` |
//! | the XNACK mode per profile | `xnack_can_be_chosen_where_each_gpu_can` |
//! | DOORBELL and MMIO buffers: `mmap` of the render node succeeds | `doorbells_and_registers_can_be_mapped_but_have_no_pages_behind_them` |
//! | and the touch is `SIGBUS` | + `touching_doorbells_through_the_render_node_is_sigbus` |
//! | `ioctl` of `/dev/kfd` from another process is `EBADF` | `descriptor_of_another_process_is_ebadf` |
//! | and `mmap`; 6.12 looks up the caller's own process instead: `EINVAL` | `mmap_in_another_process_is_that_processs_own` |
//! | both of them after `fork` | + `a_childs_calls_on_its_parents_file_are_refused` |
//! | ACQUIRE_VM with another file is `EBUSY` | `page_tables_are_acquired_once_and_from_one_file` |
//! | with page tables that a process has or had: `EINVAL` | `page_tables_of_another_process_cannot_be_acquired_even_after_its_end` |
//! | 127 queues, 255 on gfx942: `ENOSPC` | `a_process_has_127_queues_on_a_gpu_and_255_on_gfx942` |
//! | the control stack is the node's, the save area at least | `the_control_stack_is_exactly_the_nodes_and_the_save_area_at_least` |
//! | the save area is dereferenced as an address of the program | `the_save_area_is_read_at_the_programs_address_and_not_the_gpus` |
//! | GPU addresses need not be the program's | `s03_addresses_on_the_gpu_need_not_be_the_programs` |
//!
//! Where the server is less than the kernel: a dma-buf cannot be mapped by a CPU at all, whatever is in it (`ENODEV`,
//! `cpu_mappings_of_a_descriptor_fail_and_show_nothing`), where the kernel maps it and, for DOORBELL and MMIO, gives
//! `SIGBUS` at the touch.

/// The files in which the tests are.
const SOURCES: [&str; 11] = [
    include_str!("tests.rs"),
    include_str!("misc/tests.rs"),
    include_str!("memory/tests/alloc.rs"),
    include_str!("memory/tests/dmabuf.rs"),
    include_str!("memory/tests/svm.rs"),
    include_str!("memory/tests/vm.rs"),
    include_str!("queues/tests/create.rs"),
    include_str!("queues/tests/errors.rs"),
    include_str!("queues/tests/limits.rs"),
    include_str!("queues/tests/run.rs"),
    include_str!("../../tests/softgpu_run.rs"),
];

#[test]
fn each_rule_names_a_test_that_exists() {
    let table = include_str!("strictness.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
    let tests: Vec<&str> = table.filter_map(|row| row.rsplit_once(" |")?.0.rsplit('`').nth(1)).collect();
    assert_eq!(tests.len(), 26, "{tests:?}");
    for test in tests {
        let declaration = format!("#[test]\nfn {test}()");
        assert!(SOURCES.iter().any(|source| source.contains(&declaration)), "{test}");
    }
}
