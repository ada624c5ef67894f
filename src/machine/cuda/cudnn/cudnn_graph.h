/* cudnn/: attention by cuDNN. A graph of operations on tensors of four dimensions, built node by node, and a plan that
 * runs it, in FP32. Building allocates and may take seconds; it needs a device or the description of one. */
#pragma once
#include "machine/cuda/cudnn/cudnn_library.h"
#include <stdint.h>

enum { GRAPH_TENSORS = 64, GRAPH_NODES = 48, GRAPH_DIMS = 4, GRAPH_REASON = 256 };

typedef struct {
    cudnnDataType_t type;
    int64_t dim[GRAPH_DIMS], stride[GRAPH_DIMS];
} graph_shape;
/* A tensor of the graph, by its number. */
typedef int graph_tensor;

typedef struct {
    graph_shape shape[GRAPH_TENSORS];
    cudnnBackendDescriptor_t tensor[GRAPH_TENSORS];
    int tensors;
    cudnnBackendDescriptor_t node[GRAPH_NODES];
    int nodes;
    char reason[GRAPH_REASON]; /* of the first call that failed; empty: none did */
} cudnn_graph;

/* dim in order, as a tensor without gaps. */
graph_shape graph_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d);
graph_shape graph_transposed(graph_shape s); /* the last two dimensions */

void graph_open(cudnn_graph *g);
void graph_close(cudnn_graph *g);
/* Memory, given by uid > 0 when the plan runs; a scalar likewise, from host memory; what passes between nodes. */
graph_tensor graph_memory(cudnn_graph *g, int64_t uid, graph_shape s);
graph_tensor graph_scalar(cudnn_graph *g, int64_t uid, cudnnDataType_t type);
typedef union {
    float real;
    int32_t integer;
} graph_number; /* of a scalar */
graph_tensor graph_between(cudnn_graph *g, graph_shape s);

/* Nodes. y = f(x), f(x, b), or for BINARY_SELECT t ? x : b; absent ones are GRAPH_NONE. axis: of GEN_INDEX. */
enum { GRAPH_NONE = -1 };
void graph_pointwise(cudnn_graph *g, cudnnPointwiseMode_t mode, graph_tensor y, graph_tensor x, graph_tensor b,
                     graph_tensor t);
void graph_index(cudnn_graph *g, int64_t axis, graph_tensor y, graph_tensor x);
void graph_matmul(cudnn_graph *g, graph_tensor c, graph_tensor a, graph_tensor b);
void graph_reduce(cudnn_graph *g, cudnnReduceTensorOp_t how, graph_tensor y, graph_tensor x);
void graph_reshape(cudnn_graph *g, graph_tensor y, graph_tensor x);

/* Did it succeed? Else the reason says what failed and why. */
bool cudnn_ok(char reason[GRAPH_REASON], cudnnStatus_t status, const char *what);
/* A descriptor with these attributes; NULL: the reason says why, or said so before. */
typedef struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *value;
} graph_attribute;
cudnnBackendDescriptor_t graph_described(cudnnBackendDescriptorType_t type, const graph_attribute *list, int count,
                                         const char *what, char reason[GRAPH_REASON]);

/* The device that plans are made for: a real one, or one that JSON describes (tests). NULL: reason says why. */
cudnnBackendDescriptor_t graph_device(int device, char reason[GRAPH_REASON]);
cudnnBackendDescriptor_t graph_device_described(const char *json, char reason[GRAPH_REASON]);

/* workspace: bytes at most. sms: on how many SMs it runs, if the engine takes such a number; 0: on all. */
typedef struct {
    size_t workspace;
    int32_t sms;
} plan_limits;
/* Returns a plan by the heuristic's first engine that takes the graph, which must then stay open; NULL: g->reason says
 * why none does. */
cudnnBackendDescriptor_t graph_plan(cudnn_graph *g, cudnnBackendDescriptor_t device, plan_limits limits);
/* Queues the plan. uid[i] lies at data[i]: device memory, or host memory of a scalar, which is read at once. */
bool graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *uid, void *const *data,
               void *workspace, char reason[GRAPH_REASON]);
