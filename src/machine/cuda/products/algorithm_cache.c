/* The file of algorithms. A line is DEVICE, LIBRARY, PRODUCT, CONFIGURATION, the algorithm's words in hexadecimal,
 * microseconds and a checksum of all that, between tabs. The first three name it. */
#include "machine/cuda/products/algorithm_cache.h"
#include "base/fail.h"
#include "base/numeric.h"
#include "base/say.h"
#include "machine/world.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t), LINE = 1024, NAME = 512, LARGEST_FILE = 16 << 20 };

/* Lines, each with its newline. */
typedef struct {
    char *text;
    size_t length;
} lines;

/* What this process knows, of that what its own trials found, and lines of the file that the library no longer takes.
 */
static lines known, found, refused;

static uint64_t checksum(const char *text, size_t length)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < length; i++) sum = (sum ^ (uint8_t)text[i]) * 1099511628211u;
    return sum;
}

static void append(lines *to, const char *line, size_t length)
{
    to->text = realloc(to->text, to->length + length + 1);
    if (!to->text) FAIL("no memory for %zu bytes of algorithms", to->length + length);
    memcpy(to->text + to->length, line, length);
    to->length += length;
    to->text[to->length] = '\0';
}

static size_t line_length(const char *at) { return strcspn(at, "\n") + 1; }

/* The line that begins with the name, or NULL. */
static const char *line_of(const lines *l, const char *name, size_t length)
{
    for (const char *at = l->text; at && at < l->text + l->length; at += line_length(at))
        if (strncmp(at, name, length) == 0) return at;
    return NULL;
}

/* Bytes up to the third tab, that one included; 0 if there is none. */
static size_t name_length(const char *line, size_t length)
{
    size_t tabs = 0, i = 0;
    while (i < length && tabs < 3) tabs += line[i++] == '\t';
    return tabs == 3 ? i : 0;
}

static bool is_whole(const char *line, size_t length)
{
    enum { SUM = 17 };
    char sum[SUM + 1];
    if (length <= SUM || length >= LINE || memchr(line, '\0', length) || name_length(line, length) == 0) return false;
    snprintf(sum, sizeof sum, "%016" PRIx64 "\n", checksum(line, length - SUM));
    return memcmp(sum, line + length - SUM, SUM) == 0;
}

/* Lines of the text that are whole and not yet known. */
static void merge(lines *to, const char *text, size_t length)
{
    for (const char *at = text, *end = text + length; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) return;
        size_t bytes = (size_t)(newline - at) + 1;
        if (is_whole(at, bytes) && !line_of(to, at, name_length(at, bytes))) append(to, at, bytes);
        at = newline + 1;
    }
}

static void read_file(lines *to, const char *path)
{
    int opened = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    FILE *file = opened >= 0 ? fdopen(opened, "r") : NULL;
    char *text = file ? malloc(LARGEST_FILE) : NULL;
    if (text) {
        size_t length = fread(text, 1, LARGEST_FILE, file);
        merge(to, text, length);
    }
    free(text);
    if (file) fclose(file);
}

void algorithm_cache_read(const char *path)
{
    if (path) read_file(&known, path);
}

static size_t name_of(const product *p, char name[NAME])
{
    char shape[PRODUCT_TEXT];
    return (size_t)snprintf(name, NAME, "%s\tcuBLASLt %zu\t%s, %d multiprocessors left\t", product_device()->name,
                            cublasLtGetVersion(), product_text(&p->key, shape, sizeof shape), p->multiprocessors_left);
}

/* What stands behind a line's name: the words and the time, if the configuration is that of the words. */
static bool parse(const char *at, candidate *c, double *microseconds)
{
    char configuration[PRODUCT_TEXT];
    size_t shown = strcspn(at, "\t");
    const char *words = at + shown;
    for (int i = 0, used = 0; i < WORDS; i++, words += used)
        if (sscanf(words, "%" SCNx64 "%n", &c->algorithm.data[i], &used) != 1) return false;
    algorithm_text(&c->algorithm, configuration, sizeof configuration);
    return sscanf(words, "%lf", microseconds) == 1 && *microseconds > 0.0 && strlen(configuration) == shown &&
           memcmp(configuration, at, shown) == 0;
}

bool algorithm_cache_find(product *p)
{
    char name[NAME], copy[LINE];
    candidate c;
    double microseconds;
    size_t length = name_of(p, name);
    const char *line = line_of(&known, name, length);
    if (!line) return false;
    snprintf(copy, sizeof copy, "%.*s", (int)line_length(line), line);
    if (!parse(copy + length, &c, &microseconds) || !product_accepts(p, &c)) {
        append(&refused, copy, line_length(line));
        return false;
    }
    p->chosen = c;
    p->microseconds = microseconds;
    p->source = ALGORITHM_KEPT;
    return true;
}

/* In the place of a line of that name, if there is one. */
static void put(lines *to, const char *line, size_t named)
{
    const char *old = line_of(to, line, named);
    if (old) {
        size_t at = (size_t)(old - to->text), bytes = line_length(old);
        memmove(to->text + at, to->text + at + bytes, to->length - at - bytes + 1);
        to->length -= bytes;
    }
    append(to, line, line_length(line));
}

void algorithm_cache_add(const product *p)
{
    char line[LINE], configuration[PRODUCT_TEXT];
    size_t named = name_of(p, line), used = named;
    used += (size_t)snprintf(line + used, LINE - used, "%s\t",
                             algorithm_text(&p->chosen.algorithm, configuration, sizeof configuration));
    for (int i = 0; i < WORDS; i++)
        used += (size_t)snprintf(line + used, LINE - used, "%s%016" PRIx64, i ? " " : "", p->chosen.algorithm.data[i]);
    used += (size_t)snprintf(line + used, LINE - used, "\t%.2f\t", p->microseconds);
    used += (size_t)snprintf(line + used, LINE - used, "%016" PRIx64 "\n", checksum(line, used));
    put(&known, line, named);
    put(&found, line, named);
}

/* Puts what the file lacks, or has in a form that the library refused, to its lines. Another rank may have found it
 * first. */
static bool add_found(lines *file)
{
    bool changed = false;
    for (const char *at = found.text; at && at < found.text + found.length; at += line_length(at)) {
        size_t named = name_length(at, line_length(at));
        const char *old = line_of(file, at, named);
        if (old && !line_of(&refused, old, line_length(old))) continue;
        put(file, at, named);
        changed = true;
    }
    return changed;
}

/* Why a file that is there is not to be replaced; NULL: it is. Only one that holds a whole line, or nothing, is ours.
 */
static const char *obstacle(const char *path, const lines *file, mode_t *mode)
{
    struct stat present;
    if (lstat(path, &present) != 0) return NULL;
    *mode = present.st_mode & 0777;
    if (S_ISLNK(present.st_mode)) return "is a link, and none is followed";
    if (!S_ISREG(present.st_mode)) return "is not a regular file";
    if (present.st_size && !file->length) return "is no file of algorithms; it is not replaced";
    return present.st_mode & 0222 && access(path, W_OK) == 0 ? NULL : "is read-only; it is not replaced";
}

/* All of it under another name and with the old mode, then renamed: who reads sees the old file or the new one. */
static bool replace_file(const char *path, const lines *l, mode_t mode)
{
    char other[PATH_MAX];
    snprintf(other, sizeof other, "%s.%s.%ld", path, world_host(), (long)getpid());
    unlink(other);
    int opened = open(other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode ? mode : 0666);
    if (opened < 0) return false;
    bool written = (!mode || fchmod(opened, mode) == 0) && write(opened, l->text, l->length) == (ssize_t)l->length;
    written = close(opened) == 0 && written && rename(other, path) == 0;
    if (!written) unlink(other);
    return written;
}

/* The turn is the folder's lock. A file system that has none only risks that a line is found again. */
static int take_turn(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY);
    if (folder >= 0) flock(folder, LOCK_EX);
    return folder;
}

void algorithm_cache_write(const char *path)
{
    if (!path || !found.length) return;
    lines file = { 0 };
    int turn = take_turn(path);
    read_file(&file, path);
    mode_t mode = 0;
    const char *why = obstacle(path, &file, &mode);
    if (why) say("algorithm cache %s %s\n", path, why);
    else if (add_found(&file) && !replace_file(path, &file, mode))
        say("algorithm cache %s: %s\n", path, strerror(errno));
    if (turn >= 0) close(turn);
    free(file.text);
}
