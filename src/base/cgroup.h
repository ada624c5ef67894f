/* Memory and processor time that Linux's control groups (versions 1 and 2) leave to this process. */
#pragma once

/* Tightest limits of the process's groups and their parent groups; INFINITY if there is none. */
typedef struct {
    double memory_left; /* bytes; page cache that can be dropped counts as free */
    double cpus;        /* processors that the quota allows */
} cgroup_limits;
/* Returns the limits. groups: a file such as /proc/self/cgroup; root: mount point of the groups (/sys/fs/cgroup). */
cgroup_limits cgroup_limits_of(const char *groups, const char *root);
cgroup_limits cgroup_limits_here(void);
