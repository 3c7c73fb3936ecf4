/* Sharing with other processes, as this thunk asks for it: Linux's KFD has no such calls (ROCm's kernel does). */
#include "check.h"
#include "gpu.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u

static void ipc(void) {
    HsaSharedMemoryHandle handle;
    HSAuint32 gpu[1] = {(HSAuint32)gpu_node};
    HSAuint64 size = 0;
    void *address = NULL;
    void *vram = gpu_alloc((HSAuint32)gpu_node, PAGE, vram_flags(false));
    int local = 0;
    memset(&handle, 0, sizeof(handle));

    check_status("ipc.share", hsaKmtShareMemory(vram, PAGE, &handle));
    check_status("ipc.share.handle-null", hsaKmtShareMemory(vram, PAGE, NULL));
    check_status("ipc.share.not-ours", hsaKmtShareMemory(&local, PAGE, &handle));
    check_status("ipc.share.size-2-to-44", hsaKmtShareMemory(vram, 1ull << 44, &handle));
    /* M07. A handle without a known aperture (all zeros) makes this thunk follow a null pointer, so the aperture's
     * number, the fifth word, is one that there is; and a node that there is not makes it free twice. */
    memset(&handle, 0, sizeof(handle));
    handle[4] = 1;
    handle[6] = 1;
    check_status("M07.forged-handle", hsaKmtRegisterSharedHandle(&handle, &address, &size));
    check_status("M07.forged-handle.to-nodes", hsaKmtRegisterSharedHandleToNodes(&handle, &address, &size, 1, gpu));
    handle[6] = 0;
    check_status("M07.size-0", hsaKmtRegisterSharedHandle(&handle, &address, &size));
    check_status("M07.null", hsaKmtRegisterSharedHandle(NULL, &address, &size));
    gpu_free(vram, PAGE);
}

static void dma_buffers(void) {
    HsaGraphicsResourceInfo info;
    HSAuint32 gpu[1] = {(HSAuint32)gpu_node}, beyond[1] = {node_count};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    check_status("graphics.no-descriptor", hsaKmtRegisterGraphicsHandleToNodes(0xffffffff, &info, 1, gpu));
    check_status("graphics.not-a-dma-buf", hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)null, &info, 1, gpu));
    check_status("graphics.no-nodes", hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)null, &info, 0, gpu));
    check_status("graphics.beyond", hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)null, &info, 1, beyond));
    close(null);
}

static void other_processes(void) {
    char mine[16] = "mine", theirs[16] = "theirs";
    HsaMemoryRange local = {mine, sizeof(mine)}, remote = {theirs, sizeof(theirs)};
    HSAuint64 copied = 99;
    const HSAuint32 pid = (HSAuint32)getpid();
    check_status("process-vm.read", hsaKmtProcessVMRead(pid, &local, 1, &remote, 1, &copied));
    check_u64("process-vm.read.copied", copied);
    check_status("process-vm.write", hsaKmtProcessVMWrite(pid, &local, 1, &remote, 1, &copied));
    check_status("process-vm.read.null", hsaKmtProcessVMRead(pid, NULL, 1, &remote, 1, &copied));
    check_status("process-vm.write.no-ranges", hsaKmtProcessVMWrite(pid, &local, 0, &remote, 1, &copied));
    check_str("process-vm.unchanged", mine);
}

void shared_checks(void) {
    ipc();
    dma_buffers();
    other_processes();
}
