/* Multiprocessors (SMs) of a GPU that products leave free for transfers.
 *
 * A kernel of NCCL holds one SM for each of its thread blocks until its peers arrive. A product launches as many thread
 * blocks as it may use. If one of them finds no free SM, the product needs a second wave and takes up to twice as long
 * (pytorch issue 143988). Products therefore leave as many SMs free as transfers next to them can hold at one time. */
#pragma once
#include "plan/bench_case.h"
#include <stddef.h>

/* Kinds of transfers that run next to products, each on a separate queue. At most one transfer of a kind holds SMs at a
 * time, one for each link. A receive of a pipeline is posted one action ahead, so its kernel is almost always there.
 * Sums of gradients over data ranks are missing, because they run next to the last microbatch only. */
typedef enum { ROOM_LINKS, ROOM_STRIPS, ROOM_CONTEXT, ROOM_SHARD, ROOM_PARTS } room_part;

typedef struct {
    int link, apart, turns; /* thread blocks of a communicator: of a pipeline link; of tensor, expert and context
                               groups; of the other groups, which take turns */
    int holds[ROOM_PARTS];  /* SMs that the transfers of each kind can hold */
    bool moved[ROOM_PARTS]; /* copy engines move them, so they hold no SM */
    bool given;             /* the deck's transfer_sms sets what is left */
    int left;               /* SMs that products leave free */
} transfer_room;

/* Returns the SMs on a rank of this pipeline stage. moved: one bit (1 << part) for each kind that copy engines move. */
transfer_room room_of(const bench_case *c, int stage, unsigned moved);
/* Returns the bits `moved` for a machine whose copy engines reach `domain` adjacent ranks. */
unsigned room_moved_within(const mesh_layout *l, int domain);
/* Writes "8 SMs left free: pipeline links 4, context 4; copy engines move tensor/expert"; returns text. */
enum { ROOM_TEXT = 160 };
const char *room_words(const transfer_room *r, char text[ROOM_TEXT]);
