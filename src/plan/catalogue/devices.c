/* Devices, one row each. */
#include "plan/catalogue/devices.h"
#include "base/say.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Sources: NVIDIA's dgxc-benchmarking README 26.06.01 for H100, B200, B300, GB200 and GB300 (other documents give 2500
 * and 5000 TFLOP/s for GB200 and GB300, and 192 GB for B200, of which 180 are usable); data sheets for H200, A100 and
 * L40S, which is a PCIe card; hardware_spec.md of citsjtu2020/LLM-Prof for H20, whose FP8 peak is assumed to equal its
 * INT8 peak. */
static const device_row rows[] = {
    { "H100 PCIe", 756.5e12, 1513e12 },          { "H100 NVL", 835.5e12, 1671e12 },
    { "H200 NVL", 835.5e12, 1671e12 },           { "GH200", 989e12, 1979e12 },
    { "A100", 312e12, 0.0, 80e9, 8, 8 },         { "H100", 989e12, 1979e12, 80e9, 8, 8 },
    { "H200", 989e12, 1979e12, 141e9, 8, 8 },    { "H20", 148e12, 296e12, 96e9, 8, 8 },
    { "L40S", 362e12, 733e12, 48e9, 1, 8 },      { "B200", 2250e12, 4500e12, 180e9, 8, 8 },
    { "GB200", 2450e12, 4900e12, 186e9, 72, 4 }, { "B300", 2250e12, 4500e12, 270e9, 8, 8 },
    { "GB300", 2450e12, 4900e12, 279e9, 72, 4 },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const device_row *device_find(const char *name)
{
    static const char maker[] = "NVIDIA ";
    if (strncasecmp(name, maker, sizeof maker - 1) == 0) name += sizeof maker - 1;
    for (int i = 0; i < ROWS && !strstr(name, " MIG "); i++) {
        size_t length = strlen(rows[i].name);
        if (strncasecmp(name, rows[i].name, length) == 0 && !isalnum((unsigned char)name[length])) return &rows[i];
    }
    return NULL;
}

double device_bytes(const char *name)
{
    const device_row *row = name ? device_find(name) : NULL;
    return row && row->memory_bytes > 0.0 ? row->memory_bytes : device_find(PAPER_DEVICE)->memory_bytes;
}

int device_domain(const char *name)
{
    const device_row *row = name ? device_find(name) : NULL;
    return row && row->domain ? row->domain : device_find(PAPER_DEVICE)->domain;
}

const device_row *device_named(const char *name, char *sentence, size_t length)
{
    const device_row *row = device_find(name);
    if (row && row->memory_bytes > 0.0) return row;
    int used = snprintf(sentence, length, "--device %.40s: the known GPUs are", name);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].memory_bytes > 0.0) used += snprintf(sentence + used, length - (size_t)used, " %s", rows[i].name);
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
        if (rows[i].memory_bytes > 0.0)
            say("  device %-6s BF16 %4.0f, FP8 %4.0f, %3.0f GB, node %d, domain %d\n", rows[i].name,
                rows[i].bf16 / 1e12, rows[i].fp8 / 1e12, rows[i].memory_bytes / 1e9, rows[i].node, rows[i].domain);
}
