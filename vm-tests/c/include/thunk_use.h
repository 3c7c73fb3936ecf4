/* What programs that use libhsakmt's memory have in common. */
#ifndef KFDVIRT_THUNK_USE_H
#define KFDVIRT_THUNK_USE_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <hsakmttypes.h>

/* Memory that KFD allocates, and that the CPU reaches, or not. */
static inline HsaMemFlags flags_of(int non_paged, int host) {
    HsaMemFlags flags;
    memset(&flags, 0, sizeof(flags));
    flags.ui32.NonPaged = non_paged;
    flags.ui32.HostAccess = host;
    return flags;
}

/* What this process has. */
struct held {
    unsigned long descriptors, mappings, kib;
};

static inline struct held measure(void) {
    struct held held = {0};
    char line[512];
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        held.descriptors++;
    closedir(dir);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        held.mappings += strchr(line, '\n') != NULL;
    fclose(maps);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        sscanf(line, "VmRSS: %lu", &held.kib);
    fclose(status);
    return held;
}

#endif
