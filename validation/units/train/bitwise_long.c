/* The tests of bitwise.c with more hostile orders. */
#define HOSTILE_SEEDS 50
#include "bitwise.c"
