/* What a planted fault does to the operation that it strikes: the deck names it, the machine does it.
 * drop: not executed, what it would write is zero. stale: not executed, its operands keep what memory held. repeat:
 * executed twice. scale: what it wrote times 2. flip: the highest exponent bit of one written element inverted. unwait:
 * the wait before it left out. */
#pragma once

typedef enum { FAULT_NONE, FAULT_DROP, FAULT_STALE, FAULT_REPEAT, FAULT_SCALE, FAULT_FLIP, FAULT_UNWAIT } fault_kind;
