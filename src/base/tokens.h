/* What the tokens of a batch are: independent and uniform, documents that count up, or all zero. */
#pragma once

typedef enum { TOKENS_UNIFORM, TOKENS_RAMP, TOKENS_ZEROS } tokens_kind;
