// Reads "native N" or "kfd N" lines, makes N calls, and prints the nanoseconds that they took. The native call is an
// ioctl that the kernel refuses at once, of a type that the launcher's filter lets pass.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
    int kfd = open("/dev/kfd", O_RDWR), null = open("/dev/null", O_RDWR);
    char kind[16];
    long long calls;
    while (scanf("%15s %lld", kind, &calls) == 2) {
        int native = !strcmp(kind, "native");
        uint32_t version[2];
        long long start = now();
        for (long long i = 0; i < calls; i++)
            if (native) ioctl(null, 0x5413, version);
            else if (ioctl(kfd, 0x80084b01, version)) return perror("GET_VERSION"), 1;
        printf("%lld\n", now() - start);
        fflush(stdout);
    }
    return 0;
}
