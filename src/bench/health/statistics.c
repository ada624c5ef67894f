/* Statistics of step times. */
#include "bench/health/statistics.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_numbers(double *x, int64_t n) { qsort(x, (size_t)n, sizeof *x, ascending); }

int64_t index_in(const double *sorted, int64_t n, double x)
{
    return (const double *)bsearch(&x, sorted, (size_t)n, sizeof x, ascending) - sorted;
}

double quantile(const double *sorted, int64_t n, double q)
{
    double position = q * (double)(n - 1), lower = floor(position);
    int64_t i = (int64_t)lower;
    return i + 1 < n ? sorted[i] + (position - lower) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

double median_of(const double *x, int64_t n)
{
    if (n < 1) return NAN;
    double *sorted = allocate(n, sizeof *sorted, "sorting step times");
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    sort_numbers(sorted, n);
    double median = 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
    free(sorted);
    return median;
}

double mean_of_last(const double *x, int64_t n, int64_t last)
{
    double sum = 0.0;
    if (last > n) last = n;
    for (int64_t i = n - last; i < n; i++) sum += x[i];
    return sum / (double)last;
}
