/* Search for a deck, and its distribution to all ranks. */
#include "bench/launch/deck_file.h"
#include "base/memory.h"
#include "machine/world.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* LARGEST_DECK: one byte more than deck_read accepts, so that it refuses larger decks. */
enum { LARGEST_DECK = (1 << 20) + 1, LARGEST_SHEET = 1 << 26 };

/* Writes the i-th path of the search: as named, in ./inputs/, in inputs/ next to the program. Returns false if there is
 * no such path. */
static bool deck_path(const char *name, int i, char *path, size_t length)
{
    char program[512] = "";
    ssize_t folder = i == 2 ? readlink("/proc/self/exe", program, sizeof program) : 0;
    while (folder > 0 && program[folder - 1] != '/') folder--;
    snprintf(path, length, "%.*s%s%s", (int)(folder > 0 ? folder : 0), program, i ? "inputs/" : "", name);
    return i == 0 || (i < 3 && name[0] != '/');
}

static FILE *open_deck(const char *name, char *path, size_t length)
{
    FILE *f = NULL;
    errno = ENOENT;
    for (int i = 0; !f && errno == ENOENT && deck_path(name, i, path, length); i++) f = fopen(path, "rb");
    return f;
}

static void write_not_found(const char *name, int error, char *reason, size_t length)
{
    char last[1024];
    int used = snprintf(reason, length, "%s: cannot be read: %s", name, strerror(error));
    if (error == ENOENT && deck_path(name, 2, last, sizeof last) && used < (int)length)
        snprintf(reason + used, length - (size_t)used, ", nor inputs/%s, nor %s", name, last);
}

deck_file deck_file_read(const char *name, char *reason, size_t length)
{
    deck_file d = { .length = 0 };
    struct stat status;
    FILE *f = open_deck(name, d.path, sizeof d.path);
    if (!f) {
        write_not_found(name, errno, reason, length);
        return d;
    }
    bool folder = fstat(fileno(f), &status) == 0 && S_ISDIR(status.st_mode);
    int64_t most = status.st_size > LARGEST_DECK && status.st_size < LARGEST_SHEET ? status.st_size : LARGEST_DECK;
    d.bytes = allocate(1, (size_t)most + 1, "a deck");
    d.length = folder ? 0 : fread(d.bytes, 1, (size_t)most, f);
    d.bytes[d.length] = 0;
    if (folder || ferror(f)) {
        snprintf(reason, length, "%s: cannot be read: %s", name, folder ? "it is a folder" : strerror(errno));
        free(d.bytes);
        d.bytes = NULL;
    }
    fclose(f);
    return d;
}

/* Complains if this rank has other bytes under the deck's name. A missing file or a pipe is no mistake, because rank
 * 0's bytes are used. */
static void compare_own(const deck_file *d, char *reason, size_t length)
{
    char why[1024];
    struct stat status;
    if (world_rank() == 0 || stat(d->path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    deck_file own = deck_file_read(d->path, why, sizeof why);
    if (own.bytes && (own.length != d->length || memcmp(own.bytes, d->bytes, d->length) != 0))
        snprintf(reason, length,
                 "xgsw: rank %d on %s reads a deck %.400s that differs from rank 0's: give all nodes the same file",
                 world_rank(), world_host(), d->path);
    free(own.bytes);
}

deck_file deck_file_share(const char *name, char *reason, size_t length)
{
    deck_file d = { .length = 0 };
    if (world_rank() == 0) d = deck_file_read(name, reason, length);
    size_t sent[2] = { d.length, d.bytes != NULL };
    world_broadcast(sent, sizeof sent, 0);
    world_broadcast(d.path, sizeof d.path, 0);
    world_broadcast(reason, length, 0);
    if (!sent[1]) return d;
    if (world_rank() != 0) d.bytes = allocate(1, sent[0] + 1, "a deck");
    d.length = sent[0];
    world_broadcast(d.bytes, d.length, 0);
    d.bytes[d.length] = 0;
    compare_own(&d, reason, length);
    world_share_sentence(reason, length);
    if (reason[0]) free(d.bytes), d.bytes = NULL;
    return d;
}
