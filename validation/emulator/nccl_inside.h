/* What the files of the emulated NCCL share. */
#pragma once
/* MPI as C: its old C++ interface needs a library of its own. */
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

/* Communicators that share resources: their operations run one after the other, in the order in which the host
 * submitted them. */
typedef std::deque<operation *> turns;

enum task_kind { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, SEND, RECEIVE };
struct task {
    task_kind kind;
    const char *from; /* SEND and collectives */
    char *to;         /* RECEIVE and collectives */
    size_t count;     /* as the caller gave it */
    ncclDataType_t type;
    ncclRedOp_t how;
    int peer; /* SEND, RECEIVE */
    ncclComm_t comm;
    cudaStream_t stream;
    size_t place; /* in the window of the communicator that copy engines write to; NO_PLACE: kernels do it */
};
enum : size_t { NO_PLACE = SIZE_MAX };

const char *name_of(task_kind kind);
size_t bytes_of(ncclDataType_t type);
void mpi_check(int code, const char *call);

/* Queues tasks of one communicator as one operation on the stream of the first: a collective, or any number of sends
 * and receives. */
void submit(const std::vector<task> &tasks);

/* to[i] = the sum of part[r][i] over ranks r, of ncclInt32 the largest, as one order of a ring makes it, rounded at
 * every hop. first: of to in the whole. */
void sum_ring(char *to, const std::vector<const char *> &part, size_t count, ncclDataType_t type, size_t first);

} // namespace emulator_nccl

struct ncclComm {
    MPI_Comm mpi;
    int rank, ranks;
    ncclConfig_t config;
    std::shared_ptr<emulator_nccl::turns> order;
    std::set<int> met_receivers, met_senders;
    bool met_all; /* with whom the first transfer is behind it */
    std::atomic<bool> aborted;
    std::atomic<ncclResult_t> error;
    bool destroyed;
    long long held; /* bytes of the device */
    std::set<ncclWindow_t> windows;
};

#define MPI_CHECK(call) emulator_nccl::mpi_check((call), #call)
