/* Limits of control groups, versions 1 and 2, read from folders that look like the system's. */
#include "base/cgroup.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "units/write_below.h"

static char root[] = "/tmp/xgsw-cgroup-XXXXXX";

static void write_text(const char *name, const char *text) { write_below(root, name, text); }

static cgroup_limits limits(const char *own)
{
    char path[512];
    write_text("own", own);
    snprintf(path, sizeof path, "%s/own", root);
    return cgroup_limits_of(path, root);
}

static void version_2(void **state)
{
    write_text("memory.max", "max\n");
    write_text("a/memory.max", "1000000\n");
    write_text("a/memory.current", "900000\n");
    write_text("a/memory.stat", "anon 1\ninactive_file 200000\n");
    write_text("a/cpu.max", "50000 100000\n");
    write_text("a/b/cpu.max", "max 100000\n");
    cgroup_limits l = limits("0::/a/b\n");
    assert_true(l.memory_left == 300000.0 && l.cpus == 0.5); /* of the parent group */
    l = limits("0::/seen/from/outside\n");
    assert_true(isinf(l.memory_left) && isinf(l.cpus));
}

static void version_1(void **state)
{
    write_text("memory/x/memory.limit_in_bytes", "5000\n");
    write_text("memory/x/memory.usage_in_bytes", "1000\n");
    write_text("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("memory/memory.usage_in_bytes", "77\n");
    write_text("cpu/y/cpu.cfs_quota_us", "150000\n");
    write_text("cpu/y/cpu.cfs_period_us", "100000\n");
    write_text("cpu/cpu.cfs_quota_us", "-1\n");
    write_text("cpu/cpu.cfs_period_us", "100000\n");
    cgroup_limits l = limits("5:cpu,cpuacct:/y\n4:memory:/x\n3:cpuset:/z\n");
    assert_true(l.memory_left == 4000.0 && l.cpus == 1.5);
    l = limits("no line of this kind\n:\n::\n7:memory\n");
    assert_true(isinf(l.memory_left) && isinf(l.cpus));
}

static int clean(void **state)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(version_2), cmocka_unit_test(version_1) };
    return mkdtemp(root) ? cmocka_run_group_tests(tests, NULL, clean) : 1;
}
