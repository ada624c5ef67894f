/* Who holds what and who talks to whom: this rank's place in the mesh and the groups it belongs to.
 * rank = (((pipeline D + data) S + shard) C + context) T + tensor, with as many ranks D, S, C, T. Of expert > 1, which
 * shard > 1 excludes, the expert rank is (data C + context) mod expert. */
#pragma once
#include "machine/queue/submit.h"
#include "plan/bench_case.h"

/* A link is a group of two, sender and receiver, along which neighbours in the pipeline hand each other activations
 * (forward) and their gradients (backward). Stage p's FORWARD_OUT is stage p + 1's FORWARD_IN, and its BACKWARD_IN that
 * one's BACKWARD_OUT; with several chunks the last stage and the first are neighbours too. Both ends submit
 * one-transfer exchanges in the same order, independently of every other link: one queue of {send, receive} pairs would
 * not do, since under 1F1B a stage that receives the next activation early, grouped with a send, waits for its
 * neighbour, which waits for that send. */
typedef enum { LINK_FORWARD_IN, LINK_FORWARD_OUT, LINK_BACKWARD_IN, LINK_BACKWARD_OUT, LINKS } mesh_link;
enum { LINK_SENDER, LINK_RECEIVER };

/* A mesh on paper has no communicators. */
typedef enum { MESH_PAPER, MESH_ON_HOST, MESH_ON_CUDA } mesh_connection;

typedef struct {
    mesh_layout layout;
    int rank;           /* of the world; also within the mesh if takes_part */
    bool takes_part;    /* ranks beyond layout.ranks sit it out */
    mesh_connection on; /* what its groups have communicators of */
    int at[AXES];       /* coordinates */
    group axis[AXES];
    group context_reversed; /* the context axis from its last rank to its first */
    group gradient;         /* data x context: hold the same gradients and sum them; rank order as in the mesh */
    group model;            /* pipeline x shard x tensor: hold each parameter once together */
    group expert;           /* of data x context, those that hold the experts of a layer between them */
    group expert_gradient;  /* of data x context, those that hold the same experts */
    group all;              /* every rank of the mesh */
    group link[LINKS]; /* size 1 where there is no neighbour; on the host they use the pipeline axis' communicator */
} mesh;

/* rank: of the world. Not on paper: makes communicators (collective over the world, every rank calls it). One-rank
 * meshes need none. */
mesh_connection mesh_on(machine_kind kind);
void mesh_open(mesh *m, const mesh_layout *layout, int rank, mesh_connection on);
/* If not on paper, every rank of the world calls it, in the order in which it opened: the splits that meshes share are
 * counted. */
void mesh_close(mesh *m);
/* Transfers of every group and link are numbered from the first again. */
void mesh_restart(mesh *m);
/* A mesh of this rank alone. */
void mesh_open_alone(mesh *m, int rank);
