/* Linked with libhsakmt.a, in the layout of the newest header: the properties of node 1 as bytes at the offsets of that header, and
 * whether anything was written behind them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 396, GUARD = 256, FILL = 0xa5 };

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
    unsigned char system[256], node[SIZE + GUARD];
    size_t written = 0;
    memset(node, FILL, sizeof(node));
    printf("open %" PRIu32 "\n", hsaKmtOpenKFD());
    printf("acquire %" PRIu32 "\n", hsaKmtAcquireSystemProperties(system));
    printf("node %" PRIu32 "\n", hsaKmtGetNodeProperties(1, node));
    for (size_t at = 0; at < sizeof(node); at++)
        if (node[at] != FILL)
            written = at + 1;
    printf("NumFComputeCores %" PRIu32 "\n", word(node, 4));
    printf("DeviceId %#" PRIx32 "\n", word(node, 84) >> 16);
    printf("KFDGpuID %#" PRIx32 "\n", word(node, 360));
    printf("CwsrSize %" PRIu32 "\n", word(node, 368));
    printf("written %zu\n", written);
    printf("close %" PRIu32 "\n", hsaKmtCloseKFD());
    return 0;
}
