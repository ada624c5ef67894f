/* SHA-256 (FIPS 180-4) of bytes that arrive in pieces. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BLOCK = 64, SHA256_HEX = 65 };
typedef struct {
    uint32_t state[8];
    uint64_t length;
    unsigned char block[SHA256_BLOCK];
    size_t used;
} sha256;

void sha256_open(sha256 *s);
void sha256_add(sha256 *s, const void *bytes, size_t length);
/* Writes 64 hex digits and a zero byte. */
void sha256_close(sha256 *s, char hex[SHA256_HEX]);
void sha256_of(const void *bytes, size_t length, char hex[SHA256_HEX]);
