/* Linked with a libhsakmt.a whose HsaNodeProperties has LAYOUT bytes: the properties of node 1 as bytes at the offsets of that
 * header, and how far anything was written. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = 256, FILL = 0xa5 };
/* OverrideEngineId came with 360 bytes; NumNeuralCores and Capability2, in front of what is read here, with 368. */
enum {
    BANKS = LAYOUT < 368 ? 8 : 12,
    DEVICE_ID = LAYOUT == 356 ? 74 : LAYOUT == 360 ? 78 : 86,
    LAST_OF_368 = 360,
};

uint32_t hsaKmtOpenKFD(void);
uint32_t hsaKmtCloseKFD(void);
uint32_t hsaKmtAcquireSystemProperties(void *properties);
uint32_t hsaKmtGetNodeProperties(uint32_t node, void *properties);

static uint32_t word(const unsigned char *bytes, size_t offset) {
    uint32_t value;
    memcpy(&value, bytes + offset, sizeof(value));
    return value;
}

int main(void) {
    unsigned char system[256], node[LAYOUT + GUARD];
    size_t written = 0;
    memset(node, FILL, sizeof(node));
    printf("open %" PRIu32 "\n", hsaKmtOpenKFD());
    printf("acquire %" PRIu32 "\n", hsaKmtAcquireSystemProperties(system));
    printf("node %" PRIu32 "\n", hsaKmtGetNodeProperties(1, node));
    for (size_t at = 0; at < sizeof(node); at++)
        if (node[at] != FILL)
            written = at + 1;
    printf("NumFComputeCores %" PRIu32 "\n", word(node, 4));
    printf("NumMemoryBanks %" PRIu32 "\n", word(node, BANKS));
    printf("DeviceId %#" PRIx32 "\n", word(node, DEVICE_ID) & 0xffff);
    if (LAYOUT >= 368)
        printf("KFDGpuID %#" PRIx32 "\n", word(node, LAST_OF_368));
    printf("written %zu\n", written);
    printf("close %" PRIu32 "\n", hsaKmtCloseKFD());
    return 0;
}
