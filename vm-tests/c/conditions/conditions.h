/* What a process may be short of, and what libhsakmt says then. */
#ifndef KFDVIRT_CONDITIONS_H
#define KFDVIRT_CONDITIONS_H

#include <hsakmt.h>

/* Prints `step STATUS`. */
void say(const char *step, HSAKMT_STATUS status);
void say_if(const char *what, int is);
/* Prints why and ends the program: the condition cannot be made here. */
void impossible(const char *what);

/* Conditions of this process. Each ends the program if it cannot be made. */
void limit_addresses(const char *bytes);
void limit_descriptors(const char *count);
void limit_mappings(const char *left);
/* What was limited is allowed again, as far as that goes. */
void lift_limits(void);
/* The system call that opens a device answers this errno, from now on, for ever. */
void open_fails(const char *number);
/* mbind answers this errno, from now on, for ever. */
void mbind_fails(const char *number);
/* All addresses below 4 GiB are taken that can be. */
void occupy_low_addresses(void);
/* Mappings that must not change, each next to an address that the kernel would give out, and whether they are whole. */
void put_sentinels(void);
int sentinels_are_whole(void);

#endif
