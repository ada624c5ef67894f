/* The tests of bitwise_pipeline.c with more hostile orders. */
#define HOSTILE_SEEDS 50
#include "bitwise_pipeline.c"
