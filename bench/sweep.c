/* Random small convolutions on one thread of the CPU: the planner's choice beside the best of all instances
   and beside plain loops. Looks for cliffs: shapes whose choice is far from the best, or slower than what
   anybody would write. Times are CPU time of this process, medians; buffers are warm.
       cc -O3 -Isrc -c bench/sweep.c -o build/sweep.o
       cc build/sweep.o build/ckconv.o -o build/sweep -fopenmp -lm
       build/sweep [--count 200] [--seed 1] [--op fwd|bwd_data|bwd_weight] [--layout NHWGC|NGCHW]
                   [--kind depthwise|few|thin|any] [--shape G,N,K,C,FY,FX,Y,X,SY,SX] [--rows]
   Without --op and --layout all passes and both layouts are swept. --rows prints a line for each shape, else
   only the worst are printed.
   SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "ckconv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 1 << 23, TRIES = 5, WORST = 8 };

typedef struct shape {
    int64_t g, n, k, c, f[2], x[2], s[2], pad[2], y[2];
} shape;

typedef struct result {
    shape s;
    const char *chosen, *best;
    double chosen_us, best_us, naive_us;
} result;

static float *buffer[3];
static unsigned char *workspace;
static size_t workspace_bytes;
static uint64_t state;

static int64_t pick(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Elements from one index to the next: batch, channel, row, column */
typedef struct steps {
    int64_t n, c, y, x;
} steps;

static steps find_steps(int last, int64_t channels, const int64_t x[2])
{
    steps s;
    s.n = channels * x[0] * x[1];
    s.c = last ? 1 : x[0] * x[1];
    s.y = last ? x[1] * channels : x[1];
    s.x = last ? channels : 1;
    return s;
}

/* Number m of a run of outputs: its sum is `sum`, or its gradient `dy` goes to x or to w. */
#define TAP(OP, OUT, X, W)                                                                                   \
    if (OP == CKCONV_FWD) {                                                                                  \
        OUT += (X) * (W);                                                                                    \
    } else if (OP == CKCONV_BWD_DATA) {                                                                      \
        X += (OUT) * (W);                                                                                    \
    } else {                                                                                                 \
        W += (OUT) * (X);                                                                                    \
    }

/* What anybody would write, in two orders. Taps inside: the output's loops outside, x bounded beforehand. */
#define TAPS_INSIDE(OP)                                                                                      \
    for (int64_t a = 0; a < s->y[0]; a++) {                                                                  \
        for (int64_t b = 0; b < s->y[1]; b++) {                                                              \
            float *out = y + n * o.n + k * o.c + a * o.y + b * o.x, sum = *out;                              \
            const int64_t left = b * s->s[1] - s->pad[1], from = left < 0 ? -left : 0;                       \
            const int64_t to = s->x[1] - left < s->f[1] ? s->x[1] - left : s->f[1];                          \
            for (int64_t c = 0; c < s->c; c++) {                                                             \
                for (int64_t fy = 0; fy < s->f[0]; fy++) {                                                   \
                    const int64_t row = a * s->s[0] + fy - s->pad[0];                                        \
                    float *px = x + n * i.n + (c0 + c) * i.c + row * i.y + left * i.x;                       \
                    float *pw = wk + (c * s->f[0] + fy) * s->f[1];                                           \
                    for (int64_t fx = from; fx < to && row >= 0 && row < s->x[0]; fx++) {                    \
                        TAP(OP, sum, px[fx * i.x], pw[fx])                                                   \
                    }                                                                                        \
                }                                                                                            \
            }                                                                                                \
            if (OP == CKCONV_FWD) {                                                                          \
                *out = sum;                                                                                  \
            }                                                                                                \
        }                                                                                                    \
    }

/* Taps outside: rows of outputs inside, which a compiler takes in vectors where they are dense. */
#define TAPS_OUTSIDE(OP, SX, IX, OX)                                                                         \
    for (int64_t tap = 0; tap < s->c * taps; tap++) {                                                        \
        const int64_t c = tap / taps, fy = tap / s->f[1] % s->f[0], fx = tap % s->f[1];                      \
        const int64_t left = fx - s->pad[1], from = left < 0 ? (-left + SX - 1) / SX : 0;                    \
        const int64_t end = s->x[1] - left <= 0 ? 0 : (s->x[1] - left - 1) / SX + 1;                         \
        const int64_t to = end < s->y[1] ? end : s->y[1];                                                    \
        float *pw = wk + tap, weight = *pw;                                                                  \
        for (int64_t a = 0; a < s->y[0]; a++) {                                                              \
            const int64_t row = a * s->s[0] + fy - s->pad[0];                                                \
            if (row < 0 || row >= s->x[0]) {                                                                 \
                continue;                                                                                    \
            }                                                                                                \
            float *restrict px = x + n * i.n + (c0 + c) * i.c + row * i.y + left * i.x;                      \
            float *restrict out = y + n * o.n + k * o.c + a * o.y;                                           \
            for (int64_t b = from; b < to; b++) {                                                            \
                TAP(OP, out[b * OX], px[b * SX * IX], weight)                                                \
            }                                                                                                \
        }                                                                                                    \
        if (OP == CKCONV_BWD_WEIGHT) {                                                                       \
            *pw = weight;                                                                                    \
        }                                                                                                    \
    }

#define PASS(OP)                                                                                             \
    if (!outside) {                                                                                          \
        TAPS_INSIDE(OP)                                                                                      \
    } else if (!last && s->s[1] == 1) {                                                                      \
        TAPS_OUTSIDE(OP, 1, 1, 1)                                                                            \
    } else if (!last && s->s[1] == 2) {                                                                      \
        TAPS_OUTSIDE(OP, 2, 1, 1)                                                                            \
    } else {                                                                                                 \
        TAPS_OUTSIDE(OP, s->s[1], i.x, o.x)                                                                  \
    }

static void naive(ckconv_op op, int last, int outside, const shape *s)
{
    const steps i = find_steps(last, s->g * s->c, s->x), o = find_steps(last, s->g * s->k, s->y);
    float *x = buffer[0], *w = buffer[1], *y = buffer[2];
    const int64_t taps = s->f[0] * s->f[1];
    if (op == CKCONV_BWD_DATA) {
        memset(x, 0, (size_t)(s->n * i.n) * 4);
    } else if (op == CKCONV_BWD_WEIGHT) {
        memset(w, 0, (size_t)(s->g * s->k * s->c * taps) * 4);
    } else {
        memset(y, 0, (size_t)(s->n * o.n) * 4);
    }
    for (int64_t n = 0; n < s->n; n++) {
        for (int64_t k = 0; k < s->g * s->k; k++) {
            const int64_t c0 = k / s->k * s->c;
            float *wk = w + k * s->c * taps;
            if (op == CKCONV_FWD) {
                PASS(CKCONV_FWD)
            } else if (op == CKCONV_BWD_DATA) {
                PASS(CKCONV_BWD_DATA)
            } else {
                PASS(CKCONV_BWD_WEIGHT)
            }
        }
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* A run of plan, or of plain loops; microseconds. Not measured to the end where it is above `give_up`. */
static double measure(const ckconv_plan *plan, ckconv_op op, int last, int outside, const shape *s,
                      double give_up)
{
    ckconv_args args;
    ckconv_error err;
    double time[TRIES];
    int64_t repeat = 1;
    memset(&args, 0, sizeof args);
    args.in = buffer[0];
    args.din = buffer[0];
    args.wei = args.dwei = buffer[1];
    args.dout = args.out = buffer[2];
    for (int i = -1; i < TRIES; i++) {
        const double begin = now();
        for (int64_t r = 0; r < repeat; r++) {
            if (plan && ckconv_run(plan, &args, workspace, workspace_bytes, NULL, &err) != CKCONV_OK) {
                printf("%s\n", err.text);
                exit(1);
            } else if (!plan) {
                naive(op, last, outside, s);
            }
        }
        const double each = (now() - begin) / (double)repeat;
        if (i < 0) {
            if (each > 3 * give_up) {
                return each;
            }
            repeat = each > 300 ? 1 : (int64_t)(300 / (each > 1 ? each : 1));
        } else {
            time[i] = each;
        }
    }
    qsort(time, TRIES, sizeof *time, compare);
    return time[TRIES / 2];
}

static void print_shape(const shape *s)
{
    printf("g %d n %d k %d c %d filter %d,%d input %d,%d stride %d,%d pad %d,%d", (int)s->g, (int)s->n,
           (int)s->k, (int)s->c, (int)s->f[0], (int)s->f[1], (int)s->x[0], (int)s->x[1], (int)s->s[0],
           (int)s->s[1], (int)s->pad[0], (int)s->pad[1]);
}

static void print_result(const result *r)
{
    printf("  %5.2f of best, %5.2f of plain loops: ", r->chosen_us / r->best_us, r->chosen_us / r->naive_us);
    print_shape(&r->s);
    printf(": %s %.1f, %s %.1f, loops %.1f us\n", r->chosen, r->chosen_us, r->best, r->best_us, r->naive_us);
}

static int finish_shape(shape *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->x[i] + 2 * s->pad[i] < s->f[i]) {
            return 0;
        }
        s->y[i] = (s->x[i] + 2 * s->pad[i] - s->f[i]) / s->s[i] + 1;
    }
    return s->n * s->g * s->c * s->x[0] * s->x[1] <= MOST && s->n * s->g * s->k * s->y[0] * s->y[1] <= MOST &&
           s->g * s->k * s->c * s->f[0] * s->f[1] <= MOST;
}

/* kind 0: depthwise, 1: few channels in each group, 2: one channel on one side, 3: any */
static shape random_shape(int kind)
{
    static const int64_t few[] = {1, 2, 3, 4, 6, 8, 12, 16}, wide[] = {8, 16, 24, 31, 32, 48, 64, 96, 100};
    static const int64_t sides[] = {3, 5, 7, 8, 10, 13, 14, 16, 20, 28, 32, 40, 56, 64};
    shape s;
    do {
        memset(&s, 0, sizeof s);
        s.g = s.k = s.c = 1;
        if (kind == 0) {
            s.g = pick(2) ? 16 * (1 + pick(12)) : 1 + pick(160);
        } else if (kind == 1) {
            s.g = pick(2) ? 1 : few[pick(8)];
            s.k = few[pick(8)];
            s.c = few[pick(8)];
        } else if (kind == 2) {
            *(pick(2) ? &s.k : &s.c) = wide[pick(9)];
        } else {
            s.k = pick(2) ? wide[pick(9)] : few[pick(8)];
            s.c = pick(2) ? wide[pick(9)] : few[pick(8)];
            s.g = pick(4) ? 1 : few[pick(5)];
        }
        const int square = pick(4) > 0;
        for (int i = 0; i < 2; i++) {
            s.x[i] = square && i ? s.x[0] : sides[pick(14)];
            s.f[i] = square && i ? s.f[0] : pick(3) ? 3 : 1 + pick(7);
            s.s[i] = square && i ? s.s[0] : pick(3) ? 1 : 1 + pick(3);
            s.pad[i] = pick(4) ? s.f[i] / 2 : pick(2);
        }
        s.n = 1;
        if (!finish_shape(&s)) {
            continue;
        }
        const int64_t flop = 2 * s.g * s.k * s.c * s.y[0] * s.y[1] * s.f[0] * s.f[1];
        const int64_t most = 10000000 / flop;
        s.n = most < 1 ? 1 : 1 + pick(most < 64 ? most : 64);
    } while (!finish_shape(&s) || 2 * s.n * s.g * s.k * s.c * s.y[0] * s.y[1] * s.f[0] * s.f[1] > 20000000);
    return s;
}

static int try_shape(ckconv_op op, int last, const shape *s, result *r)
{
    ckconv_conv_desc d;
    ckconv_plan plan, one;
    ckconv_options o;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_CPU;
    o.threads = 1;
    d.ndim = 2;
    d.g = s->g;
    d.n = s->n;
    d.k = s->k;
    d.c = s->c;
    d.in.layout = d.out.layout = last ? CKCONV_NHWGC : CKCONV_NGCHW;
    d.wei.layout = last ? CKCONV_GKYXC : CKCONV_GKCYX;
    for (int i = 0; i < 2; i++) {
        d.filter[i] = s->f[i];
        d.input[i] = s->x[i];
        d.stride[i] = s->s[i];
        d.pad_lo[i] = d.pad_hi[i] = s->pad[i];
    }
    if (ckconv_plan_conv(&plan, op, &d, &o, NULL, &err) != CKCONV_OK) {
        printf("%s\n", err.text);
        return 0;
    }
    r->s = *s;
    r->chosen = ckconv_instance_name(plan.instance);
    for (int64_t i = 0; i < (int64_t)ckconv_instance_count() + 1; i++) {
        /* memory for all before anything is timed */
        o.instance = i < ckconv_instance_count() ? ckconv_instance_name((int32_t)i) : NULL;
        if (i < ckconv_instance_count() && (ckconv_instance_engine((int32_t)i) != CKCONV_ENGINE_CPU ||
                                            !ckconv_instance_does((int32_t)i, op))) {
            continue;
        }
        if (ckconv_plan_again(&one, &plan, &o, NULL) == CKCONV_OK &&
            (size_t)one.workspace_bytes > workspace_bytes) {
            free(workspace);
            workspace_bytes = (size_t)one.workspace_bytes;
            workspace = (unsigned char *)malloc(workspace_bytes);
            if (!workspace) {
                return 0;
            }
            memset(workspace, 0, workspace_bytes);
        }
    }
    r->chosen_us = r->best_us = measure(&plan, op, last, 0, s, 1e9);
    r->best = r->chosen;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (ckconv_instance_engine(i) != CKCONV_ENGINE_CPU || !ckconv_instance_does(i, op) ||
            i == plan.instance) {
            continue;
        }
        o.instance = ckconv_instance_name(i);
        if (ckconv_plan_again(&one, &plan, &o, NULL) != CKCONV_OK) {
            continue;
        }
        const double us = measure(&one, op, last, 0, s, r->best_us);
        if (us < r->best_us) {
            r->best_us = us;
            r->best = o.instance;
        }
    }
    r->naive_us = measure(NULL, op, last, 0, s, 1e9);
    const double outside = measure(NULL, op, last, 1, s, r->naive_us);
    r->naive_us = outside < r->naive_us ? outside : r->naive_us;
    /* once more where they differ: the machine may have been busy */
    if (r->chosen_us > 1.2 * r->best_us || r->chosen_us > r->naive_us) {
        const double us = measure(&plan, op, last, 0, s, 1e9);
        r->chosen_us = us < r->chosen_us ? us : r->chosen_us;
        r->best_us = r->best_us < r->chosen_us ? r->best_us : r->chosen_us;
    }
    return 1;
}

static int worse_than_best(const void *a, const void *b)
{
    const result *x = (const result *)a, *y = (const result *)b;
    const double p = x->chosen_us / x->best_us, q = y->chosen_us / y->best_us;
    return p > q ? -1 : p < q;
}

static int worse_than_naive(const void *a, const void *b)
{
    const result *x = (const result *)a, *y = (const result *)b;
    const double p = x->chosen_us / x->naive_us, q = y->chosen_us / y->naive_us;
    return p > q ? -1 : p < q;
}

static void report(ckconv_op op, int last, const char *kind, result *r, int count)
{
    double of_best = 0, of_naive = 0;
    int slow = 0, slower = 0, loops = 0;
    for (int i = 0; i < count; i++) {
        const double best = r[i].chosen_us / r[i].best_us, plain = r[i].chosen_us / r[i].naive_us;
        of_best += log(best);
        of_naive += log(plain);
        slow += best > 1.3;
        slower += best > 2;
        loops += plain > 1;
    }
    qsort(r, (size_t)count, sizeof *r, worse_than_best);
    printf("%s %s %s: %d shapes, %.3f of the best in the mean, worst %.2f, above 1.3: %d, above 2: %d; ",
           ckconv_op_name(op), last ? "NHWGC" : "NGCHW", kind, count, exp(of_best / count),
           r[0].chosen_us / r[0].best_us, slow, slower);
    for (int i = 0; i < WORST && i < count && r[i].chosen_us > 1.3 * r[i].best_us; i++) {
        printf("%s", i ? "" : "\n");
        print_result(&r[i]);
    }
    qsort(r, (size_t)count, sizeof *r, worse_than_naive);
    printf("%.3f of plain loops in the mean, worst %.2f, slower: %d\n", exp(of_naive / count),
           r[0].chosen_us / r[0].naive_us, loops);
    for (int i = 0; i < WORST && i < count && r[i].chosen_us > 0.8 * r[i].naive_us; i++) {
        print_result(&r[i]);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"depthwise", "few", "thin", "any"};
    int count = 200, rows = 0, only_op = 0, only_layout = -1, only_kind = -1, given = 0;
    uint64_t seed = 1;
    shape fixed;
    memset(&fixed, 0, sizeof fixed);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--rows") == 0) {
            rows = 1;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--count") == 0) {
            count = atoi(value);
        } else if (strcmp(argv[i - 1], "--seed") == 0) {
            seed = (uint64_t)atoi(value);
        } else if (strcmp(argv[i - 1], "--op") == 0) {
            only_op = (int)ckconv_op_from_name(value);
        } else if (strcmp(argv[i - 1], "--layout") == 0) {
            only_layout = ckconv_layout_from_name(value) == CKCONV_NHWGC;
        } else if (strcmp(argv[i - 1], "--kind") == 0) {
            for (int k = 0; k < 4; k++) {
                only_kind = strcmp(value, kinds[k]) == 0 ? k : only_kind;
            }
        } else if (strcmp(argv[i - 1], "--shape") == 0) {
            int v[10];
            given = sscanf(value, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", v, v + 1, v + 2, v + 3, v + 4, v + 5,
                           v + 6, v + 7, v + 8, v + 9) == 10;
            fixed.g = v[0];
            fixed.n = v[1];
            fixed.k = v[2];
            fixed.c = v[3];
            for (int j = 0; j < 2 && given; j++) {
                fixed.f[j] = v[4 + j];
                fixed.x[j] = v[6 + j];
                fixed.s[j] = v[8 + j];
                fixed.pad[j] = fixed.f[j] / 2;
            }
            if (!given || !finish_shape(&fixed)) {
                puts("--shape: G,N,K,C,FY,FX,Y,X,SY,SX");
                return 2;
            }
            count = 1;
        } else {
            printf("unknown option %s\n", argv[i - 1]);
            return 2;
        }
    }
    result *all = (result *)malloc(sizeof *all * (size_t)(count > 0 ? count : 1));
    for (int i = 0; i < 3; i++) {
        buffer[i] = (float *)malloc((size_t)MOST * 4);
        for (int64_t j = 0; j < MOST; j++) {
            buffer[i][j] = (float)(j * 7 % 13 - 6) * 0.125f;
        }
    }
    for (int op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT && count > 0; op++) {
        for (int last = 0; last < 2; last++) {
            for (int kind = 0; kind < 4; kind++) {
                if ((only_op && op != only_op) || (only_layout >= 0 && last != only_layout) ||
                    (given ? kind > 0 : only_kind >= 0 && kind != only_kind)) {
                    continue;
                }
                int done = 0;
                state = seed * 1000 + (uint64_t)kind;
                for (int i = 0; i < count; i++) {
                    const shape s = given ? fixed : random_shape(kind);
                    if (try_shape((ckconv_op)op, last, &s, &all[done])) {
                        if (rows || given) {
                            printf("%s %s", ckconv_op_name((ckconv_op)op), last ? "NHWGC" : "NGCHW");
                            print_result(&all[done]);
                        }
                        done++;
                    }
                }
                if (done && !given) {
                    report((ckconv_op)op, last, kinds[kind], all, done);
                }
            }
        }
    }
    return 0;
}
