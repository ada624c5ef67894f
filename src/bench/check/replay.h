/* xgsw --replay FILE: runs one operation again that a run wrote as a mismatch (machine/prove/shadow.h). */
#pragma once

/* Runs the operation on the kind of device that ran it first, and compares it with the host again. Returns the exit
 * status: PASSED; FAILED if it differs; REFUSED if the file cannot be read, no element is compared, or the operation
 * needs a GPU and none is usable. */
int replay(const char *path);
