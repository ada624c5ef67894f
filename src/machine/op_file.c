/* Operations as files. Lines end where the line "data" stands; then come the operands' spans, in order; the last line of text
 * before it is the digest of all that is around it. */
#include "machine/op_file.h"
#include "base/fail.h"
#include "base/sha256.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char title[] = "xgsw operation 1";
enum { TEXT_BYTES = 8192 };

static void *block(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) FAIL("no memory for an operand of %zu bytes", bytes);
    memset(memory, 0xFF, bytes);
    return memory;
}

/* The earlier operand that lies where this one does, or -1. */
static int same_place(const op *o, int i)
{
    for (int j = 0; j < i; j++)
        if (o->operand[j].tensor.data == o->operand[i].tensor.data && tensor_span(&o->operand[j].tensor) == tensor_span(&o->operand[i].tensor))
            return j;
    return -1;
}

op_copy op_copy_take(const op *o, op_reader *read, void *from)
{
    op_copy c = { .op = *o };
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        int twin = same_place(o, i);
        if (!tensor_present(&x->tensor)) continue;
        if (twin < 0) c.memory[i] = block(tensor_span(&x->tensor));
        c.op.operand[i].tensor.data = twin < 0 ? c.memory[i] : c.op.operand[twin].tensor.data;
        if (x->access != WRITE) read(from, c.op.operand[i].tensor.data, x->tensor);
    }
    return c;
}

void op_copy_free(op_copy *c)
{
    for (int i = 0; i < OP_OPERANDS; i++) free(c->memory[i]);
    *c = (op_copy){ .op.kind = OP_KINDS };
}

static const char *const access_names[] = { [READ] = "read", [WRITE] = "write", [UPDATE] = "update" };

static size_t describe_operand(char *text, size_t length, const operand *x)
{
    const tensor *t = &x->tensor;
    size_t used = (size_t)snprintf(text, length, "operand %s %s %d", access_names[x->access], dtype_name(t->type), t->dims);
    for (int i = 0; i < t->dims; i++)
        used += (size_t)snprintf(text + used, length - used, " %lld/%lld", (long long)t->dim[i], (long long)t->stride[i]);
    return used + (size_t)snprintf(text + used, length - used, "\n");
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
static size_t describe(const op *o, char *text, size_t length)
{
    const unsigned char *args = (const unsigned char *)&o->args;
    const origin *at = &o->origin;
    char word[64];
    size_t used = (size_t)snprintf(text, length, "%s\nkind %s\nname %s\norigin %lld %lld %d %d %d\nargs ", title, op_kind_name(o->kind),
                                   word_of(at->name, word), (long long)at->step, (long long)at->microbatch, at->chunk, at->layer,
                                   (int)at->phase);
    for (size_t i = 0; i < sizeof o->args; i++) used += (size_t)snprintf(text + used, length - used, "%02x", args[i]);
    used += (size_t)snprintf(text + used, length - used, "\noperands %d\n", o->operands);
    for (int i = 0; i < o->operands; i++) used += describe_operand(text + used, length - used, &o->operand[i]);
    return used;
}

static void digest(const op *o, const char *text, size_t used, char hex[SHA256_HEX])
{
    sha256 s;
    sha256_open(&s);
    sha256_add(&s, text, used);
    for (int i = 0; i < o->operands; i++) sha256_add(&s, o->operand[i].tensor.data, tensor_span(&o->operand[i].tensor));
    sha256_close(&s, hex);
}

bool op_file_write(const char *path, const op *o, char *reason, size_t length)
{
    char text[TEXT_BYTES], hex[SHA256_HEX];
    size_t used = describe(o, text, sizeof text);
    digest(o, text, used, hex);
    FILE *f = fopen(path, "wb");
    bool written = f && fwrite(text, 1, used, f) == used && fprintf(f, "sha256 %s\ndata\n", hex) > 0;
    for (int i = 0; written && i < o->operands; i++) {
        size_t bytes = tensor_span(&o->operand[i].tensor);
        written = bytes == 0 || fwrite(o->operand[i].tensor.data, 1, bytes, f) == bytes;
    }
    if (f && fclose(f)) written = false;
    if (!written) snprintf(reason, length, "%s: %s", path, strerror(errno));
    return written;
}

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

static int place_in(const char *const *names, int count, const char *word)
{
    int i = 0;
    while (i < count && strcmp(names[i], word) != 0) i++;
    return i;
}

static dtype dtype_named(const char *name)
{
    int type = 0;
    while (type < DTYPES && strcmp(dtype_name((dtype)type), name) != 0) type++;
    return (dtype)type;
}

static bool read_operand(FILE *f, operand *x)
{
    char how[16], format[16];
    tensor *t = &x->tensor;
    long long dim, stride;
    if (fscanf(f, " operand %15s %15s %d", how, format, &t->dims) != 3 || t->dims < 0 || t->dims > TENSOR_DIMS) return false;
    x->access = (access_mode)place_in(access_names, 3, how);
    t->type = dtype_named(format);
    for (int i = 0; i < t->dims; i++) {
        if (fscanf(f, " %lld/%lld", &dim, &stride) != 2 || dim < 0 || stride < 0 || dim > INT32_MAX || stride > INT32_MAX) return false;
        t->dim[i] = dim;
        t->stride[i] = stride;
    }
    return (int)x->access < 3 && t->type < DTYPES;
}

static bool read_lines(FILE *f, op_copy *c, char hex[SHA256_HEX])
{
    char kind[64], first[sizeof title];
    long long step, microbatch;
    int phase_number;
    op *o = &c->op;
    if (!fgets(first, sizeof first, f) || strcmp(first, title) != 0) return false;
    if (fscanf(f, " kind %63s name %63s", kind, c->name) != 2) return false;
    if (fscanf(f, " origin %lld %lld %d %d %d", &step, &microbatch, &o->origin.chunk, &o->origin.layer, &phase_number) != 5) return false;
    o->kind = op_kind_named(kind);
    o->origin.step = step;
    o->origin.microbatch = microbatch;
    o->origin.phase = phase_number >= 0 && phase_number < PHASES ? (phase)phase_number : PHASE_SETUP;
    o->origin.name = c->name;
    if (o->kind == OP_KINDS || op_is_transfer(o->kind) || !read_args(f, o)) return false;
    if (fscanf(f, " operands %d", &o->operands) != 1 || o->operands < 0 || o->operands > OP_OPERANDS) return false;
    for (int i = 0; i < o->operands; i++)
        if (!read_operand(f, &o->operand[i])) return false;
    return fscanf(f, " sha256 %64s data", hex) == 1 && fgetc(f) == '\n';
}

static bool read_data(FILE *f, op_copy *c)
{
    for (int i = 0; i < c->op.operands; i++) {
        tensor *t = &c->op.operand[i].tensor;
        size_t bytes = tensor_span(t);
        if (!tensor_present(t)) continue;
        t->data = c->memory[i] = block(bytes);
        if (fread(t->data, 1, bytes, f) != bytes) return false;
    }
    return fgetc(f) == EOF;
}

bool op_file_read(const char *path, op_copy *c, char *reason, size_t length)
{
    char written[SHA256_HEX], found[SHA256_HEX] = "", text[TEXT_BYTES];
    *c = (op_copy){ .op.kind = OP_KINDS };
    FILE *f = fopen(path, "rb");
    if (!f) {
        snprintf(reason, length, "%s: %s", path, strerror(errno));
        return false;
    }
    bool whole = read_lines(f, c, written) && read_data(f, c);
    fclose(f);
    if (whole) digest(&c->op, text, describe(&c->op, text, sizeof text), found);
    if (whole && strcmp(written, found) == 0) return true;
    snprintf(reason, length, "%s: %s", path, whole ? "it was changed after it was written" : "this is no operation that xgsw wrote");
    op_copy_free(c);
    return false;
}
