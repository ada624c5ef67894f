/* A call that must work did not: say who, where and what, then end every rank within a bound. */
#pragma once

enum {
    STATUS_PASSED = 0,
    STATUS_FAILED = 1,
    STATUS_REFUSED = 2,
    STATUS_NOTHING = 3, /* was trained */
    STATUS_STOPPED = 75,
    STATUS_HANG = 86,
    STATUS_RECORD = 87
};

/* Prints "rank R on HOST: FILE:LINE: sentence" to stderr and ends all ranks with the status. */
#define FAIL(...) fail_at(__FILE__, __LINE__, STATUS_FAILED, __VA_ARGS__)
#define FAIL_STATUS(status, ...) fail_at(__FILE__, __LINE__, status, __VA_ARGS__)
_Noreturn void fail_at(const char *file, int line, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends all ranks, when everything was said; any thread may. */
_Noreturn void fail_end(int status);

/* Who ends all ranks (machine/world.c installs MPI's abort); without one the process exits. who: "rank 3 on host7". */
void fail_install(void (*end_all_ranks)(int status), const char *who);
