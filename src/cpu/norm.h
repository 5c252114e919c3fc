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
#include "cpu/isa.h"

enum { CKCI_NORM_TILE = CKCI_STACK / 64 };

/* Rows that lie side by side, of channels or of positions, go through vectors of doubles instead. A slab's
   statistics are then one pass over x - shift, shift being one of its values: at most sqrt(numbers) standard
   deviations off, which costs half the digits of the count, and doubles have them. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)
#define CKCI_NORM_ROWS 1
#else
#define CKCI_NORM_ROWS 0
#endif

enum { CKCI_NORM_WIDTH = CKCI_STACK / 256, CKCI_NORM_BATCH = 4 };

/* sums[c] += u, sums[width + c] += v over rows: (u, v) = (x - shift, its square) or (dy * (x - shift), dy) */
typedef void (*ckci_norm_sum_kernel)(int64_t rows, int64_t width, const float *x, int64_t x_step,
                                     const float *dy, int64_t dy_step, const double *shift, double *sums);
/* out = ((x - shift) * kx + (dy * kd + k0)) * ks, factors for each channel; without a dy of its own no
   dy * kd. A gradient that cancels does so in the inner sum. */
typedef void (*ckci_norm_map_kernel)(int64_t rows, int64_t width, const float *x, int64_t x_step,
                                     const float *dy, int64_t dy_step, const double *shift, const double *kx,
                                     const double *kd, const double *k0, const double *ks, float *out,
                                     int64_t out_step);

/* v = (x - shift) * k + b; out = act(v), or if dy is another row dy * act'(v) */
typedef void (*ckci_norm_act_kernel)(int64_t rows, int64_t width, const float *x, int64_t x_step,
                                     const float *dy, int64_t dy_step, const double *shift, const double *k,
                                     const double *b, int silu, float *out, int64_t out_step);

#if CKCI_NORM_ROWS
typedef int64_t ckci_i8x8 __attribute__((vector_size(64)));
typedef int32_t ckci_i4x8 __attribute__((vector_size(32)));
typedef double ckci_d8 __attribute__((vector_size(64)));
typedef float ckci_f8 __attribute__((vector_size(32)));

#define CKCI_NORM_DOUBLES(v, p)                                                                              \
    ckci_d8 v;                                                                                               \
    {                                                                                                        \
        ckci_f8 narrow;                                                                                      \
        memcpy(&narrow, p, sizeof narrow);                                                                   \
        v = __builtin_convertvector(narrow, ckci_d8);                                                        \
    }
#define CKCI_NORM_SUMS(NAME)                                                                                 \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const float *x, int64_t x_step,               \
                                  const float *dy, int64_t dy_step, const double *shift, double *sums)       \
    {                                                                                                        \
        int64_t c = 0;                                                                                       \
        for (; c + 8 <= width; c += 8) {                                                                     \
            ckci_d8 s, u, v;                                                                                 \
            memcpy(&s, shift + c, sizeof s);                                                                 \
            memcpy(&u, sums + c, sizeof u);                                                                  \
            memcpy(&v, sums + width + c, sizeof v);                                                          \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                CKCI_NORM_DOUBLES(a, x + r * x_step + c)                                                     \
                CKCI_NORM_DOUBLES(b, dy + r * dy_step + c)                                                   \
                a -= s;                                                                                      \
                u += dy == x ? a : a * b;                                                                    \
                v += dy == x ? a * a : b;                                                                    \
            }                                                                                                \
            memcpy(sums + c, &u, sizeof u);                                                                  \
            memcpy(sums + width + c, &v, sizeof v);                                                          \
        }                                                                                                    \
        for (; c < width; c++) {                                                                             \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                double a = (double)x[r * x_step + c] - shift[c], b = (double)dy[r * dy_step + c];            \
                sums[c] += dy == x ? a : a * b;                                                              \
                sums[width + c] += dy == x ? a * a : b;                                                      \
            }                                                                                                \
        }                                                                                                    \
    }
#define CKCI_NORM_MAP(NAME)                                                                                  \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const float *x, int64_t x_step,               \
                                  const float *dy, int64_t dy_step, const double *shift, const double *kx,   \
                                  const double *kd, const double *k0, const double *ks, float *out,          \
                                  int64_t out_step)                                                          \
    {                                                                                                        \
        int64_t c = 0;                                                                                       \
        for (; c + 8 <= width; c += 8) {                                                                     \
            ckci_d8 s, fx, fd, f0, fs;                                                                       \
            memcpy(&s, shift + c, sizeof s);                                                                 \
            memcpy(&fx, kx + c, sizeof fx);                                                                  \
            memcpy(&fd, kd + c, sizeof fd);                                                                  \
            memcpy(&f0, k0 + c, sizeof f0);                                                                  \
            memcpy(&fs, ks + c, sizeof fs);                                                                  \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                CKCI_NORM_DOUBLES(a, x + r * x_step + c)                                                     \
                ckci_d8 t = f0;                                                                              \
                if (dy != x) {                                                                               \
                    CKCI_NORM_DOUBLES(b, dy + r * dy_step + c)                                               \
                    t += b * fd;                                                                             \
                }                                                                                            \
                ckci_f8 y = __builtin_convertvector(((a - s) * fx + t) * fs, ckci_f8);                       \
                memcpy(out + r * out_step + c, &y, sizeof y);                                                \
            }                                                                                                \
        }                                                                                                    \
        for (; c < width; c++) {                                                                             \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                double t = k0[c] + (dy != x ? (double)dy[r * dy_step + c] * kd[c] : 0);                      \
                double a = ((double)x[r * x_step + c] - shift[c]) * kx[c] + t;                               \
                out[r * out_step + c] = (float)(a * ks[c]);                                                  \
            }                                                                                                \
        }                                                                                                    \
    }
/* exp(-v) = 2^n * exp(r), |r| <= ln(2) / 2, by the Taylor polynomial of degree 11: the next term is below
   1e-14 of it. |v| is cut at 700, where sigmoids are 0 or 1 to f32. NaN stays NaN: it is added. n comes from
   a conversion, and NaN from its bits: compilers that reassociate, or keep more digits (x87), would undo a
   sum with 1.5 * 2^52, which rounds as well; those that know of no NaN take v == v for true. */
#define CKCI_NORM_EXP(e, v)                                                                                  \
    ckci_d8 e;                                                                                               \
    {                                                                                                        \
        const ckci_i8x8 zeros = {0, 0, 0, 0, 0, 0, 0, 0}, sign = zeros + INT64_MIN;                          \
        const ckci_i8x8 most = (ckci_i8x8)((ckci_d8)zeros + 700.0);                                          \
        const ckci_i8x8 half = (ckci_i8x8)((ckci_d8)zeros + 0.5);                                            \
        const ckci_i8x8 infinity = zeros + ((int64_t)0x7ff << 52), u = (ckci_i8x8)(v) ^ sign;                \
        const ckci_i8x8 size = u & ~sign, over = size > most, not_number = size > infinity;                  \
        const ckci_d8 cut = (ckci_d8)((u & (sign | ~over)) | (most & over));                                 \
        const ckci_d8 powers = cut * 1.4426950408889634;                                                     \
        const ckci_i4x8 whole = __builtin_convertvector(powers + (ckci_d8)((u & sign) | half), ckci_i4x8);   \
        const ckci_i8x8 power = __builtin_convertvector(whole, ckci_i8x8) << 52;                             \
        const ckci_d8 n = __builtin_convertvector(whole, ckci_d8);                                           \
        ckci_d8 part = (cut - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;              \
        e = part * (1 / 39916800.0) + 1 / 3628800.0;                                                         \
        e = e * part + 1 / 362880.0;                                                                         \
        e = e * part + 1 / 40320.0;                                                                          \
        e = e * part + 1 / 5040.0;                                                                           \
        e = e * part + 1 / 720.0;                                                                            \
        e = e * part + 1 / 120.0;                                                                            \
        e = e * part + 1 / 24.0;                                                                             \
        e = e * part + 1 / 6.0;                                                                              \
        e = e * part + 0.5;                                                                                  \
        e = e * part + 1.0;                                                                                  \
        e = e * part + 1.0;                                                                                  \
        e = (ckci_d8)((ckci_i8x8)e + power) + (ckci_d8)(u & not_number);                                     \
    }
#define CKCI_NORM_ACT(NAME)                                                                                  \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const float *x, int64_t x_step,               \
                                  const float *dy, int64_t dy_step, const double *shift, const double *k,    \
                                  const double *b, int silu, float *out, int64_t out_step)                   \
    {                                                                                                        \
        for (int64_t c = 0; c < width; c += 8) {                                                             \
            size_t some = (size_t)(width - c < 8 ? width - c : 8) * sizeof(float);                           \
            ckci_d8 s, fk, fb;                                                                               \
            memcpy(&s, shift + c, sizeof s); /* these are arrays of whole vectors */                         \
            memcpy(&fk, k + c, sizeof fk);                                                                   \
            memcpy(&fb, b + c, sizeof fb);                                                                   \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                ckci_f8 in = {0, 0, 0, 0, 0, 0, 0, 0}, by = in;                                              \
                if (some == sizeof in) {                                                                     \
                    memcpy(&in, x + r * x_step + c, sizeof in);                                              \
                    memcpy(&by, dy + r * dy_step + c, sizeof by);                                            \
                } else {                                                                                     \
                    memcpy(&in, x + r * x_step + c, some);                                                   \
                    memcpy(&by, dy + r * dy_step + c, some);                                                 \
                }                                                                                            \
                ckci_d8 v = (__builtin_convertvector(in, ckci_d8) - s) * fk + fb;                            \
                CKCI_NORM_EXP(e, v)                                                                          \
                ckci_d8 sigmoid = 1.0 / (1.0 + e), y = silu ? v * sigmoid : sigmoid;                         \
                if (dy != x) {                                                                               \
                    y = sigmoid * (1.0 - sigmoid);                                                           \
                    y = (silu ? sigmoid + v * y : y) * __builtin_convertvector(by, ckci_d8);                 \
                }                                                                                            \
                ckci_f8 narrow = __builtin_convertvector(y, ckci_f8);                                        \
                memcpy(out + r * out_step + c, &narrow, some);                                               \
            }                                                                                                \
        }                                                                                                    \
    }
#define CKCI_TARGET
CKCI_NORM_SUMS(ckci_norm_sums_portable)
CKCI_NORM_MAP(ckci_norm_map_portable)
CKCI_NORM_ACT(ckci_norm_act_portable)
#undef CKCI_TARGET
#if CKCI_X86
#define CKCI_TARGET __attribute__((target("avx2,fma")))
CKCI_NORM_SUMS(ckci_norm_sums_avx2)
CKCI_NORM_MAP(ckci_norm_map_avx2)
CKCI_NORM_ACT(ckci_norm_act_avx2)
#undef CKCI_TARGET
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
CKCI_NORM_SUMS(ckci_norm_sums_avx512)
CKCI_NORM_MAP(ckci_norm_map_avx512)
CKCI_NORM_ACT(ckci_norm_act_avx512)
#undef CKCI_TARGET
#endif
#endif

typedef struct ckci_norm_work {
    const ckci_groupnorm *p;
    const ckconv_args *args;
    double *sums; /* [n][g * c][2]: dgamma and dbeta of each n; NULL without workspace */
    /* rows: groups of an item, items of an entry; flat: of positions, else of channels */
    int64_t groups, blocks;
    int flat;
    const ckci_kernels *k;
    ckci_norm_sum_kernel sum;
    ckci_norm_map_kernel map;
    ckci_norm_act_kernel act;
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
CKCI_FN void ckci_tile_params(const ckci_norm_work *w, const ckci_norm_tile *t, int64_t g, double *gamma,
                              double *beta)
{
    for (int64_t c = 0; c < t->channels; c++) {
        int64_t channel = g * w->p->c + t->c + c;
        gamma[c] = ckci_param(w->p, w->args->gamma, channel, 1);
        beta[c] = ckci_param(w->p, w->args->beta, channel, 0);
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
            ckci_tile_params(w, &t, g, gamma, beta);
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
        dy[i] *= ckci_act_slope(p->act, xhat[i] * gamma[c] + beta[c]);
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
            ckci_tile_params(w, &t, g, gamma, beta);
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
            ckci_tile_params(w, &t, g, gamma, beta);
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

CKCI_FN void ckci_store_params(const ckci_norm_work *w, int64_t channel, const double *sum)
{
    int64_t at = channel * (int64_t)ckci_size(w->p->param);
    if (w->args->dgamma) {
        ckci_store(w->p->param, (unsigned char *)w->args->dgamma + at, sum[0]);
    }
    if (w->args->dbeta) {
        ckci_store(w->p->param, (unsigned char *)w->args->dbeta + at, sum[1]);
    }
}

/* dgamma and dbeta of 64 channels from the sums of each n, in order */
CKCI_FN void ckci_norm_sum_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    int64_t all = w->p->g * w->p->c;
    (void)scratch;
    for (int64_t channel = item * 64; channel < ckci_min(all, item * 64 + 64); channel++) {
        double sum[2] = {0, 0};
        for (int64_t n = 0; n < w->p->n; n++) {
            sum[0] += w->sums[2 * (n * all + channel)];
            sum[1] += w->sums[2 * (n * all + channel) + 1];
        }
        ckci_store_params(w, channel, sum);
    }
}

/* The same without workspace: one item owns up to a tile's width of channels of one group. */
CKCI_FN void ckci_norm_param_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double xhat[CKCI_NORM_TILE], dy[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE];
    double sums[2 * CKCI_NORM_TILE], inv_std;
    ckci_mean mean;
    int64_t blocks = ckci_ceil_div(p->c, CKCI_NORM_TILE), g = item / blocks,
            c0 = item % blocks * CKCI_NORM_TILE;
    int64_t c1 = ckci_min(p->c, c0 + CKCI_NORM_TILE);
    (void)scratch;
    memset(sums, 0, sizeof sums);
    for (int64_t n = 0; n < p->n; n++) {
        ckci_norm_tile t;
        ckci_slab_statistics(w, n, g, &mean, &inv_std);
        for (int more = ckci_next_tile(p, c0, c1, &t, 1); more; more = ckci_next_tile(p, c0, c1, &t, 0)) {
            ckci_tile_params(w, &t, g, gamma, beta);
            ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
            ckci_add_tile(&t, xhat, dy, sums + 2 * (t.c - c0));
        }
    }
    for (int64_t c = c0; c < c1; c++) {
        ckci_store_params(w, g * p->c + c, sums + 2 * (c - c0));
    }
}

/* ---- The same for rows. An item is one or several groups of an entry, in blocks: some channels, each a
   column of the rows, or (flat) one channel, whose positions the columns are. */

/* Can t be walked in rows of channels, or flat of positions? */
CKCI_FN int ckci_norm_row(const ckci_groupnorm *p, const ckci_tensor *t, int flat)
{
    return (t->dtype == CKCONV_F32 || t->dtype == CKCONV_BF16 || t->dtype == CKCONV_F16) &&
           (flat ? t->stride[5] == 1 || t->len[5] == 1 : t->stride[2] == 1 || p->c == 1) &&
           (uintptr_t)t->p % ckci_size(t->dtype) == 0;
}

/* Whether rows are walked, and by which kernels. */
CKCI_FN int ckci_norm_takes_rows(ckci_norm_work *w, int32_t features, int32_t threads)
{
#if CKCI_NORM_ROWS
    const ckci_groupnorm *p = w->p;
    const ckci_tensor *t[3];
    int count = p->op == CKCONV_GROUPNORM_BWD && w->args->din ? 3 : 2, takes[2] = {1, 1}, beside = 1;
    t[0] = &p->in;
    t[1] = &p->out;
    t[2] = &p->din;
    for (int i = 0; i < count; i++) {
        takes[0] = takes[0] && ckci_norm_row(p, t[i], 0);
        takes[1] = takes[1] && ckci_norm_row(p, t[i], 1);
        beside = beside && t[i]->stride[0] == p->c;
    }
    if (p->stat == CKCONV_F64 || (!takes[0] && !takes[1])) {
        return 0;
    }
    /* short rows of channels are worth less than long ones of positions */
    w->flat = takes[1] && (!takes[0] || (!beside && p->c < 8));
    w->groups = w->flat || !beside ? 1 : ckci_max(ckci_min(p->g, CKCI_NORM_WIDTH / p->c), 1);
    while (w->groups > 1 && w->groups * p->c > 32 && p->n * ckci_ceil_div(p->g, w->groups) < 4 * threads) {
        w->groups = ckci_ceil_div(w->groups, 2);
    }
    w->groups = ckci_ceil_div(p->g, ckci_ceil_div(p->g, w->groups)); /* even shares */
    w->blocks = ckci_ceil_div(p->g, w->groups);
    w->k = ckci_find_kernels(features, CKCONV_F32);
    w->sum = ckci_norm_sums_portable;
    w->map = ckci_norm_map_portable;
    w->act = ckci_norm_act_portable;
#if CKCI_X86
    if (features & CKCONV_CPU_AVX512) {
        w->sum = ckci_norm_sums_avx512;
        w->map = ckci_norm_map_avx512;
        w->act = ckci_norm_act_avx512;
    } else if (features & CKCONV_CPU_AVX2) {
        w->sum = ckci_norm_sums_avx2;
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
    double shift[CKCI_NORM_WIDTH], kx[CKCI_NORM_WIDTH], kd[CKCI_NORM_WIDTH], k0[CKCI_NORM_WIDTH];
    double ks[CKCI_NORM_WIDTH], kv[CKCI_NORM_WIDTH], kb[CKCI_NORM_WIDTH]; /* before the activation */
    double sums[2 * CKCI_NORM_WIDTH], tail[2 * CKCI_NORM_WIDTH]; /* tail: columns of a last, short row */
    double mean[CKCI_NORM_WIDTH], inv_std[CKCI_NORM_WIDTH];      /* of each group */
    double a[CKCI_NORM_WIDTH], b[CKCI_NORM_WIDTH];
} ckci_norm_rows;

/* column[] of channel c of the block */
CKCI_INLINE void ckci_norm_set(const ckci_norm_work *w, double *column, int64_t c, double value)
{
    for (int64_t i = w->flat ? 0 : c; i < (w->flat ? (int64_t)CKCI_NORM_WIDTH : c + 1); i++) {
        column[i] = value;
    }
}

/* The next block of channels; 0 at the end. Start with channels = c = 0. */
CKCI_FN int ckci_norm_next(const ckci_norm_work *w, ckci_norm_rows *b)
{
    int64_t most = w->flat ? 1 : CKCI_NORM_WIDTH;
    b->c += b->channels;
    b->channels = ckci_min(b->groups * w->p->c - b->c, most);
    if (b->channels <= 0) {
        b->c = b->channels = 0;
        return 0;
    }
    return 1;
}

/* `rows` rows of t as floats: in place, or in buffer. */
CKCI_FN const float *ckci_norm_load(const ckci_norm_work *w, const ckci_tensor *t, int64_t at, int64_t rows,
                                    int64_t width, float *buffer, int64_t *step)
{
    if (t->dtype == CKCONV_F32) {
        return (const float *)(const void *)(t->p + at * 4);
    }
    (t->dtype == CKCONV_F16 ? w->k->widen16 : w->k->widen)(rows, width, t->p + at * 2, *step, buffer,
                                                           CKCI_NORM_WIDTH);
    *step = CKCI_NORM_WIDTH;
    return buffer;
}

/* Some rows, at[] and step[] apart in x, dy and out. dy, out: may be NULL; without out they are summed. */
CKCI_FN void ckci_norm_piece(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy,
                             const ckci_tensor *out, const int64_t at[3], int64_t step[3], int64_t rows,
                             int64_t width, double *sums)
{
    float buffer[3][CKCI_NORM_BATCH * CKCI_NORM_WIDTH];
    const float *from = ckci_norm_load(w, &w->p->in, at[0], rows, width, buffer[0], &step[0]), *by = from;
    int act = w->p->act != CKCONV_PASS, silu = w->p->act == CKCONV_SILU;
    if (!dy) {
        step[1] = step[0];
    } else {
        by = ckci_norm_load(w, dy, at[1], rows, width, buffer[1], &step[1]);
        if (by == from) { /* the caller's dy may be x; the kernels know a single tensor by that */
            w->k->copy(rows, width, by, step[1], buffer[1], CKCI_NORM_WIDTH);
            by = buffer[1];
            step[1] = CKCI_NORM_WIDTH;
        }
    }
    if (dy && act) {
        w->act(rows, width, from, step[0], by, step[1], b->shift, b->kv, b->kb, silu, buffer[1],
               CKCI_NORM_WIDTH);
        by = buffer[1];
        step[1] = CKCI_NORM_WIDTH;
    }
    if (!out) {
        w->sum(rows, width, from, step[0], by, step[1], b->shift, sums);
        return;
    }
    int half = out->dtype != CKCONV_F32;
    float *to = half ? buffer[2] : (float *)(void *)(out->p + at[2] * 4);
    int64_t to_step = half ? (int64_t)CKCI_NORM_WIDTH : step[2];
    if (act && !dy) {
        w->act(rows, width, from, step[0], by, step[1], b->shift, b->kv, b->kb, silu, to, to_step);
    } else {
        w->map(rows, width, from, step[0], by, step[1], b->shift, b->kx, b->kd, b->k0, b->ks, to, to_step);
    }
    if (half) {
        (out->dtype == CKCONV_F16 ? w->k->narrow16 : w->k->narrow)(rows, width, to, to_step,
                                                                   out->p + at[2] * 2, step[2]);
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

/* One walk over the rows of a block. */
CKCI_FN void ckci_norm_walk(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy,
                            const ckci_tensor *out)
{
    const int64_t wide = CKCI_NORM_WIDTH, *len = w->p->in.len;
    const ckci_tensor *all[3];
    all[0] = &w->p->in;
    all[1] = dy;
    all[2] = out;
    for (int64_t line = 0; line < len[3] * len[4]; line++) {
        int64_t z = line / len[4], y = line % len[4], positions = len[5];
        for (int64_t i = 0, some; i < positions; i += some) {
            int64_t at[3], step[3], rest = positions - i, rows = ckci_min(rest, CKCI_NORM_BATCH), width;
            if (w->flat) { /* whole rows, then a short one */
                width = ckci_min(rest, wide);
                rows = ckci_max(ckci_min(rest / wide, CKCI_NORM_BATCH), 1);
            } else {
                width = b->channels;
            }
            some = w->flat ? rows * width : rows;
            for (int j = 0; j < 3; j++) {
                const ckci_tensor *t = all[j] ? all[j] : all[0];
                at[j] = b->n * t->stride[1] + b->group * t->stride[0] + b->c * t->stride[2] +
                        z * t->stride[3] + y * t->stride[4] + i * t->stride[5];
                step[j] = w->flat ? wide : t->stride[5];
                if (all[j] && !w->flat) {
                    ckci_norm_ahead(t, at[j] + 2 * rows * step[j], step[j], rows, width);
                }
            }
            ckci_norm_piece(w, b, dy, out, at, step, rows, width,
                            w->flat && width < wide ? b->tail : b->sums);
        }
    }
}

/* Sums of a walk for channel c of the block: of u, and of v if it is the second */
CKCI_FN double ckci_norm_total(const ckci_norm_work *w, const ckci_norm_rows *b, int64_t c, int second)
{
    if (!w->flat) {
        return b->sums[second * b->channels + c];
    }
    double total = 0;
    int64_t last = w->p->in.len[5] % CKCI_NORM_WIDTH;
    for (int64_t i = 0; i < CKCI_NORM_WIDTH; i++) {
        total += b->sums[second * CKCI_NORM_WIDTH + i];
    }
    for (int64_t i = 0; i < last; i++) {
        total += b->tail[second * last + i];
    }
    return total;
}

CKCI_FN void ckci_norm_sum(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy)
{
    memset(b->sums, 0, sizeof b->sums);
    memset(b->tail, 0, sizeof b->tail);
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
        for (int64_t c = 0; c < b->channels; c++) {
            ckci_norm_set(w, b->shift, c, shift[(b->c + c) / p->c]);
        }
        ckci_norm_sum(w, b, NULL);
        for (int64_t c = 0; c < b->channels; c++) {
            u[(b->c + c) / p->c] += ckci_norm_total(w, b, c, 0);
            v[(b->c + c) / p->c] += ckci_norm_total(w, b, c, 1);
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

/* The block's columns that are known from the statistics. */
CKCI_FN void ckci_norm_columns(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    double count = (double)p->c * (double)p->space;
    for (int64_t c = 0; c < b->channels; c++) {
        int64_t g = (b->c + c) / p->c, channel = b->group * p->c + b->c + c;
        double gamma = ckci_param(p, w->args->gamma, channel, 1), inv_std = b->inv_std[g];
        double beta = ckci_param(p, w->args->beta, channel, 0);
        int forward = p->op == CKCONV_GROUPNORM_FWD;
        ckci_norm_set(w, b->shift, c, b->mean[g]);
        ckci_norm_set(w, b->kv, c, inv_std * gamma);
        ckci_norm_set(w, b->kb, c, beta);
        ckci_norm_set(w, b->kd, c, forward ? 0 : gamma);
        ckci_norm_set(w, b->kx, c, forward ? inv_std * gamma : -inv_std * b->b[g] / count);
        ckci_norm_set(w, b->k0, c, forward ? beta : -b->a[g] / count);
        ckci_norm_set(w, b->ks, c, forward ? 1 : inv_std);
    }
}

/* Sums of dx, dgamma and dbeta: a, b of each group. */
CKCI_FN void ckci_norm_gradient_sums(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    memset(b->a, 0, sizeof b->a);
    memset(b->b, 0, sizeof b->b);
    while (ckci_norm_next(w, b)) {
        ckci_norm_columns(w, b);
        ckci_norm_sum(w, b, &p->out);
        for (int64_t c = 0; c < b->channels; c++) {
            int64_t g = (b->c + c) / p->c, channel = b->group * p->c + b->c + c;
            double gamma = ckci_param(p, w->args->gamma, channel, 1), sums[2];
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
        ckci_norm_columns(w, &b);
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
    features = plan->device.features & ckci_cpu_features();
    int rows = ckci_norm_takes_rows(&w, features, threads);
    if (p.op == CKCONV_GROUPNORM_FWD && rows) {
        ckci_parallel(threads, p.n * w.blocks, ckci_norm_rows_item, &w, ws, 0);
        return;
    }
    if (p.op == CKCONV_GROUPNORM_FWD) {
        ckci_parallel(threads, p.n * p.g, ckci_norm_fwd_item, &w, ws, 0);
        return;
    }
    if (plan->workspace_bytes > 0 && params) {
        w.sums = (double *)(void *)ws;
    }
    if (rows && (args->din || w.sums)) {
        ckci_parallel(threads, p.n * w.blocks, ckci_norm_rows_item, &w, ws, 0);
    } else if (args->din || w.sums) {
        ckci_parallel(threads, p.n * p.g, ckci_norm_bwd_item, &w, ws, 0);
    }
    if (w.sums) {
        ckci_parallel(threads, ckci_ceil_div(p.g * p.c, 64), ckci_norm_sum_item, &w, ws, 0);
    } else if (params) {
        ckci_parallel(threads, p.g * ckci_ceil_div(p.c, CKCI_NORM_TILE), ckci_norm_param_item, &w, ws, 0);
    }
}
