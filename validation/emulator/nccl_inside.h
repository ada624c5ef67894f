/* Shared by the files of the emulated NCCL. */
#pragma once
/* Uses MPI's C interface only: the old C++ interface needs another library. */
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "emulator.h"
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mpi.h>
#include <nccl.h>
#include <set>
#include <vector>

namespace emulator_nccl
{

struct operation;

/* The operations of communicators that share resources. They run one after the other in the order of submission. */
typedef std::deque<operation *> turns;

enum task_kind { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, SEND, RECEIVE };
struct task {
    task_kind kind;
    const char *from; /* SEND and collectives */
    char *to;         /* RECEIVE and collectives */
    size_t count;     /* as given by the caller */
    ncclDataType_t type;
    ncclRedOp_t how;
    int peer; /* SEND, RECEIVE */
    ncclComm_t comm;
    cudaStream_t stream;
    size_t place; /* offset in the window that copy engines write to; NO_PLACE: kernels copy */
};
enum : size_t { NO_PLACE = SIZE_MAX };

const char *name_of(task_kind kind);
size_t bytes_of(ncclDataType_t type);
void mpi_check(int code, const char *call);

/* Queues tasks of one communicator as one operation on the stream of the first: a collective, or sends and receives. */
void submit(const std::vector<task> &tasks);

/* Sets to[i] to the sum over ranks r of part[r][i] (ncclInt32: the maximum), in the order of a ring, rounded at every
 * hop. first: index of to[0] in the whole. */
void sum_ring(char *to, const std::vector<const char *> &part, size_t count, ncclDataType_t type, size_t first);

} // namespace emulator_nccl

struct ncclComm {
    MPI_Comm mpi;
    int rank, ranks;
    ncclConfig_t config;
    std::shared_ptr<emulator_nccl::turns> order;
    std::set<int> met_receivers, met_senders;
    bool met_all; /* all first transfers are done */
    std::atomic<bool> aborted;
    std::atomic<ncclResult_t> error;
    bool destroyed;
    long long held; /* bytes of device memory */
    std::set<ncclWindow_t> windows;
};

#define MPI_CHECK(call) emulator_nccl::mpi_check((call), #call)
