// Processes and descriptors.
//   family bomb N    N children: the inherited descriptor is EBADF, their own works
//   family inherit   a child that calls first does not become the owner of its parent's file
//   family exec      the program executes itself; an inherited descriptor of the old program is EBADF
//   family daemon    a grandchild goes on after the program has ended with 5
//   family pass      a render descriptor works in a child, and can be mapped there
//   family closes    the device learns that files were closed
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int version(int fd) {
    uint32_t version[2] = {0, 0};
    if (ioctl(fd, 0x80084b01, version)) return -errno;
    return version[0] == 1 ? 0 : -1;
}

static int open_kfd(int flags) { return open("/dev/kfd", O_RDWR | flags); }

static int open_files(int fd) {
    uint64_t clock[5] = {0};
    return ioctl(fd, 0xc0284b05, clock) ? -1 : (int)clock[1];
}

static int child(int inherited) {
    if (version(inherited) != -EBADF) return 10;
    int own = open_kfd(0);
    if (own < 0) return 11;
    if (version(own)) return 12;
    return version(inherited) == -EBADF ? 0 : 13;
}

static int bomb(int count) {
    int fd = open_kfd(0), bad = 0;
    if (version(fd)) return 1;
    for (int i = 0; i < count; i++)
        if (fork() == 0) _exit(child(fd));
    for (int i = 0, status; i < count; i++) bad += wait(&status) < 0 || status != 0;
    printf("children %d bad %d own %d\n", count, bad, version(fd));
    return 0;
}

static int inherit(void) {
    int fd = open_kfd(0), status;
    if (fork() == 0) _exit(version(fd) == -EBADF ? 0 : 1);
    wait(&status);
    printf("child %d parent %d\n", status, version(fd));
    return 0;
}

static int exec(char *self, const char *number) {
    if (number) {
        printf("old %d new %d\n", version(atoi(number)) == -EBADF, version(open_kfd(0)));
        return 0;
    }
    int fd = open_kfd(0);
    if (version(fd)) return 1;
    char text[16];
    snprintf(text, sizeof text, "%d", fd);
    execl(self, self, "exec", text, NULL);
    return 2;
}

static int daemon_mode(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            usleep(300000);
            printf("grandchild %d\n", version(open_kfd(0)));
            exit(0);
        }
        _exit(0);
    }
    wait(NULL);
    return 5;
}

static int pass(void) {
    int fd = open("/dev/dri/renderD128", O_RDWR), status;
    uint32_t *mine = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    if (mine == MAP_FAILED) return 1;
    *mine = 17;
    if (fork() == 0) {
        uint32_t *theirs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
        if (theirs == MAP_FAILED) _exit(errno == EINVAL ? 2 : 3);
        _exit(*theirs == 17 ? 0 : 4);
    }
    wait(&status);
    int beyond = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 1 << 30) == MAP_FAILED ? errno : 0;
    printf("child %d beyond %s\n", WEXITSTATUS(status), strerror(beyond));
    return 0;
}

static int closes(void) {
    int first = open_kfd(0);
    if (version(first)) return 1;
    for (int i = 0; i < 200; i++) {
        int fd = open_kfd(0);
        if (version(fd)) return 2;
        close(fd);
    }
    int left = 0;
    for (int i = 0; i < 100; i++) {
        left = open_files(first);
        if (left == 1) break;
        usleep(20000);
    }
    printf("left %d works %d\n", left, version(first));
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "bomb")) return bomb(argc > 2 ? atoi(argv[2]) : 50);
    if (!strcmp(mode, "inherit")) return inherit();
    if (!strcmp(mode, "exec")) return exec(argv[0], argc > 2 ? argv[2] : NULL);
    if (!strcmp(mode, "daemon")) return daemon_mode();
    if (!strcmp(mode, "pass")) return pass();
    if (!strcmp(mode, "closes")) return closes();
    return 99;
}
