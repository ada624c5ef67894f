/* Output for the user. These variables belong to the process, as its stdout does. */
#include "base/say.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool prints = true;
static int failure; /* errno of the first write that failed */

void say_enable(bool enabled) { prints = enabled; }
bool say_enabled(void) { return prints; }

void say(const char *format, ...)
{
    if (!prints) return;
    va_list arguments;
    va_start(arguments, format);
    bool failed = vprintf(format, arguments) < 0;
    va_end(arguments);
    size_t length = strlen(format);
    if (length && format[length - 1] == '\n') failed |= fflush(stdout) != 0;
    if (failed && !failure) failure = errno;
}

const char *say_failure(void)
{
    if (fflush(stdout) != 0 && !failure) failure = errno;
    return failure ? strerror(failure) : NULL;
}
