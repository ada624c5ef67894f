/* cudnn/: attention by cuDNN. A graph of operations on 4-dimensional tensors is built node by node. A plan runs it and
 * computes in FP32. Making a plan allocates memory, may take seconds, and needs a device or the description of one. */
#pragma once
#include "machine/cuda/cudnn/cudnn_library.h"
#include <stdint.h>

enum { GRAPH_TENSORS = 64, GRAPH_NODES = 48, GRAPH_DIMS = 4, GRAPH_REASON = 256 };

typedef struct {
    cudnnDataType_t type;
    int64_t dim[GRAPH_DIMS], stride[GRAPH_DIMS];
} graph_shape;
/* A tensor's number in the graph. */
typedef int graph_tensor;

typedef struct {
    graph_shape shape[GRAPH_TENSORS];
    cudnnBackendDescriptor_t tensor[GRAPH_TENSORS];
    int tensors;
    cudnnBackendDescriptor_t node[GRAPH_NODES];
    int nodes;
    char reason[GRAPH_REASON]; /* why the first failed call failed; empty: none failed */
} cudnn_graph;

/* Returns the shape of a contiguous tensor. */
graph_shape graph_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d);
graph_shape graph_transposed(graph_shape s); /* swaps the last two dimensions */

void graph_open(cudnn_graph *g);
void graph_close(cudnn_graph *g);
/* Add a tensor: device memory or a host scalar, both bound to uid > 0 in graph_run; a virtual tensor (a result). */
graph_tensor graph_memory(cudnn_graph *g, int64_t uid, graph_shape s);
graph_tensor graph_scalar(cudnn_graph *g, int64_t uid, cudnnDataType_t type);
typedef union {
    float real;
    int32_t integer;
} graph_number; /* a scalar's value */
graph_tensor graph_virtual(cudnn_graph *g, graph_shape s);

/* Add a node: y = f(x), f(x, b), or t ? x : b for BINARY_SELECT. GRAPH_NONE: absent. axis: for GEN_INDEX. */
enum { GRAPH_NONE = -1 };
void graph_pointwise(cudnn_graph *g, cudnnPointwiseMode_t mode, graph_tensor y, graph_tensor x, graph_tensor b,
                     graph_tensor t);
void graph_index(cudnn_graph *g, int64_t axis, graph_tensor y, graph_tensor x);
void graph_matmul(cudnn_graph *g, graph_tensor c, graph_tensor a, graph_tensor b);
void graph_reduce(cudnn_graph *g, cudnnReduceTensorOp_t how, graph_tensor y, graph_tensor x);
void graph_reshape(cudnn_graph *g, graph_tensor y, graph_tensor x);

/* Returns whether the call succeeded. If not, writes what failed and why. */
bool cudnn_ok(char reason[GRAPH_REASON], cudnnStatus_t status, const char *what);
/* Returns a finalized descriptor with these attributes, or NULL on failure or if reason is not empty before. */
typedef struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *value;
} graph_attribute;
cudnnBackendDescriptor_t graph_descriptor(cudnnBackendDescriptorType_t type, const graph_attribute *list, int count,
                                          const char *what, char reason[GRAPH_REASON]);

/* Returns the device that plans are made for: a real one, or one described by JSON (tests). NULL: see reason. */
cudnnBackendDescriptor_t graph_device(int device, char reason[GRAPH_REASON]);
cudnnBackendDescriptor_t graph_device_described(const char *json, char reason[GRAPH_REASON]);

/* workspace: in bytes. sms: the SMs that the plan may use, if the engine has that setting; 0: all. */
typedef struct {
    size_t workspace;
    int32_t sms;
} plan_limits;
/* Returns a plan of the first proposed engine that takes the graph. The graph must then stay open. Returns NULL if no
 * engine takes it (g->reason). */
cudnnBackendDescriptor_t graph_plan(cudnn_graph *g, cudnnBackendDescriptor_t device, plan_limits limits);
/* Queues the plan. data[i] is the address of uid[i]: device memory, or a scalar on the host, which is read at once. */
bool graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *uid, void *const *data,
               void *workspace, char reason[GRAPH_REASON]);
