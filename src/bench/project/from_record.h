/* What a run measured, as lines of a sheet: rank 0's operations and transfers of the last step of each case. */
#pragma once
#include "plan/sheet/sheet.h"

/* Puts them before what the sheet lists. The record's deck is laid out on paper again: so each span's operation is
 * known with its shapes. An operation has the mean of its spans, a transfer, whose spans include waiting, the shortest.
 * Returns false and a sentence if the file is no record of a run on the sheet's machine, or of another build. */
bool sheet_from_record(machine_sheet *s, const char *path, char *why, size_t length);
