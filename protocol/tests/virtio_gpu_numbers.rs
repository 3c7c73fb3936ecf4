//! The declarations of the virtio-gpu device against its numbers, and against the installed `linux/virtio_gpu.h`.

mod header;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use header::{Header, assert_printed};
use protocol::virtio_gpu::{constants, structs as declared};
use table::{lines, number, structs};

/// From the uapi header of Linux 7.3, as a C compiler lays it out on x86-64.
const STRUCTS: &str = "
virtio_gpu_ctrl_hdr 24 type@0+4 flags@4+4 fence_id@8+8 ctx_id@16+4 ring_idx@20+1 padding@21+3
virtio_gpu_resource_unref 32 hdr@0+24 resource_id@24+4 padding@28+4
virtio_gpu_mem_entry 16 addr@0+8 length@8+4 padding@12+4
virtio_gpu_ctx_create 96 hdr@0+24 nlen@24+4 context_init@28+4 debug_name@32+64
virtio_gpu_ctx_destroy 24 hdr@0+24
virtio_gpu_ctx_resource 32 hdr@0+24 resource_id@24+4 padding@28+4
virtio_gpu_cmd_submit 32 hdr@0+24 size@24+4 padding@28+4
virtio_gpu_get_capset_info 32 hdr@0+24 capset_index@24+4 padding@28+4
virtio_gpu_resp_capset_info 40 hdr@0+24 capset_id@24+4 capset_max_version@28+4 capset_max_size@32+4 \
    padding@36+4
virtio_gpu_get_capset 32 hdr@0+24 capset_id@24+4 capset_version@28+4
virtio_gpu_resp_capset 24 hdr@0+24
virtio_gpu_resource_create_blob 56 hdr@0+24 resource_id@24+4 blob_mem@28+4 blob_flags@32+4 \
    nr_entries@36+4 blob_id@40+8 size@48+8
virtio_gpu_resource_map_blob 40 hdr@0+24 resource_id@24+4 padding@28+4 offset@32+8
virtio_gpu_resp_map_info 32 hdr@0+24 map_info@24+4 padding@28+4
virtio_gpu_resource_unmap_blob 32 hdr@0+24 resource_id@24+4 padding@28+4
virtio_gpu_config 20 events_read@0+4 events_clear@4+4 num_scanouts@8+4 num_capsets@12+4 \
    blob_alignment@16+4
";

/// Feature bits, commands, responses, flags: from the same header, and bits of features from virtio 1.3.
const CONSTANTS: &str = "
VIRTIO_GPU_F_VIRGL 0
VIRTIO_GPU_F_EDID 1
VIRTIO_GPU_F_RESOURCE_UUID 2
VIRTIO_GPU_F_RESOURCE_BLOB 3
VIRTIO_GPU_F_CONTEXT_INIT 4
VIRTIO_GPU_F_BLOB_ALIGNMENT 5
VIRTIO_GPU_CMD_GET_DISPLAY_INFO 0x0100
VIRTIO_GPU_CMD_RESOURCE_CREATE_2D 0x0101
VIRTIO_GPU_CMD_RESOURCE_UNREF 0x0102
VIRTIO_GPU_CMD_SET_SCANOUT 0x0103
VIRTIO_GPU_CMD_RESOURCE_FLUSH 0x0104
VIRTIO_GPU_CMD_TRANSFER_TO_HOST_2D 0x0105
VIRTIO_GPU_CMD_RESOURCE_ATTACH_BACKING 0x0106
VIRTIO_GPU_CMD_RESOURCE_DETACH_BACKING 0x0107
VIRTIO_GPU_CMD_GET_CAPSET_INFO 0x0108
VIRTIO_GPU_CMD_GET_CAPSET 0x0109
VIRTIO_GPU_CMD_GET_EDID 0x010a
VIRTIO_GPU_CMD_RESOURCE_ASSIGN_UUID 0x010b
VIRTIO_GPU_CMD_RESOURCE_CREATE_BLOB 0x010c
VIRTIO_GPU_CMD_SET_SCANOUT_BLOB 0x010d
VIRTIO_GPU_CMD_CTX_CREATE 0x0200
VIRTIO_GPU_CMD_CTX_DESTROY 0x0201
VIRTIO_GPU_CMD_CTX_ATTACH_RESOURCE 0x0202
VIRTIO_GPU_CMD_CTX_DETACH_RESOURCE 0x0203
VIRTIO_GPU_CMD_RESOURCE_CREATE_3D 0x0204
VIRTIO_GPU_CMD_TRANSFER_TO_HOST_3D 0x0205
VIRTIO_GPU_CMD_TRANSFER_FROM_HOST_3D 0x0206
VIRTIO_GPU_CMD_SUBMIT_3D 0x0207
VIRTIO_GPU_CMD_RESOURCE_MAP_BLOB 0x0208
VIRTIO_GPU_CMD_RESOURCE_UNMAP_BLOB 0x0209
VIRTIO_GPU_CMD_UPDATE_CURSOR 0x0300
VIRTIO_GPU_CMD_MOVE_CURSOR 0x0301
VIRTIO_GPU_RESP_OK_NODATA 0x1100
VIRTIO_GPU_RESP_OK_DISPLAY_INFO 0x1101
VIRTIO_GPU_RESP_OK_CAPSET_INFO 0x1102
VIRTIO_GPU_RESP_OK_CAPSET 0x1103
VIRTIO_GPU_RESP_OK_EDID 0x1104
VIRTIO_GPU_RESP_OK_RESOURCE_UUID 0x1105
VIRTIO_GPU_RESP_OK_MAP_INFO 0x1106
VIRTIO_GPU_RESP_ERR_UNSPEC 0x1200
VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY 0x1201
VIRTIO_GPU_RESP_ERR_INVALID_SCANOUT_ID 0x1202
VIRTIO_GPU_RESP_ERR_INVALID_RESOURCE_ID 0x1203
VIRTIO_GPU_RESP_ERR_INVALID_CONTEXT_ID 0x1204
VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER 0x1205
VIRTIO_GPU_FLAG_FENCE 1
VIRTIO_GPU_FLAG_INFO_RING_IDX 2
VIRTIO_GPU_BLOB_MEM_GUEST 1
VIRTIO_GPU_BLOB_MEM_HOST3D 2
VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST 3
VIRTIO_GPU_BLOB_FLAG_USE_MAPPABLE 1
VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE 2
VIRTIO_GPU_BLOB_FLAG_USE_CROSS_DEVICE 4
VIRTIO_GPU_MAP_CACHE_NONE 0
VIRTIO_GPU_MAP_CACHE_CACHED 1
VIRTIO_GPU_MAP_CACHE_UNCACHED 2
VIRTIO_GPU_MAP_CACHE_WC 3
VIRTIO_GPU_SHM_ID_HOST_VISIBLE 1
VIRTIO_GPU_CONTEXT_INIT_CAPSET_ID_MASK 0xff
";

/// Every declared number by name; a feature is the number of its bit.
fn constants() -> BTreeMap<&'static str, u64> {
    let features = constants::FEATURE_BITS.iter().map(|(name, bit)| (*name, u64::from(*bit)));
    constants::ALL.iter().flat_map(|names| names.iter().copied()).chain(features).collect()
}

#[test]
fn every_struct_has_the_size_and_the_fields_of_the_uapi() {
    let rows = structs(STRUCTS);
    assert_eq!(rows.len(), declared::STRUCTS.len());
    for (row, declared) in rows.iter().zip(declared::STRUCTS) {
        assert_eq!((declared.name, declared.size as u64), (row.name, row.size));
        let fields = declared.fields.iter();
        let fields: Vec<_> = fields
            .map(|field| (field.name.trim_end_matches('_'), field.offset as u64, field.size as u64))
            .collect();
        let expected: Vec<_> =
            row.fields.iter().map(|field| (field.name, field.offset, field.size)).collect();
        assert_eq!(fields, expected, "{}", row.name);
    }
}

#[test]
fn every_number_has_its_value() {
    let expected: BTreeMap<_, _> = lines(CONSTANTS)
        .map(|line| line.split_once(' ').expect("name and value"))
        .map(|(name, value)| (name, number(value)))
        .collect();
    assert_eq!(constants(), expected);
}

#[test]
fn commands_and_responses_have_numbers_of_their_own() {
    use protocol::virtio_gpu::{CommandId, ResponseId};
    let all: Vec<_> = CommandId::NAMES.iter().chain(ResponseId::NAMES).map(|(_, value)| *value).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

/// The header may be older than the tables: what it does not know is left out.
#[test]
fn layouts_and_numbers_are_those_of_the_installed_header() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let header = Header::read(dir.path(), "linux/virtio_gpu.h", "virtio_gpu_");
    let (mut statements, mut expected) = (String::new(), BTreeSet::new());
    for row in structs(STRUCTS) {
        let Some(known) = header.known(&row) else { continue };
        for field in &known {
            writeln!(
                statements,
                r#"printf("{0}.{1} %zu %zu\n", offsetof(struct {0}, {1}), sizeof(((struct {0} *)0)->{1}));"#,
                row.name, field.name
            )
            .expect("a string can be written");
            expected.insert(format!("{}.{} {} {}", row.name, field.name, field.offset, field.size));
        }
        if known.len() == row.fields.len() {
            writeln!(statements, r#"printf("{0} %zu\n", sizeof(struct {0}));"#, row.name).expect("as above");
            expected.insert(format!("{} {}", row.name, row.size));
        }
    }
    for (name, value) in constants().into_iter().filter(|(name, _)| header.names.contains(*name)) {
        writeln!(statements, r#"printf("{name} %llu\n", (unsigned long long){name});"#).expect("as above");
        expected.insert(format!("{name} {value}"));
    }
    // Linux 6.1 (Debian 12) lacks BLOB_ALIGNMENT, and has all else.
    assert_printed(&header.run(dir.path(), &statements), &expected, 125);
}
