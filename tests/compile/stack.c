/* Without workspace, calls stay on small stacks: plans and runs of all operations take no more than
   CKCONV_STACK_BYTES and what the manual adds. Prints the most that was touched; 1 where that is more, or a
   result is wrong.
   SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CKCONV_STACK_BYTES
#define CKCONV_STACK_BYTES 65536
#endif
enum { BESIDE = 57344, ROOM = 1 << 20, MOST = 1 << 17 };

static unsigned char *stack;
static float a[MOST], b[MOST], c[MOST], e[MOST], got[MOST], want[MOST];
static int wrong;

typedef struct job {
    ckconv_op op;
    ckconv_conv_desc d;
    ckconv_engine engine;
    float *out;
} job;

static void check(ckconv_status status, const ckconv_error *err)
{
    if (status != CKCONV_OK) {
        printf("%s\n", err->text);
        wrong = 1;
    }
}

static void *run(void *context)
{
    const job *j = (const job *)context;
    ckconv_plan plan;
    ckconv_options o;
    ckconv_args args;
    ckconv_error err;
    memset(&o, 0, sizeof o);
    memset(&args, 0, sizeof args);
    o.engine = j->engine;
    o.max_workspace = -1;
    o.threads = 1;
    args.in = a;
    args.wei = args.gamma = args.wei1 = b;
    args.dout = c;
    args.out = args.din = args.dwei = j->out;
    if (j->op <= CKCONV_BWD_WEIGHT) {
        check(ckconv_plan_conv(&plan, j->op, &j->d, &o, NULL, &err), &err);
    } else if (j->op == CKCONV_CONV_CONV_FWD) {
        ckconv_conv_conv_desc d;
        memset(&d, 0, sizeof d);
        d.conv0 = j->d;
        d.k1 = 24;
        check(ckconv_plan_conv_conv(&plan, &d, &o, NULL, &err), &err);
    } else {
        ckconv_groupnorm_desc d;
        memset(&d, 0, sizeof d);
        d.ndim = j->d.ndim;
        d.n = j->d.n;
        d.g = j->d.g;
        d.c = j->d.c;
        d.eps = 1e-5;
        d.in = d.out = d.din = j->d.in;
        memcpy(d.input, j->d.input, sizeof d.input);
        if (j->op == CKCONV_GROUPNORM_BWD) {
            args.out = NULL;
            args.dwei = NULL;
            args.dgamma = e;
            args.dbeta = e + MOST / 2;
        }
        check(ckconv_plan_groupnorm(&plan, j->op, &d, &o, NULL, &err), &err);
    }
    check(ckconv_run(&plan, &args, NULL, 0, NULL, &err), &err);
    return NULL;
}

/* Bytes of stack that a thread has touched. */
static size_t measure(job *j)
{
    pthread_t thread;
    pthread_attr_t attr;
    size_t free_bytes = 0;
    memset(stack, 0x5a, ROOM);
    if (pthread_attr_init(&attr) || pthread_attr_setstack(&attr, stack, ROOM) ||
        pthread_create(&thread, &attr, run, j) || pthread_join(thread, NULL)) {
        puts("no thread");
        exit(1);
    }
    pthread_attr_destroy(&attr);
    while (free_bytes < ROOM && stack[free_bytes] == 0x5a) {
        free_bytes++;
    }
    return ROOM - free_bytes;
}

int main(void)
{
    static const int64_t layers[][5] = {{1, 24, 20, 3, 11}, {1, 100, 40, 3, 5}, {16, 1, 1, 3, 12},
                                        {4, 6, 5, 5, 9},    {1, 3, 2, 1, 40},   {90, 1, 1, 7, 9},
                                        {1, 20, 150, 3, 4}};
    static const ckconv_dtype types[] = {CKCONV_F32, CKCONV_F64, CKCONV_BF16, CKCONV_I8};
    size_t most = 0;
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, ROOM)) {
        return 1;
    }
    stack = (unsigned char *)memory;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0] * 6 * 4; i++) {
        const int64_t *l = layers[i / 24];
        job j;
        memset(&j, 0, sizeof j);
        j.op = (ckconv_op)(1 + i % 6);
        j.d.ndim = 2;
        j.d.n = 1;
        j.d.g = l[0];
        j.d.k = l[1];
        j.d.c = l[2];
        j.d.in.dtype = types[i / 6 % 4];
        for (int axis = 0; axis < 2; axis++) {
            j.d.filter[axis] = l[3];
            j.d.input[axis] = l[4];
            j.d.pad_lo[axis] = j.d.pad_hi[axis] = l[3] / 2;
        }
        if (j.op > CKCONV_CONV_CONV_FWD && j.d.in.dtype == CKCONV_I8) {
            continue;
        }
        memset(got, 0, sizeof got);
        memset(want, 0, sizeof want);
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        memset(c, 0, sizeof c);
        for (size_t at = 0; at < MOST / 2; at++) { /* small integers */
            const double x = (double)((int)(at * 7 % 5) - 2), y = (double)((int)(at * 11 % 3) - 1);
            const size_t size = ckconv_dtype_size(j.d.in.dtype);
            ckconv_from_double(j.d.in.dtype, &x, (unsigned char *)a + at * size, 1);
            ckconv_from_double(j.d.in.dtype, &y, (unsigned char *)b + at * size, 1);
            ckconv_from_double(j.d.in.dtype, &x, (unsigned char *)c + at * size, 1);
        }
        j.engine = CKCONV_ENGINE_REF;
        j.out = want;
        size_t bytes = measure(&j);
        most = bytes > most ? bytes : most;
        j.engine = CKCONV_ENGINE_CPU;
        j.out = got;
        bytes = measure(&j);
        most = bytes > most ? bytes : most;
        if (bytes > CKCONV_STACK_BYTES + BESIDE) {
            printf("%s in %s, layer %d: %d bytes of stack\n", ckconv_op_name(j.op),
                   ckconv_dtype_name(j.d.in.dtype), (int)(i / 24), (int)bytes);
            wrong = 1;
        }
        if (j.op <= CKCONV_CONV_CONV_FWD && memcmp(got, want, sizeof got) != 0) {
            printf("%s in %s, layer %d: another result\n", ckconv_op_name(j.op),
                   ckconv_dtype_name(j.d.in.dtype), (int)(i / 24));
            wrong = 1;
        }
    }
    printf("%d bytes of stack at most\n", (int)most);
    free(memory);
    return wrong;
}
