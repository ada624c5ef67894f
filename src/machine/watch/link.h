/* What the nodes of a run tell each other, by TCP and apart from MPI: once a second each sends the states of its ranks
 * to the first node, or to the next one that answers when that is silent, and hears that node's and how the run goes
 * on. */
#pragma once
#include "machine/watch/state.h"

/* Of this process, from now on. */
link_address link_listen(void);
typedef struct links links;
/* everybody [ranks]: of each rank in order; those that stand for a board are the nodes. own: this rank's board. */
links *link_open(const link_address *everybody, int ranks, uint64_t own);

/* Sends and hears what is to be sent and heard now. states [slots]: ages in place of times. True: the run ends, and who
 * said so has said why. */
bool link_talk(links *l, const node_word *word, rank_state *states, double now);

bool link_judges(const links *l); /* is this the process that judges? */
/* Of it: all nodes' word, and the states of all ranks [ranks]; those of nodes that are not heard of any more are marked
 * ('L'). */
node_word link_word(const links *l, double now);
void link_states(const links *l, double now, rank_state *all);
void link_end(links *l); /* tells the other nodes that the run ends */
/* Nodes that were never heard of, after so long that they will not be: then nobody judges for all. */
int link_unreached(const links *l, double now);
bool link_is_alone(const links *l, double now); /* this node has to judge for itself */

/* Has every other node been heard of, or the one that judges answered? */
bool link_made(const links *l);
