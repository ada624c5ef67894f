/* Runs a case that ends the process in a child: the test's program with the case's name as argument. It must exit with
 * status 1 and print the words. */
#pragma once
#include "units/tests.h"
#include <sys/wait.h>

typedef struct {
    const char *name;
    void (*run)(void);
    const char *words;
} fatal;

static inline void fatal_run(const fatal *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) list[i].run();
}

static inline void assert_fatal(const char *program, const fatal *f)
{
    char command[512], said[1024];
    snprintf(command, sizeof command, "%s %s 2>&1", program, f->name);
    FILE *other = popen(command, "r");
    assert_non_null(other);
    said[fread(said, 1, sizeof said - 1, other)] = 0;
    int status = pclose(other);
    if (!strstr(said, f->words)) fail_msg("%s said: %s", f->name, said);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
