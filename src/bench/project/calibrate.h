/* Calibration: this machine measured by its own ranks, as a sheet. */
#pragma once
#include "plan/deck/deck.h"

/* Measures every distinct computing operation of this rank's share of each case, alone, on all ranks at the same time;
 * then each kind of transfer over all ranks. Rank 0 writes NAME.sheet, with the mean of the ranks. Returns false and a
 * sentence if a case cannot be laid out or the file not written. Collective. */
bool calibrate(const deck *d, const char *name, double seconds, char *why, size_t length);
