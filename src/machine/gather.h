/* Parts of tensors, read without what lies between their elements. */
#pragma once
#include "machine/tensor.h"

/* Reads the whole span of a tensor, from a machine or from memory. */
typedef void op_reader(void *from, void *to, tensor t);
/* The same shape without gaps, its dimensions in the same order in memory. */
tensor tensor_dense(tensor t);
/* Two views of one place whose elements lie alike, with their gaps or without. */
bool tensor_twins(const tensor *a, const tensor *b);
/* The elements of t into those of `to` (the same shape, in host memory), through a bounded buffer. */
void tensor_gather(tensor to, tensor t, op_reader *read, void *from);
