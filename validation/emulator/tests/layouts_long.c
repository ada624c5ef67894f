/* The layouts of layouts.c in more orders of the devices' work. */
#define LAYOUTS_ORDERS 20
#include "layouts.c"
