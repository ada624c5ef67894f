/* Fuzzes the reader of --replay's files. The input is the part of the file that the digest covers. The digest is
 * computed here, so that the fuzzer reaches the whole reader. */
#include "machine/prove/op_file.h"
#include "base/sha256.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 2048, TITLE = 200, LARGEST = 1 << 16 };
static char path[64], title[TITLE];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void copy_bytes(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

static void write_file(const char *name, const void *bytes, size_t length)
{
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(bytes, 1, length, f) != length || fclose(f)) abort();
}

/* Writes a valid file as seed: the in-place sum of two vectors. */
static void write_seed(const char *folder)
{
    static float x[3][16];
    static char file[LARGEST];
    char reason[256], seed[1024];
    op o = { .kind = OP_ADD, .operands = 3, .origin = { .phase = PHASE_FORWARD, .name = "a sum" } };
    for (int i = 0; i < 3; i++) o.operand[i] = (operand){ tensor_1d(x[i % 2], F32, 16), i ? READ : WRITE };
    op_copy c = op_copy_take(&o, false, copy_bytes, NULL);
    c.op.origin.name = NULL;
    remove(path);
    if (!op_file_write(path, &c, reason, sizeof reason)) abort();
    FILE *f = fopen(path, "rb");
    size_t length = fread(file, 1, sizeof file, f), begin = strcspn(file, "\n") + 1;
    fclose(f);
    memcpy(title, file, begin);
    snprintf(seed, sizeof seed, "%s/seed", folder);
    write_file(seed, file + begin + LINES, length - begin - LINES);
    op_copy_free(&c);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    snprintf(path, sizeof path, "build/fuzz/op_file.%d", (int)getpid());
    write_seed(getenv("FUZZ_SEEDS"));
    return 0;
}

/* Checks that every name is safe to print on a terminal. */
static void look_at(const op_copy *c)
{
    char text[OP_TEXT];
    op_describe(&c->op, text, sizeof text);
    for (const char *at = c->op.origin.name; *at; at++)
        if (!isprint((unsigned char)*at)) abort();
    volatile unsigned char last = 0;
    for (int i = 0; i < c->op.operands; i++) {
        const tensor *t = &c->op.operand[i].tensor;
        if (tensor_span(t)) last = ((const unsigned char *)t->data)[tensor_span(t) - 1];
    }
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char file[LARGEST];
    char hex[SHA256_HEX], reason[512];
    size_t begin = strlen(title);
    op_copy c;
    if (begin + LINES + size > sizeof file) return 0;
    memcpy(file + begin + LINES, bytes, size);
    sha256_of(file + begin, LINES + size, hex);
    memcpy(file, title, begin);
    memcpy(file + begin - 1 - strlen(hex), hex, strlen(hex));
    write_file(path, file, begin + LINES + size);
    if (!op_file_read(path, &c, reason, sizeof reason)) return 0;
    look_at(&c);
    op_copy_free(&c);
    return 0;
}
