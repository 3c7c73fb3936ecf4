// The device does not depend on numbers of descriptors, nor on the first thread.
//   descriptors numbers   one new file at each free number from 3 to 99 answers
//   descriptors leader    a second thread goes on with the file after the first has ended
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int version(int fd) {
    uint32_t version[2] = {0, 0};
    return ioctl(fd, 0x80084b01, version) ? errno : 0;
}

static int numbers(void) {
    int bad = 0;
    for (int wanted = 3; wanted < 100; wanted++) {
        int opened = open("/dev/kfd", O_RDWR);
        int fd = opened == wanted ? opened : fcntl(opened, F_DUPFD, wanted);
        if (fd != opened) close(opened);
        int error = fd == wanted ? version(fd) : 0;
        if (error) printf("%d: %s\n", wanted, strerror(error)), bad++;
        close(fd);
    }
    return bad != 0;
}

static int fd;

static void *go_on(void *arg) {
    (void)arg;
    usleep(300000);
    int held = version(fd), fresh = version(open("/dev/kfd", O_RDWR));
    printf("held %d fresh %d\n", held, fresh);
    fflush(stdout);
    _exit(held || fresh);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "numbers")) return numbers();
    pthread_t thread;
    fd = open("/dev/kfd", O_RDWR);
    if (fd < 0 || version(fd) || pthread_create(&thread, NULL, go_on, NULL)) return 2;
    pthread_exit(NULL);
}
