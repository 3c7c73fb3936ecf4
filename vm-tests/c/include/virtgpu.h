/* Calls of the stock virtio-gpu driver of a guest. The layouts are those of include/uapi/drm/virtgpu_drm.h of Linux 6.12, which Debian
 * 12's headers do not have. */
#ifndef KFDVIRT_VIRTGPU_H
#define KFDVIRT_VIRTGPU_H

#include <stdint.h>
#include <sys/ioctl.h>

struct map { uint64_t offset; uint32_t handle, pad; };
struct execbuffer {
	uint32_t flags, size;
	uint64_t command, bo_handles;
	uint32_t num_bo_handles;
	int32_t fence_fd;
	uint32_t ring_idx, syncobj_stride, num_in_syncobjs, num_out_syncobjs;
	uint64_t in_syncobjs, out_syncobjs;
};
struct getparam { uint64_t param, value; };
struct get_caps { uint32_t id, version; uint64_t addr; uint32_t size, pad; };
struct create_blob {
	uint32_t mem, flags, bo_handle, res_handle;
	uint64_t size;
	uint32_t pad, cmd_size;
	uint64_t cmd, blob_id;
};
struct param { uint64_t param, value; };
struct context_init { uint32_t num_params, pad; uint64_t params; };
struct gem_close { uint32_t handle, pad; };

#define CALL(nr, type) _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x40 + (nr), sizeof(type))
#define MAP CALL(1, struct map)
#define EXECBUFFER CALL(2, struct execbuffer)
#define GETPARAM CALL(3, struct getparam)
#define GET_CAPS CALL(9, struct get_caps)
#define CREATE_BLOB CALL(10, struct create_blob)
#define CONTEXT_INIT CALL(11, struct context_init)
#define GEM_CLOSE _IOW('d', 0x09, struct gem_close)

enum { GUEST = 1, HOST3D = 2, MAPPABLE = 1, FENCE_OUT = 2, RING = 4 };

#endif
