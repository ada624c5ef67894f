/* Makes a plan of a graph: tries the engines that the heuristic proposes, in its order. */
#include "machine/cuda/cudnn/cudnn_graph.h"
#include <stdio.h>
#include <string.h>

enum { ENGINES = 16 };

cudnnBackendDescriptor_t graph_device(int device, char reason[GRAPH_REASON])
{
    int32_t id = device;
    const graph_attribute list[] = { { CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id } };
    return graph_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, list, 1, "device", reason);
}

cudnnBackendDescriptor_t graph_device_described(const char *json, char reason[GRAPH_REASON])
{
    const graph_attribute list[] = {
        { CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json },
    };
    return graph_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, list, 1, "device", reason);
}

static cudnnBackendDescriptor_t operations(const cudnn_graph *g, char *reason)
{
    const graph_attribute list[] = { { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->nodes,
                                       g->node } };
    return graph_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, list, 1, "graph", reason);
}

static cudnnBackendDescriptor_t heuristic(cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t device, char *reason)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const graph_attribute list[] = {
        { CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph },
        { CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode },
        { CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device },
    };
    return graph_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, list, 3, "heuristic", reason);
}

/* Returns whether an engine's configuration, or a plan of it, needs at most `limit` bytes of workspace. */
static bool fits(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t workspace, size_t limit, char *reason)
{
    int64_t bytes = INT64_MAX, count = 0;
    cudnnBackendGetAttribute(d, workspace, CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (bytes <= (int64_t)limit) return true;
    snprintf(reason, GRAPH_REASON, "an engine wants %lld bytes of workspace, it gets %zu", (long long)bytes, limit);
    return false;
}

/* Checks the workspace twice, because the plan may need more than its configuration states. */
static cudnnBackendDescriptor_t plan_of(cudnnBackendDescriptor_t configuration, cudnnBackendDescriptor_t device,
                                        size_t limit, char *reason)
{
    const graph_attribute list[] = {
        { CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration },
        { CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device },
    };
    if (!fits(configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, limit, reason)) return NULL;
    cudnnBackendDescriptor_t plan = graph_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, list, 2, "plan", reason);
    if (!plan || fits(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, limit, reason)) return plan;
    cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

/* Returns the configuration limited to `sms` SMs, or NULL if its engine has no such limit (none of cuDNN 9.19 has). */
static cudnnBackendDescriptor_t limit_sms(cudnnBackendDescriptor_t configuration, cudnnBackendDescriptor_t graph,
                                          cudnnBackendDescriptor_t device, int32_t sms)
{
    char unused[GRAPH_REASON] = "";
    int64_t count = 0, index = -1;
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                             &engine);
    cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index);
    cudnnBackendDestroyDescriptor(engine);
    const graph_attribute of_engine[] = {
        { CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph },
        { CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index },
        { CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &sms },
        { CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device },
    };
    engine = graph_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, of_engine, 4, "engine", unused);
    const graph_attribute of_configuration[] = {
        { CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine },
    };
    return engine ? graph_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, of_configuration, 1, "configuration", unused)
                  : NULL;
}

/* Keeps the descriptors from which the plan was made: cuDNN does not document that a plan copies them. */
static cudnnBackendDescriptor_t first_plan(cudnnBackendDescriptor_t results, cudnnBackendDescriptor_t graph,
                                           cudnnBackendDescriptor_t device, plan_limits limits, char *reason)
{
    cudnnBackendDescriptor_t configuration[ENGINES], plan = NULL;
    int64_t count = 0;
    for (int i = 0; i < ENGINES; i++)
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration[i]);
    cudnn_ok(reason,
             cudnnBackendGetAttribute(results, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES,
                                      &count, configuration),
             "engines");
    if (count == 0 && !reason[0]) snprintf(reason, GRAPH_REASON, "no engine takes this graph");
    for (int64_t i = 0; i < count && i < ENGINES && !plan; i++) {
        cudnnBackendDescriptor_t limited = limits.sms ? limit_sms(configuration[i], graph, device, limits.sms) : NULL;
        reason[0] = 0;
        if (limited) plan = plan_of(limited, device, limits.workspace, reason);
        if (plan) break;
        if (limited) cudnnBackendDestroyDescriptor(limited);
        reason[0] = 0;
        plan = plan_of(configuration[i], device, limits.workspace, reason);
    }
    for (int i = 0; i < ENGINES && !plan; i++) cudnnBackendDestroyDescriptor(configuration[i]);
    return plan;
}

cudnnBackendDescriptor_t graph_plan(cudnn_graph *g, cudnnBackendDescriptor_t device, plan_limits limits)
{
    cudnnBackendDescriptor_t plan = NULL, graph = operations(g, g->reason);
    cudnnBackendDescriptor_t results = graph ? heuristic(graph, device, g->reason) : NULL;
    if (results) plan = first_plan(results, graph, device, limits, g->reason);
    if (results && !plan) cudnnBackendDestroyDescriptor(results);
    if (graph && !plan) cudnnBackendDestroyDescriptor(graph);
    return plan;
}

bool graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *uid, void *const *data,
               void *workspace, char reason[GRAPH_REASON])
{
    const graph_attribute list[] = {
        { CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uid },
        { CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data },
        { CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace },
    };
    cudnnBackendDescriptor_t d = graph_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, list, 3, "operands", reason);
    bool ran = d && cudnn_ok(reason, cudnnBackendExecute(handle, plan, d), "execution");
    if (d) cudnnBackendDestroyDescriptor(d);
    return ran;
}
