/* From a graph to a plan: engines that the heuristic names are tried in its order. */
#include "machine/cuda/cudnn_graph.h"
#include <stdio.h>
#include <string.h>

enum { ENGINES = 16 };

static bool worked(char *reason, cudnnStatus_t status, const char *what)
{
    char words[GRAPH_REASON / 2] = "";
    if (status == CUDNN_STATUS_SUCCESS) return true;
    cudnnGetLastErrorString(words, sizeof words);
    snprintf(reason, GRAPH_REASON, "%s: %s: %s", what, cudnnGetErrorString(status), words);
    return false;
}

/* A descriptor of one attribute. */
static cudnnBackendDescriptor_t simple(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t kind,
                                       int64_t count, const void *value, const char *what, char *reason)
{
    cudnnBackendDescriptor_t d = NULL;
    if (!worked(reason, cudnnBackendCreateDescriptor(type, &d), what)) return NULL;
    if (worked(reason, cudnnBackendSetAttribute(d, name, kind, count, value), what) && worked(reason, cudnnBackendFinalize(d), what)) return d;
    cudnnBackendDestroyDescriptor(d);
    return NULL;
}

cudnnBackendDescriptor_t graph_device(int device, char reason[GRAPH_REASON])
{
    int32_t id = device;
    return simple(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id, "device", reason);
}

cudnnBackendDescriptor_t graph_device_described(const char *json, char reason[GRAPH_REASON])
{
    return simple(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  (int64_t)strlen(json) + 1, json, "device", reason);
}

static cudnnBackendDescriptor_t heuristic(cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t device, char *reason)
{
    cudnnBackendDescriptor_t d = NULL;
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    if (!worked(reason, cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &d), "heuristic")) return NULL;
    if (worked(reason, cudnnBackendSetAttribute(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph), "heuristic") &&
        worked(reason, cudnnBackendSetAttribute(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode), "heuristic") &&
        worked(reason, cudnnBackendSetAttribute(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device), "heuristic") &&
        worked(reason, cudnnBackendFinalize(d), "heuristic"))
        return d;
    cudnnBackendDestroyDescriptor(d);
    return NULL;
}

/* Does the configuration's engine do with so much workspace? */
static bool fits(cudnnBackendDescriptor_t configuration, size_t most, char *reason)
{
    int64_t bytes = INT64_MAX, count = 0;
    cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (bytes <= (int64_t)most) return true;
    snprintf(reason, GRAPH_REASON, "an engine wants %lld bytes of workspace, it gets %zu", (long long)bytes, most);
    return false;
}

static cudnnBackendDescriptor_t plan_of(cudnnBackendDescriptor_t configuration, cudnnBackendDescriptor_t device, char *reason)
{
    cudnnBackendDescriptor_t d = NULL;
    if (!worked(reason, cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &d), "plan")) return NULL;
    if (worked(reason, cudnnBackendSetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration), "plan") &&
        worked(reason, cudnnBackendSetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device), "plan") &&
        worked(reason, cudnnBackendFinalize(d), "plan"))
        return d;
    cudnnBackendDestroyDescriptor(d);
    return NULL;
}

/* A plan keeps what it needs of its configuration. */
static cudnnBackendDescriptor_t first_plan(cudnnBackendDescriptor_t found, cudnnBackendDescriptor_t device, size_t most, char *reason)
{
    cudnnBackendDescriptor_t configuration[ENGINES], plan = NULL;
    int64_t count = 0;
    for (int i = 0; i < ENGINES; i++) cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration[i]);
    worked(reason, cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES, &count, configuration),
           "engines");
    if (count == 0 && !reason[0]) snprintf(reason, GRAPH_REASON, "no engine takes this graph");
    for (int64_t i = 0; i < count && i < ENGINES && !plan; i++) {
        reason[0] = 0;
        if (fits(configuration[i], most, reason)) plan = plan_of(configuration[i], device, reason);
    }
    for (int i = 0; i < ENGINES; i++) cudnnBackendDestroyDescriptor(configuration[i]);
    return plan;
}

cudnnBackendDescriptor_t graph_plan(cudnn_graph *g, cudnnBackendDescriptor_t device, size_t most)
{
    if (g->reason[0]) return NULL;
    cudnnBackendDescriptor_t plan = NULL;
    cudnnBackendDescriptor_t graph = simple(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            g->nodes, g->node, "graph", g->reason);
    cudnnBackendDescriptor_t found = graph ? heuristic(graph, device, g->reason) : NULL;
    if (found) plan = first_plan(found, device, most, g->reason);
    if (found) cudnnBackendDestroyDescriptor(found);
    if (graph) cudnnBackendDestroyDescriptor(graph);
    return plan;
}

bool graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *uid, void *const *data, void *workspace,
               char reason[GRAPH_REASON])
{
    cudnnBackendDescriptor_t pack = NULL;
    bool ran = worked(reason, cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), "operands") &&
               worked(reason, cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uid), "operands") &&
               worked(reason, cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data), "operands") &&
               worked(reason, cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace), "operands") &&
               worked(reason, cudnnBackendFinalize(pack), "operands") &&
               worked(reason, cudnnBackendExecute(handle, plan, pack), "execution");
    if (pack) cudnnBackendDestroyDescriptor(pack);
    return ran;
}
