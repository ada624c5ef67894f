/* A tensor is a view of memory: address, format and shape. Dimensions run slow to fast; strides are in elements. scale:
 * [FP8_FACTORS] (args.h) in machine memory, the scale of an FP8 tensor and its inverse; NULL for other formats. */
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

/* Return contiguous views. tensor_none() is an absent operand, without data and dims. */
tensor tensor_none(void);
tensor tensor_1d(void *data, dtype type, int64_t n);
tensor tensor_2d(void *data, dtype type, int64_t rows, int64_t columns);
tensor tensor_3d(void *data, dtype type, int64_t a, int64_t b, int64_t c);
tensor tensor_4d(void *data, dtype type, int64_t a, int64_t b, int64_t c, int64_t d);

bool tensor_present(const tensor *t);
int64_t tensor_elements(const tensor *t);
bool tensor_contiguous(const tensor *t);
/* Returns the offset of element i, counted slow to fast, from the first one, in elements. */
int64_t tensor_place(const tensor *t, int64_t i);
/* Returns the bytes from the first element to the end of the last one, including gaps. */
size_t tensor_span(const tensor *t);
/* Returns the shape with new memory of the arena. */
tensor tensor_taken(arena *a, arena_kind kind, tensor shape);

/* Returns a view of [start, start + length) of one dimension. */
tensor tensor_slice(tensor t, int dim, int64_t start, int64_t length);
/* Return the elements with another shape. tensor_flat and tensor_rows end the program if there are gaps. */
tensor tensor_flat(tensor t);
tensor tensor_rows(tensor t);       /* all dims but the last merged: [rows, columns] */
tensor tensor_transposed(tensor t); /* the last two dims exchanged */

/* Returns the value at offset i, in elements, in any format. The caller can read it (host memory, complete). */
double tensor_value(const tensor *t, int64_t i);

/* Copies the whole span of tensor t to `to`, from a machine or from memory. */
typedef void tensor_reader(void *from, void *to, tensor t);
/* Returns the shape without gaps. The order of dimensions in memory stays. */
tensor tensor_dense(tensor t);
/* Returns whether both views show the same memory in the same order: with equal shapes, or both without gaps. */
bool tensor_same_elements(const tensor *a, const tensor *b);
/* Copies the elements of t to `to` (the same shape, in host memory) through a bounded buffer. */
void tensor_gather(tensor to, tensor t, tensor_reader *read, void *from);
