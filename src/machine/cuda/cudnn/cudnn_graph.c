/* Graphs of cuDNN's backend interface. */
#include "machine/cuda/cudnn/cudnn_graph.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

cudnn_functions cudnn;

#define CUDNN_NAME(function) #function,

bool cudnn_load(char *why, size_t length)
{
    static const char *const names[] = { CUDNN_FUNCTIONS(CUDNN_NAME) };
    static bool loaded;
    void *library = loaded ? NULL : dlopen(XGSW_CUDNN, RTLD_NOW | RTLD_LOCAL);
    if (loaded) return true;
    if (!library) snprintf(why, length, "%s", dlerror());
    for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) snprintf(why, length, "%s has no %s", XGSW_CUDNN, names[i]);
        if (!symbol) return false;
        memcpy((char *)&cudnn + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return loaded = library != NULL;
}

graph_shape graph_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (graph_shape){ type, { a, b, c, d }, { b * c * d, c * d, d, 1 } };
}

graph_shape graph_transposed(graph_shape s)
{
    graph_shape t = s;
    t.dim[2] = s.dim[3], t.dim[3] = s.dim[2];
    t.stride[2] = s.stride[3], t.stride[3] = s.stride[2];
    return t;
}

bool cudnn_ok(char reason[GRAPH_REASON], cudnnStatus_t status, const char *what)
{
    char words[GRAPH_REASON / 2] = "";
    if (status == CUDNN_STATUS_SUCCESS) return true;
    cudnnGetLastErrorString(words, sizeof words);
    snprintf(reason, GRAPH_REASON, "%s: %s: %s", what, cudnnGetErrorString(status), words);
    return false;
}

cudnnBackendDescriptor_t graph_descriptor(cudnnBackendDescriptorType_t type, const graph_attribute *list, int count,
                                          const char *what, char reason[GRAPH_REASON])
{
    cudnnBackendDescriptor_t d = NULL;
    if (reason[0] || !cudnn_ok(reason, cudnnBackendCreateDescriptor(type, &d), what)) return NULL;
    for (int i = 0; i < count && !reason[0]; i++)
        cudnn_ok(reason, cudnnBackendSetAttribute(d, list[i].name, list[i].type, list[i].count, list[i].value), what);
    if (!reason[0]) cudnn_ok(reason, cudnnBackendFinalize(d), what);
    if (!reason[0]) return d;
    cudnnBackendDestroyDescriptor(d);
    return NULL;
}

void graph_open(cudnn_graph *g) { *g = (cudnn_graph){ .tensors = 0 }; }

void graph_close(cudnn_graph *g)
{
    for (int i = 0; i < g->nodes; i++) cudnnBackendDestroyDescriptor(g->node[i]);
    for (int i = 0; i < g->tensors; i++) cudnnBackendDestroyDescriptor(g->tensor[i]);
}

/* uids of virtual tensors begin at UID_VIRTUAL. */
enum { UID_VIRTUAL = 1000, ALIGNMENT = 16 };

static graph_tensor add_tensor(cudnn_graph *g, int64_t uid, graph_shape s, bool by_value)
{
    int64_t alignment = ALIGNMENT;
    bool is_virtual = uid == 0;
    if (g->tensors == GRAPH_TENSORS) snprintf(g->reason, GRAPH_REASON, "a graph has %d tensors", GRAPH_TENSORS);
    if (g->reason[0]) return GRAPH_NONE;
    if (is_virtual) uid = UID_VIRTUAL + g->tensors;
    const graph_attribute list[] = {
        { CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid },
        { CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &s.type },
        { CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, GRAPH_DIMS, s.dim },
        { CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, GRAPH_DIMS, s.stride },
        { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment },
        { CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual },
        { CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value },
    };
    cudnnBackendDescriptor_t d = graph_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, list, 7, "tensor", g->reason);
    if (!d) return GRAPH_NONE;
    g->tensor[g->tensors] = d;
    g->shape[g->tensors] = s;
    return g->tensors++;
}

graph_tensor graph_memory(cudnn_graph *g, int64_t uid, graph_shape s) { return add_tensor(g, uid, s, false); }
graph_tensor graph_scalar(cudnn_graph *g, int64_t uid, cudnnDataType_t type)
{
    return add_tensor(g, uid, graph_dense(type, 1, 1, 1, 1), true);
}
graph_tensor graph_virtual(cudnn_graph *g, graph_shape s) { return add_tensor(g, 0, s, false); }

/* An edge joins a node to one of its tensors. */
typedef struct {
    cudnnBackendAttributeName_t name;
    graph_tensor tensor;
} edge;

static void add_node(cudnn_graph *g, cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t attribute,
                     cudnnBackendDescriptor_t what, const edge *edges, int count)
{
    graph_attribute list[8];
    int n = 0;
    if (g->nodes == GRAPH_NODES) snprintf(g->reason, GRAPH_REASON, "a graph has %d nodes", GRAPH_NODES);
    if (what) list[n++] = (graph_attribute){ attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what };
    for (int i = 0; i < count && !g->reason[0]; i++)
        if (edges[i].tensor != GRAPH_NONE)
            list[n++] =
                (graph_attribute){ edges[i].name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[edges[i].tensor] };
    cudnnBackendDescriptor_t d = graph_descriptor(type, list, n, "operation", g->reason);
    if (d) g->node[g->nodes++] = d;
    if (what) cudnnBackendDestroyDescriptor(what);
}

static const cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT;

static void add_pointwise(cudnn_graph *g, cudnnPointwiseMode_t mode, int64_t axis, const edge *edges, int count)
{
    const graph_attribute list[] = {
        { CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode },
        { CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &arithmetic },
        { CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis },
    };
    cudnnBackendDescriptor_t what =
        graph_descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, list, axis < 0 ? 2 : 3, "pointwise", g->reason);
    add_node(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what, edges,
             count);
}

void graph_pointwise(cudnn_graph *g, cudnnPointwiseMode_t mode, graph_tensor y, graph_tensor x, graph_tensor b,
                     graph_tensor t)
{
    const edge edges[] = { { CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x },
                           { CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b },
                           { CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t },
                           { CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y } };
    add_pointwise(g, mode, -1, edges, 4);
}

void graph_index(cudnn_graph *g, int64_t axis, graph_tensor y, graph_tensor x)
{
    const edge edges[] = { { CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x }, { CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y } };
    add_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, axis, edges, 2);
}

void graph_matmul(cudnn_graph *g, graph_tensor c, graph_tensor a, graph_tensor b)
{
    const graph_attribute list[] = { { CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &arithmetic } };
    const edge edges[] = { { CUDNN_ATTR_OPERATION_MATMUL_ADESC, a },
                           { CUDNN_ATTR_OPERATION_MATMUL_BDESC, b },
                           { CUDNN_ATTR_OPERATION_MATMUL_CDESC, c } };
    cudnnBackendDescriptor_t what = graph_descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, list, 1, "matmul", g->reason);
    add_node(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, what, edges, 3);
}

void graph_reduce(cudnn_graph *g, cudnnReduceTensorOp_t how, graph_tensor y, graph_tensor x)
{
    const graph_attribute list[] = { { CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how },
                                     { CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &arithmetic } };
    const edge edges[] = { { CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x }, { CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y } };
    cudnnBackendDescriptor_t what =
        graph_descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, list, 2, "reduction", g->reason);
    add_node(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what, edges, 2);
}

void graph_reshape(cudnn_graph *g, graph_tensor y, graph_tensor x)
{
    const edge edges[] = { { CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x }, { CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y } };
    add_node(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, NULL, edges, 2);
}
