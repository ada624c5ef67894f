/* xgsw --replay FILE: an operation that a run wrote as a mismatch (machine/prove/shadow.h), run again alone and
 * compared again. */
#pragma once

/* An operation of a GPU runs on the GPU, one of the host on the host. Returns the exit status: PASSED, FAILED if it
 * differs, REFUSED if the file is none, nothing of it is compared, or no GPU is usable for an operation of one. */
int replay(const char *path);
