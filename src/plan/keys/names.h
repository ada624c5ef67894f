/* The words of a deck: NULL-terminated lists, each in the order of its enumeration. */
#pragma once
#include <stddef.h>

typedef const char *word_list[];
extern const word_list size_names, precision_names, fp8_scale_names, fp8_scaling_names, backend_names, tokens_names,
    recompute_names, sharding_names, schedule_names, order_names, check_names, overlap_names, context_gradient_names,
    answer_names, attention_names, fault_names, none_names, all_names, expect_names, checkpoint_read_names;
/* Operations that the key `fault` can name. */
extern const word_list operation_names;
/* Writes the words of a list, separated by blanks. */
void names_list(const char *const *words, char *out, size_t size);
