/* What a user reads. Whether this process prints is the process's own state, as its stdout is. */
#include "base/say.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool prints = true;

void say_enable(bool enabled) { prints = enabled; }
bool say_enabled(void) { return prints; }

void say(const char *format, ...)
{
    if (!prints) return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    size_t length = strlen(format);
    if (length && format[length - 1] == '\n') fflush(stdout);
}
