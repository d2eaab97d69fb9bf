/* Kernels for a few rows: linear maps in fp32 and in 8-bit integers, norms, softmax, and the threads they share.

Vectors are those of the compiler (GCC, Clang), so that one text serves every processor; how wide they are follows from
the instructions that the compiler may use (weft/fast/cpu/compiled.py). Matrices are row-major. */

#ifndef WEFT_KERNELS_H
#define WEFT_KERNELS_H

#include <stdint.h>

typedef struct {
    const float *weight;  /* (outputs, inputs), or NULL if the weights are bytes */
    const int8_t *bytes;  /* (outputs, inputs) */
    const int32_t *sums;  /* sums of the bytes of every output */
    const float *scale;   /* of every output; for inputs without a bound, their maximum is still to be multiplied */
    const float *bias;    /* or NULL */
    int32_t outputs, inputs;
    float bound;          /* of the magnitude of inputs; 0: unknown */
    int32_t levels;       /* inputs are rounded to integers between -levels and levels */
} Linear;

typedef struct {
    const float *weight;  /* NULL: no norm */
    const float *bias;    /* NULL: root mean square, else layer norm */
    float epsilon;
} Norm;

/* Calls work(data, chunk) for every chunk, on up to `threads` threads; returns when all have ended. */
typedef void (*Work)(void *data, int chunk);
void parallel(Work work, void *data, int chunks, int threads);

/* y = W x + b for `rows` rows x (stride: floats between two rows) into rows y of `outputs` floats; -1: no memory. */
int linear(const Linear *map, const float *x, long stride, int rows, float *y, int threads);

void normalize(const Norm *norm, const float *x, int rows, int width, float *y);
void softmax(float *x, int size);
float log_sum_exp(const float *x, int size, float largest);
void weft_log_sum_exp(const float *x, int rows, int size, float *sums, int threads);
int weft_top_k(
    const float *x, const float *totals, int rows, int size, int k, float *best, int64_t *parents, int64_t *tokens);
int first_largest(const float *x, int size, float *largest);
float dot(const float *x, const float *y, int size);
void add_scaled(float *y, float factor, const float *x, int size);

static inline float exponential(float x) {
    /* 2^n e^f with n = round(x / ln 2): relative error below 2e-7, and 0 below -87 */
    float bounded = x < -87.0f ? -87.0f : x <= 88.0f ? x : 88.0f; /* also if it is not a number */
    float shifted = bounded * 1.44269504088896341f + 12582912.0f; /* adding 1.5 2^23 rounds */
    float n = shifted - 12582912.0f;
    float f = bounded - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * f * f + f + 1.0f;
    union { int32_t bits; float value; } power = {((int32_t)n + 127) << 23};
    return x < -87.0f ? 0.0f : x == x ? p * power.value : x;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

static inline float hyperbolic_tangent(float x) {
    float magnitude = x < 0.0f ? -x : x, square = x * x;
    /* near zero the quotient loses digits, and the odd series has them */
    float near = x * (1.0f + square * (-1.0f / 3.0f + square * (2.0f / 15.0f + square * (-17.0f / 315.0f))));
    float power = exponential(-2.0f * magnitude), far = (1.0f - power) / (1.0f + power);
    return magnitude < 0.1f ? near : x < 0.0f ? -far : far;
}

#endif
