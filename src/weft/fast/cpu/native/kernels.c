#include "kernels.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { FLOATS = 16, WIDE = 4 };
#elif defined(__AVX__)
enum { FLOATS = 8, WIDE = 2 };
#else
enum { FLOATS = 4, WIDE = 2 };
#endif
/* WIDE: outputs that are computed together, so that the inputs of up to six rows are read once for all of them */

typedef float Vector __attribute__((vector_size(FLOATS * 4)));

static inline Vector load(const float *x) {
    Vector v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline float total(Vector v) {
    float part[FLOATS], sum = 0;
    memcpy(part, &v, sizeof v);
    for (int half = FLOATS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    sum = part[0];
    return sum;
}

/* Threads: workers wait for a ticket, whose number counts the calls of `parallel` and whose chunks any thread takes. A
worker that the operating system has stopped delays nothing, unless it is in the middle of a chunk. */

#define MAX_WORKERS 63
#define SPINS 20000 /* some hundred microseconds: longer than a search takes between two steps */

static _Atomic uint64_t ticket; /* call (32 bits) | chunks (16) | next chunk (16) */
static _Atomic int ended;
static Work job_work;
static void *job_data;
static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static _Atomic int sleeping;
static int workers;
static _Atomic int allowed; /* workers that may take chunks of this call */
static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static int take_chunks(void) {
    int taken = 0;
    for (;;) {
        uint64_t seen = atomic_load(&ticket);
        if ((seen & 0xffff) >= (seen >> 16 & 0xffff)) return taken;
        if (!atomic_compare_exchange_weak(&ticket, &seen, seen + 1)) continue;
        /* `parallel` returns, and changes the job, only after this chunk has ended */
        job_work(job_data, (int)(seen & 0xffff));
        atomic_fetch_add(&ended, 1);
        taken++;
    }
}

static void *serve(void *number) {
    long index = (long)number;
    for (;;) {
        int spins = 0;
        for (;;) {
            uint64_t seen = atomic_load(&ticket);
            if ((seen & 0xffff) < (seen >> 16 & 0xffff) && index < atomic_load(&allowed)) break;
            if (++spins < SPINS) {
                relax();
                continue;
            }
            pthread_mutex_lock(&sleep_lock);
            uint64_t now = atomic_load(&ticket);
            atomic_fetch_add(&sleeping, 1);
            if (now == atomic_load(&ticket)) {
                struct timespec until;
                clock_gettime(CLOCK_REALTIME, &until);
                until.tv_sec += 3600;
                pthread_cond_timedwait(&wake, &sleep_lock, &until);
            }
            atomic_fetch_sub(&sleeping, 1);
            pthread_mutex_unlock(&sleep_lock);
            spins = 0;
        }
        take_chunks();
    }
    return NULL;
}

static void after_fork(void) { /* threads are not copied into a child process */
    workers = 0;
    atomic_store(&sleeping, 0);
    pthread_mutex_init(&owner, NULL);
    pthread_mutex_init(&sleep_lock, NULL);
    pthread_cond_init(&wake, NULL);
    uint64_t idle = atomic_load(&ticket);
    atomic_store(&ticket, (idle >> 32) << 32);
}

static void register_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

static void start_workers(int count) {
    pthread_once(&fork_handlers, register_fork_handler);
    while (workers < count && workers < MAX_WORKERS) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&thread, &attributes, serve, (void *)(long)workers)) break;
        workers++;
    }
}

void parallel(Work work, void *data, int chunks, int threads) {
    if (threads <= 1 || chunks <= 1 || pthread_mutex_trylock(&owner)) { /* or another thread has the workers */
        for (int chunk = 0; chunk < chunks; chunk++) work(data, chunk);
        return;
    }
    if (workers < threads - 1) start_workers(threads - 1);
    job_work = work;
    job_data = data;
    atomic_store(&ended, 0);
    atomic_store(&allowed, threads - 1);
    uint64_t call = (atomic_load(&ticket) >> 32) + 1;
    atomic_store(&ticket, call << 32 | (uint64_t)chunks << 16);
    if (atomic_load(&sleeping)) {
        pthread_mutex_lock(&sleep_lock);
        pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&sleep_lock);
    }
    take_chunks();
    for (int spins = 0; atomic_load(&ended) < chunks;) {
        if (++spins < SPINS) relax();
        else sched_yield();
    }
    pthread_mutex_unlock(&owner);
}

/* Linear maps. `ROWS` and `OUTPUTS` are constants wherever these functions are inlined. */

static inline __attribute__((always_inline)) void float_block(
    const int ROWS, const int OUTPUTS, const Linear *map, const float *x, long stride, int output, float *y) {
    const int inputs = map->inputs;
    const float *w = map->weight + (long)output * inputs;
    Vector sums[8][8];
    int i = 0;
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int o = 0; o < OUTPUTS; o++) sums[r][o] = (Vector){0};
    for (; i + FLOATS <= inputs; i += FLOATS) {
        Vector weights[8];
#pragma GCC unroll 8
        for (int o = 0; o < OUTPUTS; o++) weights[o] = load(w + (long)o * inputs + i);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            Vector row = load(x + r * stride + i);
#pragma GCC unroll 8
            for (int o = 0; o < OUTPUTS; o++) sums[r][o] += row * weights[o];
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUTPUTS; o++) {
            float sum = total(sums[r][o]);
            for (int j = i; j < inputs; j++) sum += x[r * stride + j] * w[(long)o * inputs + j];
            y[(long)r * map->outputs + output + o] = sum + (map->bias ? map->bias[output + o] : 0.0f);
        }
}

static inline __attribute__((always_inline)) void float_rows(
    const int ROWS, const int OUTPUTS, const Linear *map, const float *x, long stride, int first, int last, float *y) {
    int output = first;
    for (; output + OUTPUTS <= last; output += OUTPUTS) float_block(ROWS, OUTPUTS, map, x, stride, output, y);
    for (; output < last; output++) float_block(ROWS, 1, map, x, stride, output, y);
}

static void float_outputs(const Linear *map, const float *x, long stride, int rows, int first, int last, float *y) {
    for (int done = 0; done < rows;) {
        int left = rows - done, block = left >= 6 && left != 7 ? (left == 8 ? 4 : 6) : left == 7 ? 4 : left;
        const float *from = x + done * stride;
        float *to = y + (long)done * map->outputs;
        switch (block) {
        case 1: float_rows(1, 2 * WIDE, map, from, stride, first, last, to); break;
        case 2: float_rows(2, WIDE, map, from, stride, first, last, to); break;
        case 3: float_rows(3, WIDE, map, from, stride, first, last, to); break;
        case 4: float_rows(4, WIDE, map, from, stride, first, last, to); break;
        case 5: float_rows(5, WIDE, map, from, stride, first, last, to); break;
        default: float_rows(6, WIDE, map, from, stride, first, last, to); break;
        }
        done += block;
    }
}

/* Inputs of 8-bit products are integers; one byte each, with 128 added, if the processor multiplies bytes. */
#ifdef __AVX512VNNI__
typedef uint8_t Rounded;
enum { ZERO = 128 };
static inline int32_t integer_dot(const Rounded *x, const int8_t *w, int size) {
    __m512i sums = _mm512_setzero_si512(), more = _mm512_setzero_si512();
    int i = 0;
    for (; i + 128 <= size; i += 128) {
        sums = _mm512_dpbusd_epi32(sums, _mm512_loadu_si512(x + i), _mm512_loadu_si512(w + i));
        more = _mm512_dpbusd_epi32(more, _mm512_loadu_si512(x + i + 64), _mm512_loadu_si512(w + i + 64));
    }
    for (; i + 64 <= size; i += 64)
        sums = _mm512_dpbusd_epi32(sums, _mm512_loadu_si512(x + i), _mm512_loadu_si512(w + i));
    int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(sums, more));
    for (; i < size; i++) sum += (int32_t)x[i] * w[i];
    return sum;
}
#else
typedef int16_t Rounded;
enum { ZERO = 0 };
static inline int32_t integer_dot(const Rounded *x, const int8_t *w, int size) {
    int32_t sum = 0;
    for (int i = 0; i < size; i++) sum += (int32_t)x[i] * (int32_t)w[i];
    return sum;
}
#endif

static void round_row(const Linear *map, const float *x, Rounded *rounded, float *maximum) {
    const int inputs = map->inputs, levels = map->levels;
    float largest = 0.0f;
    if (map->bound > 0.0f) {
        largest = 1.0f;
    } else {
        for (int i = 0; i < inputs; i++) {
            float magnitude = fabsf(x[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
        float least = 1.17549435e-38f * levels;
        largest = largest < least ? least : largest;
    }
    float factor = levels / (map->bound > 0.0f ? map->bound : largest);
    for (int i = 0; i < inputs; i++) {
        float value = x[i] * factor;
        value = value > levels ? levels : value < -levels ? -levels : value;
        value += 12582912.0f; /* adding and subtracting 1.5 2^23 rounds half to even */
        value -= 12582912.0f;
        rounded[i] = (Rounded)((int32_t)value + ZERO);
    }
    *maximum = largest;
}

static void integer_outputs(
    const Linear *map, const Rounded *x, const float *maxima, int rows, int first, int last, float *y) {
    const int inputs = map->inputs;
    for (int output = first; output < last; output++) {
        const int8_t *w = map->bytes + (long)output * inputs;
        int32_t zero = ZERO * map->sums[output];
        float scale = map->scale[output], bias = map->bias ? map->bias[output] : 0.0f;
        for (int r = 0; r < rows; r++) {
            int32_t sum = integer_dot(x + (long)r * inputs, w, inputs) - zero;
            y[(long)r * map->outputs + output] = (float)sum * scale * maxima[r] + bias;
        }
    }
}

typedef struct {
    const Linear *map;
    const float *x;
    const Rounded *rounded;
    const float *maxima;
    long stride;
    int rows, size;
    float *y;
} LinearWork;

static void linear_chunk(void *data, int chunk) {
    const LinearWork *work = data;
    int first = chunk * work->size, last = first + work->size;
    if (last > work->map->outputs) last = work->map->outputs;
    if (work->rounded) integer_outputs(work->map, work->rounded, work->maxima, work->rows, first, last, work->y);
    else float_outputs(work->map, work->x, work->stride, work->rows, first, last, work->y);
}

#define MIN_WORK 16384 /* products of a chunk, at least: a few microseconds */

void linear(const Linear *map, const float *x, long stride, int rows, float *y, int threads) {
    LinearWork work = {map, x, NULL, NULL, stride, rows, map->outputs, y};
    Rounded *rounded = NULL;
    float maxima[rows];
    if (map->bytes) {
        rounded = malloc((long)rows * map->inputs * sizeof(Rounded) + 64);
        for (int r = 0; r < rows; r++) round_row(map, x + r * stride, rounded + (long)r * map->inputs, maxima + r);
        work.rounded = rounded;
        work.maxima = maxima;
    }
    if (threads > 1) {
        long products = (long)map->outputs * map->inputs * (map->bytes ? (rows + 3) / 4 : rows);
        int chunks = (int)(products / MIN_WORK);
        chunks = chunks > 4 * threads ? 4 * threads : chunks < 1 ? 1 : chunks;
        work.size = ((map->outputs + chunks - 1) / chunks + 7) / 8 * 8;
    }
    int chunks = (map->outputs + work.size - 1) / work.size;
    parallel(linear_chunk, &work, chunks, threads);
    free(rounded);
}

void normalize(const Norm *norm, const float *x, int rows, int width, float *y) {
    for (int r = 0; r < rows; r++, x += width, y += width) {
        if (!norm->weight) {
            if (y != x) memcpy(y, x, width * sizeof(float));
            continue;
        }
        double sum = 0.0, squares = 0.0;
        float mean = 0.0f;
        if (norm->bias) {
            for (int i = 0; i < width; i++) sum += x[i];
            mean = (float)(sum / width);
        }
        for (int i = 0; i < width; i++) squares += (double)(x[i] - mean) * (x[i] - mean);
        float factor = (float)(1.0 / sqrt(squares / width + norm->epsilon));
        for (int i = 0; i < width; i++)
            y[i] = (x[i] - mean) * factor * norm->weight[i] + (norm->bias ? norm->bias[i] : 0.0f);
    }
}

void softmax(float *x, int size) {
    float largest = x[0], sum = 0.0f;
    for (int i = 1; i < size; i++) largest = x[i] > largest ? x[i] : largest;
    for (int i = 0; i < size; i++) x[i] = exponential(x[i] - largest);
    for (int i = 0; i < size; i++) sum += x[i];
    for (int i = 0; i < size; i++) x[i] /= sum;
}

float dot(const float *x, const float *y, int size) {
    Vector sums = {0};
    int i = 0;
    for (; i + FLOATS <= size; i += FLOATS) sums += load(x + i) * load(y + i);
    float sum = total(sums);
    for (; i < size; i++) sum += x[i] * y[i];
    return sum;
}

void add_scaled(float *y, float factor, const float *x, int size) {
    for (int i = 0; i < size; i++) y[i] += factor * x[i];
}
