/* Files are read by system calls alone, so no memory is allocated. */
#include "machine/sample/node.h"
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 256, WORD = 64, CORES_READ = 16 };

/* Reads at most size - 1 bytes of the file. Returns false if it cannot be read or is empty. */
static bool read_text(char *text, size_t size, const char *path_format, ...)
{
    char path[PATH];
    size_t length = 0;
    va_list arguments;
    va_start(arguments, path_format);
    vsnprintf(path, sizeof path, path_format, arguments);
    va_end(arguments);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; file >= 0 && got > 0 && length + 1 < size; length += got > 0 ? (size_t)got : 0)
        got = read(file, text + length, size - 1 - length);
    if (file >= 0) close(file);
    text[length] = 0;
    return length > 0;
}

/* ---- packages ---- */

/* Reads a number of /sys/class/powercap/intel-rapl:N/ and converts it to joules. AMD's processors have it too. */
static double package_file(const node_meter *m, int package, const char *name)
{
    char word[WORD];
    bool known = read_text(word, sizeof word, "%s/class/powercap/intel-rapl:%d/%s", m->sys, package, name);
    return known ? 1e-6 * strtod(word, NULL) : NAN;
}

/* Other RAPL domains are parts of packages, or contain them. */
static bool is_package(const node_meter *m, int package)
{
    char name[WORD];
    return read_text(name, sizeof name, "%s/class/powercap/intel-rapl:%d/name", m->sys, package) &&
           strncmp(name, "package", 7) == 0;
}

/* A counter may have wrapped once since the last call. */
static double joules(node_meter *m)
{
    for (int i = 0; i < m->packages; i++) {
        node_package *p = &m->package[i];
        double now = package_file(m, p->number, "energy_uj"), added = now - p->joules;
        m->joules += added < 0.0 ? added + p->range : added;
        p->joules = now;
    }
    return m->packages ? m->joules : NAN;
}

static void find_packages(node_meter *m)
{
    for (int i = 0; i < NODE_PACKAGES; i++) {
        node_package p = { i, package_file(m, i, "energy_uj"), package_file(m, i, "max_energy_range_uj") };
        if (is_package(m, i) && isfinite(p.joules) && isfinite(p.range)) m->package[m->packages++] = p;
    }
}

/* ---- cores ---- */

/* Fields of a line: name, user, nice, system, idle, I/O wait, interrupts, soft interrupts, stolen. */
static double busy_ticks(const node_meter *m, const char *line)
{
    double t[8] = { 0.0 };
    int core = -1;
    if (sscanf(line, "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &core, t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6,
               t + 7) < 8)
        return 0.0;
    return core >= 0 && core < NODE_CORES && m->is_used[core] ? t[0] + t[1] + t[2] + t[5] + t[6] + t[7] : 0.0;
}

/* /proc/stat begins with the sums of all cores; then each core has a line. */
static double busy_seconds(node_meter *m)
{
    double ticks = 0.0;
    if (!m->cores || !read_text(m->text, sizeof m->text, "%s/stat", m->proc)) return NAN;
    for (const char *line = strchr(m->text, '\n'); line && strncmp(line + 1, "cpu", 3) == 0;
         line = strchr(line + 1, '\n'))
        ticks += busy_ticks(m, line + 1);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

/* For systems without cpufreq. */
static double cpuinfo_hertz(node_meter *m)
{
    double sum = 0.0;
    int count = 0;
    if (!read_text(m->text, sizeof m->text, "%s/cpuinfo", m->proc)) return NAN;
    for (const char *at = m->text; count < CORES_READ && (at = strstr(at, "cpu MHz")) && (at = strchr(at, ':'));
         count++)
        sum += strtod(at + 1, NULL);
    return count ? 1e6 * sum / count : NAN;
}

static double core_hertz(node_meter *m)
{
    double sum = 0.0;
    int count = m->cores < CORES_READ ? m->cores : CORES_READ;
    for (int i = 0; i < count; i++) {
        char word[WORD];
        int core = m->core[i * m->cores / count];
        if (!read_text(word, sizeof word, "%s/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", m->sys, core))
            return cpuinfo_hertz(m);
        sum += 1e3 * strtod(word, NULL);
    }
    return count ? sum / count : NAN;
}

/* "0.20 0.18 0.12 1/80 11206": the fourth field is running / all. The caller itself is subtracted. */
static double load(const node_meter *m)
{
    char line[WORD];
    double running = NAN;
    if (read_text(line, sizeof line, "%s/loadavg", m->proc)) sscanf(line, "%*s %*s %*s %lf/", &running);
    return running - 1.0;
}

void node_open(node_meter *m, const char *proc, const char *sys)
{
    *m = (node_meter){ .proc = proc, .sys = sys };
    find_packages(m);
}

void node_add_core(node_meter *m, int core)
{
    if (core < 0 || core >= NODE_CORES || m->is_used[core]) return;
    m->is_used[core] = true;
    m->core[m->cores++] = (short)core;
}

node_state node_read(node_meter *m)
{
    return (node_state){
        .load = load(m), .core_hertz = core_hertz(m), .busy_seconds = busy_seconds(m), .joules = joules(m)
    };
}
