/* Output for the user. These variables belong to the process, as its stdout does. */
#include "base/say.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>

static bool prints = true;
static FILE *copy;                /* gets every line, too; NULL if there is none */
static int failure, copy_failure; /* errno of the first write that failed */

void say_enable(bool enabled) { prints = enabled; }
bool say_enabled(void) { return prints; }
void say_copy(FILE *file) { copy = file; }

/* Flushes after a newline. Returns errno if the write failed, otherwise 0. */
static int print(FILE *to, const char *format, va_list arguments)
{
    size_t length = strlen(format);
    bool failed = vfprintf(to, format, arguments) < 0;
    if (length && format[length - 1] == '\n') failed |= fflush(to) != 0;
    return failed ? errno : 0;
}

/* The copy comes first, so that it has every line that stdout has. After a failure it ends, without gaps. */
void say(const char *format, ...)
{
    va_list arguments;
    if (prints && copy && !copy_failure) {
        va_start(arguments, format);
        copy_failure = print(copy, format, arguments);
        va_end(arguments);
    }
    if (!prints) return;
    va_start(arguments, format);
    int error = print(stdout, format, arguments);
    va_end(arguments);
    if (!failure) failure = error;
}

void say_passing(const char *format, ...)
{
    va_list arguments;
    if (!prints) return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

bool say_lost(void)
{
    if (fflush(stdout) != 0 && !failure) failure = errno;
    if (copy && fclose(copy) != 0 && !copy_failure) copy_failure = errno;
    copy = NULL;
    if (failure) fprintf(stderr, "xgsw: the report could not be written: %s\n", strerror(failure));
    if (copy_failure) fprintf(stderr, "xgsw: the file of output could not be written: %s\n", strerror(copy_failure));
    return failure || copy_failure;
}
