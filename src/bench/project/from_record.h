/* Lines of a sheet from the record of a run: operations and transfers of rank 0 in the last step of each case. */
#pragma once
#include "plan/sheet/sheet.h"

/* Inserts the times of a record before the sheet's own. The record's deck is laid out on paper again, which gives the
 * shapes of each span's operation. An operation gets the mean of its spans. A transfer gets the shortest, because its
 * spans include waiting. Returns false and a sentence if the file is no record, is of another machine than the sheet's,
 * or has other operations than this build. */
bool sheet_from_record(machine_sheet *s, const char *path, char *why, size_t length);
