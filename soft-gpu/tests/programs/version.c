// Opens /dev/kfd, asks for the version with raw system calls only, prints what it got.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(void) {
    int fd = syscall(SYS_openat, AT_FDCWD, "/dev/kfd", O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return 2;
    unsigned version[2] = {99, 99};
    long result = syscall(SYS_ioctl, fd, 0x80084b01, version);
    struct stat st;
    if (fstat(fd, &st) != 0) return 3;
    printf("result %ld version %u.%u char %d major %u\n", result, version[0], version[1],
           S_ISCHR(st.st_mode), major(st.st_rdev));
    return 0;
}
