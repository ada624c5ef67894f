/* The layouts of agreement_layouts.c in more orders of the devices' work. */
#define LAYOUTS_ORDERS 20
#include "agreement_layouts.c"
