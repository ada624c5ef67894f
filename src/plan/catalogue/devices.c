/* Devices, one row each. */
#include "plan/catalogue/devices.h"
#include "base/say.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define GIB(number) ((number)*1073741824.0)

/* The rows of validation/reference/devices.csv, which names a source for each number; units/plan/catalogue.c compares
 * them. Other documents give 2500 and 5000 TFLOP/s for GB200 and GB300, and 192 GB for B200. */
static const device_row rows[] = {
    { "H100-PCIe", 756.5e12, 1513e12, GIB(79.10), 1, 8 }, { "H100-NVL", 835.5e12, 1671e12, GIB(93.02), 2, 8 },
    { "H200-NVL", 835.5e12, 1671e12, GIB(139.72), 2, 8 }, { "GH200-144G", 989e12, 1979e12, GIB(139.72), 2, 2 },
    { "GH200", 989e12, 1979e12, GIB(94.50), 2, 2 },       { "A100", 312e12, 0.0, GIB(79.15), 8, 8 },
    { "H100", 989e12, 1979e12, GIB(79.10), 8, 8 },        { "H200", 989e12, 1979e12, GIB(139.72), 8, 8 },
    { "H20", 148e12, 296e12, GIB(94.50), 8, 8 },          { "L40S", 362e12, 733e12, GIB(44.39), 1, 8 },
    { "B200", 2250e12, 4500e12, GIB(178.35), 8, 8 },      { "GB200", 2450e12, 4900e12, GIB(184.31), 72, 4 },
    { "B300", 2250e12, 4500e12, GIB(267.69), 8, 8 },      { "GB300", 2450e12, 4900e12, GIB(276.50), 72, 4 },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const device_row *device_at(int i) { return i < ROWS ? &rows[i] : NULL; }

/* Returns whether the name begins with the row's name, as a whole word; a blank equals a hyphen. */
static bool begins_with(const char *name, const char *row)
{
    for (; *row; name++, row++)
        if (tolower((unsigned char)(*name == ' ' ? '-' : *name)) != tolower((unsigned char)*row)) return false;
    return !isalnum((unsigned char)*name);
}

const device_row *device_find(const char *name)
{
    static const char maker[] = "NVIDIA ";
    if (strncasecmp(name, maker, sizeof maker - 1) == 0) name += sizeof maker - 1;
    for (int i = 0; i < ROWS && !strstr(name, " MIG "); i++)
        if (begins_with(name, rows[i].name)) return &rows[i];
    return NULL;
}

double device_bytes(const char *name)
{
    const device_row *row = name ? device_find(name) : NULL;
    return row ? row->memory_bytes : device_find(PAPER_DEVICE)->memory_bytes;
}

int device_domain(const char *name)
{
    const device_row *row = name ? device_find(name) : NULL;
    return row ? row->domain : device_find(PAPER_DEVICE)->domain;
}

const device_row *device_named(const char *name, char *sentence, size_t length)
{
    const device_row *row = device_find(name);
    if (row) return row;
    int used = snprintf(sentence, length, "--device %.40s: the known GPUs are", name);
    for (int i = 0; i < ROWS; i++) used += snprintf(sentence + used, length - (size_t)used, " %s", rows[i].name);
    snprintf(sentence + used, length - (size_t)used, "; for others give --device-memory GB");
    return NULL;
}

/* Returns whether the name contains this whole word: an "NVIDIA GH200 480GB" is no H200. */
static bool has_word(const char *device, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = device; (at = strstr(at, word)); at += length)
        if ((at == device || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length])) return true;
    return false;
}

bool device_is(const char *device, const char *gpu)
{
    return has_word(device, gpu) && !has_word(device, "PCIe") && !has_word(device, "PCIE") &&
           !has_word(device, "NVL") && !has_word(device, "MIG");
}

void devices_print(void)
{
    say("\nGPUs for --device: dense peaks in TFLOP/s, memory, number of GPUs in a node and in an NVLink domain\n");
    for (int i = 0; i < ROWS; i++)
        say("  device %-10s BF16 %4.0f, FP8 %4.0f, %5.1f GB, node %d, domain %d\n", rows[i].name, rows[i].bf16 / 1e12,
            rows[i].fp8 / 1e12, rows[i].memory_bytes / 1e9, rows[i].node, rows[i].domain);
}
