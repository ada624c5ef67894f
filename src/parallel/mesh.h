/* Coordinates of this rank in the mesh, and its groups. rank = (((pipeline D + data) S + shard) C + context) T +
 * tensor, with D, S, C and T ranks along these axes. With expert > 1, which excludes shard > 1, the expert rank is
 * (data C + context) mod expert. Copies of the mesh follow one another: copy = world rank / layout.ranks. No group
 * spans copies. */
#pragma once
#include "machine/queue/submit.h"
#include "plan/bench_case.h"

/* Links. A link is a group of two, sender and receiver, through which neighbours in the pipeline pass activations
 * (forward) and their gradients (backward). The FORWARD_OUT of stage p is the FORWARD_IN of stage p + 1, and its
 * BACKWARD_IN is that stage's BACKWARD_OUT. With several chunks the last stage and the first are neighbours, too. Both
 * ends submit its transfers in the same order, independently of other links. If a stage grouped a send with an early
 * receive of the next activation, 1F1B would deadlock: the neighbour sends that activation only after this send. */
typedef enum { LINK_FORWARD_IN, LINK_FORWARD_OUT, LINK_BACKWARD_IN, LINK_BACKWARD_OUT, LINKS } mesh_link;
enum { LINK_SENDER, LINK_RECEIVER };

/* Machine of a mesh's communicators. A mesh on paper has none. */
typedef enum { MESH_PAPER, MESH_ON_HOST, MESH_ON_CUDA } mesh_connection;

typedef struct {
    mesh_layout layout;
    int rank;                   /* world rank */
    bool takes_part;            /* false for ranks beyond those of all copies, which stay idle */
    mesh_connection connection; /* machine of the groups' communicators */
    int at[AXES];               /* coordinates */
    group axis[AXES];
    group context_reversed; /* the context axis from its last rank to its first */
    group gradient;         /* data x context: ranks that sum their gradients, in the mesh's order */
    group model;            /* pipeline x shard x tensor: ranks that together hold each parameter once */
    group expert;           /* ranks of data x context that together hold the experts of a layer */
    group expert_gradient;  /* ranks of data x context that hold the same experts */
    group all;              /* every rank of the mesh */
    group link[LINKS];      /* size 1 without a neighbour; on the host they use the pipeline axis' communicator */
} mesh;

/* Opens a mesh and makes its communicators; rank: world rank. Collective over the world unless on paper. mesh_on
 * returns a machine's connection. */
mesh_connection mesh_on(machine_kind kind);
void mesh_open(mesh *m, const mesh_layout *layout, int rank, mesh_connection connection);
/* Closes a mesh. Collective over the world unless on paper; in the order of opening, because meshes share
 * communicators. */
void mesh_close(mesh *m);
/* Restarts the numbering of transfers in every group and link. */
void mesh_restart(mesh *m);
/* Opens a mesh of this rank alone. */
void mesh_open_alone(mesh *m, int rank);
