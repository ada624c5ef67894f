/* How many multiprocessors (SMs) of a GPU products leave free for transfers.
 *
 * A kernel of NCCL holds one SM for each of its thread blocks until its peers have come. A product launches as many
 * thread blocks as it may use. Where one of them finds no free SM, the product needs a second wave and takes up to
 * twice as long (pytorch issue 143988). So products leave as many SMs as transfers next to them can hold at one time.
 */
#pragma once
#include "plan/bench_case.h"
#include <stddef.h>

/* Transfers that run next to products, each kind on a queue of its own: at most one of a kind holds SMs at a time, of
 * links one each. A receive of a pipeline is posted one action ahead, so its kernel is there almost always. Sums of
 * gradients over data ranks are no such kind: they run next to the last microbatch only. */
typedef enum { ROOM_LINKS, ROOM_STRIPS, ROOM_CONTEXT, ROOM_SHARD, ROOM_PARTS } room_part;

typedef struct {
    int link, apart, turns; /* thread blocks of a communicator: of a pipeline's link; of the tensor, expert and context
                               groups; of the other groups, which take turns */
    int holds[ROOM_PARTS];  /* SMs that the transfers of each kind can hold */
    bool moved[ROOM_PARTS]; /* copy engines move them, which hold none */
    bool given;             /* the deck's transfer_sms says what is left */
    int left;               /* SMs that products leave free */
} transfer_room;

/* Returns the room on a rank of that pipeline stage. moved: one bit (1 << part) for each kind that copy engines move.
 */
transfer_room room_of(const bench_case *c, int stage, unsigned moved);
/* Returns such bits for a machine whose copy engines reach `domain` ranks that follow one another. */
unsigned room_moved_within(const mesh_layout *l, int domain);
/* Writes "8 SMs left free: pipeline links 4, context 4; copy engines move tensor/expert"; returns text. */
enum { ROOM_TEXT = 160 };
const char *room_words(const transfer_room *r, char text[ROOM_TEXT]);
