/* Division of the multiprocessors (SMs) of a GPU: those that products leave free for transfers, and those that each
 * kind of transfer can hold.
 *
 * A kernel of NCCL holds one SM for each of its thread blocks until its peers arrive. A product launches as many thread
 * blocks as it may use. If one of them finds no free SM, the product needs a second wave and takes up to twice as long
 * (pytorch issue 143988). Products therefore leave as many SMs free as transfers next to them can hold at one time. */
#pragma once
#include "plan/bench_case.h"
#include <stddef.h>

/* Kinds of transfers that run next to products, each on a separate queue: of pipeline links; of tensor or expert, of
 * context and of shard groups. At most one transfer of a kind holds SMs at a time, one for each link. A pipeline
 * receive is posted one action ahead, so its kernel is almost always there. Sums of gradients over data ranks are not
 * counted, because they run next to the last microbatch only. */
typedef enum { LINK_TRANSFERS, TENSOR_TRANSFERS, CONTEXT_TRANSFERS, SHARD_TRANSFERS, TRANSFER_KINDS } transfer_kind;

typedef struct {
    /* Thread blocks of a communicator: of a link; of a tensor, expert or context group; of all other groups. */
    int link_blocks, separate_blocks, shared_blocks;
    int held[TRANSFER_KINDS];    /* SMs that the transfers of each kind can hold */
    bool copied[TRANSFER_KINDS]; /* copy engines move them, so they hold no SM */
    bool by_deck;                /* the deck gives transfer_sms */
    int left_free;               /* SMs that products leave free */
} sm_shares;

/* Returns the shares on a rank of a stage. copied: one bit (1 << kind) for each kind that copy engines move. */
sm_shares sm_shares_of(const bench_case *c, int stage, unsigned copied);
/* Returns the bits `copied` for a machine whose copy engines reach `domain` adjacent ranks. */
unsigned copy_engine_kinds(const mesh_layout *l, int domain);
/* Writes "8 SMs left free: pipeline links 4, context 4; copy engines move tensor/expert"; returns text. */
enum { SM_SHARES_TEXT = 160 };
const char *sm_shares_text(const sm_shares *s, char text[SM_SHARES_TEXT]);
