/* test_poison.c - what a run may touch, and that its bits depend on nothing but its inputs
   SPDX-License-Identifier: MIT

   naive_run, pair_run and norm_run poison outputs, workspace, guards and gaps with NaN bytes. Here:
     failures   every kind of refused call leaves outputs and workspace as they were
     variants   every instance, forced splits, no workspace, misaligned tensors: exact on integers; on reals
                the same bits in 10 runs with other poisons and with 1, 2 and 4 threads
     amounts    the one-call forms with too little, just enough and more workspace than wanted
     empty      N = 0: dwei is zero, nothing else is written, empty tensors need no memory
     pair, norm the same for conv_conv_fwd and group norms */
#define _POSIX_C_SOURCE 200809L
#include "naive_conv_conv.h"
#include "naive_groupnorm.h"

#ifdef _OPENMP
#include <omp.h>
#endif

static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};

/* Convolutions of all kinds: dense, grouped, depthwise, pointwise, strided; long and short sums. */
typedef struct shape_row {
    int32_t ndim;
    int64_t g, n, k, c, filter[3], input[3], stride, pad;
} shape_row;

static const shape_row shapes[] = {
    {2, 1, 2, 17, 19, {3, 3, 0}, {13, 11, 0}, 1, 1}, {2, 4, 2, 8, 8, {3, 3, 0}, {16, 15, 0}, 2, 1},
    {2, 24, 9, 1, 1, {3, 3, 0}, {19, 18, 0}, 1, 1},  {2, 10, 2, 2, 1, {5, 5, 0}, {17, 17, 0}, 2, 2},
    {2, 1, 2, 64, 48, {1, 1, 0}, {9, 9, 0}, 1, 0},   {1, 1, 4, 9, 7, {5, 0, 0}, {130, 0, 0}, 1, 2},
    {3, 1, 1, 12, 5, {3, 2, 3}, {6, 7, 8}, 1, 1},    {2, 1, 1, 3, 2, {2, 2, 0}, {9, 9, 0}, 3, 0},
    {1, 1, 2, 2, 900, {3, 0, 0}, {6, 0, 0}, 1, 1},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static void make_desc(ckconv_conv_desc *d, const shape_row *s, ckconv_dtype type, int layout, test_rng *r)
{
    static const ckconv_layout data[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};
    static const ckconv_layout wei[4] = {CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_GKYXC, CKCONV_STRIDED};
    test_layer(d, s->ndim, s->g, s->n, s->k, s->c);
    for (int i = 0; i < (int)s->ndim; i++) {
        d->filter[i] = s->filter[i];
        d->input[i] = s->input[i];
        d->stride[i] = s->stride;
        d->pad_lo[i] = d->pad_hi[i] = s->pad;
    }
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        int64_t length[6];
        t[i]->dtype = type;
        t[i]->layout = i == NAIVE_WEI ? wei[layout] : data[layout];
        if (layout == 3) {
            naive_lengths(d, i, length);
            test_gap_strides(r, d->ndim, length, t[i]->stride);
        }
    }
}

/* Fill what is read; integers are exact in all types here. */
static void fill(naive_case *c, int reals, uint64_t seed)
{
    test_rng r = test_seed(seed);
    for (int i = 0; i < 3; i++) {
        if (i == naive_written(c->op)) {
            continue;
        }
        if (reals) {
            naive_fill_normal(&c->t[i], &r, 0.1, 1.0);
        } else {
            naive_fill_integers(&c->t[i], &r, -3, 3);
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  failures
*/

/* One call that must fail: nothing may be written. */
static void must_fail(naive_case *c, const ckconv_plan *plan, const ckconv_args *args, test_buffer *workspace,
                      size_t bytes, ckconv_status wanted, const char *what)
{
    ckconv_error err;
    test_tensor *out = &c->t[naive_written(c->op)];
    memset(&err, 0, sizeof err);
    test_poison(out);
    memset(workspace->data, 0xA6, workspace->bytes);
    const ckconv_status status =
        test_run(plan, args, workspace->bytes > 0 ? workspace->data : NULL, bytes, NULL, &err);
    CHECK_MSG(status == wanted && err.status == status, "%s: status %d instead of %d (%s)", what, (int)status,
              (int)wanted, err.text);
    CHECK_MSG(err.text[0] != 0, "%s: no text", what);
    CHECK_MSG(test_untouched(out), "%s: the output was touched", what);
    CHECK_MSG(test_all_bytes(workspace->data, workspace->bytes, 0xA6) && test_guards_intact(workspace),
              "%s: the workspace was touched", what);
}

static void failures_of(naive_case *c, const ckconv_plan *plan)
{
    test_buffer workspace;
    const int w = naive_written(c->op);
    const ckconv_args good = naive_args(c);
    const void *overlap = (const char *)test_data(&c->t[w]) + (c->t[w].buffer.bytes / 2);
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, 0);
    test.plan = plan;
    if (plan->workspace_bytes > 0) {
        must_fail(c, plan, &good, &workspace, workspace.bytes - 1, CKCONV_ERR_WORKSPACE,
                  "workspace one byte short");
        must_fail(c, plan, &good, &workspace, 0, CKCONV_ERR_WORKSPACE, "workspace of no bytes");
        ckconv_error err;
        test_poison(&c->t[w]);
        CHECK(test_run(plan, &good, NULL, workspace.bytes, NULL, &err) == CKCONV_ERR_WORKSPACE);
        CHECK(test_untouched(&c->t[w]));
    }
    ckconv_args a = good;
    a.in = NULL;
    a.din = NULL;
    must_fail(c, plan, &a, &workspace, workspace.bytes, CKCONV_ERR_NULL, "in or din NULL");
    a = good;
    a.wei = NULL;
    a.dwei = NULL;
    must_fail(c, plan, &a, &workspace, workspace.bytes, CKCONV_ERR_NULL, "wei or dwei NULL");
    a = good;
    a.out = NULL;
    a.dout = NULL;
    must_fail(c, plan, &a, &workspace, workspace.bytes, CKCONV_ERR_NULL, "out or dout NULL");
    a = good;
    if (w == NAIVE_IN) {
        a.wei = a.din;
    } else {
        a.in = w == NAIVE_OUT ? a.out : a.dwei;
    }
    must_fail(c, plan, &a, &workspace, workspace.bytes, CKCONV_ERR_ALIAS, "a read tensor is the output");
    a = good;
    if (w == NAIVE_OUT) {
        a.wei = overlap;
    } else {
        a.dout = overlap;
    }
    must_fail(c, plan, &a, &workspace, workspace.bytes, CKCONV_ERR_ALIAS,
              "a read tensor overlaps the output");
    ckconv_plan foreign = *plan;
    foreign.magic ^= 1u;
    must_fail(c, &foreign, &good, &workspace, workspace.bytes, CKCONV_ERR_PLAN, "foreign magic");
    foreign = *plan;
    foreign.version += 1u;
    must_fail(c, &foreign, &good, &workspace, workspace.bytes, CKCONV_ERR_PLAN, "foreign version");
    test.plan = plan;
    must_fail(c, plan, NULL, &workspace, workspace.bytes, CKCONV_ERR_NULL, "args NULL");
    test_buffer_free(&workspace);
}

static void part_failures(void)
{
    for (int i = 0; i < SHAPES * 3; i++) {
        ckconv_conv_desc d;
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        test_rng r = test_seed((uint64_t)i);
        const ckconv_op op = passes[i % 3];
        make_desc(&d, &shapes[i / 3], CKCONV_F32, 0, &r);
        naive_make(&c, op, &d, 0);
        fill(&c, 0, 1);
        memset(&options, 0, sizeof options);
        for (int j = 0; j < 3; j++) {
            options.engine = j == 0 ? CKCONV_ENGINE_REF : test_engine();
            options.split_k = j == 2 && op == CKCONV_BWD_WEIGHT ? 3 : 0;
            if (naive_plan(&c, &plan, &options, NULL)) {
                failures_of(&c, &plan);
            }
        }
        naive_free(&c);
    }
}

/*------------------------------------------------------------------------------------------------------------
  workspace, splits, bits
*/

/* Run and hand back the bytes of the written tensor; NULL when the run failed. */
static unsigned char *run_bytes(naive_case *c, const ckconv_plan *plan, int poison)
{
    test_buffer workspace;
    ckconv_error err;
    test_tensor *out = &c->t[naive_written(c->op)];
    const ckconv_args args = naive_args(c);
    memset(&err, 0, sizeof err);
    test.plan = plan;
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, 0);
    memset(workspace.data, poison, workspace.bytes);
    test_poison(out);
    const ckconv_status status =
        test_run(plan, &args, plan->workspace_bytes > 0 ? workspace.data : NULL, workspace.bytes, NULL, &err);
    unsigned char *bytes = NULL;
    if (CHECK_OK(status, err)) {
        CHECK(test_guards_intact(&workspace) && test_guards_intact(&out->buffer));
        bytes = (unsigned char *)malloc(out->buffer.bytes + 1);
        if (bytes != NULL) {
            memcpy(bytes, out->buffer.data, out->buffer.bytes);
        }
    }
    test_buffer_free(&workspace);
    return bytes;
}

/* The same plan again and again: other poison each time, other numbers of OpenMP threads. */
static void repeat(naive_case *c, const ckconv_plan *plan)
{
    const size_t size = c->t[naive_written(c->op)].buffer.bytes;
    unsigned char *first = run_bytes(c, plan, 0xFF);
    for (int i = 0; i < 10 && first != NULL; i++) {
#ifdef _OPENMP
        omp_set_num_threads(1 + i % 4);
#endif
        unsigned char *again = run_bytes(c, plan, i * 37 % 256);
        CHECK_MSG(again != NULL && memcmp(first, again, size) == 0, "run %d has other bits", i + 2);
        free(again);
    }
#ifdef _OPENMP
    omp_set_num_threads(omp_get_num_procs());
#endif
    free(first);
}

/* 1, 2 and 4 threads with everything else the same. */
static void threads_agree(naive_case *c, const ckconv_plan *base)
{
    static const int32_t threads[3] = {1, 2, 4};
    const size_t size = c->t[naive_written(c->op)].buffer.bytes;
    unsigned char *first = NULL;
    for (int i = 0; i < 3; i++) {
        ckconv_plan plan;
        ckconv_options options;
        ckconv_error err;
        memset(&options, 0, sizeof options);
        options.engine = base->engine;
        options.instance = ckconv_instance_name(base->instance);
        options.split_k = base->split_k;
        options.threads = threads[i];
        test.plan = base;
        if (!CHECK_OK(ckconv_plan_again(&plan, base, &options, &err), err)) {
            break;
        }
        unsigned char *bytes = run_bytes(c, &plan, 0xFF);
        if (first == NULL) {
            first = bytes;
        } else {
            CHECK_MSG(bytes != NULL && memcmp(first, bytes, size) == 0, "%d threads give other bits",
                      (int)threads[i]);
            free(bytes);
        }
    }
    free(first);
}

/* Every instance, with and without workspace and with forced splits. Integers: exact. Reals: repeatable. */
static int32_t widest[512]; /* parts that a forced split really had, by instance; 0: refused */

static void run_variants(naive_case *c, int reals, const ckconv_device *device)
{
    static const int32_t splits[] = {0, 1, 2, 3, 5, 8};
    ckconv_plan base;
    ckconv_plan plan;
    ckconv_options options;
    ckconv_error err;
    memset(&options, 0, sizeof options);
    options.engine = test_engine();
    options.threads = 1 + reals;
    if (!naive_plan(c, &base, &options, device)) {
        return;
    }
    for (int32_t i = -1; i < ckconv_instance_count(); i++) {
        if (i >= 0 && (ckconv_instance_engine(i) != test_engine() || !ckconv_instance_does(i, c->op) ||
                       ckconv_instance_supports(i, &base, &err) != CKCONV_OK)) {
            continue;
        }
        for (int j = 0; j < 6; j++) {
            options.instance = i >= 0 ? ckconv_instance_name(i) : NULL;
            options.split_k = splits[j];
            options.max_workspace = 0;
            const ckconv_status status = ckconv_plan_again(&plan, &base, &options, &err);
            /* a split may be refused, by an instance that has none or when there is nothing to split */
            if (status != CKCONV_OK && splits[j] != 0 && (splits[j] != 1 || i >= 0)) {
                CHECK(status == CKCONV_ERR_UNSUPPORTED && err.text[0] != 0);
                continue;
            }
            test.plan = &base;
            if (!CHECK_OK(status, err)) {
                continue;
            }
            if (splits[j] != 0) { /* a short reduction has fewer parts */
                CHECK_MSG(plan.split_k >= 1 && plan.split_k <= splits[j], "split_k is %d instead of %d",
                          (int)plan.split_k, (int)splits[j]);
                if (plan.split_k > widest[plan.instance]) {
                    widest[plan.instance] = plan.split_k;
                }
            }
            if (!reals && naive_run(c, &plan)) {
                naive_compare(c, "variant");
            }
            if (reals) {
                repeat(c, &plan);
                threads_agree(c, &plan);
            }
        }
    }
    /* no workspace at all is always possible */
    options.instance = NULL;
    options.split_k = 0;
    options.max_workspace = -1;
    test.plan = &base;
    if (CHECK_OK(ckconv_plan_again(&plan, &base, &options, &err), err)) {
        CHECK_MSG(plan.workspace_bytes == 0, "max_workspace -1 plans %lld bytes",
                  (long long)plan.workspace_bytes);
        if (!reals && naive_run(c, &plan)) {
            naive_compare(c, "without workspace");
        }
        if (reals) {
            repeat(c, &plan);
            threads_agree(c, &plan);
        }
    }
}

static void part_variants(void)
{
    static const ckconv_dtype types[5] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64, CKCONV_I8};
    ckconv_device devices[3];
    const int count = test_cpu_devices(devices);
    for (int i = 0; i < SHAPES * 3 * 5; i += test_effort() == 0 ? 2 : 1) {
        const ckconv_op op = passes[i % 3];
        const ckconv_dtype type = types[i / 3 % 5];
        const int shape = i / 15;
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i);
        make_desc(&d, &shapes[shape], type, i % 4, &r);
        naive_make(&c, op, &d, i % 5 == 0 ? 1 : 0); /* some misaligned by a byte */
        fill(&c, 0, (uint64_t)i);
        naive_compute_expected(&c);
        run_variants(&c, 0, &devices[i % count]);
        if (type == CKCONV_F32 || (type == CKCONV_F16 && shape < 3)) {
            fill(&c, 1, (uint64_t)i);
            run_variants(&c, 1, &devices[(i + 1) % count]);
        }
        naive_free(&c);
    }
    test.plan = NULL;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        CHECK_MSG(widest[i] == 0 || widest[i] == 8 || !ckconv_instance_does(i, CKCONV_BWD_WEIGHT) ||
                      ckconv_instance_family(i) == CKCONV_FAMILY_SINGLE_STAGE,
                  "%s never splits in 8 parts, %d at most", ckconv_instance_name(i), (int)widest[i]);
    }
}

/* More workspace than the plan needs, at any alignment, through the one-call forms: any amount is fine. */
static void part_amounts(void)
{
    for (int i = 0; i < SHAPES * 3; i++) {
        const ckconv_op op = passes[i % 3];
        ckconv_conv_desc d;
        naive_case c;
        ckconv_plan plan;
        test_rng r = test_seed((uint64_t)i);
        make_desc(&d, &shapes[i / 3], CKCONV_F32, i % 3, &r);
        naive_make(&c, op, &d, 0);
        fill(&c, 0, (uint64_t)i);
        naive_compute_expected(&c);
        if (!naive_plan(&c, &plan, NULL, NULL)) {
            naive_free(&c);
            continue;
        }
        const int64_t amounts[7] = {0,
                                    1,
                                    plan.workspace_bytes / 3,
                                    plan.workspace_bytes - 1,
                                    plan.workspace_bytes,
                                    plan.workspace_bytes + 1,
                                    2 * plan.workspace_bytes + 4096};
        for (int j = 0; j < 7; j++) {
            test_buffer workspace;
            ckconv_error err;
            const size_t bytes = amounts[j] > 0 ? (size_t)amounts[j] : 0;
            ckconv_args a = naive_args(&c);
            test_tensor *out = &c.t[naive_written(op)];
            memset(&err, 0, sizeof err);
            test_buffer_make(&workspace, bytes, (size_t)j);
            memset(workspace.data, 0xFF, bytes);
            test_poison(out);
            test.plan = &plan;
            void *ws = bytes > 0 ? workspace.data : NULL;
            const ckconv_status status =
                op == CKCONV_FWD        ? ckconv_fwd(&d, a.in, a.wei, a.out, ws, bytes, NULL, &err)
                : op == CKCONV_BWD_DATA ? ckconv_bwd_data(&d, a.din, a.wei, a.dout, ws, bytes, NULL, &err)
                                        : ckconv_bwd_weight(&d, a.in, a.dwei, a.dout, ws, bytes, NULL, &err);
            if (CHECK_OK(status, err)) {
                test_gather(out, c.got);
                naive_compare(&c, "one call");
                CHECK(test_guards_intact(&workspace) && test_gaps_intact(out) &&
                      test_guards_intact(&out->buffer));
            }
            test_buffer_free(&workspace);
        }
        naive_free(&c);
    }
}

/*------------------------------------------------------------------------------------------------------------
  empty batches
*/
static void part_empty(void)
{
    for (int i = 0; i < SHAPES * 3 * 2; i++) {
        const ckconv_op op = passes[i % 3];
        ckconv_conv_desc d;
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        test_rng r = test_seed((uint64_t)i);
        make_desc(&d, &shapes[i / 6], i % 4 == 1 ? CKCONV_BF16 : CKCONV_F32, i % 4, &r);
        d.n = 0;
        naive_make(&c, op, &d, 0);
        fill(&c, 0, 1);
        naive_compute_expected(&c); /* dwei = 0 */
        memset(&options, 0, sizeof options);
        options.engine = i / 3 % 2 == 0 ? CKCONV_ENGINE_REF : test_engine();
        if (!naive_plan(&c, &plan, &options, NULL)) {
            naive_free(&c);
            continue;
        }
        if (naive_run(&c, &plan)) {
            naive_compare(&c, "N = 0");
        }
        /* tensors without elements need no memory */
        ckconv_args a = naive_args(&c);
        ckconv_error err;
        memset(&err, 0, sizeof err);
        a.in = NULL;
        a.din = NULL;
        a.out = NULL;
        a.dout = NULL;
        test_buffer workspace;
        test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
        CHECK_OK(test_run(&plan, &a, workspace.data, workspace.bytes, NULL, &err), err);
        test_buffer_free(&workspace);
        naive_free(&c);
    }
}

/*------------------------------------------------------------------------------------------------------------
  pairs and group norms: failures, bits, workspace
*/
static void pair_desc(ckconv_conv_conv_desc *d, int variant)
{
    memset(d, 0, sizeof *d);
    d->conv0.ndim = 2;
    d->conv0.g = variant == 0 ? 12 : 2;
    d->conv0.n = 2;
    d->conv0.k = variant == 0 ? 1 : 9;
    d->conv0.c = variant == 0 ? 1 : 5;
    for (int i = 0; i < 2; i++) {
        d->conv0.filter[i] = 3;
        d->conv0.input[i] = 11 + i;
        d->conv0.pad_lo[i] = d->conv0.pad_hi[i] = 1;
    }
    d->conv0.op_out.kind = CKCONV_RELU;
    d->k1 = 20;
    d->g1 = 1;
    if (variant == 2) {
        d->filter1[0] = d->filter1[1] = 3;
        d->pad_lo1[0] = d->pad_hi1[1] = 1;
    }
}

static void pair_must_fail(pair_case *p, const ckconv_plan *plan, const ckconv_args *a, void *ws,
                           size_t bytes, ckconv_status wanted, const char *what)
{
    ckconv_error err;
    memset(&err, 0, sizeof err);
    test_poison(&p->second.t[NAIVE_OUT]);
    test_poison(&p->first.t[NAIVE_OUT]);
    test.plan = plan;
    const ckconv_status status = test_run(plan, a, ws, bytes, NULL, &err);
    CHECK_MSG(status == wanted && err.text[0] != 0, "%s: status %d instead of %d (%s)", what, (int)status,
              (int)wanted, err.text);
    CHECK_MSG(test_untouched(&p->second.t[NAIVE_OUT]) && test_untouched(&p->first.t[NAIVE_OUT]),
              "%s: an output was touched", what);
}

static void part_pair(void)
{
    for (int variant = 0; variant < 3; variant++) {
        ckconv_conv_conv_desc d;
        pair_case p;
        ckconv_plan plan;
        ckconv_error err;
        test_buffer workspace;
        test_rng r = test_seed((uint64_t)variant);
        pair_desc(&d, variant);
        pair_make(&p, &d, 1, 1, 1, 0);
        naive_fill_normal(&p.first.t[NAIVE_IN], &r, 0.0, 1.0);
        naive_fill_normal(&p.first.t[NAIVE_WEI], &r, 0.0, 1.0);
        naive_fill_normal(&p.second.t[NAIVE_WEI], &r, 0.0, 1.0);
        naive_fill_normal(&p.scale, &r, 1.0, 0.2);
        naive_fill_normal(&p.shift, &r, 0.0, 0.2);
        if (!pair_plan(&p, &plan, NULL, NULL)) {
            pair_free(&p);
            continue;
        }
        const ckconv_args good = pair_args(&p);
        test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
        void *ws = workspace.bytes > 0 ? workspace.data : NULL;
        ckconv_args a = good;
        a.wei1 = NULL;
        pair_must_fail(&p, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "wei1 NULL");
        a = good;
        a.out = NULL;
        pair_must_fail(&p, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "out NULL");
        a = good;
        a.mid = a.out;
        pair_must_fail(&p, &plan, &a, ws, workspace.bytes, CKCONV_ERR_ALIAS, "mid is out");
        a = good;
        a.scale = a.out;
        pair_must_fail(&p, &plan, &a, ws, workspace.bytes, CKCONV_ERR_ALIAS, "scale is out");
        if (workspace.bytes > 0) {
            pair_must_fail(&p, &plan, &good, ws, workspace.bytes - 1, CKCONV_ERR_WORKSPACE,
                           "short workspace");
        }
        const size_t size = p.second.t[NAIVE_OUT].buffer.bytes;
        unsigned char *first = (unsigned char *)malloc(size);
        for (int i = 0; i < 10 && first != NULL; i++) {
            static const int32_t threads[3] = {1, 2, 4};
            ckconv_options options;
            memset(&options, 0, sizeof options);
            options.instance = ckconv_instance_name(plan.instance);
            options.threads = threads[i % 3];
            ckconv_plan again;
            test_buffer other;
            if (!CHECK_OK(ckconv_plan_again(&again, &plan, &options, &err), err)) {
                break;
            }
            test_buffer_make(&other, (size_t)again.workspace_bytes, 0);
            memset(other.data, i, other.bytes);
            test_poison(&p.second.t[NAIVE_OUT]);
            CHECK_OK(test_run(&again, &good, other.data, other.bytes, NULL, &err), err);
            if (i == 0) {
                memcpy(first, good.out, size);
            }
            CHECK_MSG(memcmp(first, good.out, size) == 0, "run %d with %d threads has other bits", i + 1,
                      (int)options.threads);
            test_buffer_free(&other);
        }
        free(first);
        test_buffer_free(&workspace);
        pair_free(&p);
    }
}

static void norm_must_fail(norm_case *c, const ckconv_plan *plan, const ckconv_args *a, void *ws,
                           size_t bytes, ckconv_status wanted, const char *what)
{
    ckconv_error err;
    int untouched = 1;
    memset(&err, 0, sizeof err);
    for (int i = 0; i < NORM_TENSORS; i++) {
        if (norm_is_written(c, i)) {
            test_poison(&c->t[i]);
        }
    }
    test.plan = plan;
    const ckconv_status status = test_run(plan, a, ws, bytes, NULL, &err);
    CHECK_MSG(status == wanted && err.text[0] != 0, "%s: status %d instead of %d (%s)", what, (int)status,
              (int)wanted, err.text);
    for (int i = 0; i < NORM_TENSORS; i++) {
        untouched = untouched && (!norm_is_written(c, i) || test_untouched(&c->t[i]));
    }
    CHECK_MSG(untouched, "%s: an output was touched", what);
}

/* The bytes of all written tensors after a run, one behind the other. */
static size_t norm_bytes(const norm_case *c, unsigned char *to)
{
    size_t used = 0;
    for (int i = 0; i < NORM_TENSORS; i++) {
        if (norm_is_written(c, i)) {
            if (to != NULL) {
                memcpy(to + used, c->t[i].buffer.data, c->t[i].buffer.bytes);
            }
            used += c->t[i].buffer.bytes;
        }
    }
    return used;
}

static void norm_bits(norm_case *c, const ckconv_plan *plan)
{
    static const int32_t threads[3] = {1, 2, 4};
    const size_t size = norm_bytes(c, NULL);
    unsigned char *first = (unsigned char *)malloc(size + 1);
    unsigned char *later = (unsigned char *)malloc(size + 1);
    const ckconv_args good = norm_args(c);
    for (int i = 0; i < 10 && first != NULL && later != NULL; i++) {
        ckconv_options options;
        ckconv_plan again;
        ckconv_error err;
        test_buffer workspace;
        memset(&options, 0, sizeof options);
        options.instance = ckconv_instance_name(plan->instance);
        options.engine = plan->engine;
        options.threads = threads[i % 3];
        if (!CHECK_OK(ckconv_plan_again(&again, plan, &options, &err), err)) {
            break;
        }
        test_buffer_make(&workspace, (size_t)again.workspace_bytes, 0);
        memset(workspace.data, i * 3, workspace.bytes);
        for (int j = 0; j < NORM_TENSORS; j++) {
            if (norm_is_written(c, j)) {
                test_poison(&c->t[j]);
            }
        }
        test.plan = &again;
        CHECK_OK(test_run(&again, &good, workspace.data, workspace.bytes, NULL, &err), err);
        norm_bytes(c, i == 0 ? first : later);
        CHECK_MSG(i == 0 || memcmp(first, later, size) == 0, "run %d with %d threads has other bits", i + 1,
                  (int)options.threads);
        test_buffer_free(&workspace);
    }
    free(first);
    free(later);
}

/* Many narrow groups, channels last, where threads decide which of them one item takes; the mean of one group
   is coarse: it alone is computed again, whoever shares its item. */
static void part_norm_groups(void)
{
    ckconv_groupnorm_desc d;
    norm_case c;
    ckconv_plan plan;
    test_rng r = test_seed(77);
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.g = 32;
    d.n = 1;
    d.c = 8;
    d.input[0] = d.input[1] = 16;
    d.eps = 1e-5;
    norm_make(&c, CKCONV_GROUPNORM_BWD, &d, NORM_ALL, 0);
    for (int j = 0; j < NORM_DX; j++) {
        naive_fill_normal(&c.t[j], &r, 0.5, 1.0);
    }
    double *x = test_doubles(c.t[NORM_X].count);
    test_gather(&c.t[NORM_X], x);
    for (int64_t i = 0; i < 8 * 16 * 16; i++) {
        x[i] += 100.0; /* group 0: logical order is n, g, c, space */
    }
    test_scatter(&c.t[NORM_X], x);
    free(x);
    norm_compute_expected(&c);
    if (norm_plan(&c, &plan, NULL, NULL)) {
        norm_bits(&c, &plan);
    }
    norm_free(&c);
}

static void part_norm(void)
{
    for (int i = 0; i < 8; i++) {
        ckconv_groupnorm_desc d;
        norm_case c;
        ckconv_plan plan;
        test_buffer workspace;
        test_rng r = test_seed((uint64_t)i);
        const ckconv_op op = i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD;
        memset(&d, 0, sizeof d);
        d.ndim = 2;
        d.g = 3;
        d.n = i < 6 ? 4 : 1;
        d.c = 1 + i;
        d.input[0] = i < 4 ? 9 : 33;
        d.input[1] = i < 4 ? 7 : 29;
        d.eps = 1e-5;
        d.act = i % 4 < 2 ? CKCONV_PASS : CKCONV_SILU;
        norm_make(&c, op, &d, NORM_ALL, 0);
        for (int j = 0; j < NORM_DX; j++) {
            naive_fill_normal(&c.t[j], &r, 0.5, 1.0);
        }
        naive_fill_normal(&c.t[NORM_GAMMA], &r, 1.0, 0.3);
        naive_fill_normal(&c.t[NORM_BETA], &r, 0.0, 0.3);
        norm_compute_expected(&c);
        if (!norm_plan(&c, &plan, NULL, NULL)) {
            norm_free(&c);
            continue;
        }
        test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
        void *ws = workspace.bytes > 0 ? workspace.data : NULL;
        const ckconv_args good = norm_args(&c);
        ckconv_args a = good;
        a.in = NULL;
        norm_must_fail(&c, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "in NULL");
        a = good;
        a.gamma = op == CKCONV_GROUPNORM_FWD ? good.out : good.din;
        norm_must_fail(&c, &plan, &a, ws, workspace.bytes, CKCONV_ERR_ALIAS, "gamma is written");
        if (op == CKCONV_GROUPNORM_BWD) {
            a = good;
            a.din = a.dgamma = a.dbeta = NULL;
            norm_must_fail(&c, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "no output");
            a = good;
            a.saved_mean = NULL;
            norm_must_fail(&c, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "only one statistic");
            a = good;
            a.dout = NULL;
            norm_must_fail(&c, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "dout NULL");
        } else {
            a = good;
            a.out = NULL;
            norm_must_fail(&c, &plan, &a, ws, workspace.bytes, CKCONV_ERR_NULL, "out NULL");
        }
        if (workspace.bytes > 0) {
            norm_must_fail(&c, &plan, &good, ws, workspace.bytes - 1, CKCONV_ERR_WORKSPACE,
                           "short workspace");
        }
        norm_bits(&c, &plan);
        test_buffer_free(&workspace);
        norm_free(&c);
    }
}

int main(void)
{
    test_begin("test_poison");
    part_failures();
    part_variants();
    part_amounts();
    part_empty();
    part_pair();
    part_norm();
    part_norm_groups();
    return test_end();
}
