/* <linux/kfd_ioctl.h> includes <drm/drm.h>, which Debian's linux-libc-dev leaves to libdrm-dev, under another path. */
#include <libdrm/drm.h>
