/* Parts that run in a process of their own. */
#ifndef KFDVIRT_THUNK_CHECKS_CHILD_H
#define KFDVIRT_THUNK_CHECKS_CHILD_H

/* Runs the part in a forked child, which prints its own lines, and checks that it came to its end. */
void in_child(const char *id, void (*part)(void));

#endif
