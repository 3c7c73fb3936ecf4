/* Prints the version of the KFD behind /dev/kfd as MAJOR.MINOR. It uses only the kernel's own header, so that it is
 * a witness that nobody of this project wrote. */
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <stdio.h>
#include <sys/ioctl.h>

int main(void)
{
	struct kfd_ioctl_get_version_args args = {0};
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("open /dev/kfd");
		return 1;
	}
	if (ioctl(fd, AMDKFD_IOC_GET_VERSION, &args) != 0) {
		perror("AMDKFD_IOC_GET_VERSION");
		return 1;
	}
	printf("%u.%u\n", args.major_version, args.minor_version);
	return 0;
}
