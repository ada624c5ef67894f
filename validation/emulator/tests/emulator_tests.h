/* Runs tests in child processes: each passes, or fails with the expected message. Prints TAP. */
#pragma once
#include "emulator.h"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

struct test_case {
    const char *name;
    void (*run)();
    const char *dies_with;
}; /* NULL: it passes */

static inline void expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "wrong: %s\n", what);
    exit(3);
}

#define EXPECT_CUDA(call) expect((call) == cudaSuccess, #call)

/* Returns the child's stderr. *ended_well: whether it ended with status 0. */
static inline std::string run_child(const test_case &t, bool *ended_well)
{
    int ends[2];
    if (pipe(ends) != 0) abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        t.run();
        exit(0);
    }
    close(ends[1]);
    std::string said;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) said.append(part, size_t(n));
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    *ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return said;
}

static inline bool run_test(const test_case &t)
{
    bool ended_well;
    std::string said = run_child(t, &ended_well);
    bool right = t.dies_with ? !ended_well && said.find(t.dies_with) != std::string::npos : ended_well;
    if (!right && t.dies_with) printf("# expected: %s\n", t.dies_with);
    if (!right) printf("# said: %s\n", said.substr(0, 800).c_str());
    return right;
}

static inline int run_tests(const test_case *tests, size_t count)
{
    int failed = 0;
    printf("1..%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        fflush(stdout);
        bool right = run_test(tests[i]);
        printf("%s %zu - %s\n", right ? "ok" : "not ok", i + 1, tests[i].name);
        failed += !right;
    }
    return failed > 0;
}

/* Floats in device memory. */
struct device_floats {
    float *data;
    size_t count;
    explicit device_floats(size_t n) : data(NULL), count(n)
    {
        void *p;
        EXPECT_CUDA(cudaMalloc(&p, n * sizeof(float)));
        data = static_cast<float *>(p);
    }
    ~device_floats() { cudaFree(data); }
    void read(float *to) const { EXPECT_CUDA(cudaMemcpy(to, data, count * sizeof(float), cudaMemcpyDeviceToHost)); }
    void write(const float *from)
    {
        EXPECT_CUDA(cudaMemcpy(data, from, count * sizeof(float), cudaMemcpyHostToDevice));
    }
    void count_up()
    {
        float *x = new float[count];
        for (size_t i = 0; i < count; i++) x[i] = float(i);
        write(x);
        delete[] x;
    }
};

struct test_stream {
    cudaStream_t stream;
    test_stream() { EXPECT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0)); }
    void finish() { EXPECT_CUDA(cudaStreamSynchronize(stream)); }
};
