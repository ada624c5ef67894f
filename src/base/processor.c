/* Refuses to start on a processor that lacks instructions which this program was compiled for. The Makefile compiles
 * this file alone without -march, and its constructor runs before main and before all other constructors. */
#include "base/build_info.h"
#include "base/fail.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FEATURES_LENGTH = 8192, NAME_LENGTH = 32 };

/* Features of each -march level, named as in /proc/cpuinfo. A level also has the features of all later rows. */
static const struct {
    const char *march, *features;
} levels[] = { { "x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl" },
               { "x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe" },
               { "x86-64-v2", "pni ssse3 sse4_1 sse4_2 popcnt" },
               { "x86-64", "sse2" } };
enum { LEVELS = sizeof levels / sizeof *levels };

/* Copies the processor's list of features, with blanks around; empty if the system does not report it. */
static void read_features(char *features)
{
    char line[FEATURES_LENGTH];
    FILE *file = fopen("/proc/cpuinfo", "r");
    *features = '\0';
    while (file && !*features && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':');
        line[strcspn(line, "\n")] = '\0';
        if (list && (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0))
            snprintf(features, FEATURES_LENGTH, "%s ", list + 1);
    }
    if (file) fclose(file);
}

/* Writes the wanted features that are missing. Returns whether there are none. */
static bool has_all(const char *features, const char *wanted, char *missing, size_t length)
{
    size_t used = 0;
    for (missing[0] = '\0'; *wanted; wanted += strspn(wanted, " ")) {
        char name[NAME_LENGTH];
        size_t letters = strcspn(wanted, " ");
        snprintf(name, sizeof name, " %.*s ", (int)letters, wanted);
        wanted += letters;
        if (!strstr(features, name) && used < length)
            used += (size_t)snprintf(missing + used, length - used, "%s%.*s", used ? " " : "", (int)letters, name + 1);
    }
    return used == 0;
}

/* Returns the highest level whose features this processor has. */
static const char *best_march(const char *features)
{
    char missing[512];
    int best = LEVELS;
    while (best > 0 && has_all(features, levels[best - 1].features, missing, sizeof missing)) best--;
    return best < LEVELS ? levels[best].march : "native";
}

__attribute__((constructor(101))) static void processor_check(void)
{
    char features[FEATURES_LENGTH], missing[512];
    read_features(features);
    if (!*features || has_all(features, build_needs, missing, sizeof missing)) return;
    fprintf(
        stderr,
        "xgsw: built for another processor: this one lacks %s; build with `make MARCH=%s`, or on a node like this\n",
        missing, best_march(features));
    _exit(STATUS_REFUSED);
}
