/* Lists of shared libraries from the dynamic linker. */
#include "bench/launch/libraries.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "machine/world.h"
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16, ID_BYTES = 20 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Finds the bytes of a build id in a segment; returns 0 if there is none. Notes are padded to the segment's alignment.
 */
static size_t build_id_in(const char *at, size_t bytes, size_t align, const unsigned char **id)
{
    for (const char *end = at + bytes; at + sizeof(ElfW(Nhdr)) <= end;) {
        const ElfW(Nhdr) *note = (const void *)at;
        const char *name = at + sizeof *note;
        size_t named = (note->n_namesz + align - 1) / align * align;
        *id = (const unsigned char *)name + named;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0)
            return note->n_descsz;
        at = name + named + (note->n_descsz + align - 1) / align * align;
    }
    return 0;
}

static bool read_build_id(const struct dl_phdr_info *info, char identity[LIBRARY_IDENTITY])
{
    const unsigned char *id;
    size_t bytes = 0;
    for (int i = 0; i < info->dlpi_phnum && !bytes; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            bytes = build_id_in((const char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, p->p_align == 8 ? 8 : 4, &id);
    }
    for (size_t i = 0; i < bytes && i < ID_BYTES; i++) snprintf(identity + 2 * i, 3, "%02x", id[i]);
    return bytes > 0;
}

/* Reads only the first and last bytes, because GPU libraries have hundreds of megabytes. */
static void identify_file(const char *path, char identity[LIBRARY_IDENTITY])
{
    char piece[PIECE], hex[SHA256_HEX];
    FILE *f = fopen(path, "rb");
    sha256 s;
    if (!f) return;
    sha256_open(&s);
    sha256_add(&s, piece, fread(piece, 1, sizeof piece, f));
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fseek(f, size > PIECE ? -PIECE : 0, size > PIECE ? SEEK_END : SEEK_SET);
    sha256_add(&s, piece, fread(piece, 1, sizeof piece, f));
    sha256_close(&s, hex);
    fclose(f);
    snprintf(identity, LIBRARY_IDENTITY, "%ld-%.24s", size, hex);
}

/* Returns the first library that the program needs. Libraries before it in the linker's list were preloaded. */
static const char *first_needed(void)
{
    const char *names = NULL;
    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB) names = (const char *)d->d_un.d_ptr;
    for (const ElfW(Dyn) *d = _DYNAMIC; names && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED) return base_name(names + d->d_un.d_val);
    return NULL;
}

/* Compares file names only, because folders in LD_PRELOAD may contain the linker's $LIB. */
static bool is_in_ld_preload(const char *path)
{
    const char *words = getenv("LD_PRELOAD"), *name = base_name(path);
    size_t length = strlen(name);
    for (const char *at = words; at && (at = strstr(at, name)); at += length)
        if ((at == words || strchr("/ :", at[-1])) && strchr(" :", at[length])) return true;
    return false;
}

typedef struct {
    library_list list;
    int capacity;
    const char *needed; /* first library that the program needs; NULL once it was found */
} library_walk;

static int add_library(struct dl_phdr_info *info, size_t size, void *state)
{
    library_walk *w = state;
    const char *name = info->dlpi_name;
    if (w->list.count == 0 && !w->capacity) w->needed = first_needed();
    if (w->list.count == w->capacity) {
        w->capacity = w->capacity ? 2 * w->capacity : 64;
        w->list.item = reallocate(w->list.item, w->capacity, sizeof *w->list.item, "the names of libraries");
    }
    if (!name[0] || strncmp(name, "linux-", 6) == 0) return 0;
    if (w->needed && strcmp(base_name(name), w->needed) == 0) w->needed = NULL;
    library *l = &w->list.item[w->list.count++];
    *l = (library){ .preloaded = w->needed || is_in_ld_preload(name) };
    snprintf(l->path, sizeof l->path, "%s", name);
    if (!read_build_id(info, l->identity)) identify_file(name, l->identity);
    return 0;
}

library_list libraries_loaded(void)
{
    library_walk w = { .capacity = 0 };
    dl_iterate_phdr(add_library, &w);
    return w.list;
}

void libraries_free(library_list *l)
{
    free(l->item);
    *l = (library_list){ .count = 0 };
}

/* Returns the same file in the list, otherwise another file of that name, otherwise NULL. */
static const library *find_library(const library_list *l, const library *wanted)
{
    const library *named = NULL;
    for (int i = 0; i < l->count; i++) {
        if (strcmp(base_name(l->item[i].path), base_name(wanted->path)) != 0) continue;
        if (strcmp(l->item[i].identity, wanted->identity) == 0) return &l->item[i];
        named = &l->item[i];
    }
    return named;
}

static const char *adjective(const library *l) { return l->preloaded ? "preloaded " : ""; }

static void compare(const library_list *own, const library_list *first, bool same_set, char sentence[REASON_LENGTH])
{
    for (int i = 0; i < own->count && !sentence[0]; i++) {
        const library *a = &own->item[i], *b = find_library(first, a);
        if (b ? strcmp(a->identity, b->identity) != 0 : same_set)
            snprintf(sentence, REASON_LENGTH, "rank %d on %s has loaded %s%.80s (%.12s), rank 0 %s%.12s%s",
                     world_rank(), world_host(), adjective(a), a->path, a->identity, b ? "one with (" : "none",
                     b ? b->identity : "", b ? ")" : "");
    }
    for (int i = 0; i < first->count && same_set && !sentence[0]; i++)
        if (!find_library(own, &first->item[i]))
            snprintf(sentence, REASON_LENGTH, "rank 0 has loaded %s%.80s, rank %d on %s has not",
                     adjective(&first->item[i]), first->item[i].path, world_rank(), world_host());
}

void libraries_compare(const library_list *own, bool same_set, char sentence[REASON_LENGTH])
{
    library_list first = { .count = own->count };
    world_broadcast(&first.count, sizeof first.count, 0);
    first.item = allocate(first.count, sizeof *first.item, "the names of libraries");
    if (world_rank() == 0) memcpy(first.item, own->item, (size_t)own->count * sizeof *own->item);
    world_broadcast(first.item, (size_t)first.count * sizeof *first.item, 0);
    sentence[0] = 0;
    compare(own, &first, same_set, sentence);
    libraries_free(&first);
}
