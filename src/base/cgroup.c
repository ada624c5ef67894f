/* Limits of control groups. A file of a group holds a number or "max". */
#include "base/cgroup.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { GROUP_PATH = 4096 };

/* Names of the files in a version of control groups. The quota is one file of two numbers, or two files. */
typedef struct {
    const char *memory, *cpu; /* folders of memory and cpu below the root */
    const char *limit, *usage, *quota, *period;
} version;

static const version versions[] = {
    { "", "", "memory.max", "memory.current", "cpu.max", NULL },
    { "/memory", "/cpu", "memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us" },
};

static FILE *open_in(const char *folder, const char *name)
{
    char path[2 * GROUP_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "r");
}

/* Reads at most two numbers and returns how many there are (0 for "max"). */
static int read_numbers(const char *folder, const char *name, double found[2])
{
    FILE *f = name ? open_in(folder, name) : NULL;
    int count = f ? fscanf(f, "%lf %lf", &found[0], &found[1]) : 0;
    if (f) fclose(f);
    return count < 0 ? 0 : count;
}

static double page_cache(const char *folder)
{
    char line[128];
    double bytes = 0.0;
    FILE *f = open_in(folder, "memory.stat");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "inactive_file %lf", &bytes) == 1) break;
    if (f) fclose(f);
    return bytes;
}

static double memory_left(const version *v, const char *folder)
{
    double limit[2], usage[2];
    if (!read_numbers(folder, v->limit, limit) || !read_numbers(folder, v->usage, usage)) return INFINITY;
    return fmax(limit[0] - fmax(usage[0] - page_cache(folder), 0.0), 0.0);
}

static double cpus(const version *v, const char *folder)
{
    double quota[2] = { 0.0, 0.0 }, period[2] = { 0.0, 0.0 };
    if (!read_numbers(folder, v->quota, quota) || quota[0] <= 0.0) return INFINITY;
    double microseconds = read_numbers(folder, v->period, period) ? period[0] : quota[1];
    return microseconds > 0.0 ? quota[0] / microseconds : INFINITY;
}

/* Returns the smallest limit of a group and its parents. A container may show only the root, with its own limit. */
static double smallest_limit(const version *v, const char *root, const char *group,
                             double (*read)(const version *, const char *))
{
    char folder[GROUP_PATH];
    double least = INFINITY;
    size_t top = strlen(root), length = (size_t)snprintf(folder, sizeof folder, "%s%s", root, group);
    if (length >= sizeof folder) return INFINITY;
    for (;;) {
        least = fmin(least, read(v, folder));
        if (strlen(folder) <= top) return least;
        *strrchr(folder, '/') = '\0';
    }
}

static bool is_named(const char *list, const char *controller)
{
    char wanted[32], whole[GROUP_PATH];
    snprintf(wanted, sizeof wanted, ",%s,", controller);
    snprintf(whole, sizeof whole, ",%s,", list);
    return strstr(whole, wanted) != NULL;
}

/* Applies a line of /proc/self/cgroup: number, controllers (none in version 2), group. */
static void apply_line(cgroup_limits *l, const char *root, char *line)
{
    char memory[GROUP_PATH], cpu[GROUP_PATH];
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) return;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    const version *v = &versions[list[1] != '\0'];
    snprintf(memory, sizeof memory, "%.2000s%s", root, v->memory);
    snprintf(cpu, sizeof cpu, "%.2000s%s", root, v->cpu);
    if (group[0] != '/') return;
    if (!list[1] || is_named(list + 1, "memory"))
        l->memory_left = fmin(l->memory_left, smallest_limit(v, memory, group, memory_left));
    if (!list[1] || is_named(list + 1, "cpu")) l->cpus = fmin(l->cpus, smallest_limit(v, cpu, group, cpus));
}

cgroup_limits cgroup_limits_of(const char *groups, const char *root)
{
    cgroup_limits l = { INFINITY, INFINITY };
    char line[GROUP_PATH];
    FILE *f = fopen(groups, "r");
    while (f && fgets(line, sizeof line, f)) apply_line(&l, root, line);
    if (f) fclose(f);
    return l;
}

cgroup_limits cgroup_limits_here(void) { return cgroup_limits_of("/proc/self/cgroup", "/sys/fs/cgroup"); }
