/* Who holds what and who talks to whom: this rank's place in the mesh and the groups it belongs to.
 * rank = (((pipeline D + data) S + shard) C + context) T + tensor (design part 5). */
#pragma once
#include "machine/fabric.h"
#include "plan/bench_case.h"

typedef struct {
    mesh_layout layout;
    int rank;                       /* of the world; also within the mesh if takes_part */
    bool takes_part;                /* ranks beyond layout.ranks sit it out */
    bool connected;                 /* groups have communicators */
    int at[AXES];                   /* coordinates */
    group axis[AXES];
    group gradient;                 /* data x shard x context: share a gradient; rank order as in the mesh */
    group model;                    /* pipeline x tensor: hold each parameter once together */
    group all;                      /* every rank of the mesh */
    int *ranks;                     /* storage of the groups' world_rank lists, owned */
} mesh;

/* rank: of the world. connect: make communicators (collective over the world, every rank calls it); without, the mesh is
 * paper only. One-rank meshes need no connecting. */
void mesh_open(mesh *m, const mesh_layout *layout, int rank, bool connect);
/* Collective over the ranks that take part, if connected. */
void mesh_close(mesh *m);
/* A mesh of this rank alone. */
void mesh_open_alone(mesh *m, int rank);
