/* Operations as files. Lines end where the line "data" stands; then come the operands' spans, in order, without twins;
 * the last line of text before it is the digest of all that is around it. */
#include "machine/op_file.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "machine/op_judge.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char title[] = "xgsw operation 2";
enum { TEXT_BYTES = 8192 };

static void *block(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) FAIL("no memory for an operand of %zu bytes", bytes);
    memset(memory, 0xFF, bytes);
    return memory;
}

/* The earlier operand that lies where this one does, or -1. */
static int twin_of(const op *o, int i)
{
    for (int j = 0; j < i && tensor_present(&o->operand[i].tensor); j++)
        if (tensor_twins(&o->operand[j].tensor, &o->operand[i].tensor)) return j;
    return -1;
}

op_copy op_copy_take(const op *o, bool dense, op_reader *read, void *from)
{
    op_copy c = { .op = *o };
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        tensor *t = &c.op.operand[i].tensor;
        c.twin[i] = twin_of(o, i);
        c.place[i] = (int)((uintptr_t)x->tensor.data % OP_PLACES);
        if (!tensor_present(t)) continue;
        if (dense) *t = tensor_dense(*t);
        if (c.twin[i] < 0) c.memory[i] = block(tensor_span(t));
        t->data = c.twin[i] < 0 ? c.memory[i] : c.op.operand[c.twin[i]].tensor.data;
        if (x->access != WRITE && dense) tensor_gather(*t, x->tensor, read, from);
        if (x->access != WRITE && !dense) read(from, t->data, x->tensor);
    }
    return c;
}

void op_copy_free(op_copy *c)
{
    for (int i = 0; i < OP_OPERANDS; i++) free(c->memory[i]);
    *c = (op_copy){ .op.kind = OP_KINDS };
}

/* ---- writing ---- */

static const char *const access_names[] = { [READ] = "read", [WRITE] = "write", [UPDATE] = "update" };

static void describe_operand(FILE *f, const op_copy *c, int i)
{
    const tensor *t = &c->op.operand[i].tensor;
    fprintf(f, "operand %s %s place %d twin %d dims %d", access_names[c->op.operand[i].access], dtype_name(t->type),
            c->place[i], c->twin[i], t->dims);
    for (int d = 0; d < t->dims; d++) fprintf(f, " %lld/%lld", (long long)t->dim[d], (long long)t->stride[d]);
    fprintf(f, "\n");
}

/* A name is one word. */
static const char *word_of(const char *name, char word[64])
{
    snprintf(word, 64, "%s", name && *name ? name : "-");
    for (char *c = word; *c; c++)
        if (*c == ' ') *c = '_';
    return word;
}

/* All lines but the digest. */
static size_t describe(const op_copy *c, char text[TEXT_BYTES])
{
    const op *o = &c->op;
    const unsigned char *args = (const unsigned char *)&o->args;
    const origin *at = &o->origin;
    char word[64];
    FILE *f = fmemopen(text, TEXT_BYTES, "w");
    if (!f) FAIL("no memory for an operation's text");
    fprintf(f, "%s\nkind %s\nname %s\norigin %lld %lld %d %d %d\n", title, op_kind_name(o->kind),
            word_of(at->name, word), (long long)at->step, (long long)at->microbatch, at->chunk, at->layer,
            (int)at->phase);
    fprintf(f, "machine %d deterministic %d own_attention %d transfer_multiprocessors %d part %d\nargs ", c->home.cuda,
            c->home.deterministic, c->home.own_attention, c->home.transfer_multiprocessors, c->home.part);
    for (size_t i = 0; i < sizeof o->args; i++) fprintf(f, "%02x", args[i]);
    fprintf(f, "\noperands %d\n", o->operands);
    for (int i = 0; i < o->operands; i++) describe_operand(f, c, i);
    size_t used = (size_t)ftell(f);
    fclose(f);
    return used;
}

/* Bytes of its own that an operand has in the file. */
static size_t own_bytes(const op_copy *c, int i) { return c->twin[i] < 0 ? tensor_span(&c->op.operand[i].tensor) : 0; }

static void digest(const op_copy *c, const char *text, size_t used, char hex[SHA256_HEX])
{
    sha256 s;
    sha256_open(&s);
    sha256_add(&s, text, used);
    for (int i = 0; i < c->op.operands; i++)
        if (own_bytes(c, i)) sha256_add(&s, c->op.operand[i].tensor.data, own_bytes(c, i));
    sha256_close(&s, hex);
}

bool op_file_write(const char *path, const op_copy *c, char *reason, size_t length)
{
    char text[TEXT_BYTES], hex[SHA256_HEX];
    size_t used = describe(c, text);
    digest(c, text, used, hex);
    errno = 0;
    FILE *f = fopen(path, "wbx");
    bool written = f && fwrite(text, 1, used, f) == used && fprintf(f, "sha256 %s\ndata\n", hex) > 0;
    for (int i = 0; written && i < c->op.operands; i++)
        written =
            own_bytes(c, i) == 0 || fwrite(c->op.operand[i].tensor.data, 1, own_bytes(c, i), f) == own_bytes(c, i);
    if (f && fclose(f)) written = false;
    if (!written) snprintf(reason, length, "%s: %s", path, strerror(errno));
    if (f && !written) remove(path);
    return written;
}

/* ---- reading ---- */

static bool read_args(FILE *f, op *o)
{
    unsigned char *args = (unsigned char *)&o->args;
    unsigned byte;
    if (fscanf(f, " args ") != 0) return false;
    for (size_t i = 0; i < sizeof o->args; i++) {
        if (fscanf(f, "%2x", &byte) != 1) return false;
        args[i] = (unsigned char)byte;
    }
    return true;
}

static int place_in(const char *const *all, int count, const char *word)
{
    int i = 0;
    while (i < count && strcmp(all[i], word) != 0) i++;
    return i;
}

static dtype dtype_named(const char *name)
{
    int type = 0;
    while (type < DTYPES && strcmp(dtype_name((dtype)type), name) != 0) type++;
    return (dtype)type;
}

/* Elements and span in 64 bits, and no two elements at one place, counted: so many places as elements at least. */
static bool shape_is_sane(const tensor *t)
{
    int64_t elements = 1, last = 0, step;
    for (int d = 0; d < t->dims; d++) {
        if (t->dim[d] < 1 || t->dim[d] > INT32_MAX || t->stride[d] < 0) return false;
        if (__builtin_mul_overflow(elements, t->dim[d], &elements) ||
            __builtin_mul_overflow(t->dim[d] - 1, t->stride[d], &step))
            return false;
        if (__builtin_add_overflow(last, step, &last)) return false;
    }
    return last < INT64_MAX / 16 && elements <= last + 1;
}

static bool read_operand(FILE *f, op_copy *c, int i)
{
    char how[16], format[16];
    operand *x = &c->op.operand[i];
    tensor *t = &x->tensor;
    long long dim, stride;
    if (fscanf(f, " operand %15s %15s place %d twin %d dims %d", how, format, &c->place[i], &c->twin[i], &t->dims) != 5)
        return false;
    int access = place_in(access_names, 3, how);
    x->access = access < 3 ? (access_mode)access : READ;
    t->type = dtype_named(format);
    if (access == 3 || t->type == DTYPES || t->dims < 0 || t->dims > TENSOR_DIMS || c->twin[i] < -1 || c->twin[i] >= i)
        return false;
    if (c->place[i] < 0 || c->place[i] >= OP_PLACES || c->place[i] % (int)dtype_bytes(t->type)) return false;
    for (int d = 0; d < t->dims; d++) {
        if (fscanf(f, " %lld/%lld", &dim, &stride) != 2) return false;
        t->dim[d] = dim;
        t->stride[d] = stride;
    }
    return shape_is_sane(t);
}

static bool read_home(FILE *f, op_home *h)
{
    int flag[4];
    if (fscanf(f, " machine %d deterministic %d own_attention %d transfer_multiprocessors %d part %d", &flag[0],
               &flag[1], &flag[2], &h->transfer_multiprocessors, &flag[3]) != 5)
        return false;
    h->cuda = flag[0], h->deterministic = flag[1], h->own_attention = flag[2], h->part = flag[3];
    return h->transfer_multiprocessors >= 0 && h->transfer_multiprocessors < OP_PLACES;
}

static bool read_lines(FILE *f, op_copy *c, char hex[SHA256_HEX])
{
    char kind[64], first[sizeof title];
    long long step, microbatch;
    int phase_number;
    op *o = &c->op;
    if (!fgets(first, sizeof first, f) || strcmp(first, title) != 0) return false;
    if (fscanf(f, " kind %63s name %63s", kind, c->name) != 2) return false;
    if (fscanf(f, " origin %lld %lld %d %d %d", &step, &microbatch, &o->origin.chunk, &o->origin.layer,
               &phase_number) != 5)
        return false;
    o->kind = op_kind_named(kind);
    o->origin.step = step;
    o->origin.microbatch = microbatch;
    o->origin.phase = phase_number >= 0 && phase_number < PHASES ? (phase)phase_number : PHASE_SETUP;
    o->origin.name = c->name;
    if (o->kind == OP_KINDS || op_is_transfer(o->kind) || !read_home(f, &c->home) || !read_args(f, o)) return false;
    if (fscanf(f, " operands %d", &o->operands) != 1 || o->operands < 0 || o->operands > OP_OPERANDS) return false;
    for (int i = 0; i < o->operands; i++)
        if (!read_operand(f, c, i)) return false;
    return fscanf(f, " sha256 %64s", hex) == 1;
}

/* Twins have one span and one format. */
static bool place_twin(op_copy *c, int i)
{
    const tensor *twin = &c->op.operand[c->twin[i]].tensor;
    tensor *t = &c->op.operand[i].tensor;
    t->data = twin->data;
    return t->type == twin->type && tensor_span(t) == tensor_span(twin) && tensor_twins(t, twin);
}

/* All of the file's bytes, and no others. */
static bool read_data(op_copy *c, const char *data, size_t left)
{
    for (int i = 0; i < c->op.operands; i++) {
        tensor *t = &c->op.operand[i].tensor;
        if (!tensor_present(t)) continue;
        if (c->twin[i] >= 0 && !place_twin(c, i)) return false;
        if (c->twin[i] >= 0) continue;
        size_t bytes = tensor_span(t);
        if (bytes > left) return false;
        t->data = c->memory[i] = block(bytes);
        memcpy(t->data, data, bytes);
        data += bytes, left -= bytes;
    }
    return left == 0;
}

static bool read_copy(char *bytes, size_t length, op_copy *c, char written[SHA256_HEX])
{
    static const char mark[] = "\ndata\n";
    char *end = memmem(bytes, length < TEXT_BYTES ? length : TEXT_BYTES, mark, sizeof mark - 1);
    FILE *f = end && end > bytes ? fmemopen(bytes, (size_t)(end - bytes), "r") : NULL;
    bool whole = f && read_lines(f, c, written);
    if (f) fclose(f);
    if (!whole) return false;
    char *data = end + sizeof mark - 1;
    return read_data(c, data, length - (size_t)(data - bytes));
}

/* The file's bytes; NULL if they cannot be read, and why. */
static char *contents(const char *path, size_t *length, const char **wrong)
{
    struct stat about;
    FILE *f = fopen(path, "rb");
    *wrong = strerror(errno);
    bool regular = f && fstat(fileno(f), &about) == 0 && S_ISREG(about.st_mode);
    if (f) *wrong = regular ? "no memory for it" : "it is no regular file";
    char *bytes = regular ? malloc((size_t)about.st_size + 1) : NULL;
    if (bytes) *length = fread(bytes, 1, (size_t)about.st_size, f);
    if (f) fclose(f);
    return bytes;
}

/* NULL, or what is wrong with the operation that the bytes hold. */
static const char *read_whole(char *bytes, size_t length, op_copy *c)
{
    char written[SHA256_HEX] = "", found[SHA256_HEX] = "", text[TEXT_BYTES];
    if (!read_copy(bytes, length, c, written)) return "this is no operation that xgsw wrote";
    digest(c, text, describe(c, text), found);
    if (strcmp(written, found) != 0) return "it was changed after it was written";
    return op_judge(&c->op);
}

bool op_file_read(const char *path, op_copy *c, char *reason, size_t length)
{
    size_t bytes = 0;
    *c = (op_copy){ .op.kind = OP_KINDS };
    const char *wrong;
    char *file = contents(path, &bytes, &wrong);
    if (file) wrong = read_whole(file, bytes, c);
    free(file);
    if (!wrong) return true;
    snprintf(reason, length, "%s: %s", path, wrong);
    op_copy_free(c);
    return false;
}
