/* Statistics of step times. */
#pragma once
#include <stdint.h>

/* Sorts in ascending order. The positions of NaN are undefined. */
void sort_numbers(double *x, int64_t n);
/* Returns the index of x, which is one of n numbers in ascending order. */
int64_t index_in(const double *sorted, int64_t n, double x);
/* Returns the quantile q (0 to 1) of n > 0 numbers in ascending order, linear between neighbours. */
double quantile(const double *sorted, int64_t n, double q);
/* Returns the median of n numbers in any order; NaN if n is 0. */
double median_of(const double *x, int64_t n);
/* Returns the mean of the last `last` of n > 0 numbers, or of all if there are fewer. */
double mean_of_last(const double *x, int64_t n, int64_t last);
