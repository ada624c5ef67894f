/* Failure of a call that must work: prints the rank, the source line and the cause, then ends all ranks. */
#pragma once

enum {
    STATUS_PASSED = 0,
    STATUS_FAILED = 1,
    STATUS_REFUSED = 2,
    STATUS_NOTHING = 3, /* nothing was trained */
    STATUS_STOPPED = 75,
    STATUS_HANG = 86,
    STATUS_RECORD = 87
};

/* Prints "rank R on HOST: FILE:LINE: sentence" to stderr and ends all ranks with the status. */
#define FAIL(...) fail_at(__FILE__, __LINE__, STATUS_FAILED, __VA_ARGS__)
#define FAIL_STATUS(status, ...) fail_at(__FILE__, __LINE__, status, __VA_ARGS__)
_Noreturn void fail_at(const char *file, int line, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends all ranks after the failure was printed. Any thread may call it. */
_Noreturn void fail_end(int status);

/* Sets the function that ends all ranks; without it the process exits alone. process: "rank 3 on host7". */
void fail_install(void (*end_all_ranks)(int status), const char *process);
