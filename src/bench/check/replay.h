/* xgsw --replay FILE: repeats one operation that a run has written to a file as a mismatch (machine/prove/shadow.h). */
#pragma once

/* Runs the operation on the same kind of device, and compares the result with the host. Returns the exit status:
 * PASSED; FAILED if it differs; REFUSED if the file cannot be read, no element is compared, or the operation needs a
 * GPU and none is usable. */
int replay(const char *path);
