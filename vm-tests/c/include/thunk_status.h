/* Names of libhsakmt's statuses, without the prefix. */
#ifndef KFDVIRT_THUNK_STATUS_H
#define KFDVIRT_THUNK_STATUS_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <hsakmttypes.h>

/* NULL for a number that is none. */
static inline const char *thunk_status_name(HSAKMT_STATUS status) {
    static const struct {
        HSAKMT_STATUS status;
        const char *name;
    } names[] = {
        {HSAKMT_STATUS_SUCCESS, "SUCCESS"},
        {HSAKMT_STATUS_ERROR, "ERROR"},
        {HSAKMT_STATUS_DRIVER_MISMATCH, "DRIVER_MISMATCH"},
        {HSAKMT_STATUS_INVALID_PARAMETER, "INVALID_PARAMETER"},
        {HSAKMT_STATUS_INVALID_HANDLE, "INVALID_HANDLE"},
        {HSAKMT_STATUS_INVALID_NODE_UNIT, "INVALID_NODE_UNIT"},
        {HSAKMT_STATUS_NO_MEMORY, "NO_MEMORY"},
        {HSAKMT_STATUS_BUFFER_TOO_SMALL, "BUFFER_TOO_SMALL"},
        {HSAKMT_STATUS_NOT_IMPLEMENTED, "NOT_IMPLEMENTED"},
        {HSAKMT_STATUS_NOT_SUPPORTED, "NOT_SUPPORTED"},
        {HSAKMT_STATUS_UNAVAILABLE, "UNAVAILABLE"},
        {HSAKMT_STATUS_OUT_OF_RESOURCES, "OUT_OF_RESOURCES"},
        {HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED, "KERNEL_IO_CHANNEL_NOT_OPENED"},
        {HSAKMT_STATUS_KERNEL_COMMUNICATION_ERROR, "KERNEL_COMMUNICATION_ERROR"},
        {HSAKMT_STATUS_KERNEL_ALREADY_OPENED, "KERNEL_ALREADY_OPENED"},
        {HSAKMT_STATUS_HSAMMU_UNAVAILABLE, "HSAMMU_UNAVAILABLE"},
        {HSAKMT_STATUS_WAIT_FAILURE, "WAIT_FAILURE"},
        {HSAKMT_STATUS_WAIT_TIMEOUT, "WAIT_TIMEOUT"},
        {HSAKMT_STATUS_MEMORY_ALREADY_REGISTERED, "MEMORY_ALREADY_REGISTERED"},
        {HSAKMT_STATUS_MEMORY_NOT_REGISTERED, "MEMORY_NOT_REGISTERED"},
        {HSAKMT_STATUS_MEMORY_ALIGNMENT, "MEMORY_ALIGNMENT"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].status == status)
            return names[i].name;
    return NULL;
}

/* Ends the program where a call that has to work fails. */
static inline void need(HSAKMT_STATUS status, const char *what) {
    if (status == HSAKMT_STATUS_SUCCESS)
        return;
    fprintf(stderr, "%s: status %u\n", what, (unsigned)status);
    exit(1);
}

#endif
