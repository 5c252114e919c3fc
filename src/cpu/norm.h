/*------------------------------------------------------------------------------------------------------------
  >>cpu-norm
  Group norm. A slab (n, g) is walked in tiles of at most CKCI_NORM_TILE numbers, channels fastest where they
  are dense, else along x. Everything is summed in double: two passes for the statistics, so that a mean far
  from 0 does no harm; a saved mean that is too coarse (ckci_coarse_mean) is computed again. bwd walks x and
  dy once for the sums of dx and, per channel, those of dgamma and dbeta (kept for each n in workspace and
  added over n in order), once more for dx. Without workspace dgamma and dbeta walk x and dy on their own.
*/
#pragma once
#include "core/layout.h"
#include "core/mean.h"
#include "core/parallel.h"
#include "core/problem.h"
#include "cpu/norm_vector.h"

enum { CKCI_NORM_TILE = CKCI_STACK / 64 };

/* How rows are walked. COLUMNS: a row is a position, or `copies` of them, in some channels; PLANES: some
   channels in all positions, `copies` of them; LINES: a row is a channel along x, its factors are eight
   copies. */
enum { CKCI_NORM_COLUMNS, CKCI_NORM_PLANES, CKCI_NORM_LINES };

typedef struct ckci_norm_work {
    const ckci_groupnorm *p;
    const ckconv_args *args;
    double *sums; /* [n][g * c][2]: dgamma and dbeta of each n; NULL without workspace */
    /* rows: groups of an item, items of an entry, channels of a block of it at most, copies of factors */
    int64_t groups, blocks, channels, copies;
    int how;
    const ckci_kernels *k;
    ckci_norm_kernel sum, map, act;
} ckci_norm_work;

/* A tile: channels [c, c + channels) at positions [x, x + positions) of row (z, y).
   values[position][channel], or [channel][position] when along_x. */
typedef struct ckci_norm_tile {
    int64_t z, y, x, c, positions, channels;
    int along_x;
} ckci_norm_tile;

/* First tile of channels [c0, c1), or the next one; 0 at the end. */
CKCI_FN int ckci_next_tile(const ckci_groupnorm *p, int64_t c0, int64_t c1, ckci_norm_tile *t, int first)
{
    const int64_t *len = p->in.len;
    if (first) {
        memset(t, 0, sizeof *t);
        t->c = c0;
        t->along_x = p->in.stride[5] < p->in.stride[2] && len[5] > 1;
    } else {
        t->x += t->positions;
        if (t->x == len[5]) {
            t->x = 0;
            if (++t->y == len[4]) {
                t->y = 0;
                if (++t->z == len[3]) {
                    t->z = 0;
                    t->c += t->channels;
                }
            }
        }
    }
    if (t->c >= c1) {
        return 0;
    }
    const int64_t most = CKCI_NORM_TILE;
    t->channels = t->along_x ? 1 : ckci_min(c1 - t->c, most);
    t->positions = ckci_min(len[5] - t->x, t->along_x ? most : most / t->channels);
    return 1;
}

CKCI_FN int64_t ckci_tile_place(const ckci_tensor *x, const ckci_norm_tile *t, int64_t g, int64_t n)
{
    return g * x->stride[0] + n * x->stride[1] + t->c * x->stride[2] + t->z * x->stride[3] +
           t->y * x->stride[4] + t->x * x->stride[5];
}

CKCI_FN void ckci_load_tile(const ckci_tensor *x, const ckci_norm_tile *t, int64_t g, int64_t n, double *dst)
{
    float buffer[CKCI_NORM_TILE];
    int64_t at = ckci_tile_place(x, t, g, n), run = t->along_x ? t->positions : t->channels;
    int64_t step = x->stride[t->along_x ? 5 : 2], rows = t->along_x ? 1 : t->positions;
    for (int64_t r = 0; r < rows; r++) {
        if (x->dtype == CKCONV_F64) {
            ckci_read_d(x, at + r * x->stride[5], step, run, dst + r * run);
        } else {
            ckci_widen(x, at + r * x->stride[5], step, run, buffer + r * run);
        }
    }
    for (int64_t i = 0; i < rows * run && x->dtype != CKCONV_F64; i++) {
        dst[i] = (double)buffer[i];
    }
}

CKCI_FN void ckci_store_tile(const ckci_tensor *x, const ckci_norm_tile *t, int64_t g, int64_t n,
                             const double *src)
{
    int64_t size = (int64_t)ckci_size(x->dtype), run = t->along_x ? t->positions : t->channels;
    int64_t step = x->stride[t->along_x ? 5 : 2] * size, rows = t->along_x ? 1 : t->positions;
    for (int64_t r = 0; r < rows; r++) {
        unsigned char *p = x->p + (ckci_tile_place(x, t, g, n) + r * x->stride[5]) * size;
        const double *s = src + r * run;
        for (int64_t i = 0; i < run; i++) {
            if (x->dtype == CKCONV_F32) {
                float f = (float)s[i];
                memcpy(p + i * step, &f, 4);
            } else {
                ckci_store(x->dtype, p + i * step, s[i]);
            }
        }
    }
}

/* In two passes over values less a guess of the mean, the first one's guess being one of them: equal values
   have that mean exactly. */
CKCI_FN void ckci_slab_statistics(const ckci_norm_work *w, int64_t n, int64_t g, ckci_mean *mean,
                                  double *inv_std)
{
    const ckci_groupnorm *p = w->p;
    double x[CKCI_NORM_TILE], count = (double)p->c * (double)p->space, variance = 0;
    int64_t entry = (n * p->g + g) * (int64_t)ckci_size(p->stat);
    int given = p->op == CKCONV_GROUPNORM_BWD && w->args->saved_mean;
    mean->low = 0;
    if (given) {
        mean->high = ckci_load(p->stat, (const unsigned char *)w->args->saved_mean + entry);
        *inv_std = ckci_load(p->stat, (const unsigned char *)w->args->saved_inv_std + entry);
        if (!ckci_coarse_mean(mean->high, *inv_std)) {
            return;
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        ckci_norm_tile t;
        double sum = 0, square = 0;
        for (int more = ckci_next_tile(p, 0, p->c, &t, 1), i = 0; more;
             more = ckci_next_tile(p, 0, p->c, &t, 0), i++) {
            double part[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
            ckci_load_tile(&p->in, &t, g, n, x);
            if (pass == 0 && i == 0) {
                mean->high = x[0];
            }
            int64_t numbers = t.channels * t.positions;
            for (int64_t j = 0; j < numbers; j++) {
                double v = ckci_less_mean(x[j], mean);
                part[0][j & 3] += v;
                part[1][j & 3] += v * v;
            }
            sum += (part[0][0] + part[0][1]) + (part[0][2] + part[0][3]);
            square += (part[1][0] + part[1][1]) + (part[1][2] + part[1][3]);
        }
        double more = sum / count;
        *mean = ckci_add_to_mean(mean, more);
        variance = square / count - more * more;
    }
    if (!given) {
        *inv_std = 1 / sqrt((variance < 0 ? 0 : variance) + p->eps);
    }
}

/* gamma and beta for the channels of a tile */
CKCI_FN void ckci_tile_params(const ckci_norm_work *w, const ckci_norm_tile *t, int64_t g, int64_t n,
                              double *gamma, double *beta)
{
    for (int64_t c = 0; c < t->channels; c++) {
        int64_t channel = g * w->p->c + t->c + c;
        gamma[c] = ckci_param(w->p, w->args->gamma, n, channel, 1);
        beta[c] = ckci_param(w->p, w->args->beta, n, channel, 0);
    }
}

CKCI_FN void ckci_norm_fwd_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double x[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE], inv_std;
    ckci_mean mean;
    int64_t g = item % p->g, n = item / p->g, entry = item * (int64_t)ckci_size(p->stat), loaded = -1;
    ckci_norm_tile t;
    ckconv_element_op act;
    memset(&act, 0, sizeof act);
    act.kind = p->act;
    (void)scratch;
    ckci_slab_statistics(w, n, g, &mean, &inv_std);
    if (w->args->mean) {
        ckci_store(p->stat, (unsigned char *)w->args->mean + entry, mean.high + mean.low);
    }
    if (w->args->inv_std) {
        ckci_store(p->stat, (unsigned char *)w->args->inv_std + entry, inv_std);
    }
    for (int more = ckci_next_tile(p, 0, p->c, &t, 1); more; more = ckci_next_tile(p, 0, p->c, &t, 0)) {
        if (t.c != loaded) {
            ckci_tile_params(w, &t, g, n, gamma, beta);
            loaded = t.c;
        }
        ckci_load_tile(&p->in, &t, g, n, x);
        int64_t run = t.along_x ? t.positions : t.channels, rows = t.along_x ? 1 : t.positions;
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < run; i++) {
                int64_t c = t.along_x ? 0 : i;
                x[r * run + i] = ckci_less_mean(x[r * run + i], &mean) * inv_std * gamma[c] + beta[c];
            }
        }
        for (int64_t i = 0; i < rows * run && p->act != CKCONV_PASS; i++) {
            x[i] = ckci_element_d(&act, x[i], NULL, 0);
        }
        ckci_store_tile(&p->out, &t, g, n, x);
    }
}

/* xhat and the gradient before the affine part, for a tile */
CKCI_FN void ckci_tile_gradient(const ckci_norm_work *w, const ckci_norm_tile *t, int64_t g, int64_t n,
                                const ckci_mean *mean, double inv_std, const double *gamma,
                                const double *beta, double *xhat, double *dy)
{
    const ckci_groupnorm *p = w->p;
    int64_t numbers = t->channels * t->positions;
    ckci_load_tile(&p->in, t, g, n, xhat);
    ckci_load_tile(&p->out, t, g, n, dy);
    for (int64_t i = 0; i < numbers; i++) {
        xhat[i] = ckci_less_mean(xhat[i], mean) * inv_std;
    }
    for (int64_t i = 0; i < numbers && p->act != CKCONV_PASS; i++) {
        int64_t c = t->along_x ? 0 : i % t->channels;
        dy[i] = ckci_undo_act(p->act, xhat[i] * gamma[c] + beta[c], dy[i]);
    }
}

/* Add a tile's sums of dy*xhat and dy to those of its channels: sums[channel][2]. */
CKCI_FN void ckci_add_tile(const ckci_norm_tile *t, const double *xhat, const double *dy, double *sums)
{
    int64_t run = t->along_x ? t->positions : t->channels, rows = t->along_x ? 1 : t->positions;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < run; i++) {
            double *s = sums + (t->along_x ? 0 : 2 * i);
            s[0] += dy[r * run + i] * xhat[r * run + i];
            s[1] += dy[r * run + i];
        }
    }
}

/* dx of one slab and, with workspace, its sums for dgamma and dbeta */
CKCI_FN void ckci_norm_bwd_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double xhat[CKCI_NORM_TILE], dy[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE];
    double part[2 * CKCI_NORM_TILE], inv_std, a = 0, b = 0, count = (double)p->c * (double)p->space;
    ckci_mean mean;
    int64_t g = item % p->g, n = item / p->g, loaded = -1;
    ckci_norm_tile t;
    (void)scratch;
    ckci_slab_statistics(w, n, g, &mean, &inv_std);
    for (int more = ckci_next_tile(p, 0, p->c, &t, 1); more; more = ckci_next_tile(p, 0, p->c, &t, 0)) {
        double *sums = w->sums ? w->sums + 2 * ((n * p->g + g) * p->c + t.c) : NULL;
        if (t.c != loaded) {
            ckci_tile_params(w, &t, g, n, gamma, beta);
            loaded = t.c;
            memset(sums ? sums : part, 0, (size_t)t.channels * 2 * sizeof *part);
        }
        ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
        memset(part, 0, (size_t)t.channels * 2 * sizeof *part);
        ckci_add_tile(&t, xhat, dy, part);
        for (int64_t c = 0; c < t.channels; c++) {
            b += part[2 * c] * gamma[c];
            a += part[2 * c + 1] * gamma[c];
        }
        for (int64_t c = 0; c < 2 * t.channels && sums; c++) {
            sums[c] += part[c];
        }
    }
    a /= count;
    b /= count;
    loaded = -1;
    for (int more = w->args->din && ckci_next_tile(p, 0, p->c, &t, 1); more;
         more = ckci_next_tile(p, 0, p->c, &t, 0)) {
        if (t.c != loaded) {
            ckci_tile_params(w, &t, g, n, gamma, beta);
            loaded = t.c;
        }
        ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
        int64_t run = t.along_x ? t.positions : t.channels, rows = t.along_x ? 1 : t.positions;
        for (int64_t i = 0; i < rows * run; i++) {
            dy[i] *= gamma[t.along_x ? 0 : i % run];
        }
        /* on its own: a fused multiply-add would not cancel exactly where a is the only product */
        for (int64_t i = 0; i < rows * run; i++) {
            dy[i] = inv_std * (dy[i] - a - xhat[i] * b);
        }
        ckci_store_tile(&p->din, &t, g, n, dy);
    }
}

/* dgamma and dbeta: number `entry` of each */
CKCI_FN void ckci_store_params(const ckci_norm_work *w, int64_t entry, const double *sum)
{
    int64_t at = entry * (int64_t)ckci_size(w->p->param);
    if (w->args->dgamma) {
        ckci_store(w->p->param, (unsigned char *)w->args->dgamma + at, sum[0]);
    }
    if (w->args->dbeta) {
        ckci_store(w->p->param, (unsigned char *)w->args->dbeta + at, sum[1]);
    }
}

/* 64 of dgamma and dbeta from the sums of each n, in order; with param_step these are all */
CKCI_FN void ckci_norm_sum_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    int64_t all = ckci_param_count(w->p), rows = w->p->param_step > 0 ? 1 : w->p->n;
    (void)scratch;
    for (int64_t entry = item * 64; entry < ckci_min(all, item * 64 + 64); entry++) {
        double sum[2] = {0, 0};
        for (int64_t n = 0; n < rows; n++) {
            sum[0] += w->sums[2 * (n * all + entry)];
            sum[1] += w->sums[2 * (n * all + entry) + 1];
        }
        ckci_store_params(w, entry, sum);
    }
}

/* The same without workspace: one item owns up to a tile's width of channels of one group, with param_step of
   one n. */
CKCI_FN void ckci_norm_param_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double xhat[CKCI_NORM_TILE], dy[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE];
    double sums[2 * CKCI_NORM_TILE], inv_std;
    ckci_mean mean;
    const int64_t blocks = ckci_ceil_div(p->c, CKCI_NORM_TILE), g = item / blocks % p->g;
    const int64_t c0 = item % blocks * CKCI_NORM_TILE, c1 = ckci_min(p->c, c0 + CKCI_NORM_TILE);
    const int64_t first = item / blocks / p->g, end = p->param_step > 0 ? first + 1 : p->n;
    (void)scratch;
    memset(sums, 0, sizeof sums);
    for (int64_t n = first; n < end; n++) {
        ckci_norm_tile t;
        ckci_slab_statistics(w, n, g, &mean, &inv_std);
        for (int more = ckci_next_tile(p, c0, c1, &t, 1); more; more = ckci_next_tile(p, c0, c1, &t, 0)) {
            ckci_tile_params(w, &t, g, n, gamma, beta);
            ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
            ckci_add_tile(&t, xhat, dy, sums + 2 * (t.c - c0));
        }
    }
    for (int64_t c = c0; c < c1; c++) {
        ckci_store_params(w, first * p->param_step + g * p->c + c, sums + 2 * (c - c0));
    }
}

/* ---- The same for rows. An item is one or several groups of an entry, in blocks of channels. */

/* Can t be walked in rows of channels, or in rows along x? */
CKCI_FN int ckci_norm_row(const ckci_groupnorm *p, const ckci_tensor *t, int along_x)
{
    return (t->dtype == CKCONV_F32 || t->dtype == CKCONV_BF16 || t->dtype == CKCONV_F16) &&
           (along_x ? t->stride[5] == 1 || t->len[5] == 1 : t->stride[2] == 1 || p->c == 1) &&
           (uintptr_t)t->p % ckci_size(t->dtype) == 0;
}

/* From one of an item's channels to the next */
CKCI_INLINE int64_t ckci_norm_apart(const ckci_norm_work *w, const ckci_tensor *t)
{
    return w->how == CKCI_NORM_COLUMNS ? 1 : t->stride[w->p->c == 1 ? 0 : 2];
}

/* How `count` tensors are walked, in blocks of how many channels and items of how many groups. Sums depend on
   it, so nothing but the shape decides, but for the groups of items whose rows have one position. */
CKCI_FN void ckci_norm_form(ckci_norm_work *w, const ckci_tensor *const *t, int count, int columns, int lines,
                            int32_t threads)
{
    const int64_t wide = CKCI_NORM_WIDTH, across = CKCI_NORM_ACROSS;
    const ckci_groupnorm *p = w->p;
    int64_t x = p->in.len[5];
    int beside = 1, dense = p->in.len[3] * p->in.len[4] == 1, few;
    for (int i = 0; i < count; i++) {
        beside = beside && t[i]->stride[0] == p->c;
    }
    int64_t row = beside ? p->g * p->c : p->c;
    /* positions that are short rows, side by side */
    few = columns && !lines && row <= ckci_min(4 * across, wide);
    for (int i = 0; i < count; i++) {
        few = few && (t[i]->stride[5] == row || x == 1);
    }
    w->copies = 1;
    w->channels = wide;
    w->how = columns && (!lines || (beside && row > 1) || p->c >= 8) ? CKCI_NORM_COLUMNS : CKCI_NORM_LINES;
    if (w->how == CKCI_NORM_COLUMNS) {
        w->groups = beside ? ckci_max(ckci_min(p->g, wide / p->c), 1) : 1;
        if (few) {
            /* whole vectors, and no more of them than rows */
            int64_t even = row % 16 == 0 ? 1 : row % 8 == 0 ? 2 : row % 4 == 0 ? 4 : row % 2 == 0 ? 8 : 16;
            int64_t most = ckci_max(x * row < 16 * wide ? wide / 4 : wide, row) / row;
            w->copies = ckci_max(ckci_min(x, most), 1);
            w->copies -= w->copies > even ? w->copies % even : 0;
        }
        /* an item for each thread and no more: part of a row leaves the rest of its cache lines unread */
        while (!few && w->groups > 1 && w->groups * p->c > 32 &&
               p->n * ckci_ceil_div(p->g, w->groups) < threads) {
            w->groups = ckci_ceil_div(w->groups, 2);
        }
    } else {
        beside = 1;
        for (int i = 0; i < count; i++) {
            beside = beside && (p->c == 1 || t[i]->stride[0] == p->c * t[i]->stride[2]);
            dense = dense && ckci_norm_apart(w, t[i]) == x;
        }
        if (dense && x <= wide / across && (x < 16 || x % 8 != 0)) {
            w->how = CKCI_NORM_PLANES;
        }
        w->copies = w->how == CKCI_NORM_PLANES ? x : across;
        w->channels = wide / w->copies;
        w->groups = ckci_max(32 * wide / ckci_saturating_mul(p->c, p->space), 1);
        w->groups = beside ? ckci_max(ckci_min(ckci_min(p->g, w->groups), wide / p->c), 1) : 1;
    }
    w->groups = ckci_ceil_div(p->g, ckci_ceil_div(p->g, w->groups)); /* even shares */
    w->blocks = ckci_ceil_div(p->g, w->groups);
}

/* Whether rows are walked, and by which kernels. */
CKCI_FN int ckci_norm_takes_rows(ckci_norm_work *w, int32_t features, int32_t threads)
{
#if CKCI_NORM_ROWS
    const ckci_groupnorm *p = w->p;
    const ckci_tensor *t[3];
    int count = p->op == CKCONV_GROUPNORM_BWD && w->args->din ? 3 : 2, columns = 1, lines = 1;
    t[0] = &p->in;
    t[1] = &p->out;
    t[2] = &p->din;
    for (int i = 0; i < count; i++) {
        columns = columns && ckci_norm_row(p, t[i], 0);
        lines = lines && ckci_norm_row(p, t[i], 1);
    }
    if (p->stat == CKCONV_F64 || (!columns && !lines)) {
        return 0;
    }
    ckci_norm_form(w, t, count, columns, lines, threads);
    lines = w->how == CKCI_NORM_LINES;
    w->k = ckci_find_kernels(features, CKCONV_F32);
    w->sum = lines ? ckci_norm_lines_portable : ckci_norm_sums_portable;
    w->map = ckci_norm_map_portable;
    w->act = ckci_norm_act_portable;
#if CKCI_X86
    if (features & CKCONV_CPU_AVX512) {
        w->sum = lines ? ckci_norm_lines_avx512 : ckci_norm_sums_avx512;
        w->map = ckci_norm_map_avx512;
        w->act = ckci_norm_act_avx512;
    } else if (features & CKCONV_CPU_AVX2) {
        w->sum = lines ? ckci_norm_lines_avx2 : ckci_norm_sums_avx2;
        w->map = ckci_norm_map_avx2;
        w->act = ckci_norm_act_avx2;
    }
#endif
    return 1;
#else
    (void)w, (void)features, (void)threads;
    return 0;
#endif
}

/* A block: channels [c, c + channels) of the item's groups */
typedef struct ckci_norm_rows {
    int64_t n, group, groups, c, channels;
    ckci_norm_factors f;
    double sums[2 * CKCI_NORM_WIDTH];
    double mean[CKCI_NORM_WIDTH], inv_std[CKCI_NORM_WIDTH]; /* of each group */
    double a[CKCI_NORM_WIDTH], b[CKCI_NORM_WIDTH];
} ckci_norm_rows;

/* The columns of a block; copy j of channel c is column c * *step + j * *apart. */
CKCI_INLINE int64_t ckci_norm_columns_of(const ckci_norm_work *w, const ckci_norm_rows *b, int64_t *step,
                                         int64_t *apart)
{
    int beside = w->how == CKCI_NORM_COLUMNS;
    *step = beside ? 1 : w->copies;
    *apart = beside ? b->channels : 1;
    return b->channels * w->copies;
}

/* column[c], for each channel of the block, to all copies */
CKCI_FN void ckci_norm_copy(const ckci_norm_work *w, const ckci_norm_rows *b, double *column)
{
    int64_t step, apart, all = ckci_norm_columns_of(w, b, &step, &apart);
    if (step == 1) {
        for (int64_t have = b->channels; have < all; have *= 2) {
            memcpy(column + have, column, (size_t)ckci_min(have, all - have) * sizeof *column);
        }
        return;
    }
    for (int64_t c = b->channels - 1; c >= 0; c--) {
        double value = column[c];
        for (int64_t j = 0; j < w->copies; j++) {
            column[c * w->copies + j] = value;
        }
    }
}

/* The next block of channels; 0 at the end. Start with channels = c = 0. */
CKCI_FN int ckci_norm_next(const ckci_norm_work *w, ckci_norm_rows *b)
{
    b->c += b->channels;
    b->channels = ckci_min(b->groups * w->p->c - b->c, w->channels);
    if (b->channels <= 0) {
        b->c = b->channels = 0;
        return 0;
    }
    return 1;
}

/* The next channels [*c, end) of the block that have a group in common; 0: there are none. Start with end
   = 0. */
CKCI_INLINE int64_t ckci_norm_group(const ckci_norm_work *w, const ckci_norm_rows *b, int64_t end, int64_t *c,
                                    int64_t *group)
{
    *c = end;
    *group = (b->c + end) / w->p->c;
    return end < b->channels ? ckci_min((*group + 1) * w->p->c - b->c, b->channels) : 0;
}

/* Of some rows of t: how many may be read in whole eights? */
CKCI_FN int64_t ckci_norm_open(const ckci_tensor *t, int64_t at, int64_t step, int64_t rows, int64_t width)
{
    int64_t room = ckci_last_element(t) + 1 - at - ckci_round_up(width, 8);
    return t->dtype != CKCONV_F32 || width % 8 == 0 ? rows
           : room < 0                               ? 0
           : step > 0                               ? ckci_min(room / step + 1, rows)
                                                    : rows;
}

/* `rows` rows of t as floats: in place, or in buffer. */
CKCI_FN const float *ckci_norm_load(const ckci_norm_work *w, const ckci_tensor *t, int64_t at, int64_t rows,
                                    int64_t width, float *buffer, int64_t *step)
{
    if (t->dtype == CKCONV_F32) {
        return (const float *)(const void *)(t->p + at * 4);
    }
    int64_t joined = *step == width ? rows : 1;
    (t->dtype == CKCONV_F16 ? w->k->widen16 : w->k->widen)(rows / joined, width * joined, t->p + at * 2,
                                                           *step, buffer, width);
    *step = width;
    return buffer;
}

/* Some rows, at[] and step[] apart in x, dy and out, of channels from `channel` of the block on (LINES). dy,
   out: may be NULL; without out they are summed. */
CKCI_FN void ckci_norm_piece(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy,
                             const ckci_tensor *out, const int64_t at[3], int64_t step[3], int64_t rows,
                             int64_t width, int64_t channel)
{
    float buffer[3][CKCI_NORM_BATCH * CKCI_NORM_WIDTH + 8]; /* a row may be read beyond its end */
    int act = w->p->act != CKCONV_PASS, lines = w->how == CKCI_NORM_LINES;
    ckci_norm_call q;
    q.rows = rows;
    q.width = width;
    q.first = lines ? channel * CKCI_NORM_ACROSS : 0;
    q.down = lines ? CKCI_NORM_ACROSS : 0;
    q.across = !lines;
    q.act = w->p->act;
    q.f = &b->f;
    q.open = ckci_norm_open(&w->p->in, at[0], step[0], rows, width);
    q.open = dy ? ckci_min(q.open, ckci_norm_open(dy, at[1], step[1], rows, width)) : q.open;
    q.sums = b->sums;
    q.x = ckci_norm_load(w, &w->p->in, at[0], rows, width, buffer[0], &step[0]);
    q.dy = dy ? ckci_norm_load(w, dy, at[1], rows, width, buffer[1], &step[1]) : NULL;
    q.x_step = step[0];
    q.dy_step = step[1];
    if (dy && act) {
        q.out = buffer[1];
        q.out_step = width;
        w->act(&q);
        q.dy = buffer[1];
        q.dy_step = width;
    }
    if (!out) {
        w->sum(&q);
        return;
    }
    int half = out->dtype != CKCONV_F32;
    q.out = half ? buffer[2] : (float *)(void *)(out->p + at[2] * 4);
    q.out_step = half ? width : step[2];
    (act && !dy ? w->act : w->map)(&q);
    if (half) {
        int64_t joined = step[2] == width ? rows : 1;
        (out->dtype == CKCONV_F16 ? w->k->narrow16 : w->k->narrow)(rows / joined, width * joined, buffer[2],
                                                                   width, out->p + at[2] * 2, step[2]);
    }
}

/* Rows of channels, `step` numbers apart, are short pieces of memory: no processor sees where they lead. */
CKCI_FN void ckci_norm_ahead(const ckci_tensor *t, int64_t at, int64_t step, int64_t rows, int64_t width)
{
    int64_t size = (int64_t)ckci_size(t->dtype);
    for (int64_t row = 0; row < rows; row++) {
        uintptr_t p = (uintptr_t)t->p + (uintptr_t)((at + row * step) * size);
        for (int64_t byte = 0; byte < width * size; byte += 64) {
            CKCI_PREFETCH(p + (uintptr_t)byte);
        }
    }
}

/* One walk over line (z, y) of a block, whose first numbers are at[] in x, dy and out. */
CKCI_FN void ckci_norm_line(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *const all[3],
                            const int64_t at[3])
{
    const int64_t wide = CKCI_NORM_WIDTH, batch = CKCI_NORM_BATCH, x = w->p->in.len[5], *line = at;
    int lines = w->how == CKCI_NORM_LINES, columns = w->how == CKCI_NORM_COLUMNS, buffered = 0;
    int64_t width = columns ? b->channels : x, height = x, place[3], step[3];
    for (int j = 0; j < 3; j++) {
        buffered |= all[j] && (all[j]->dtype != CKCONV_F32 || (w->p->act != CKCONV_PASS && all[1]));
        step[j] = all[j] ? columns ? all[j]->stride[5] * w->copies : ckci_norm_apart(w, all[j]) : 0;
    }
    if (columns) {
        width = b->channels * w->copies;
        height = x / w->copies;
    } else if (lines) {
        width = buffered ? ckci_min(x, wide) : x;
        height = b->channels;
    } else {
        width = b->channels * x;
        height = 1;
    }
    int64_t most =
        lines && !buffered ? height : ckci_max(columns ? wide / width : batch * wide / width, batch);
    int64_t tail = columns ? x % w->copies : 0, left = lines ? ckci_ceil_div(x, width) : 1;
    for (int64_t row = 0, rows; row < height + (tail > 0); row += rows) {
        rows = row == height ? 1 : ckci_min(height - row, most);
        for (int64_t i = 0; i < left; i++) {
            int64_t some = row == height ? tail * b->channels
                           : lines       ? ckci_min(x - i * width, width)
                                         : width;
            int64_t steps[3];
            for (int j = 0; j < 3; j++) {
                place[j] = line[j] + row * step[j] + i * width;
                steps[j] = step[j];
                if (columns && all[j]) {
                    ckci_norm_ahead(all[j], place[j] + 2 * rows * step[j], step[j], rows, width);
                }
            }
            ckci_norm_piece(w, b, all[1], all[2], place, steps, rows, some, row);
        }
    }
}

/* One walk over the rows of a block. */
CKCI_FN void ckci_norm_walk(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy,
                            const ckci_tensor *out)
{
    const int64_t *len = w->p->in.len;
    const ckci_tensor *all[3];
    all[0] = &w->p->in;
    all[1] = dy;
    all[2] = out;
    for (int64_t line = 0; line < len[3] * len[4]; line++) {
        int64_t at[3] = {0, 0, 0};
        for (int j = 0; j < 3; j++) {
            const ckci_tensor *t = all[j];
            if (t) {
                at[j] = b->n * t->stride[1] + b->group * t->stride[0] + b->c * ckci_norm_apart(w, t) +
                        line / len[4] * t->stride[3] + line % len[4] * t->stride[4];
            }
        }
        ckci_norm_line(w, b, all, at);
    }
}

/* Sums of a walk for channel c of the block: of u, and of v if it is the second */
CKCI_INLINE double ckci_norm_total(const ckci_norm_work *w, const ckci_norm_rows *b, int64_t c, int second)
{
    int64_t step, apart;
    ckci_norm_columns_of(w, b, &step, &apart);
    const double *sums = b->sums + second * CKCI_NORM_WIDTH + c * step;
    double total = sums[0];
    for (int64_t j = 1; j < w->copies; j++) {
        total += sums[j * apart];
    }
    return total;
}

CKCI_FN void ckci_norm_sum(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy)
{
    size_t bytes = (size_t)(b->channels * w->copies) * sizeof(double);
    memset(b->sums, 0, bytes);
    memset(b->sums + CKCI_NORM_WIDTH, 0, bytes);
    ckci_norm_walk(w, b, dy, NULL);
}

/* Mean and inv_std of the groups of an item, given or computed. */
CKCI_FN void ckci_norm_row_statistics(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    double count = (double)p->c * (double)p->space;
    int given = p->op == CKCONV_GROUPNORM_BWD && w->args->saved_mean, good = given;
    double *u = b->a, *v = b->b, *shift = b->mean;
    for (int64_t g = 0; g < b->groups && given; g++) {
        int64_t entry = (b->n * p->g + b->group + g) * (int64_t)ckci_size(p->stat);
        b->mean[g] = ckci_load(p->stat, (const unsigned char *)w->args->saved_mean + entry);
        b->inv_std[g] = ckci_load(p->stat, (const unsigned char *)w->args->saved_inv_std + entry);
        good = good && !ckci_coarse_mean(b->mean[g], b->inv_std[g]);
    }
    if (good) {
        return;
    }
    for (int64_t g = 0; g < b->groups; g++) {
        float first;
        ckci_widen(&p->in, (b->group + g) * p->in.stride[0] + b->n * p->in.stride[1], 1, 1, &first);
        shift[g] = (double)first;
        u[g] = v[g] = 0;
    }
    while (ckci_norm_next(w, b)) {
        for (int64_t c, g, end = 0; (end = ckci_norm_group(w, b, end, &c, &g)) > 0;) {
            for (; c < end; c++) {
                b->f.shift[c] = shift[g];
            }
        }
        ckci_norm_copy(w, b, b->f.shift);
        ckci_norm_sum(w, b, NULL);
        for (int64_t c, g, end = 0; (end = ckci_norm_group(w, b, end, &c, &g)) > 0;) {
            double sum = 0, square = 0;
            for (; c < end; c++) {
                sum += ckci_norm_total(w, b, c, 0);
                square += ckci_norm_total(w, b, c, 1);
            }
            u[g] += sum;
            v[g] += square;
        }
    }
    for (int64_t g = 0; g < b->groups; g++) {
        double mean = u[g] / count, square = v[g] / count - mean * mean;
        int64_t entry = (b->n * p->g + b->group + g) * (int64_t)ckci_size(p->stat);
        double saved = given ? ckci_load(p->stat, (const unsigned char *)w->args->saved_mean + entry) : 0;
        b->mean[g] = given && !ckci_coarse_mean(saved, b->inv_std[g]) ? saved : shift[g] + mean;
        b->inv_std[g] = given ? b->inv_std[g] : 1 / sqrt((square < 0 ? 0 : square) + p->eps);
    }
}

/* gamma or beta for the channels of the block */
CKCI_FN void ckci_norm_params(const ckci_norm_work *w, const ckci_norm_rows *b, const void *vector,
                              double missing, double *dst)
{
    const ckci_groupnorm *p = w->p;
    const int64_t first = b->group * p->c + b->c, entry = b->n * p->param_step + first;
    for (int64_t c = 0; c < b->channels; c++) {
        float f;
        if (vector && p->param == CKCONV_F32) {
            memcpy(&f, (const unsigned char *)vector + (entry + c) * 4, 4);
            dst[c] = (double)f;
        } else {
            dst[c] = ckci_param(p, vector, b->n, first + c, missing);
        }
    }
}

/* The block's factors that are known from the statistics. */
CKCI_FN void ckci_norm_set(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    ckci_norm_factors *f = &b->f;
    double count = (double)p->c * (double)p->space;
    int forward = p->op == CKCONV_GROUPNORM_FWD;
    ckci_norm_params(w, b, w->args->gamma, 1, f->kd);
    ckci_norm_params(w, b, w->args->beta, 0, f->kb);
    for (int64_t c, g, end = 0; (end = ckci_norm_group(w, b, end, &c, &g)) > 0;) {
        double mean = b->mean[g], inv_std = b->inv_std[g];
        double kx = forward ? 0 : -inv_std * b->b[g] / count, k0 = forward ? 0 : -b->a[g] / count;
        for (; c < end; c++) {
            f->shift[c] = mean;
            f->kv[c] = inv_std * f->kd[c];
            f->kx[c] = forward ? f->kv[c] : kx;
            f->k0[c] = forward ? f->kb[c] : k0;
            f->ks[c] = inv_std;
        }
    }
    ckci_norm_copy(w, b, f->shift);
    if (p->act != CKCONV_PASS) {
        ckci_norm_copy(w, b, f->kv);
        ckci_norm_copy(w, b, f->kb);
    }
    if (!forward) {
        ckci_norm_copy(w, b, f->kd);
        ckci_norm_copy(w, b, f->ks);
    }
    if (!forward || p->act == CKCONV_PASS) {
        ckci_norm_copy(w, b, f->kx);
        ckci_norm_copy(w, b, f->k0);
    }
}

/* Sums of dx, dgamma and dbeta: a, b of each group. */
CKCI_FN void ckci_norm_gradient_sums(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    for (int64_t g = 0; g < b->groups; g++) {
        b->a[g] = b->b[g] = 0;
    }
    while (ckci_norm_next(w, b)) {
        ckci_norm_set(w, b);
        ckci_norm_sum(w, b, &p->out);
        for (int64_t c, g, end = 0; (end = ckci_norm_group(w, b, end, &c, &g)) > 0;) {
            for (; c < end; c++) {
                int64_t channel = b->group * p->c + b->c + c;
                double gamma = ckci_param(p, w->args->gamma, b->n, channel, 1), sums[2];
                sums[0] = ckci_norm_total(w, b, c, 0) * b->inv_std[g];
                sums[1] = ckci_norm_total(w, b, c, 1);
                b->b[g] += sums[0] * gamma;
                b->a[g] += sums[1] * gamma;
                if (w->sums) {
                    memcpy(w->sums + 2 * (b->n * p->g * p->c + channel), sums, sizeof sums);
                }
            }
        }
    }
}

CKCI_FN void ckci_norm_rows_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    ckci_norm_rows b;
    int64_t stat = (int64_t)ckci_size(p->stat);
    int forward = p->op == CKCONV_GROUPNORM_FWD;
    (void)scratch;
    b.n = item / w->blocks;
    b.group = item % w->blocks * w->groups;
    b.groups = ckci_min(w->groups, p->g - b.group);
    b.c = b.channels = 0;
    ckci_norm_row_statistics(w, &b);
    for (int64_t g = 0; g < b.groups && forward; g++) {
        int64_t entry = (b.n * p->g + b.group + g) * stat;
        if (w->args->mean) {
            ckci_store(p->stat, (unsigned char *)w->args->mean + entry, b.mean[g]);
        }
        if (w->args->inv_std) {
            ckci_store(p->stat, (unsigned char *)w->args->inv_std + entry, b.inv_std[g]);
        }
    }
    if (!forward) {
        ckci_norm_gradient_sums(w, &b);
    }
    while ((forward || w->args->din) && ckci_norm_next(w, &b)) {
        ckci_norm_set(w, &b);
        ckci_norm_walk(w, &b, forward ? NULL : &p->out, forward ? &p->out : &p->din);
    }
}

CKCI_FN int64_t ckci_norm_bytes(const ckci_groupnorm *p)
{
    if (p->op == CKCONV_GROUPNORM_FWD) {
        return 0;
    }
    return ckci_saturating_mul(ckci_saturating_mul(p->n * p->g, p->c), 16);
}

CKCI_FN ckconv_status ckci_fit_norm(ckci_fit *f, ckconv_error *err)
{
    const ckci_groupnorm *p = &f->p->norm;
    int64_t bytes = ckci_norm_bytes(p);
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: group norms do not split",
                         (int)f->split_k);
    }
    f->plan->workspace_bytes = bytes <= f->limit && bytes < CKCI_MAX_BYTES ? bytes : 0;
    f->plan->grid[0] = p->n * p->g;
    f->plan->launches = p->op == CKCONV_GROUPNORM_FWD ? 1 : 2;
    f->cost = 8 * (double)ckci_count(&p->in);
    return CKCONV_OK;
}

CKCI_FN void ckci_run_norm(const ckconv_plan *plan, const ckci_problem *problem, const ckconv_args *args,
                           unsigned char *ws, int32_t features)
{
    ckci_norm_work w;
    ckci_groupnorm p = ckci_flatten_norm(&problem->norm);
    int32_t threads = plan->device.threads;
    int params = args->dgamma || args->dbeta;
    memset(&w, 0, sizeof w);
    w.p = &p;
    w.args = args;
    /* the instance needs no features and takes those that there are */
    features = plan->device.features;
    int rows = ckci_norm_takes_rows(&w, features, threads);
    if (p.op == CKCONV_GROUPNORM_FWD && rows) {
        ckci_parallel(threads, p.n * w.blocks, ckci_norm_rows_item, &w, ws, 0);
        return;
    }
    if (p.op == CKCONV_GROUPNORM_FWD) {
        ckci_parallel(threads, p.n * p.g, ckci_norm_fwd_item, &w, ws, 0);
        return;
    }
    if (ws && params) {
        w.sums = (double *)(void *)ws;
    }
    if (rows && (args->din || w.sums)) {
        ckci_parallel(threads, p.n * w.blocks, ckci_norm_rows_item, &w, ws, 0);
    } else if (args->din || w.sums) {
        ckci_parallel(threads, p.n * p.g, ckci_norm_bwd_item, &w, ws, 0);
    }
    if (w.sums) {
        ckci_parallel(threads, ckci_ceil_div(ckci_param_count(&p), 64), ckci_norm_sum_item, &w, ws, 0);
    } else if (params) {
        const int64_t entries = p.param_step > 0 ? p.n : 1, blocks = ckci_ceil_div(p.c, CKCI_NORM_TILE);
        ckci_parallel(threads, entries * p.g * blocks, ckci_norm_param_item, &w, ws, 0);
    }
}
