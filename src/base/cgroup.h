/* What Linux's control groups (versions 1 and 2) leave to this process of memory and processor time. */
#pragma once

/* The tightest limits of the process's groups and of those above them; INFINITY where there is none. */
typedef struct {
    double memory_left; /* bytes that may still be taken; files that can be dropped count as not taken */
    double cpus;        /* processors that the quota pays for */
} cgroup_limits;
/* own: such as /proc/self/cgroup; root: where the groups are mounted, /sys/fs/cgroup. */
cgroup_limits cgroup_limits_of(const char *own, const char *root);
cgroup_limits cgroup_limits_here(void);
