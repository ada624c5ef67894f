/* Report lines of checkpoints. */
#pragma once
#include "bench/facts/result.h"

/* Prints the loaded and the last saved checkpoint, and the pauses before steps, which the mean excludes. Prints nothing
 * if the deck asks for no checkpoint. */
void say_checkpoints(const case_result *r);
