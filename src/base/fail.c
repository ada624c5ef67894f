/* Ends the run after a failure. The installed function belongs to the process, as exit handlers do. */
#include "base/fail.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*end_all)(int status);
static char identity[128] = "xgsw";

void fail_install(void (*end_all_ranks)(int status), const char *process)
{
    end_all = end_all_ranks;
    snprintf(identity, sizeof identity, "%s", process);
}

_Noreturn void fail_end(int status)
{
    if (end_all) end_all(status);
    _Exit(status);
}

_Noreturn void fail_at(const char *file, int line, int status, const char *format, ...)
{
    char sentence[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "%s: %s:%d: %s\n", identity, file, line, sentence);
    fflush(stderr);
    if (end_all) end_all(status);
    exit(status);
}
