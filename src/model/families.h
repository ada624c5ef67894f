/* The families that are built. */
#pragma once
#include "model/family.h"

extern const family llama; /* llama.c: Llama 2 and 3.1 */
