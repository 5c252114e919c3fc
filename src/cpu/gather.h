/*------------------------------------------------------------------------------------------------------------
  >>cpu-gather
  fwd and bwd_data as implicit GEMM: an item owns a block of outputs of one group and phase. The input of a
  block is gathered as a patch (>>cpu-patch) or as im2col rows, whichever wastes less; weights are packed in
  panels, once for all items where workspace allows, else by each item. Block sizes come from caches and
  threads; the order of a sum comes from the problem alone, so that it does not change with the number of
  threads. cpu/pair.h and cpu/weight.h take its blocks and sums, too.
*/
#pragma once
#include "core/parallel.h"
#include "core/problem.h"
#include "cpu/patch.h"

/* Block sizes of a GEMM pass and the memory that they need. */
typedef struct ckci_tiles {
    int64_t mc, kc, nc, ldc; /* rows, reduction and columns of a block; row length of its sums */
    int64_t lda;             /* that of its im2col rows */
    int64_t blocks_m, blocks_n, items;
    int64_t packed;         /* bytes of packed weights, shared by all threads; 0: packed by each item */
    int64_t scratch;        /* bytes per thread; at most CKCI_STACK when there is no workspace */
    int64_t split, partial; /* bwd_weight: parts of the reduction, bytes of one part's sums */
    int64_t totals;         /* bytes of a block's totals in scratch; 0: its reduction is short */
    int64_t bytes;          /* workspace */
    int32_t threads;
    /* A block of outputs whose input is gathered as a patch (0 entries: as im2col rows): nb batch entries x
       yb x xb outputs of a plane z, channels in blocks of cb; a run is `run` outputs of a row */
    int64_t entries, cb, nb, yb, xb, run, blocks_b, blocks_y, blocks_x, table;
    int chunk, height, groups_first, joined;
} ckci_tiles;

/* Whole cache lines; 2^62 stays 2^62. */
CKCI_FN int64_t ckci_line_up(int64_t bytes)
{
    return ckci_min(ckci_round_up(bytes, 64), CKCI_MAX_BYTES);
}

/* As many threads as have scratch within the limit; one at least fits when this is asked. Block sizes that
   results depend on are chosen before, for one thread, so that they do not depend on how many there are. */
CKCI_FN int32_t ckci_threads_within(int64_t limit, int64_t shared, int64_t scratch, int32_t threads)
{
    int64_t most = limit >= CKCI_MAX_BYTES ? threads : (limit - shared) / ckci_max(scratch, 1);
    return (int32_t)ckci_max(ckci_min(most, threads), 1);
}

/* What `threads` scratch areas and shared bytes take together. */
CKCI_FN int64_t ckci_total(int64_t shared, int64_t scratch, int32_t threads)
{
    return ckci_saturating_add(shared, ckci_saturating_mul(scratch, threads));
}

/* The error of a long sum does not grow with its length. A kernel adds some hundred products one after the
   other, such sums are added up over a few thousand products, and what is above that loses nothing: totals
   are doubles; those of f64 are pairs, a sum and what its additions lost. int32 is exact anyway. */
enum {
    CKCI_NEXT = 4096,  /* positions before sums are added to totals, about */
    CKCI_LONG = 16384, /* channels x taps of fwd and bwd_data before that */
    CKCI_CHAIN = 512   /* positions of a kernel, if a row is not longer */
};

/* Bytes of the totals of n sums */
CKCI_INLINE int64_t ckci_total_bytes(const ckci_kind *kind, int64_t n)
{
    return kind->dtype == CKCONV_I32 ? 0 : ckci_line_up(ckci_saturating_mul(n, 2 * kind->size));
}

/* Adds n sums to totals, or begins these. */
CKCI_FN void ckci_add_totals(const ckci_kind *kind, void *totals, const void *sums, int64_t n, int begin)
{
    double *t = (double *)totals;
    if (begin) {
        memset(totals, 0, (size_t)(n * 2 * kind->size));
    }
    if (kind->dtype == CKCONV_F32) {
        const float *s = (const float *)sums;
        for (int64_t i = 0; i < n; i++) {
            t[i] += (double)s[i];
        }
    } else {
        const double *s = (const double *)sums;
        for (int64_t i = 0; i < n; i++) {
            double sum = t[i] + s[i], rest = sum - t[i];
            t[n + i] += (t[i] - (sum - rest)) + (s[i] - rest);
            t[i] = sum;
        }
    }
}

/* Totals become n sums. */
CKCI_FN void ckci_end_totals(const ckci_kind *kind, const void *totals, void *sums, int64_t n)
{
    const double *t = (const double *)totals;
    if (kind->dtype == CKCONV_F32) {
        float *s = (float *)sums;
        for (int64_t i = 0; i < n; i++) {
            s[i] = (float)t[i];
        }
    } else {
        double *s = (double *)sums;
        for (int64_t i = 0; i < n; i++) {
            /* an infinite sum has lost NaN */
            s[i] = t[n + i] - t[n + i] == 0 ? t[i] + t[n + i] : t[i];
        }
    }
}

/* Adds the other parts of n sums to the first one, in order; parts are `step` bytes apart. int32 modulo
   2^32. */
CKCI_FN void ckci_add_parts(const ckci_kind *kind, unsigned char *sums, int64_t step, int64_t parts,
                            int64_t n)
{
    double totals[2 * CKCI_SPAN];
    for (int64_t i = 0, some; i < n && parts > 1; i += some) {
        unsigned char *first = sums + i * kind->size;
        some = ckci_min(n - i, CKCI_SPAN);
        if (kind->dtype == CKCONV_I32) {
            uint32_t *d = (uint32_t *)(void *)first;
            for (int64_t part = 1; part < parts; part++) {
                const uint32_t *s = (const uint32_t *)(const void *)(first + part * step);
                for (int64_t j = 0; j < some; j++) {
                    d[j] += s[j];
                }
            }
            continue;
        }
        for (int64_t part = 0; part < parts; part++) {
            ckci_add_totals(kind, totals, first + part * step, some, part == 0);
        }
        ckci_end_totals(kind, totals, first, some);
    }
}

/* Columns padded to whole panels: two vectors wide, the last one a single vector where that is enough. */
CKCI_FN int64_t ckci_panels(const ckci_kernels *k, int64_t cols)
{
    int64_t rest = cols % (2 * k->lanes);
    return cols - rest + (rest == 0 ? 0 : rest <= k->lanes ? k->lanes : 2 * k->lanes);
}

CKCI_INLINE int64_t ckci_panel_width(const ckci_kernels *k, int64_t rest)
{
    return rest <= k->lanes ? k->lanes : 2 * k->lanes;
}

/* Rows of the largest phase. */
CKCI_FN int64_t ckci_most_rows(const ckci_view *v)
{
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    return v->p->n * axis[0].count * axis[1].count * axis[2].count;
}

/* The run length that wastes least of a row of `count` outputs, a longer one where it is close. */
CKCI_FN int ckci_best_run(const ckci_kernels *k, int64_t count)
{
    int best = 0;
    double least = 0;
    for (int i = 0; i < 3; i++) {
        double waste = (double)ckci_round_up(count, k->run[i]) * (1 + 0.02 * (k->run[0] - k->run[i]));
        if (i == 0 || waste < least) {
            best = i;
            least = waste;
        }
    }
    return best;
}

enum {
    CKCI_RUNS = 64,                /* most runs of a block */
    CKCI_BLOCK_ROWS = 256,         /* outputs of a block, about */
    CKCI_PATCH_BYTES = 384 * 1024, /* a patch, within a core's L2 */
    CKCI_PATCH_MOST = 16 << 20     /* larger than that: im2col rows */
};

/* Are all sizes such that those of a patch are far from overflow? */
CKCI_FN int ckci_patch_sane(const ckci_view *v, const ckci_axis axis[3])
{
    const int64_t most = (int64_t)1 << 40;
    int sane = v->red <= most && v->p->n <= most && v->p->g <= most;
    for (int i = 0; i < 3; i++) {
        sane = sane && v->p->stride[i] <= 1 << 16 && v->p->dilation[i] <= 1 << 16 &&
               v->p->filter[i] <= 1 << 16 && axis[i].count <= most;
    }
    return sane;
}

/* A patch per block: sizes of the block. 0 where im2col rows are better. */
CKCI_FN int ckci_patch_tiles(const ckci_view *v, int32_t threads, ckci_tiles *t)
{
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    if (!ckci_patch_sane(v, axis)) {
        return 0;
    }
    int64_t z = axis[0].count, y = ckci_max(axis[1].count, 1), x = ckci_max(axis[2].count, 1);
    int64_t size = v->kind->size, n = ckci_max(v->p->n, 1);
    int64_t others = v->phases[0] * v->phases[1] * v->phases[2] * v->p->g * t->blocks_n;
    t->height = ckci_best_run(v->k, x);
    t->run = v->k->run[t->height];
    if (ckci_round_up(x, t->run) * 4 > x * 5) {
        return 0;
    }
    t->cb = ckci_min(v->red, CKCI_KC);
    t->nb = 1;
    t->yb = y;
    t->xb = x;
    for (t->chunk = 0; t->chunk < 2; t->chunk++) {
        for (;;) {
            int64_t runs = ckci_ceil_div(t->xb, t->run);
            t->entries = ckci_window_entries(v, t->yb, t->xb, t->chunk);
            int64_t bytes = ckci_saturating_mul(t->entries, t->cb * size);
            if ((bytes <= CKCI_PATCH_BYTES && t->yb * t->xb <= CKCI_BLOCK_ROWS &&
                 runs * t->yb <= CKCI_RUNS) ||
                (t->yb == 1 && t->xb <= 2 * t->run)) {
                break;
            }
            if (t->yb > 1) {
                t->yb = ckci_ceil_div(t->yb, 2);
            } else {
                t->xb = ckci_round_up(ckci_ceil_div(t->xb, 2), t->run);
            }
        }
        if (ckci_saturating_mul(t->entries, t->cb * size) <= 3 * CKCI_PATCH_BYTES) {
            break;
        }
    }
    t->chunk = t->chunk > 0;
    /* even shares, and enough items */
    int64_t all = others * n * z * ckci_ceil_div(x, t->xb);
    while (t->yb > 1 && t->yb * t->xb > 56 && all * ckci_ceil_div(y, t->yb) < 6 * threads) {
        t->yb = ckci_ceil_div(t->yb, 2);
    }
    t->yb = ckci_ceil_div(y, ckci_ceil_div(y, t->yb));
    int64_t runs = ckci_ceil_div(t->xb, t->run) * t->yb;
    while (t->yb == y && t->xb == x && t->nb < n && (t->nb + 1) * y * x <= CKCI_BLOCK_ROWS &&
           (t->nb + 1) * runs <= CKCI_RUNS && (t->nb + 1) * t->entries * t->cb * size <= CKCI_PATCH_BYTES &&
           others * z * ckci_ceil_div(n, t->nb + 1) >= (t->packed > 4 << 20 ? 2 : 6) * threads) {
        t->nb++;
    }
    t->entries = ckci_window_entries(v, t->yb, t->xb, t->chunk) * t->nb;
    t->blocks_b = ckci_ceil_div(n, t->nb);
    t->blocks_y = ckci_ceil_div(y, t->yb);
    t->blocks_x = ckci_ceil_div(x, t->xb);
    t->mc = t->nb * t->yb * t->xb;
    t->table = ckci_line_up(ckci_saturating_mul(v->taps, 4));
    return ckci_saturating_mul(t->entries, t->cb * size) <= CKCI_PATCH_MOST && v->taps < 1 << 20;
}

/* fwd and bwd_data. limit 0: everything on the stack. patches: 1 or 0 to insist on them or on im2col rows, -1
   for the better ones; both read the same packed weights. */
CKCI_FN ckci_tiles ckci_gather_tiles(const ckci_view *v, int32_t threads, int64_t limit, int patches)
{
    ckci_tiles t;
    memset(&t, 0, sizeof t);
    int64_t rows = ckci_most_rows(v), mr = 2 * v->k->run[0], nr = 2 * v->k->lanes, size = v->kind->size;
    int64_t padded = ckci_panels(v->k, v->cols);
    int64_t others = v->phases[0] * v->phases[1] * v->phases[2] * v->p->g;
    int deep = ckci_saturating_mul(v->taps, v->red) > 2 * CKCI_LONG;
    t.kc = CKCI_KC;
    t.lda = CKCI_LDA;
    t.nc = t.ldc = ckci_min(ckci_round_up(v->cols, nr), 256);
    t.blocks_n = ckci_ceil_div(v->cols, t.nc);
    t.packed =
        ckci_line_up(ckci_saturating_mul(ckci_saturating_mul(v->p->g * v->taps * v->red, padded), size));
    t.groups_first = t.packed / ckci_max(v->p->g, 1) <= 128 * 1024;
    t.threads = threads;
    /* whether patches fit decides the order of the sums: it is asked for the blocks of one thread, the
       largest */
    int patch = patches != 0;
    for (int32_t i = 0; i < 2 && patch; i++) {
        patch = ckci_patch_tiles(v, i ? threads : 1, &t);
        /* a run may reach past its row by all but one position */
        int64_t past = ckci_saturating_mul(t.run * t.cb, ckci_max(v->p->stride[2], 1));
        int64_t entries = ckci_saturating_add(ckci_saturating_mul(t.entries, t.cb), past);
        t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
        t.scratch = ckci_total(ckci_line_up(ckci_saturating_mul(entries, size)),
                               ckci_line_up(t.mc * t.ldc * size) + t.totals + t.table, 1);
        patch = patch && t.entries > 0 && ckci_total(t.packed, t.scratch, 1) <= limit;
    }
    if (!patch) {
        t.entries = 0;
        t.cb = ckci_min(v->red, CKCI_KC);
        t.mc = ckci_min(ckci_round_up(112, mr), ckci_max(ckci_round_up(rows, mr), mr));
        t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
        t.scratch = ckci_line_up(t.mc * CKCI_LDA * size) + ckci_line_up(t.mc * t.ldc * size) + t.totals;
        while (t.mc > 2 * mr && others * t.blocks_n * ckci_ceil_div(rows, t.mc) < 6 * threads) {
            t.mc -= mr;
        }
        t.blocks_m = ckci_max(ckci_ceil_div(rows, t.mc), 1);
    } else {
        ckci_axis axis[3];
        ckci_phase(v, 0, axis);
        t.blocks_m = v->p->n == 0 ? 0 : t.blocks_b * axis[0].count * t.blocks_y * t.blocks_x;
    }
    if (ckci_total(t.packed, t.scratch, 1) <= limit) {
        t.threads = ckci_threads_within(limit, t.packed, t.scratch, threads);
        t.bytes = ckci_total(t.packed, t.scratch, t.threads);
    } else {
        t.kc = deep ? CKCI_KC / 4 : CKCI_KC / 2; /* totals take room */
        t.nc = t.ldc = ckci_min(ckci_round_up(v->cols, nr), 64);
        t.mc = ckci_round_up(CKCI_LINE, mr);
        t.blocks_n = ckci_ceil_div(v->cols, t.nc);
        t.packed = t.bytes = 0;
        t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
        t.scratch = t.mc * (t.lda + t.ldc) * size + t.totals + t.kc * nr * size;
        while (t.scratch > CKCI_STACK && t.kc > 16) { /* a small one */
            t.kc /= 2;
            t.lda = t.kc + 16;
            t.nc = t.ldc = ckci_min(t.ldc, nr);
            t.blocks_n = ckci_ceil_div(v->cols, t.nc);
            t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
            t.scratch = t.mc * (t.lda + t.ldc) * size + t.totals + t.kc * nr * size;
        }
        t.blocks_m = ckci_max(ckci_ceil_div(rows, t.mc), 1);
    }
    t.items = rows == 0 ? 0 : ckci_saturating_mul(ckci_saturating_mul(others, t.blocks_n), t.blocks_m);
    return t;
}

typedef struct ckci_gather_job {
    ckci_view v;
    ckci_tiles t;
    ckci_target target;
    unsigned char *packed;
} ckci_gather_job;

/* Where a phase's packed weights begin, in elements per (group, padded column): those of all earlier phases
   come first, and a phase has taps_z * taps_y * taps_x of them. */
CKCI_FN int64_t ckci_taps_before(const ckci_view *v, int64_t phase)
{
    int64_t index[3], before[3], here[3], all[3];
    index[2] = phase % v->phases[2];
    index[1] = phase / v->phases[2] % v->phases[1];
    index[0] = phase / v->phases[2] / v->phases[1];
    for (int i = 0; i < 3; i++) {
        before[i] = here[i] = all[i] = 0;
        for (int64_t tap = 0; tap < v->p->filter[i]; tap++) {
            /* the phase that this tap belongs to; one past the input has no positions */
            int64_t own = ckci_mod(tap * v->p->dilation[i] - v->p->pad[i], v->p->stride[i]);
            all[i] += own < v->phases[i];
            before[i] += own < index[i];
            here[i] += own == index[i];
        }
    }
    return before[0] * all[1] * all[2] + here[0] * (before[1] * all[2] + here[1] * before[2]);
}

/* Start of the panel at column j0. A panel holds [channel block][tap][channel][column]. */
CKCI_FN unsigned char *ckci_panel(const ckci_gather_job *job, int64_t group, int64_t phase, int64_t taps,
                                  int64_t j0)
{
    const ckci_view *v = &job->v;
    int64_t padded = ckci_panels(v->k, v->cols);
    int64_t before = v->phases[0] * v->phases[1] * v->phases[2] == 1 ? 0 : ckci_taps_before(v, phase);
    return job->packed + ((group * v->taps + before) * padded + taps * j0) * v->red * v->kind->size;
}

/* One item packs one panel of one group and phase. */
CKCI_FN void ckci_pack_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_gather_job *job = (const ckci_gather_job *)context;
    const ckci_view *v = &job->v;
    ckci_axis axis[3];
    int64_t nr = 2 * v->k->lanes, panels = ckci_ceil_div(v->cols, nr), j0 = item % panels * nr;
    int64_t phases = v->phases[0] * v->phases[1] * v->phases[2];
    int64_t phase = item / panels % phases, group = item / panels / phases;
    (void)scratch;
    ckci_phase(v, phase, axis);
    int64_t taps = axis[0].taps * axis[1].taps * axis[2].taps;
    if (taps > 0) {
        int64_t width = ckci_panel_width(v->k, v->cols - j0);
        unsigned char *dst = ckci_panel(job, group, phase, taps, j0);
        for (int64_t c0 = 0; c0 < v->red; c0 += job->t.cb) {
            int64_t n = ckci_min(job->t.cb, v->red - c0);
            for (int64_t tap = 0; tap < taps; tap++, dst += n * width * v->kind->size) {
                ckci_pack_weights(v, axis, group, j0, width, tap * v->red + c0, tap * v->red + c0 + n, dst);
            }
        }
    }
}

/* What an item owns: columns n0.. of mc rows from m0 on (im2col rows), or of `images` batch entries from n on
   x yb x xb outputs from q = (z, y, x) on. */
typedef struct ckci_block {
    ckci_axis axis[3];
    int64_t phase, group, n0, cols, taps;
    int64_t m0, rows;
    int64_t n, images, q[3], yb, xb;
} ckci_block;

/* 0: nothing to do. */
CKCI_FN int ckci_find_block(const ckci_gather_job *job, int64_t item, ckci_block *b)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t m, g = v->p->g;
    if (t->groups_first) {
        b->group = item % g;
        item /= g;
    }
    b->n0 = item % t->blocks_n * t->nc;
    item /= t->blocks_n;
    m = item % t->blocks_m;
    item /= t->blocks_m;
    if (!t->groups_first) {
        b->group = item % g;
        item /= g;
    }
    b->phase = item;
    ckci_phase(v, b->phase, b->axis);
    b->cols = ckci_min(t->nc, v->cols - b->n0);
    b->taps = b->axis[0].taps * b->axis[1].taps * b->axis[2].taps;
    if (!t->entries) {
        b->m0 = m * t->mc;
        b->rows = ckci_min(t->mc, v->p->n * b->axis[0].count * b->axis[1].count * b->axis[2].count - b->m0);
        return b->rows > 0;
    }
    b->q[2] = m % t->blocks_x * t->xb;
    m /= t->blocks_x;
    b->q[1] = m % t->blocks_y * t->yb;
    m /= t->blocks_y;
    b->n = m % t->blocks_b * t->nb;
    b->q[0] = m / t->blocks_b;
    b->images = ckci_min(t->nb, v->p->n - b->n);
    b->yb = ckci_min(t->yb, b->axis[1].count - b->q[1]);
    b->xb = ckci_min(t->xb, b->axis[2].count - b->q[2]);
    return b->q[0] < b->axis[0].count && b->yb > 0 && b->xb > 0;
}

/* A tile whose runs hold valid[0] and valid[1] positions, of `cols` columns: whole ones in place, others
   through a copy. */
CKCI_FN void ckci_run_tile(ckci_tile_kernel kernel, const ckci_tile *whole, int64_t run, int64_t width,
                           const int64_t valid[2], int64_t cols, int64_t size)
{
    double buffer[2 * 7 * 2 * 8]; /* 14 rows of two vectors */
    if (valid[0] == run && valid[1] == run && cols == width) {
        kernel(whole);
        return;
    }
    ckci_tile t = *whole;
    t.ldc = width;
    for (int i = 0; i < 2; i++) {
        unsigned char *c = (unsigned char *)whole->c[i],
                      *own = (unsigned char *)buffer + i * run * width * size;
        t.c[i] = own;
        for (int64_t r = 0; r < valid[i] && whole->add; r++) {
            memcpy(own + r * width * size, c + r * whole->ldc * size, (size_t)(cols * size));
        }
    }
    kernel(&t);
    for (int i = 0; i < 2; i++) {
        unsigned char *c = (unsigned char *)whole->c[i], *own = (unsigned char *)t.c[i];
        for (int64_t r = 0; r < valid[i]; r++) {
            memcpy(c + r * whole->ldc * size, own + r * width * size, (size_t)(cols * size));
        }
    }
}

/* How far the reduction of a block of outputs is: `since` products are in its sums, others in totals, if
   these have begun. */
typedef struct ckci_progress {
    unsigned char *totals; /* NULL: a short reduction */
    int64_t since;
    int begun;
} ckci_progress;

/* After `len` more products in n sums; the last call makes them whole. */
CKCI_FN void ckci_gather_next(const ckci_kind *kind, ckci_progress *r, int64_t len, int last,
                              unsigned char *sums, int64_t n)
{
    r->since += len;
    if (r->totals && (r->since >= CKCI_LONG || (last && r->begun && r->since > 0))) {
        ckci_add_totals(kind, r->totals, sums, n, !r->begun);
        r->begun = 1;
        r->since = 0;
    }
    if (last && r->begun) {
        ckci_end_totals(kind, r->totals, sums, n);
    }
}

/* Where a block's sums go: the written tensor itself if it takes them as they are, else scratch. Steps in
   elements. */
typedef struct ckci_sums {
    unsigned char *p;
    int64_t image, row, step;
    int direct;
} ckci_sums;

CKCI_FN ckci_sums ckci_place_sums(const ckci_view *v, const ckci_tiles *t, const ckci_target *o,
                                  const ckci_block *b, unsigned char *scratch)
{
    ckci_sums s;
    const int64_t *stride = o->t.stride;
    int64_t size = v->kind->size;
    s.direct = !t->totals && o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift && !o->compute &&
               o->t.dtype == v->kind->dtype && (stride[2] == 1 || v->cols == 1) && b->taps > 0 &&
               (uintptr_t)o->t.p % (uintptr_t)size == 0;
    s.p = scratch;
    s.step = t->ldc;
    s.row = b->xb * t->ldc;
    s.image = b->yb * s.row;
    if (s.direct) {
        s.step = stride[5];
        s.row = stride[4];
        s.image = stride[1];
        s.p = o->t.p + (b->group * stride[0] + b->n * stride[1] + b->n0 * stride[2] + b->q[0] * stride[3] +
                        b->q[1] * stride[4] + b->q[2] * stride[5]) *
                           size;
    }
    return s;
}

/* Sums of all columns of a block over the segments of one patch, whose weights begin k0 into the panels. add:
   to those that there are. */
CKCI_FN void ckci_multiply_patch(const ckci_gather_job *job, const ckci_block *b, const ckci_patch *p,
                                 const int32_t *offset, const ckci_sums *sums, int64_t k0, int add,
                                 const unsigned char *patch)
{
    const ckci_view *v = &job->v;
    const ckci_kernels *k = v->k;
    int64_t size = v->kind->size, run = job->t.run, across = ckci_ceil_div(b->xb, run);
    int64_t runs = b->images * b->yb * across, some = ckci_max(job->t.kc / p->len, 1), from[CKCI_RUNS],
            to[CKCI_RUNS], valid[CKCI_RUNS];
    ckci_tile t;
    for (int64_t i = 0; i < runs; i++) {
        int64_t x = i % across * run, y = i / across % b->yb, n = i / across / b->yb;
        from[i] = (n * p->image + y * p->row + x * p->step) * size;
        to[i] = (n * sums->image + y * sums->row + x * sums->step) * size;
        valid[i] = ckci_min(run, b->xb - x);
    }
    t.len = p->len;
    t.a_step = p->step;
    t.ldc = sums->step;
    for (int64_t j = 0; j < b->cols; j += 2 * k->lanes) {
        int64_t width = ckci_panel_width(k, v->cols - b->n0 - j), cols = ckci_min(width, b->cols - j);
        const unsigned char *panel =
            ckci_panel(job, b->group, b->phase, b->taps, b->n0 + j) + k0 * width * size;
        ckci_tile_kernel kernel = k->tile[job->t.height][width > k->lanes];
        for (int64_t s = 0; s < p->segments; s += some) {
            t.segments = ckci_min(some, p->segments - s);
            t.offset = offset + s;
            t.b = panel + s * p->len * width * size;
            t.add = add || s > 0;
            for (int64_t i = 0; i < runs; i += 2) {
                int64_t other = ckci_min(i + 1, runs - 1), two[2];
                two[0] = valid[i];
                two[1] = other > i ? valid[other] : 0;
                t.a[0] = patch + from[i];
                t.a[1] = patch + from[other];
                t.c[0] = sums->p + to[i] + j * size;
                t.c[1] = sums->p + to[other] + j * size;
                ckci_run_tile(kernel, &t, run, width, two, cols, size);
            }
        }
    }
}

/* An item with patches. The reduction runs over channel blocks, then filter rows. */
CKCI_FN void ckci_patch_item(const ckci_gather_job *job, const ckci_block *b, unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, k0 = 0, rows = b->axis[0].taps * b->axis[1].taps, row = 0;
    unsigned char *c = scratch, *totals = c + ckci_line_up(t->mc * t->ldc * size);
    unsigned char *patch = totals + t->totals + t->table;
    ckci_progress r = {t->totals ? totals : NULL, 0, 0};
    int32_t *offset = (int32_t *)(void *)(patch - t->table);
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, b->axis, d);
    ckci_sums sums = ckci_place_sums(v, t, &o, b, c);
    if (b->taps == 0) {
        ckci_clear(v->kind, c, b->images * sums.image);
        rows = 0;
    }
    for (int64_t c0 = 0; c0 < v->red && rows > 0; c0 += t->cb) {
        for (row = 0; row < (t->chunk ? rows : 1); row++) {
            ckci_axis part[3];
            memcpy(part, b->axis, sizeof part);
            if (t->chunk) {
                ckci_filter_row(part, row);
            }
            /* a joined row of taps is one chain of additions */
            int joined = ckci_joins(v, &part[2]) && part[2].taps * v->red <= 4 * CKCI_KC;
            ckci_patch p = ckci_make_patch(part, b->q, b->yb, b->xb, ckci_min(t->cb, v->red - c0), joined);
            ckci_patch_segments(&p, part, offset);
            for (int64_t i = 0; i < b->images; i++) {
                ckci_pack_patch(v, &p, part, b->group, b->n + i, b->q[0], c0, patch + i * p.image * size);
            }
            int64_t all = p.segments, some = t->totals ? ckci_max(CKCI_LONG / p.len, 1) : all;
            for (int64_t s = 0; s < all; s += some) {
                p.segments = ckci_min(some, all - s);
                ckci_multiply_patch(job, b, &p, offset + s, &sums, k0, r.since > 0, patch);
                k0 += p.segments * p.len;
                ckci_gather_next(v->kind, &r, p.segments * p.len, 0, c, b->images * sums.image);
            }
        }
    }
    ckci_gather_next(v->kind, &r, 0, 1, c, b->images * sums.image);
    for (int64_t i = 0; i < b->images * b->yb && !sums.direct; i++) {
        int64_t q[4];
        q[0] = b->n + i / b->yb;
        q[1] = b->q[0];
        q[2] = b->q[1] + i % b->yb;
        q[3] = b->q[2];
        ckci_write_tile(v, &o, b->axis, b->group, q, b->xb, b->n0, b->cols, c + i * sums.row * size, t->ldc);
    }
}

/* Sums of im2col rows a over reduction [k0, k1) to c. add: to those that there are. own: room for a panel of
   weights where none are packed. */
CKCI_FN void ckci_multiply_rows(const ckci_gather_job *job, const ckci_block *b, int64_t k0, int64_t k1,
                                int add, const unsigned char *a, unsigned char *c, unsigned char *own)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    const ckci_kernels *k = v->k;
    const int32_t zero = 0;
    int64_t size = v->kind->size, run = k->run[0];
    ckci_tile tile;
    tile.segments = 1;
    tile.len = k1 - k0;
    tile.offset = &zero;
    tile.a_step = t->lda;
    tile.ldc = t->ldc;
    tile.add = add;
    for (int64_t j = 0; j < b->cols; j += 2 * k->lanes) {
        int64_t width = ckci_panel_width(k, v->cols - b->n0 - j);
        tile.b = own;
        if (own) {
            ckci_pack_weights(v, b->axis, b->group, b->n0 + j, width, k0, k1, own);
        } else {
            tile.b = ckci_panel(job, b->group, b->phase, b->taps, b->n0 + j) + k0 * width * size;
        }
        for (int64_t r = 0; r < b->rows; r += 2 * run) {
            for (int i = 0; i < 2; i++) {
                tile.a[i] = a + (r + i * run) * t->lda * size;
                tile.c[i] = c + ((r + i * run) * t->ldc + j) * size;
            }
            k->tile[0][width > k->lanes](&tile);
        }
    }
}

/* One item owns a block of outputs of one group and phase; the reduction runs in blocks, in order. */
CKCI_FN void ckci_gather_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_gather_job *job = (const ckci_gather_job *)context;
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, mr = 2 * v->k->run[0];
    ckci_block b;
    if (!ckci_find_block(job, item, &b)) {
        return;
    }
    if (t->entries) {
        ckci_patch_item(job, &b, scratch);
        return;
    }
    /* packed rows are whole cache lines, so that nothing is lost between the parts of the scratch */
    unsigned char *a = scratch, *c = a + t->mc * t->lda * size;
    unsigned char *totals = c + t->mc * t->ldc * size, *own = t->packed ? NULL : totals + t->totals;
    ckci_progress reached = {t->totals ? totals : NULL, 0, 0};
    int64_t all = b.taps * v->red, cb = t->packed ? t->cb : v->red, done = 0;
    if (all == 0) {
        ckci_clear(v->kind, c, b.rows * t->ldc);
    }
    /* channel blocks and, where there are several, taps one by one: the order of the packed weights */
    for (int64_t c0 = 0; c0 < v->red && all > 0; c0 += cb) {
        int64_t n = ckci_min(cb, v->red - c0), part = n == v->red ? all : n;
        for (int64_t first = c0; first < all; first += n == v->red ? all : v->red) {
            for (int64_t k0 = 0; k0 < part; k0 += t->kc) {
                int64_t len = ckci_min(part - k0, t->kc);
                ckci_pack_rows(v, b.axis, b.group, b.m0, b.rows, first + k0, first + k0 + len, a, t->lda);
                for (int64_t r = b.rows; r < ckci_round_up(b.rows, mr); r++) {
                    ckci_clear(v->kind, a + r * t->lda * size, len);
                }
                ckci_multiply_rows(job, &b, done, done + len, reached.since > 0, a, c, own);
                done += len;
                ckci_gather_next(v->kind, &reached, len, 0, c, b.rows * t->ldc);
            }
        }
    }
    ckci_gather_next(v->kind, &reached, 0, 1, c, b.rows * t->ldc);
    int64_t q[4];
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, b.axis, d);
    ckci_place(b.axis, b.m0, q);
    ckci_write_tile(v, &o, b.axis, b.group, q, b.rows, b.n0, b.cols, c, t->ldc);
}

/* What a patch costs for each of its positions, in vector multiply-adds: channels side by side are vectors,
   a row is a call; where they lie apart, each channel's row of x numbers is a call, or a single position. */
CKCI_FN double ckci_patch_cost(const ckci_view *v, int64_t x)
{
    double red = (double)v->red;
    if (v->red == 1 || v->read->stride[2] == 1) {
        return 4 + 2 * red / v->k->lanes + 25 / (double)x;
    }
    return 2 * red + (x == 1 ? 25 : 25 * red / (double)x);
}

/* Cost in vector multiply-adds: the padded product, plus packing it. Of one thread's blocks, so that the
   choice of an instance does not depend on the threads. */
CKCI_FN double ckci_gather_cost(const ckci_view *v, int64_t limit)
{
    ckci_tiles one = ckci_gather_tiles(v, 1, limit, -1);
    const ckci_tiles *t = &one;
    double rows = (double)ckci_most_rows(v) * (double)(v->phases[0] * v->phases[1] * v->phases[2]);
    double reduction =
        (double)v->taps * (double)v->red / (double)(v->phases[0] * v->phases[1] * v->phases[2]);
    double columns = (double)ckci_panels(v->k, v->cols) / v->k->lanes;
    const ckci_tensor *to = &v->p->t[v->p->op == CKCONV_BWD_DATA ? CKCI_IN : CKCI_OUT];
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    double write = v->cols > 1 && to->stride[2] != 1 ? (double)v->cols * (2 + 25 / (double)axis[2].count) : 0;
    if (t->entries) {
        double wide = (double)(ckci_ceil_div(t->xb, t->run) * t->run) / (double)t->xb;
        double halo = (double)t->entries / (double)t->mc;
        double gather = halo * ckci_patch_cost(v, t->xb) * (double)t->blocks_n;
        return (double)v->p->g * rows * (reduction * columns * wide * 1.05 + gather + columns * 2 + write) +
               3000;
    }
    /* a copied run costs its length and a call; so does one whose numbers lie apart, number by number */
    double length = ckci_joined_rows(v, &axis[2]) ? (double)(axis[2].taps * v->red) : (double)v->red;
    double run = 24 / length + (v->red > 1 && v->read->stride[2] != 1 ? 4 : 2.0 / v->k->lanes);
    double pack = t->packed ? (double)t->blocks_n * run : 8.0 * (double)t->blocks_n / v->k->lanes + columns;
    return (double)v->p->g * rows * (reduction * (columns * 1.15 + pack) + columns * 4 + write) + 2000;
}

CKCI_FN void ckci_run_gather_job(ckci_gather_job *job, unsigned char *ws)
{
    const ckci_view *v = &job->v;
    int32_t threads = job->t.threads;
    unsigned char *scratch = job->t.bytes ? ws + job->t.packed : NULL;
    job->packed = ws;
    if (job->t.packed) {
        int64_t panels = ckci_ceil_div(v->cols, 2 * v->k->lanes);
        ckci_parallel(threads, v->p->g * v->phases[0] * v->phases[1] * v->phases[2] * panels, ckci_pack_item,
                      job, ws, 0);
    }
    ckci_parallel(threads, job->t.items, ckci_gather_item, job, scratch, job->t.scratch);
}

CKCI_FN ckconv_status ckci_fit_gather_view(ckci_fit *f, const ckci_view *v)
{
    ckci_tiles t = ckci_gather_tiles(v, f->plan->device.threads, f->limit, -1);
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->launches = t.packed ? 2 : 1;
    f->cost = ckci_gather_cost(v, f->limit);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_view(&f->p->conv, f->features);
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: fwd and bwd_data instances do not split", (int)f->split_k);
    }
    return ckci_fit_gather_view(f, &v);
}

CKCI_FN void ckci_run_gather(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features)
{
    ckci_gather_job job;
    (void)args;
    job.v = ckci_make_view(&p->conv, features);
    job.t = ckci_gather_tiles(&job.v, plan->device.threads, ckci_plan_limit(plan), -1);
    job.target = ckci_make_target(&p->conv);
    ckci_run_gather_job(&job, ws);
}
