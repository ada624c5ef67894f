/* Files of operations: a title, readable lines, the copy, and the operands without twins. */
#include "machine/prove/op_file.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "machine/op/op.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINES_BYTES = 2048, TITLE_BYTES = 200 };
static const char magic[] = "xgsw operation 4";

static void *block(size_t bytes)
{
    void *memory = allocate(1, bytes, "an operand");
    memset(memory, 0xFF, bytes);
    return memory;
}

static int twin_of(const op *o, int i)
{
    for (int j = 0; j < i && tensor_present(&o->operand[i].tensor); j++)
        if (tensor_same_elements(&o->operand[j].tensor, &o->operand[i].tensor)) return j;
    return -1;
}

op_copy op_copy_take(const op *o, bool dense, tensor_reader *read, void *from)
{
    op_copy c = { .op = *o };
    snprintf(c.name, sizeof c.name, "%s", o->origin.name ? o->origin.name : "");
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        tensor *t = &c.op.operand[i].tensor;
        c.twin[i] = twin_of(o, i);
        c.offset[i] = (int)((uintptr_t)x->tensor.data % OP_OFFSETS);
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

/* Returns the bytes of an operand in the file; a twin has none. */
static size_t own_bytes(const op_copy *c, int i) { return c->twin[i] < 0 ? tensor_span(&c->op.operand[i].tensor) : 0; }

/* ---- writing ---- */

static void describe_operand(FILE *f, const op_copy *c, int i)
{
    static const char *const access[] = { [READ] = "read", [WRITE] = "write", [UPDATE] = "update" };
    const operand *x = &c->op.operand[i];
    fprintf(f, "%s: %s %s, place %d, twin %d,", op_rules[c->op.kind].operand[i].name, access[x->access],
            dtype_name(x->tensor.type), c->offset[i], c->twin[i]);
    for (int d = 0; d < x->tensor.dims; d++)
        fprintf(f, " %lld/%lld", (long long)x->tensor.dim[d], (long long)x->tensor.stride[d]);
    fprintf(f, "\n");
}

static void describe(const op_copy *c, char lines[LINES_BYTES])
{
    const op_home *h = &c->home;
    char what[OP_TEXT];
    FILE *f = fmemopen(lines, LINES_BYTES, "w");
    if (!f) FAIL("no memory for an operation's text");
    fprintf(f, "%s%s\non %s, deterministic %d, own attention %d, multiprocessors for transfers %d\n",
            h->part ? "a part of " : "", op_describe(&c->op, what, sizeof what), h->cuda ? "the GPU" : "the host",
            h->deterministic, h->own_attention, h->transfer_multiprocessors);
    for (int i = 0; i < c->op.operands; i++) describe_operand(f, c, i);
    fclose(f);
}

/* Writes the title: the sizes of copies and enumerations in this program, and the digest of what follows. */
static size_t title(char text[TITLE_BYTES], const void *body, size_t bytes)
{
    char hex[SHA256_HEX];
    sha256_of(body, bytes, hex);
    return (size_t)snprintf(text, TITLE_BYTES, "%s: %zu bytes, %d kinds, %d formats, %d phases, sha256 %s\n", magic,
                            sizeof(op_copy), OP_KINDS, DTYPES, PHASES, hex);
}

static char *body_of(const op_copy *c, size_t *bytes)
{
    char lines[LINES_BYTES] = "", *body = NULL;
    FILE *f = open_memstream(&body, bytes);
    describe(c, lines);
    bool complete = f && fwrite(lines, sizeof lines, 1, f) == 1 && fwrite(c, sizeof *c, 1, f) == 1;
    for (int i = 0; complete && i < c->op.operands; i++)
        complete = !own_bytes(c, i) || fwrite(c->op.operand[i].tensor.data, own_bytes(c, i), 1, f) == 1;
    if (!f || fclose(f) || !complete) FAIL("no memory for an operation's file");
    return body;
}

bool op_file_write(const char *path, const op_copy *c, char *reason, size_t length)
{
    char text[TITLE_BYTES];
    size_t bytes, used;
    char *body = body_of(c, &bytes);
    used = title(text, body, bytes);
    errno = 0;
    FILE *f = fopen(path, "wbx");
    bool written = f && fwrite(text, 1, used, f) == used && fwrite(body, 1, bytes, f) == bytes;
    if (f && fclose(f)) written = false;
    if (!written) snprintf(reason, length, "%s: %s", path, strerror(errno));
    if (f && !written) remove(path);
    free(body);
    return written;
}

/* ---- reading ---- */

/* Returns the bytes of the file, or NULL and the reason. */
static char *contents(const char *path, size_t *length, const char **error)
{
    struct stat status;
    FILE *f = fopen(path, "rb");
    *error = strerror(errno);
    bool regular = f && fstat(fileno(f), &status) == 0 && S_ISREG(status.st_mode);
    if (f) *error = regular ? "no memory for it" : "it is not a regular file";
    char *bytes = regular ? malloc((size_t)status.st_size + 1) : NULL;
    if (bytes) *length = fread(bytes, 1, (size_t)status.st_size, f);
    if (f) fclose(f);
    return bytes;
}

/* Returns whether the shape is valid: its span does not overflow and is not larger than the file. */
static bool is_shape(const tensor *t, size_t file_bytes)
{
    int64_t last = 0, further, elements = 1;
    if ((unsigned)t->type >= DTYPES || (unsigned)t->dims > TENSOR_DIMS) return false;
    for (int d = 0; d < t->dims; d++) {
        if (t->dim[d] < 0 || t->stride[d] < 0 || __builtin_mul_overflow(elements, t->dim[d], &elements)) return false;
        if (t->dim[d] == 0) continue;
        if (__builtin_mul_overflow(t->dim[d] - 1, t->stride[d], &further) ||
            __builtin_add_overflow(last, further, &last) || (size_t)last > file_bytes)
            return false;
    }
    return true;
}

/* Returns whether the operand is valid. Its twin is an earlier one that is no twin and is at least as large. */
static bool is_operand(const op_copy *c, int i, size_t file_bytes)
{
    int twin = c->twin[i];
    bool in_range = c->offset[i] >= 0 && c->offset[i] < OP_OFFSETS, known = (unsigned)c->op.operand[i].access <= UPDATE;
    if (!in_range || !known || !is_shape(&c->op.operand[i].tensor, file_bytes)) return false;
    const operand *x = c->op.operand;
    return twin == -1 ||
           (twin >= 0 && twin < i && c->twin[twin] == -1 && tensor_span(&x[i].tensor) <= tensor_span(&x[twin].tensor));
}

/* Reads flags as bytes, because a bool with a value other than 0 and 1 is undefined behavior. */
static bool is_home(const op_home *h)
{
    const unsigned char *byte = (const unsigned char *)h;
    for (size_t i = 0; i < offsetof(op_home, transfer_multiprocessors) && i < 4; i++)
        if (byte[i] > 1) return false;
    return h->transfer_multiprocessors >= 0;
}

/* Returns whether xgsw could have written the operation: a right digest does not prove that. */
static bool is_valid(const op_copy *c, size_t file_bytes)
{
    const op *o = &c->op;
    if ((unsigned)o->kind >= OP_KINDS || op_is_transfer(o->kind) || o->operands < 0 || o->operands > OP_OPERANDS)
        return false;
    if (o->operands > RULE_OPERANDS || (unsigned)o->origin.phase >= PHASES || o->error || !is_home(&c->home))
        return false;
    for (int i = 0; i < o->operands; i++)
        if (!is_operand(c, i, file_bytes)) return false;
    return memchr(c->name, 0, sizeof c->name) != NULL;
}

/* Replaces control characters, because the name is printed on terminals. */
static void make_printable(char *name)
{
    for (; *name; name++)
        if (*name < 0x20 || *name > 0x7E) *name = '?';
}

/* Copies the operands from the rest of the file. Returns false if it is not as large as they are. */
static bool read_operands(op_copy *c, const char *data, size_t left)
{
    for (int i = 0; i < c->op.operands; i++) {
        size_t bytes = own_bytes(c, i);
        tensor *t = &c->op.operand[i].tensor;
        if (bytes > left) return false;
        if (tensor_present(t) && c->twin[i] < 0) t->data = memcpy(c->memory[i] = block(bytes), data, bytes);
        if (c->twin[i] >= 0) t->data = c->op.operand[c->twin[i]].tensor.data;
        data += bytes, left -= bytes;
    }
    return left == 0;
}

/* Reads an operation from the bytes. Returns NULL, or what is wrong with it. */
static const char *parse(const char *file, size_t length, op_copy *c)
{
    char text[TITLE_BYTES];
    const char *end = memchr(file, '\n', length), *body = end + 1;
    size_t words = sizeof magic - 1, left = end ? length - (size_t)(body - file) : 0;
    if (length < words || memcmp(file, magic, words) != 0 || left < LINES_BYTES + sizeof *c)
        return "xgsw did not write this file";
    size_t used = title(text, body, left);
    if (used != (size_t)(body - file) || memcmp(file, text, used) != 0)
        return "it was changed after it was written, or a program with other operations wrote it";
    memcpy(c, body + LINES_BYTES, sizeof *c);
    memset(c->memory, 0, sizeof c->memory);
    if (!is_valid(c, left)) return "it has no valid operation";
    make_printable(c->name);
    c->op.origin.name = c->name;
    return read_operands(c, body + LINES_BYTES + sizeof *c, left - LINES_BYTES - sizeof *c)
               ? NULL
               : "its operands are of another size";
}

bool op_file_read(const char *path, op_copy *c, char *reason, size_t length)
{
    size_t bytes = 0;
    *c = (op_copy){ .op.kind = OP_KINDS };
    const char *error;
    char *file = contents(path, &bytes, &error);
    if (file) error = parse(file, bytes, c);
    free(file);
    if (!error) return true;
    snprintf(reason, length, "%s: %s", path, error);
    op_copy_free(c);
    return false;
}
