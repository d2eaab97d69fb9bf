#include "kernels.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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

typedef float Quad __attribute__((vector_size(16)));
typedef int32_t IntegerQuad __attribute__((vector_size(16)));

static inline Quad quarter(Vector v) {
#if defined(__AVX512F__)
    typedef float Half __attribute__((vector_size(32)));
    Half h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
        + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#elif defined(__AVX__)
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
    return v;
#endif
}

/* The sums of the elements of four vectors of four, for floats and integers. */
#define SUMS(a, b, c, d, type) ({ \
    type ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7); \
    type cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7); \
    __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7); })

static inline float total(Vector v) {
    Quad q = quarter(v);
    return (q[0] + q[2]) + (q[1] + q[3]);
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
    sigset_t all, before;
    pthread_once(&fork_handlers, register_fork_handler);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for Python's threads */
    while (workers < count && workers < MAX_WORKERS) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&thread, &attributes, serve, (void *)(long)workers)) break;
        workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        float *to = y + (long)r * map->outputs + output, part[8];
#pragma GCC unroll 8
        for (int o = 0; o < OUTPUTS; o += 4) {
            Quad none = {0}, four = SUMS(
                quarter(sums[r][o]), OUTPUTS > o + 1 ? quarter(sums[r][o + 1]) : none,
                OUTPUTS > o + 2 ? quarter(sums[r][o + 2]) : none, OUTPUTS > o + 3 ? quarter(sums[r][o + 3]) : none,
                Quad);
            memcpy(part + o, &four, sizeof four);
        }
        for (int o = 0; o < OUTPUTS; o++) {
            float sum = part[o];
            for (int j = i; j < inputs; j++) sum += x[r * stride + j] * w[(long)o * inputs + j];
            to[o] = sum + (map->bias ? map->bias[output + o] : 0.0f);
        }
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
        int left = rows - done, block = left > 6 ? (left < 12 ? (left + 1) / 2 : 6) : left;
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
enum { ZERO = 128, BYTE_OUTPUTS = 4 };

static inline IntegerQuad integer_quarter(__m512i v) {
    __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return (IntegerQuad)_mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

static inline __attribute__((always_inline)) void integer_block(
    const int ROWS, const Rounded *x, const int8_t *w, int inputs, int32_t sums[][BYTE_OUTPUTS]) {
    __m512i total[6][BYTE_OUTPUTS];
    int i = 0;
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int o = 0; o < BYTE_OUTPUTS; o++) total[r][o] = _mm512_setzero_si512();
    for (; i + 64 <= inputs; i += 64) {
        __m512i weights[BYTE_OUTPUTS];
#pragma GCC unroll 8
        for (int o = 0; o < BYTE_OUTPUTS; o++) weights[o] = _mm512_loadu_si512(w + (long)o * inputs + i);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            __m512i row = _mm512_loadu_si512(x + (long)r * inputs + i);
#pragma GCC unroll 8
            for (int o = 0; o < BYTE_OUTPUTS; o++) total[r][o] = _mm512_dpbusd_epi32(total[r][o], row, weights[o]);
        }
    }
    if (i < inputs) {
        __mmask64 mask = (1ULL << (inputs - i)) - 1;
        for (int o = 0; o < BYTE_OUTPUTS; o++) {
            __m512i weights = _mm512_maskz_loadu_epi8(mask, w + (long)o * inputs + i);
            for (int r = 0; r < ROWS; r++)
                total[r][o] = _mm512_dpbusd_epi32(
                    total[r][o], _mm512_maskz_loadu_epi8(mask, x + (long)r * inputs + i), weights);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        IntegerQuad a = integer_quarter(total[r][0]), b = integer_quarter(total[r][1]);
        IntegerQuad c = integer_quarter(total[r][2]), d = integer_quarter(total[r][3]), four = SUMS(a, b, c, d, IntegerQuad);
        memcpy(sums[r], &four, sizeof four);
    }
}
#else
typedef int16_t Rounded;
enum { ZERO = 0, BYTE_OUTPUTS = 1 };

static inline __attribute__((always_inline)) void integer_block(
    const int ROWS, const Rounded *x, const int8_t *w, int inputs, int32_t sums[][BYTE_OUTPUTS]) {
    for (int r = 0; r < ROWS; r++) {
        int32_t sum = 0;
        for (int i = 0; i < inputs; i++) sum += (int32_t)x[(long)r * inputs + i] * (int32_t)w[i];
        sums[r][0] = sum;
    }
}
#endif

static void round_row(const Linear *map, const float *x, Rounded *rounded, float *maximum) {
    const int inputs = map->inputs, levels = map->levels;
    float largest = 0.0f;
    if (map->bound > 0.0f) {
        largest = 1.0f;
    } else {
        float part[16] = {0};
        int i = 0;
        for (; i + 16 <= inputs; i += 16)
            for (int j = 0; j < 16; j++) part[j] = fabsf(x[i + j]) > part[j] ? fabsf(x[i + j]) : part[j];
        for (; i < inputs; i++) part[0] = fabsf(x[i]) > part[0] ? fabsf(x[i]) : part[0];
        for (int j = 0; j < 16; j++) largest = part[j] > largest ? part[j] : largest;
        float least = 1.17549435e-38f * levels;
        largest = largest < least ? least : largest;
    }
    int is_number = 1;
    for (int i = 0; i < inputs; i++) is_number &= x[i] == x[i];
    float factor = levels / (map->bound > 0.0f ? map->bound : largest);
    for (int i = 0; i < inputs; i++) {
        float value = x[i] * factor;
        value = value > levels ? levels : value >= -levels ? value : -levels; /* also if it is not a number */
        value += 12582912.0f; /* adding and subtracting 1.5 2^23 rounds half to even */
        value -= 12582912.0f;
        rounded[i] = (Rounded)((int32_t)value + ZERO);
    }
    *maximum = is_number ? largest : NAN; /* as outputs then are */
}

static inline __attribute__((always_inline)) void integer_rows(
    const int ROWS, const Linear *map, const Rounded *x, const float *maxima, int first, int last, float *y) {
    const int inputs = map->inputs;
    for (int output = first; output < last; output += BYTE_OUTPUTS) {
        int32_t sums[6][BYTE_OUTPUTS];
        int from = output + BYTE_OUTPUTS <= map->outputs ? output : map->outputs - BYTE_OUTPUTS;
        if (from < 0) { /* fewer outputs than a block */
            for (int o = output; o < last; o++)
                for (int r = 0; r < ROWS; r++) {
                    int32_t sum = 0;
                    /* ZERO is subtracted at the end: GCC 12 computes sums of (x - 128) w wrongly with VNNI */
                    for (int i = 0; i < inputs; i++)
                        sum += (int32_t)x[(long)r * inputs + i] * (int32_t)map->bytes[(long)o * inputs + i];
                    sum -= ZERO * map->sums[o];
                    y[(long)r * map->outputs + o] = (float)sum * map->scale[o] * maxima[r] + (map->bias ? map->bias[o] : 0.0f);
                }
            return;
        }
        integer_block(ROWS, x, map->bytes + (long)from * inputs, inputs, sums);
        float scale[BYTE_OUTPUTS], bias[BYTE_OUTPUTS];
        int32_t zeros[BYTE_OUTPUTS];
#pragma GCC unroll 8
        for (int o = 0; o < BYTE_OUTPUTS; o++) {
            scale[o] = map->scale[from + o];
            bias[o] = map->bias ? map->bias[from + o] : 0.0f;
            zeros[o] = ZERO * map->sums[from + o];
        }
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            float results[BYTE_OUTPUTS];
            for (int o = 0; o < BYTE_OUTPUTS; o++)
                results[o] = (float)(sums[r][o] - zeros[o]) * scale[o] * maxima[r] + bias[o];
            memcpy(y + (long)r * map->outputs + from, results, sizeof results);
        }
    }
}

static void integer_outputs(
    const Linear *map, const Rounded *x, const float *maxima, int rows, int first, int last, float *y) {
    for (int done = 0; done < rows;) {
        int left = rows - done, block = left > 6 ? (left < 12 ? (left + 1) / 2 : 6) : left;
        const Rounded *from = x + (long)done * map->inputs;
        float *to = y + (long)done * map->outputs;
        switch (block) {
        case 1: integer_rows(1, map, from, maxima + done, first, last, to); break;
        case 2: integer_rows(2, map, from, maxima + done, first, last, to); break;
        case 3: integer_rows(3, map, from, maxima + done, first, last, to); break;
        case 4: integer_rows(4, map, from, maxima + done, first, last, to); break;
        case 5: integer_rows(5, map, from, maxima + done, first, last, to); break;
        default: integer_rows(6, map, from, maxima + done, first, last, to); break;
        }
        done += block;
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

int linear(const Linear *map, const float *x, long stride, int rows, float *y, int threads) {
    if (rows < 1 || map->outputs < 1) return 0;
    LinearWork work = {map, x, NULL, NULL, stride, rows, map->outputs, y};
    Rounded *rounded = NULL;
    float maxima[rows];
    if (map->bytes) {
        rounded = malloc((long)rows * map->inputs * sizeof(Rounded) + 64);
        if (!rounded) return -1;
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
    return 0;
}

/* The sum of (x - mean)^power; in sixteen parts, so that the compiler may use vectors. */
static float sum_of(const float *x, int size, float mean, int power) {
    float part[16] = {0}, sum = 0.0f;
    int i = 0;
    for (; i + 16 <= size; i += 16)
        for (int j = 0; j < 16; j++) {
            float value = x[i + j] - mean;
            part[j] += power == 2 ? value * value : value;
        }
    for (; i < size; i++) sum += power == 2 ? (x[i] - mean) * (x[i] - mean) : x[i] - mean;
    for (int j = 0; j < 16; j++) sum += part[j];
    return sum;
}

void normalize(const Norm *norm, const float *x, int rows, int width, float *y) {
    for (int r = 0; r < rows; r++, x += width, y += width) {
        if (!norm->weight) {
            if (y != x) memcpy(y, x, width * sizeof(float));
            continue;
        }
        float mean = norm->bias ? sum_of(x, width, 0.0f, 1) / width : 0.0f;
        float factor = 1.0f / sqrtf(sum_of(x, width, mean, 2) / width + norm->epsilon);
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

/* The largest of the values, and log of the sum of their exponentials. */
static float largest_of(const float *x, int size) {
    float part[16], largest;
    int i = 0;
    for (int j = 0; j < 16; j++) part[j] = -INFINITY;
    for (; i + 16 <= size; i += 16)
        for (int j = 0; j < 16; j++) part[j] = x[i + j] > part[j] ? x[i + j] : part[j];
    largest = part[0];
    for (int j = 1; j < 16; j++) largest = part[j] > largest ? part[j] : largest;
    for (; i < size; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

float log_sum_exp(const float *x, int size, float largest) {
    float part[16] = {0}, sum = 0.0f;
    int i = 0;
    if (isinf(largest)) return largest;
    for (; i + 16 <= size; i += 16)
        for (int j = 0; j < 16; j++) part[j] += exponential(x[i + j] - largest);
    for (; i < size; i++) sum += exponential(x[i] - largest);
    for (int j = 0; j < 16; j++) sum += part[j];
    return largest + logf(sum);
}

int first_largest(const float *x, int size, float *largest) {
    int i = 0;
    *largest = largest_of(x, size);
    while (i < size - 1 && x[i] != *largest) i++;
    return i;
}

typedef struct {
    const float *x;
    float *sums;
    int size;
} SumWork;

static void log_sum_exp_row(void *data, int row) {
    SumWork *work = data;
    const float *x = work->x + (long)row * work->size;
    work->sums[row] = log_sum_exp(x, work->size, largest_of(x, work->size));
}

void weft_log_sum_exp(const float *x, int rows, int size, float *sums, int threads) {
    SumWork work = {x, sums, size};
    parallel(log_sum_exp_row, &work, rows, threads);
}

/* The k largest of totals[r] + x[r][v], largest first; returns how many there are. */
int weft_top_k(
    const float *x, const float *totals, int rows, int size, int k, float *best, int64_t *parents, int64_t *tokens) {
    enum { BLOCK = 64 };
    int count = 0;
    for (int r = 0; r < rows; r++) {
        const float *row = x + (long)r * size;
        for (int start = 0; start < size; start += BLOCK) {
            int end = start + BLOCK < size ? start + BLOCK : size;
            if (count == k && !(totals[r] + largest_of(row + start, end - start) > best[k - 1])) continue;
            for (int v = start; v < end; v++) {
                float value = totals[r] + row[v];
                if (count == k && !(value > best[k - 1])) continue;
                int place = count < k ? count++ : k - 1;
                for (; place && value > best[place - 1]; place--) {
                    best[place] = best[place - 1];
                    parents[place] = parents[place - 1];
                    tokens[place] = tokens[place - 1];
                }
                best[place] = value;
                parents[place] = r;
                tokens[place] = v;
            }
        }
    }
    return count;
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
