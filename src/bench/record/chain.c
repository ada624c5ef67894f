/* The link before goes in as its digits, so that a shell's sha256sum can follow. */
#include "bench/record/chain.h"

chain_link chain_extend(const chain_link *before, const void *bytes, size_t length)
{
    chain_link link;
    sha256 s;
    sha256_open(&s);
    sha256_add(&s, before->hex, SHA256_HEX - 1);
    sha256_add(&s, bytes, length);
    sha256_close(&s, link.hex);
    return link;
}
