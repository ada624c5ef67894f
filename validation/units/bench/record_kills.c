/* kill -9 at random moments of a process that commits over and over: the named file is always there, whole, and no
 * older than the last commit that was acknowledged. RECORD_KILLS=10000 for the long version. */
#include "record_sample.h"
#include <hdf5.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static char folder[64], path[128], reason[512];

/* What the killed and the killer both see. */
typedef struct {
    volatile int64_t acknowledged;
    volatile bool ready;
} blackboard;

/* Commits 1, 2, 3, ...: the number is in every place of the record that this test looks at. */
static void commit_until_killed(blackboard *board)
{
    record *r = sample_open(path, 1, reason, sizeof reason);
    bench_case c = sample_case(SAMPLE_HOST);
    case_result result = sample_result(&c, SAMPLE_HOST);
    if (r) record_add(r, &result);
    board->ready = true;
    for (int64_t n = board->acknowledged + 1; r; n++) {
        result.total_seconds = result.median_seconds = result.check.seconds = (double)n;
        for (int64_t t = 0; t < c.warmup + c.steps; t++) result.step_seconds[t] = result.loss[t] = (double)n;
        if (!record_commit(r, reason, sizeof reason)) _exit(1);
        board->acknowledged = n;
    }
    _exit(2);
}

/* Every value of a dataset is n? Its length, or -1. */
static int64_t all_are(hid_t file, const char *name, double *n)
{
    double values[16];
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    int64_t count = H5Sget_simple_extent_npoints(space);
    if (count < 1 || count > 16 || H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        count = -1;
    if (*n < 0.0) *n = values[0];
    for (int64_t i = 0; i < count; i++)
        if (values[i] != *n) return -1;
    H5Sclose(space), H5Dclose(set);
    return count;
}

/* The number that the record holds everywhere; -1 if it is torn, 0 if there is none yet. */
static double number_in_file(void)
{
    struct stat status;
    if (stat(path, &status) != 0) return 0.0;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return -1.0;
    double n = -1.0;
    bool whole = all_are(file, "/case_0001/results/total_seconds", &n) == 1 &&
                 all_are(file, "/case_0001/results/median_seconds", &n) == 1 &&
                 all_are(file, "/case_0001/steps/step_seconds", &n) == 13 &&
                 all_are(file, "/case_0001/steps/losses", &n) == 13 &&
                 all_are(file, "/case_0001/check_model/seconds", &n) == 1;
    H5Fclose(file);
    return whole ? n : -1.0;
}

static void wait_a_moment(uint64_t nanoseconds) { nanosleep(&(struct timespec){ 0, (long)nanoseconds }, NULL); }

/* A child that is killed up to 30 ms after its first commit began. */
static void kill_one(blackboard *board, int number)
{
    fflush(NULL);
    board->ready = false;
    int status, child = fork();
    if (child == 0) commit_until_killed(board);
    while (!board->ready) wait_a_moment(100000);
    wait_a_moment((uint64_t)(3e7 * sample_noise(number, 77)));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static void kills_leave_a_whole_file(void **state)
{
    int kills = getenv("RECORD_KILLS") ? atoi(getenv("RECORD_KILLS")) : 200, bad = 0, lost = 0;
    blackboard *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int number = 0; number < kills; number++) {
        kill_one(board, number);
        double n = number_in_file();
        bad += n < 0.0;
        lost += n < (double)board->acknowledged;
        if (n > (double)board->acknowledged)
            board->acknowledged = (int64_t)n; /* renamed, killed before it could say so */
    }
    print_message("# %d kills, %lld commits\n", kills, (long long)board->acknowledged);
    assert_int_equal(bad, 0);
    assert_int_equal(lost, 0);
    assert_true(board->acknowledged > 0);
}

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/xgsw-kills-XXXXXX");
    snprintf(path, sizeof path, "%s/sample.h5", mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(kills_leave_a_whole_file, make_folder,
                                                                        remove_folder) };
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
