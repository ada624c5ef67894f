/* Of step times. */
#pragma once
#include <stdint.h>

/* In ascending order; not-a-numbers anywhere. */
void sort_numbers(double *x, int64_t n);
/* Index of x, which is among n numbers in ascending order. */
int64_t place_in(const double *sorted, int64_t n, double x);
/* Of n > 0 numbers in ascending order the one below which the part q of them lies, 0 to 1, linear between neighbours.
 */
double quantile(const double *sorted, int64_t n, double q);
/* Of n numbers in any order, of an even count the mean of the middle two; NaN of none. */
double median_of(const double *x, int64_t n);
/* Of the last `last` of n > 0, or of all. */
double mean_of_last(const double *x, int64_t n, int64_t last);
