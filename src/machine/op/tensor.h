/* A tensor is a view: where, what format, which shape. Dimensions run slow to fast; strides are in elements. scale: of
 * FP8 codes, [FP8_FACTORS] (args.h) in machine memory: what values were multiplied by, and 1 over it; else NULL. */
#pragma once
#include "base/arena.h"
#include "base/dtype.h"
#include <stdbool.h>
#include <stdint.h>

enum { TENSOR_DIMS = 4 };
typedef struct {
    void *data;
    dtype type;
    int dims;
    int64_t dim[TENSOR_DIMS], stride[TENSOR_DIMS];
    float *scale;
} tensor;

/* Contiguous views. tensor_none() is the absent operand: no data, no dims. */
tensor tensor_none(void);
tensor tensor_1d(void *data, dtype type, int64_t n);
tensor tensor_2d(void *data, dtype type, int64_t rows, int64_t columns);
tensor tensor_3d(void *data, dtype type, int64_t a, int64_t b, int64_t c);
tensor tensor_4d(void *data, dtype type, int64_t a, int64_t b, int64_t c, int64_t d);

bool tensor_present(const tensor *t);
int64_t tensor_elements(const tensor *t);
bool tensor_contiguous(const tensor *t);
/* Where element i of a view lies, counted slow to fast, in elements from the first. */
int64_t tensor_place(const tensor *t, int64_t i);
/* Bytes from the first element to the end of the last one, gaps included. */
size_t tensor_span(const tensor *t);
/* The same shape in memory of its own. */
tensor tensor_taken(arena *a, arena_kind kind, tensor shape);

/* The part [start, start + length) of one dimension. */
tensor tensor_slice(tensor t, int dim, int64_t start, int64_t length);
/* The same elements of a contiguous tensor under another shape. */
tensor tensor_flat(tensor t);
tensor tensor_rows(tensor t);       /* all dims but the last merged: [rows, columns] */
tensor tensor_transposed(tensor t); /* the last two dims exchanged */

/* The element i elements behind the first, of any format; the caller may read it (host memory, finished). */
double tensor_value(const tensor *t, int64_t i);

/* Reads the whole span of a tensor, from a machine or from memory. */
typedef void tensor_reader(void *from, void *to, tensor t);
/* The same shape without gaps, its dimensions in the same order in memory. */
tensor tensor_dense(tensor t);
/* Two views of one place whose elements lie alike, with their gaps or without. */
bool tensor_twins(const tensor *a, const tensor *b);
/* The elements of t into those of `to` (the same shape, in host memory), through a bounded buffer. */
void tensor_gather(tensor to, tensor t, tensor_reader *read, void *from);
