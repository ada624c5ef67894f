/* SHA-256 as in FIPS 180-4, section 6.2. */
#include "base/sha256.h"
#include <string.h>

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t rotate(uint32_t x, int bits) { return (x >> bits) | (x << (32 - bits)); }

/* Writes the message schedule W of one block. */
static void expand(uint32_t w[64], const unsigned char *block)
{
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 | (uint32_t)block[4 * t + 2] << 8 |
               (uint32_t)block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

/* v[(i - t) & 7] is variable i (a to h) of round t: a round renames six of them, and moves none. */
static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    expand(w, block);
    memcpy(v, state, sizeof v);
#pragma GCC unroll 8
    for (int t = 0; t < 64; t++) {
        uint32_t a = v[-t & 7], b = v[(1 - t) & 7], c = v[(2 - t) & 7];
        uint32_t e = v[(4 - t) & 7], f = v[(5 - t) & 7], g = v[(6 - t) & 7], h = v[(7 - t) & 7];
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constant[t] + w[t];
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        v[(3 - t) & 7] += t1;
        v[(7 - t) & 7] = t1 + s0 + ((a & b) ^ (a & c) ^ (b & c));
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void sha256_open(sha256 *s)
{
    *s = (sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                              0x5be0cd19 } };
}

void sha256_add(sha256 *s, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;
    s->length += length;
    while (length) {
        size_t space = SHA256_BLOCK - s->used, part = length < space ? length : space;
        memcpy(s->block + s->used, from, part);
        s->used += part;
        from += part;
        length -= part;
        if (s->used < SHA256_BLOCK) return;
        compress(s->state, s->block);
        s->used = 0;
    }
}

void sha256_close(sha256 *s, char hex[SHA256_HEX])
{
    static const unsigned char one_bit = 0x80, zero = 0;
    static const char digit[] = "0123456789abcdef";
    uint64_t bits = 8 * s->length;
    unsigned char tail[8];
    for (int i = 0; i < 8; i++) tail[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, &one_bit, 1);
    while (s->used != SHA256_BLOCK - sizeof tail) sha256_add(s, &zero, 1);
    sha256_add(s, tail, sizeof tail);
    for (int i = 0; i < SHA256_HEX - 1; i++) hex[i] = digit[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[SHA256_HEX - 1] = 0;
}

void sha256_of(const void *bytes, size_t length, char hex[SHA256_HEX])
{
    sha256 s;
    sha256_open(&s);
    sha256_add(&s, bytes, length);
    sha256_close(&s, hex);
}
