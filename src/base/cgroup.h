/* Memory and processor time that Linux's control groups (versions 1 and 2) leave to this process. */
#pragma once

/* Tightest limits of the process's groups and their parent groups; INFINITY if there is none. */
typedef struct {
    double memory_left; /* bytes that can still be taken; files that can be dropped from memory count as free */
    double cpus;        /* processors that the quota allows */
} cgroup_limits;
/* Returns the limits. own: a file such as /proc/self/cgroup; root: where groups are mounted, such as /sys/fs/cgroup. */
cgroup_limits cgroup_limits_of(const char *own, const char *root);
cgroup_limits cgroup_limits_here(void);
