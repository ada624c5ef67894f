/* xgsw --replay FILE: an operation that a run wrote as a mismatch (machine/shadow.h), run again alone and compared again. */
#pragma once

/* On the GPU if there is one, else on the host. Returns the exit status: PASSED, FAILED if it differs, REFUSED if the file is none. */
int replay(const char *path);
