/* Comparison of the launcher's variables, of MPI, and of programs. */
#include "bench/launch/start_check.h"
#include "base/build_info.h"
#include "machine/watch/launcher.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void start_program_sha256(char hex[SHA256_HEX])
{
    char piece[1 << 16];
    FILE *binary = fopen("/proc/self/exe", "rb");
    hex[0] = 0;
    if (!binary) return;
    sha256 s;
    sha256_open(&s);
    for (size_t got; (got = fread(piece, 1, sizeof piece, binary)) > 0;) sha256_add(&s, piece, got);
    sha256_close(&s, hex);
    if (ferror(binary)) hex[0] = 0;
    fclose(binary);
}

/* Within an allocation mpirun starts its helpers with srun, so the variables of MPI and PMI are checked first. */
static bool is_srun_without_pmi(void)
{
    static const char *const others[] = { "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_PORT" };
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (getenv(others[i])) return false;
    return getenv("SLURM_PROCID") && tasks && atoi(tasks) > 1;
}

static void write_without_pmi(char sentence[START_SENTENCE])
{
    snprintf(sentence, START_SENTENCE,
             "xgsw: srun started %s processes without PMI, so each is alone: srun --mpi=pmix (srun --mpi=list names "
             "what this Slurm has), or the mpirun of %s",
             getenv("SLURM_STEP_NUM_TASKS"), build_mpi);
}

/* Other MPIs than Open MPI may get the ranks from Slurm without PMI. */
bool start_lacks_pmi(char sentence[START_SENTENCE])
{
    if (strncmp(build_mpi, "Open MPI", 8) != 0 || !is_srun_without_pmi()) return false;
    write_without_pmi(sentence);
    return true;
}

/* Returns the number of ranks that the launcher started, or those of this node if only they are known; 0 if unknown. In
 * a heterogeneous job, Slurm's variables describe one component only. */
static int launched_ranks(void)
{
    launch_place here = launch_here();
    bool component = getenv("SLURM_HET_SIZE") || getenv("SLURM_PACK_SIZE");
    if (here.ranks > 0) return component ? 0 : here.ranks;
    return here.local_ranks > 1 && world_ranks() == 1 ? here.local_ranks : 0;
}

/* With the launcher of another MPI, every process has a world of one rank, and each would pass alone. */
bool start_is_split(char sentence[START_SENTENCE])
{
    int launched = launched_ranks();
    if (launched == 0 || launched == world_ranks()) return false;
    if (world_ranks() == 1 && is_srun_without_pmi()) write_without_pmi(sentence);
    else if (world_ranks() == 1)
        snprintf(sentence, START_SENTENCE,
                 "xgsw: %d ranks were started, but each is alone: start them with the mpirun of %s (one rank: mpirun "
                 "-np 1)",
                 launched, build_mpi);
    else
        snprintf(sentence, START_SENTENCE,
                 "xgsw: the launcher reports %d ranks, but MPI connects %d: start all of them at once, "
                 "with the mpirun of %s",
                 launched, world_ranks(), build_mpi);
    return true;
}

/* Identity of a rank. Ranks of different programs exchange it, so all versions must keep this layout. */
enum { HOST = 64, SHOWN = 256 };
typedef enum { PROGRAM, ARGUMENTS, TRAITS } trait;
typedef struct {
    char host[HOST], digest[TRAITS][SHA256_HEX], shown[TRAITS][SHOWN];
} identity;

/* The digest includes the build, because the file may be unreadable. */
static void describe_program(identity *own)
{
    char hex[SHA256_HEX];
    sha256 s;
    start_program_sha256(hex);
    sha256_open(&s);
    sha256_add(&s, hex, strlen(hex));
    sha256_add(&s, build_commit, strlen(build_commit));
    sha256_add(&s, build_flags, strlen(build_flags));
    sha256_add(&s, build_date, strlen(build_date));
    sha256_close(&s, own->digest[PROGRAM]);
    snprintf(own->shown[PROGRAM], SHOWN, "%.12s%s%.12s%s, built %s%s", hex, *hex ? ", commit " : "commit ",
             build_commit, build_dirty ? " (modified)" : "", build_date, build_debug ? ", debug" : "");
}

/* The zero byte at the end of each argument separates arguments. */
static void describe_arguments(identity *own, int argc, char **argv)
{
    sha256 s;
    size_t used = 0;
    sha256_open(&s);
    for (int i = 1; i < argc; i++) {
        sha256_add(&s, argv[i], strlen(argv[i]) + 1);
        int more = snprintf(own->shown[ARGUMENTS] + used, SHOWN - used, "%s%s", i > 1 ? " " : "", argv[i]);
        used = used + (size_t)more < SHOWN ? used + (size_t)more : SHOWN - 1;
    }
    sha256_close(&s, own->digest[ARGUMENTS]);
    if (argc < 2) snprintf(own->shown[ARGUMENTS], SHOWN, "none");
}

bool start_programs_differ(int argc, char **argv, char sentence[START_SENTENCE])
{
    static const char *const words[TRAITS][2] = { { "runs another program", "start one file on all ranks" },
                                                  { "has other arguments", "give all ranks the same" } };
    identity own = { .host = "" }, first;
    snprintf(own.host, sizeof own.host, "%s", world_host());
    describe_program(&own);
    describe_arguments(&own, argc, argv);
    first = own;
    world_broadcast(&first, sizeof first, 0);
    sentence[0] = 0;
    for (int t = 0; t < TRAITS && !sentence[0]; t++)
        if (strcmp(own.digest[t], first.digest[t]) != 0)
            snprintf(sentence, START_SENTENCE, "xgsw: rank %d on %s %s than rank 0 on %s: %s; not %s: %s", world_rank(),
                     own.host, words[t][0], first.host, own.shown[t], first.shown[t], words[t][1]);
    world_share_sentence(sentence, START_SENTENCE);
    return sentence[0] != 0;
}
