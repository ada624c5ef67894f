/* sgemm N: measures this machine's oneDNN rate: one FP32 product of N x N matrices, flop/s, best of several runs. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 12 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int words, char **word)
{
    long n = words == 2 ? strtol(word[1], NULL, 10) : 0;
    size_t elements = (size_t)(n * n);
    float *a = malloc(elements * sizeof *a), *b = malloc(elements * sizeof *b), *c = malloc(elements * sizeof *c);
    double best = 1e30;
    if (!a || !b || !c || !n) return 1;
    for (size_t i = 0; i < elements; i++)
        a[i] = (float)rand() / (float)RAND_MAX - 0.5f, b[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < REPEATS; i++) {
        double begin = now();
        if (dnnl_sgemm('N', 'N', n, n, n, 1.0f, a, n, b, n, 0.0f, c, n) != dnnl_success) return 1;
        double seconds = now() - begin;
        if (i > 1 && seconds < best) best = seconds;
    }
    printf("%.6e\n", 2.0 * (double)n * (double)n * (double)n / best);
    return 0;
}
