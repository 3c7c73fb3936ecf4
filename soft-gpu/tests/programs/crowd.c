// More processes than the launcher has descriptors for.
//   crowd N   N children at once each ask for the version; prints with what results, and whether the file that the
//             program opened before works again when they have ended
#include "kfd.h"

static int version(int fd) {
    uint32_t version[2] = {0, 0};
    if (ioctl(fd, GET_VERSION, version)) return errno;
    return version[0] == 1 ? 0 : -1;
}

// Each child keeps its file open until the pipe is closed.
static int child(int hold, int report) {
    char byte;
    int fd = open("/dev/kfd", O_RDWR), result = fd < 0 ? -2 : version(fd);
    if (write(report, &result, sizeof result) != sizeof result) return 1;
    return read(hold, &byte, 1) == 0 ? 0 : 2;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 0, hold[2], report[2], own = open("/dev/kfd", O_RDWR), bad = 0;
    int ok = 0, refused = 0, other = 0, result, again = -1;
    if (version(own) || pipe(hold) || pipe(report)) return 3;
    for (int i = 0; i < count; i++) {
        if (fork()) continue;
        close(hold[1]);
        _exit(child(hold[0], report[1]));
    }
    for (int i = 0; i < count; i++) {
        if (read(report[0], &result, sizeof result) != sizeof result) return 4;
        if (result == 0) ok++;
        else if (result == ENFILE) refused++;
        else other++, printf("other: %s\n", strerror(result));
    }
    close(hold[1]);
    for (int i = 0, status; i < count; i++) bad += wait(&status) < 0 || status != 0;
    for (int i = 0; i < 100 && (again = version(own)); i++) usleep(20000);
    printf("ok %d refused %d other %d bad %d own %d\n", ok, refused, other, bad, again);
    return 0;
}
