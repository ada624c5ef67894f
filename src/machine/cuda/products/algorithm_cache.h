/* Algorithms that trials found, kept from run to run in a text file: one line for each device, version of cuBLASLt,
 * product and number of multiprocessors left to transfers. The lines of other devices and versions stay. */
#pragma once
#include "machine/cuda/products/product.h"

/* Adds the file's lines to those that this process knows; a line that is not whole is passed over. path NULL: no file.
 */
void algorithm_cache_read(const char *path);
/* Takes the known algorithm for an opened product, if the library accepts it now. */
bool algorithm_cache_find(product *p);
void algorithm_cache_add(const product *p);
/* Adds to the file what it lacks, by a new file in its place; ranks take turns. A file that cannot be written is said,
 * once. */
void algorithm_cache_write(const char *path);
