/* As agreement_layouts.c: every cut of agreement.c x sharding x recompute mask x overlap, each in one order of its own.
 */
#define LAYOUTS_EVERY 1
#define LAYOUTS_ORDERS 1
#include "agreement_layouts.c"
