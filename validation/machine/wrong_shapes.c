/* Preloaded by validation/machine/timed_shapes.t. Makes libraries wrong in every call with large operands.
 * WRONG_SHAPES="zeros BYTES": oneDNN returns zeros for products of BYTES or more; "piece BYTES": the second quarter of
 * the product is not written; "cut BYTES": of messages of BYTES or more only the first 8 bytes arrive, and MPI reports
 * success. For messages of exactly BYTES (pieces of an all_to_all over all ranks): "exchange BYTES": rank 1 gets the
 * pieces of ranks 2 and 3 swapped; "before BYTES": it gets rank 0's piece of the step before. No oneDNN header is
 * needed: these calls are the same in versions 2 and 3. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESTINATION = 17, ARRIVES = 8, KEPT = 4096, PIECES = 4 }; /* PIECES: messages per step between two ranks */
typedef struct {
    int name;
    void *memory;
} argument;

/* Returns the BYTES of this deed, or SIZE_MAX if another deed was requested. */
static size_t bytes_asked(const char *deed)
{
    static char asked[16];
    static size_t bytes;
    if (!asked[0] && sscanf(getenv("WRONG_SHAPES"), "%15s %zu", asked, &bytes) != 2) abort();
    return strcmp(deed, asked) == 0 ? bytes : SIZE_MAX;
}

/* Returns whether this deed applies to operands of this size. */
static int strikes(const char *deed, size_t bytes) { return bytes >= bytes_asked(deed); }

int dnnl_primitive_execute(const void *primitive, void *stream, int count, const argument *x)
{
    int (*execute)(const void *, void *, int, const argument *) = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    int (*shape_of)(void *, const void **) = dlsym(RTLD_NEXT, "dnnl_memory_get_memory_desc");
    int (*data_of)(void *, void **) = dlsym(RTLD_NEXT, "dnnl_memory_get_data_handle");
    size_t (*size_of)(const void *) = dlsym(RTLD_NEXT, "dnnl_memory_desc_get_size"), bytes = 0;
    char *data = NULL, *old = NULL;
    const void *shape;
    for (int i = 0; i < count; i++)
        if (x[i].name == DESTINATION && !shape_of(x[i].memory, &shape) && !data_of(x[i].memory, (void **)&data))
            bytes = size_of(shape);
    if (strikes("piece", bytes)) old = memcpy(malloc(bytes), data, bytes);
    int code = execute(primitive, stream, count, x);
    if (strikes("zeros", bytes)) memset(data, 0, bytes);
    if (old) memcpy(data + bytes / 4, old + bytes / 4, bytes / 4);
    free(old);
    return code;
}

/* The receives posted, by rank and tag. */
static struct {
    int from, tag, bytes;
} awaited[KEPT];
static int last;

/* Returns whether this rank must commit this deed on a piece of this size. */
static int strikes_piece(const char *deed, int on, int bytes)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == on && (size_t)bytes == bytes_asked(deed);
}

/* Returns the data sent one step before, and keeps a copy of this step's. The result is valid until the second next
 * call. */
static const void *sent_before(const void *data, size_t bytes)
{
    static char *sent[2 * PIECES];
    static int number;
    char **now = &sent[number % (2 * PIECES)], *before = sent[(number + PIECES) % (2 * PIECES)];
    number++;
    if (!*now) *now = malloc(bytes);
    memcpy(*now, data, bytes);
    return before ? before : data;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (to == 1 && strikes_piece("before", 0, count)) data = sent_before(data, (size_t)count);
    return PMPI_Isend(data, strikes("cut", (size_t)count) ? ARRIVES : count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (strikes("cut", (size_t)count)) {
        last = (last + 1) % KEPT;
        awaited[last].from = from, awaited[last].tag = tag, awaited[last].bytes = count;
    }
    if ((from == 2 || from == 3) && strikes_piece("exchange", 1, count)) from = 5 - from;
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
    int code = PMPI_Get_count(status, type, count);
    for (int i = 0; i < KEPT && *count == ARRIVES; i++)
        if (awaited[i].bytes && awaited[i].from == status->MPI_SOURCE && awaited[i].tag == status->MPI_TAG) {
            *count = awaited[i].bytes;
            awaited[i].bytes = 0;
        }
    return code;
}
