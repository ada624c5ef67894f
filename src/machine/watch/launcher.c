/* Environment variables of launchers: Open MPI, PMI, PMIx and Slurm. */
#include "machine/watch/launcher.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef const char *const names[6];
static names rank_names = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID" };
static names ranks_names = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS" };
static names local_rank_names = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID" };
static names local_ranks_names = { "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE" };
/* Variables that identify a run, and a node of it. A node with two host names counts as two nodes. */
static names run_names = { "PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports", "SLURM_STEP_ID", "PMI_JOBID" };
static names node_names = { "SLURM_JOB_ID", "SLURM_NODEID", "PMIX_HOSTNAME", "OMPI_MCA_orte_local_daemon_uri" };

static int number_of(names variables)
{
    for (int i = 0; variables[i]; i++) {
        const char *text = getenv(variables[i]);
        if (text && text[0] >= '0' && text[0] <= '9') return atoi(text);
    }
    return -1;
}

launch_place launch_here(void)
{
    return (launch_place){ number_of(rank_names), number_of(ranks_names), number_of(local_rank_names),
                           number_of(local_ranks_names) };
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash * 1099511628211u;
}

bool launch_name(char *name, size_t length)
{
    char host[256] = "";
    uint64_t hash = 14695981039346656037u;
    bool known = false;
    for (int i = 0; run_names[i]; i++) {
        known = known || getenv(run_names[i]);
        hash = add_text(hash, getenv(run_names[i]));
    }
    for (int i = 0; node_names[i]; i++) hash = add_text(hash, getenv(node_names[i]));
    gethostname(host, sizeof host - 1);
    hash = add_text(hash, host);
    snprintf(name, length, "xgsw-%u-%016llx", (unsigned)geteuid(), (unsigned long long)hash);
    return known;
}
