/* cuDNN's graph interface, loaded when a run first needs it. Call its functions by their usual names. */
#pragma once
#include <cudnn_graph.h>
#include <stdbool.h>
#include <stddef.h>

/* Loads cuDNN if it is not loaded yet. Returns false and writes why if the library or a function is missing. */
bool cudnn_load(char *why, size_t length);

/* clang-format off */
#define CUDNN_FUNCTIONS(F) \
    F(cudnnGetVersion) F(cudnnCreate) F(cudnnDestroy) F(cudnnSetStream) F(cudnnGetErrorString) \
    F(cudnnGetLastErrorString) F(cudnnBackendCreateDescriptor) F(cudnnBackendDestroyDescriptor) \
    F(cudnnBackendSetAttribute) F(cudnnBackendGetAttribute) F(cudnnBackendFinalize) F(cudnnBackendExecute)
/* clang-format on */
#define CUDNN_POINTER(function) __typeof__(&function) function;
typedef struct {
    CUDNN_FUNCTIONS(CUDNN_POINTER)
} cudnn_functions;
extern cudnn_functions cudnn;

#define cudnnGetVersion cudnn.cudnnGetVersion
#define cudnnCreate cudnn.cudnnCreate
#define cudnnDestroy cudnn.cudnnDestroy
#define cudnnSetStream cudnn.cudnnSetStream
#define cudnnGetErrorString cudnn.cudnnGetErrorString
#define cudnnGetLastErrorString cudnn.cudnnGetLastErrorString
#define cudnnBackendCreateDescriptor cudnn.cudnnBackendCreateDescriptor
#define cudnnBackendDestroyDescriptor cudnn.cudnnBackendDestroyDescriptor
#define cudnnBackendSetAttribute cudnn.cudnnBackendSetAttribute
#define cudnnBackendGetAttribute cudnn.cudnnBackendGetAttribute
#define cudnnBackendFinalize cudnn.cudnnBackendFinalize
#define cudnnBackendExecute cudnn.cudnnBackendExecute
