/* NCCL versions with defects that end or hang a run, and how xgsw avoids each defect. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum {
    DEFECT_PAIR_WINDOWS, /* communicators of two ranks take no windows */
    DEFECT_LINKS,        /* layouts with pipeline > 1 are refused */
    NCCL_DEFECTS
} nccl_defect;

/* Returns whether the loaded NCCL has the defect. If so, writes a clause: the defect and a version without it. */
bool nccl_has_defect(nccl_defect which, char *why, size_t length);
/* Returns whether transfers can run here: no environment variable changes their thread blocks or order, and NCCL has no
 * defect that hangs them. links: some layout has pipeline > 1. If they cannot run, writes why: a clause. */
bool cuda_transfers_suit(bool links, char *why, size_t length);
