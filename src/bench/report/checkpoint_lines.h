/* Report lines of checkpoints. */
#pragma once
#include "bench/facts/result.h"

/* Prints the loaded and the saved checkpoints, and the steps that the mean excludes because of them. Prints nothing if
 * the deck asks for no checkpoint. */
void say_checkpoints(const case_result *r);
