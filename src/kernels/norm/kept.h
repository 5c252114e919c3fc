/*------------------------------------------------------------------------------------------------------------
  >>k-norm-kept
  y and dx where a slab stays in LDS, of one block or of a cluster's: memory is read once. Blocks of a cluster
  (NVIDIA) leave statistics and sums in workspace for each other; a block owns what it has read. Loads are all
  under way before the first is waited for, and a thread reads its own only, so that copies need no barrier.
*/
#pragma once
#include "kernels/norm/kernels.h"

/* y where channels come first and a slab fits into LDS, or into that of a cluster's blocks (parts), which
   leave statistics in workspace for each other: x is read once. All copies are under way before the first one
   is waited for; a thread reads its own only. */
template <bool JOINED> struct ckci_k_norm_kept {
    struct lds {
        ckci_k_norm_lds<float> m;
        ckci_k_uint4 kept[CKCI_NORM_KEPT / 16];
    };

    static_assert(sizeof(lds) == CKCI_NORM_KEPT_LDS, "the planner's figure");

    static CKCI_K_MEMBER void fill(const ckci_gpu_norm &p, const ckci_k_kept_slab &s)
    {
        const int32_t step = p.lanes_p * 8;
        ckci_k_norm_cursor<true> x(p, p.x, s), to = ckci_k_norm_x<true>(p, s);
        for (int32_t left = s.active ? ckci_k_norm_columns_of<true>(p, s) : 0; left > 0; left--) {
            for (int32_t rest = s.to - x.pos; rest > 0; rest -= step) {
                ckci_k_norm_copy8<true>(p, p.x.dtype, (ckci_k_uint4 *)to.at, x.at, rest);
                x.at += x.step;
                to.at += to.step;
            }
            x.next_column();
            to.next_column();
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &l)
    {
        ckci_k_kept_slab s;
        (ckci_k_slab &)s = ckci_k_find_cluster_slab(p);
        s.places = ckci_k_norm_places_of<true>(p, s, s.from + s.lp * 8);
        s.x = (unsigned char *)l.kept;
        fill(p, s);
        ckci_k_norm_fwd<float, CKCI_K_NORM_PLANES, JOINED>::finish(p, s, l.m);
    }
};

/* Not for AMD: in 64 KiB of LDS, which most of its targets have, only small slabs would stay. */
struct ckci_k_norm_kept_none {
    struct lds {
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &, lds &)
    {
    }
};

struct ckci_k_norm_fwd_kept : ckci_k_by_vendor<ckci_k_norm_kept<false>, ckci_k_norm_kept_none> {
};
struct ckci_k_norm_fwd_kept_joined : ckci_k_by_vendor<ckci_k_norm_kept<true>, ckci_k_norm_kept_none> {
};

/* dx where x and dy of a slab stay in LDS, or in that of a cluster's blocks (parts), which leave their sums
   in workspace for each other: both are read once. Statistics are saved ones. In LDS, eights of x, then of dy
   lie one after the other: rows of channels (PLANES), else rows of positions. A thread walks whole columns,
   or eight of them, place after place. What lies past LDS, the last places, is read again, first. */
template <bool PLANES> struct ckci_k_norm_bwd_kept_by {
    enum { N = PLANES ? 1 : 8, SECOND = 1024, GAMMA = 768, BETA = SECOND + GAMMA }; /* cells */

    struct lds {
        /* two sums: PLANES, of channels by waves; of channels; gamma and beta lie behind. Else one sum of
           eight of each thread, over all of this, and then these again */
        float cell[8 * 256];
        float hi[CKCI_NORM_BACK_SET], r[CKCI_NORM_BACK_SET];
        float mean[2][CKCI_NORM_BACK_SET]; /* level and slope; before these [0] what center finds */
        ckci_k_arrival arrival;
        ckci_k_uint4 kept[CKCI_NORM_BACK / 16];
    };

    static_assert(sizeof(lds) == CKCI_NORM_BACK_LDS, "the planner's figure");

    /* Vectors in eight numbers, and eights of a tensor that are kept. */
    template <int TYPE> struct fit {
        enum { VECTORS = TYPE == CKCONV_F32 ? 2 : 1, EIGHTS = CKCI_NORM_BACK / (32 * VECTORS) };
    };

    /* Columns of this thread, its places in one of them; eights: its first one, from a place to the next, and
       from a column. */
    struct mine {
        int32_t columns, places, first, step, apart;

        CKCI_K_MEMBER mine(const ckci_gpu_norm &p, const ckci_k_slab &s)
        {
            columns = !s.active ? 0 : PLANES ? ckci_k_norm_columns_of<PLANES>(p, s) : s.lc * 8 < s.columns;
            places = ckci_k_norm_places_of<PLANES>(p, s, s.from + s.lp * (PLANES ? 8 : 1));
            first = PLANES ? s.lc * (p.part / 8) + s.lp : s.lp * p.lanes_c + s.lc;
            step = p.lanes_p * (PLANES ? 1 : p.lanes_c);
            apart = p.lanes_c * (p.part / 8);
        }
    };

    template <int TYPE> static CKCI_K_MEMBER ckci_k_uint4 *kept(lds &m, int32_t e)
    {
        return m.kept + e * fit<TYPE>::VECTORS;
    }

    /* The same of p.x.dtype, outside of the loops that compute. */
    static CKCI_K_MEMBER int32_t vectors(const ckci_gpu_norm &p)
    {
        return p.x.dtype == CKCONV_F32 ? 2 : 1;
    }
    static CKCI_K_MEMBER int32_t eights(const ckci_gpu_norm &p)
    {
        return p.x.dtype == CKCONV_F32 ? (int32_t)fit<CKCONV_F32>::EIGHTS : (int32_t)fit<CKCONV_F16>::EIGHTS;
    }

    /* PLANES: rows, each by a bulk copy. */
    static CKCI_K_MEMBER void fill_rows(const ckci_gpu_norm &p, const ckci_k_slab &s, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, most = eights(p), each = vectors(p), size = 2 * each;
        const int32_t row = (s.to - s.from) / 8;
        if (t == 0) {
            const int32_t fits = row > most ? 0 : (most - row) / (p.part / 8) + 1;
            const int32_t whole = fits < s.columns ? fits : s.columns, rest = most - whole * (p.part / 8);
            const int32_t all = whole * row + (whole < s.columns && rest > 0 ? rest < row ? rest : row : 0);
            ckci_k_arrival_begin(&m.arrival, 2 * all * 16 * each);
        }
        __syncthreads();
        const int64_t apart_x = p.x.stride[2] * size, apart_dy = p.y.stride[2] * size;
        const unsigned char *x = p.x.p + (ckci_k_norm_base(p.x, s, 0, 0) + s.from * p.x.stride[5]) * size;
        const unsigned char *dy = p.y.p + (ckci_k_norm_base(p.y, s, 0, 0) + s.from * p.y.stride[5]) * size;
        for (int32_t i = t; i < s.columns && i * (p.part / 8) < most; i += 256) {
            const int32_t rest = most - i * (p.part / 8), bytes = (rest < row ? rest : row) * 16 * each;
            ckci_k_uint4 *to = m.kept + i * (p.part / 8) * each;
            ckci_k_copy_bulk(&m.arrival, to, x + i * apart_x, bytes);
            ckci_k_copy_bulk(&m.arrival, to + most * each, dy + i * apart_dy, bytes);
        }
    }

    /* Eight of x and of dy, of any type of that size. */
    template <int TYPE>
    static CKCI_K_MEMBER void copy(const ckci_gpu_norm &p, lds &m, int32_t e, const unsigned char *x,
                                   const unsigned char *dy, int32_t rest)
    {
        ckci_k_norm_copy8<PLANES>(p, TYPE, kept<TYPE>(m, e), x, rest);
        ckci_k_norm_copy8<PLANES>(p, TYPE, kept<TYPE>(m, fit<TYPE>::EIGHTS + e), dy, rest);
    }

    /* Each thread what it reads itself. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own, lds &m)
    {
        const int32_t step = p.lanes_p * (PLANES ? 8 : 1), most = eights(p);
        ckci_k_norm_cursor<PLANES> x(p, p.x, s), dy(p, p.y, s);
        for (int32_t k = 0; k < own.columns; k++) {
            int32_t rest = s.to - x.pos, e = own.first + k * own.apart;
            for (int32_t i = 0; i < own.places && e < most; i++, rest -= step, e += own.step) {
                if (p.x.dtype == CKCONV_F32) {
                    copy<CKCONV_F32>(p, m, e, x.at, dy.at, rest);
                } else {
                    copy<CKCONV_F16>(p, m, e, x.at, dy.at, rest);
                }
                x.at += x.step;
                dy.at += dy.step;
            }
            x.next_column();
            dy.next_column();
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
    }

    /* Eight of xhat and of dy': number e, place i of a column. */
    template <int TYPE>
    static CKCI_K_MEMBER void read(const ckci_gpu_norm &p, const ckci_k_norm_channels<N> &c, lds &m,
                                   int32_t e, int32_t i, const ckci_k_norm_cursor<PLANES> &x,
                                   const ckci_k_norm_cursor<PLANES> &dy, int32_t rest, ckci_k_float2 *v,
                                   ckci_k_float2 *w)
    {
        ckci_k_norm_raw raw[2];
        if (__builtin_expect(e < fit<TYPE>::EIGHTS, 1)) {
            const ckci_k_uint4 *from = kept<TYPE>(m, e), *from_dy = kept<TYPE>(m, fit<TYPE>::EIGHTS + e);
            raw[0].a = from[0];
            raw[1].a = from_dy[0];
            if (TYPE == CKCONV_F32) {
                raw[0].b = from[1];
                raw[1].b = from_dy[1];
            }
        } else {
            raw[0].template load<PLANES>(p, TYPE, x.column + i * x.step, rest);
            raw[1].template load<PLANES>(p, TYPE, dy.column + i * dy.step, rest);
        }
        raw[0].widen(TYPE, v);
        raw[1].widen(TYPE, w);
        ckci_k_norm_gradient8<PLANES, TYPE>(p, c, v, w);
    }

    /* Of a column, or of eight: gamma and beta, as every block has them in LDS. */
    static CKCI_K_MEMBER void factors(ckci_k_norm_channels<N> &c, const lds &m, int32_t column)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            c.gamma[i] = m.cell[GAMMA + column + i];
            c.shift[i] = m.cell[BETA + column + i];
        }
    }

    /* Mean and inverse deviation of the groups of these columns; or what dx takes of their sums. */
    static CKCI_K_MEMBER void groups(const ckci_gpu_norm &p, ckci_k_norm_channels<N> &c, const lds &m,
                                     int32_t column, bool means)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            if (means) {
                c.level[i] = m.mean[0][group];
                c.slope[i] = m.mean[1][group];
            } else {
                c.hi[i] = m.hi[group];
                c.r[i] = m.r[group];
            }
        }
    }

    /* Sums over neighbouring lanes, a power of two of them: all have them. */
    static CKCI_K_MEMBER void across(int32_t lanes, float &a, float &b)
    {
        for (int32_t mask = lanes / 2; mask > 0; mask /= 2) {
            a += ckci_k_shuffle_xor(a, mask);
            b += ckci_k_shuffle_xor(b, mask);
        }
    }

    /* This thread's sums of dy' and of dy'*xhat. PLANES: those of each column and wave go to the cells. */
    template <int TYPE>
    static CKCI_K_MEMBER void add(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own,
                                  ckci_k_norm_channels<N> &c, lds &m, ckci_k_float2 (&sum)[2][4])
    {
        const int32_t step = p.lanes_p * (PLANES ? 8 : 1), lanes = p.lanes_p < 32 ? p.lanes_p : 32;
        const int32_t waves = p.lanes_p > 32 ? p.lanes_p / 32 : 1;
        ckci_k_norm_cursor<PLANES> x(p, p.x, s), dy(p, p.y, s);
        for (int32_t k = 0; k < (PLANES ? p.chunks : 1); k++) { /* of all lanes, for the shuffles */
            const int32_t column = PLANES ? s.lc + k * p.lanes_c : s.lc * 8;
            const int32_t count = k < own.columns ? own.places : 0;
            int32_t rest = s.to - x.pos, e = own.first + k * own.apart;
            if (p.act != CKCONV_PASS && count > 0) {
                factors(c, m, column);
            }
            for (int32_t i = 0; i < count; i++, rest -= step, e += own.step) {
                ckci_k_float2 v[4], w[4];
                read<TYPE>(p, c, m, e, i, x, dy, rest, v, w);
                if (PLANES && __builtin_expect(rest < 8, 0)) {
                    ckci_k_norm_end(v, rest, 0);
                    ckci_k_norm_end(w, rest, 0);
                }
                CKCI_K_UNROLL(4)
                for (int f = 0; f < 4; f++) {
                    sum[0][f] = sum[0][f] + w[f];
                    sum[1][f] = w[f] * v[f] + sum[1][f];
                }
            }
            x.next_column();
            dy.next_column();
            if (PLANES) {
                float both[2];
                CKCI_K_UNROLL(2)
                for (int which = 0; which < 2; which++) {
                    ckci_k_float2 *four = sum[which];
                    const ckci_k_float2 two = (four[0] + four[1]) + (four[2] + four[3]), none = {0, 0};
                    both[which] = two.x + two.y;
                    four[0] = four[1] = four[2] = four[3] = none;
                }
                across(lanes, both[0], both[1]);
                if ((s.lp & 31) == 0 && column < s.columns) {
                    m.cell[column * waves + s.lp / 32] = both[0];
                    m.cell[SECOND + column * waves + s.lp / 32] = both[1];
                }
            }
        }
    }

    /* The block's sums of a channel; returns which one: some thread has each, the others none. */
    static CKCI_K_MEMBER int32_t gather(const ckci_gpu_norm &p, const ckci_k_slab &s, lds &m,
                                        const ckci_k_float2 (&sum)[2][4], float (&channel)[2])
    {
        const int32_t t = (int32_t)threadIdx.x, waves = p.lanes_p > 32 ? p.lanes_p / 32 : 1;
        channel[0] = channel[1] = 0;
        if (PLANES) {
            __syncthreads();
            for (int32_t i = 0; i < waves && t < s.columns; i++) {
                channel[0] += m.cell[t * waves + i];
                channel[1] += m.cell[SECOND + t * waves + i];
            }
            return t;
        }
        int32_t log = 0;
        while (p.lanes_c * 8 << (log + 1) <= 256 && log < 5) {
            log++;
        }
        const int32_t q = t >> log;
        float *cell = m.cell;
        CKCI_K_UNROLL(2)
        for (int which = 0; which < 2; which++) {
            __syncthreads();
            CKCI_K_UNROLL(4)
            for (int e = 0; e < 4; e++) {
                cell[2 * e * 256 + t] = sum[which][e].x;
                cell[(2 * e + 1) * 256 + t] = sum[which][e].y;
            }
            __syncthreads();
            const float *of = cell + q % 8 * 256 + q / 8;
            for (int32_t lane = t & ((1 << log) - 1); lane < p.lanes_p && q < s.columns; lane += 1 << log) {
                channel[which] += of[lane * p.lanes_c];
            }
        }
        across(1 << log, channel[0], channel[1]);
        return (t & ((1 << log) - 1)) == 0 ? q : p.set * p.c;
    }

    /* Sums of the groups, eight lanes each, over a cluster's blocks. */
    static CKCI_K_MEMBER void share(const ckci_gpu_norm &p, const ckci_k_slab &s, float (&of)[2])
    {
        const int32_t t = (int32_t)threadIdx.x, group = t >> 3, part = t & 7;
        across(8, of[0], of[1]);
        if (p.parts == 1) {
            return;
        }
        float *sums = (float *)p.slab_sums + ((int64_t)s.n * p.parts * p.g + s.g0 + group) * 2;
        if (group < s.groups && part == 0) {
            sums[(int64_t)s.part * p.g * 2] = of[0];
            sums[(int64_t)s.part * p.g * 2 + 1] = of[1];
        }
        ckci_k_cluster_barrier();
        of[0] = of[1] = 0;
        if (group < s.groups && part < p.parts) {
            of[0] = sums[(int64_t)part * p.g * 2];
            of[1] = sums[(int64_t)part * p.g * 2 + 1];
        }
        across(8, of[0], of[1]);
    }

    /* Of saved means that are too coarse: what their type does not hold, times r, into m.mean[0]. */
    static CKCI_K_MEMBER void center(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, step = p.lanes_p * (PLANES ? 8 : 1), each = vectors(p);
        ckci_k_norm_cursor<PLANES> x(p, p.x, s);
        ckci_k_norm_channels<N> c;
        ckci_k_float2 sum[2][4] = {};
        groups(p, c, m, PLANES ? 0 : s.lc * 8, false);
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < own.columns; k++) {
            int32_t rest = s.to - x.pos, e = own.first + k * own.apart;
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < own.places; i++, rest -= step, e += own.step) {
                ckci_k_norm_raw raw;
                ckci_k_float2 v[4];
                if (e < eights(p)) {
                    raw.a = m.kept[e * each];
                    raw.b = m.kept[e * each + each - 1];
                } else {
                    raw.template load<PLANES>(p, p.x.dtype, x.column + i * x.step, rest);
                }
                raw.widen(p.x.dtype, v);
                CKCI_K_UNROLL(4)
                for (int f = 0; f < 4; f++) {
                    v[f] = (v[f] - ckci_k_norm_two(c.hi, 2 * f)) * ckci_k_norm_two(c.r, 2 * f);
                }
                if (PLANES && rest < 8) {
                    ckci_k_norm_end(v, rest, 0);
                }
                CKCI_K_UNROLL(4)
                for (int f = 0; f < 4; f++) {
                    sum[0][f] = sum[0][f] + v[f];
                }
            }
            x.next_column();
        }
        float channel[2] = {0, 0};
        int32_t q = t, count = 8; /* PLANES: waves of a block, which has one group */
        if (PLANES) {
            const ckci_k_float2 two = (sum[0][0] + sum[0][1]) + (sum[0][2] + sum[0][3]);
            channel[0] = two.x + two.y;
            across(32, channel[0], channel[1]);
            q = t % 32 == 0 ? t / 32 : count;
        } else {
            q = gather(p, s, m, sum, channel);
            count = p.c;
        }
        __syncthreads();
        if (q < count * s.groups) {
            m.cell[q] = channel[0];
        }
        __syncthreads();
        float of[2] = {0, 0};
        const int32_t group = t >> 3;
        for (int32_t i = group * count + (t & 7); group < s.groups && i < (group + 1) * count; i += 8) {
            of[0] += m.cell[i];
        }
        share(p, s, of);
        if (group < s.groups && (t & 7) == 0) {
            m.mean[0][group] = of[0] / ((float)p.c * (float)p.space);
        }
        if (p.parts > 1) {
            ckci_k_cluster_barrier(); /* before these sums are overwritten */
        }
        __syncthreads();
    }

    /* What dx takes of the groups' sums; those of channels go to workspace. */
    static CKCI_K_MEMBER void level(const ckci_gpu_norm &p, const ckci_k_slab &s, lds &m, float gamma,
                                    float beta, int32_t q, float (&channel)[2])
    {
        const int32_t t = (int32_t)threadIdx.x;
        const int64_t channels = (int64_t)p.g * p.c, row = (int64_t)s.n * p.parts + s.part;
        __syncthreads(); /* the cells have been read */
        m.cell[GAMMA + t] = gamma;
        m.cell[BETA + t] = beta;
        __syncthreads();
        if (q < s.columns) {
            channel[1] -= m.mean[0][ckci_k_divide(q, p.by_c)] * channel[0];
            m.cell[q] = m.cell[GAMMA + q] * channel[0];
            m.cell[SECOND + q] = m.cell[GAMMA + q] * channel[1];
            if (p.sums) {
                float *sums = (float *)p.sums + row * channels + s.g0 * p.c + q;
                sums[0] = channel[0];
                sums[(int64_t)p.n * p.parts * channels] = channel[1];
            }
        }
        __syncthreads();
        /* eight lanes a group */
        float of[2] = {0, 0};
        const int32_t group = t >> 3;
        for (int32_t i = group * p.c + (t & 7); group < s.groups && i < (group + 1) * p.c; i += 8) {
            of[0] += m.cell[i];
            of[1] += m.cell[SECOND + i];
        }
        share(p, s, of);
        if (group < s.groups && (t & 7) == 0) {
            const float count = (float)p.c * (float)p.space;
            m.mean[1][group] = of[1] / count;
            m.mean[0][group] = of[0] / count - m.mean[0][group] * m.mean[1][group];
        }
        __syncthreads();
    }

    template <int TYPE>
    static CKCI_K_MEMBER void write(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own,
                                    ckci_k_norm_channels<N> &c, lds &m)
    {
        const int32_t step = p.lanes_p * (PLANES ? 8 : 1);
        ckci_k_norm_cursor<PLANES> x(p, p.x, s), dy(p, p.y, s), dx(p, p.dx, s);
        x.turn(own.columns, 1);
        dy.turn(own.columns, 1);
        dx.turn(own.columns, own.places);
        x.step = -x.step;
        dy.step = -dy.step;
        for (int32_t k = own.columns - 1; k >= 0; k--) {
            int32_t rest = s.to - x.pos - (own.places - 1) * step;
            int32_t e = own.first + k * own.apart + (own.places - 1) * own.step;
            factors(c, m, PLANES ? s.lc + k * p.lanes_c : s.lc * 8);
            for (int32_t i = own.places - 1; i >= 0; i--, rest += step, e -= own.step) {
                ckci_k_float2 v[4], w[4];
                read<TYPE>(p, c, m, e, i, x, dy, rest, v, w);
                ckci_k_norm_dx8(c, v, w);
                ckci_k_norm_store8<PLANES>(p, TYPE, dx.at, rest, w);
                dx.at += dx.step;
            }
            x.next_column();
            dy.next_column();
            dx.next_column();
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        const ckci_k_slab s = ckci_k_find_cluster_slab(p);
        const int32_t t = (int32_t)threadIdx.x, first = PLANES ? 0 : s.lc * 8;
        const mine own(p, s);
        /* of channel t and of group t; loaded before the copies, behind which they would wait */
        uint32_t bits[2] = {0, 0};
        float hi = 0, r = 0;
        if (t < s.columns) {
            bits[0] = ckci_k_norm_factor_bits(p, p.gamma, ckci_k_norm_entry(p, s) + t);
            bits[1] = ckci_k_norm_factor_bits(p, p.beta, ckci_k_norm_entry(p, s) + t);
        }
        if (t < s.groups) {
            const int64_t at = (int64_t)s.n * p.g + s.g0 + t;
            hi = ((const float *)p.saved_mean)[at];
            r = ((const float *)p.saved_inv_std)[at];
        }
        /* the second block of each unit, if they start in turns: its loads come behind the first one's, whose
           sums it then hides */
        if (PLANES && (int32_t)blockIdx.x >= p.late && (int32_t)blockIdx.x < 2 * p.late) {
            ckci_k_pause(1500);
        }
        if (PLANES && p.bulk) {
            fill_rows(p, s, m);
            ckci_k_arrival_wait(&m.arrival);
        } else {
            fill(p, s, own, m);
        }
        const float gamma = p.gamma ? ckci_k_norm_number(p.param, bits[0]) : 1;
        float beta = ckci_k_norm_number(p.param, bits[1]);
        if (t < CKCI_NORM_BACK_SET) { /* the lanes of a wave */
            float coarse = ckci_k_norm_coarse(hi, r) ? 1 : 0, none = 0;
            across(CKCI_NORM_BACK_SET, coarse, none);
            m.hi[t] = hi;
            m.r[t] = r;
            m.mean[0][t] = 0;
            m.mean[1][t] = coarse;
        }
        m.cell[GAMMA + t] = gamma;
        m.cell[BETA + t] = beta;
        __syncthreads();
        if (__builtin_expect(m.mean[1][0] != 0, 0)) {
            center(p, s, own, m);
            if (t < s.columns) {
                beta -= gamma * m.mean[0][ckci_k_divide(t, p.by_c)];
            }
            m.cell[GAMMA + t] = gamma;
            m.cell[BETA + t] = beta;
            __syncthreads();
        }
        float channel[2];
        ckci_k_float2 sum[2][4] = {};
        ckci_k_norm_channels<N> c;
        groups(p, c, m, first, false);
        /* the loops that compute stand once for each type, what is between them once */
        if (p.x.dtype == CKCONV_F16) {
            add<CKCONV_F16>(p, s, own, c, m, sum);
        } else if (p.x.dtype == CKCONV_BF16) {
            add<CKCONV_BF16>(p, s, own, c, m, sum);
        } else {
            add<CKCONV_F32>(p, s, own, c, m, sum);
        }
        const int32_t q = gather(p, s, m, sum, channel);
        level(p, s, m, gamma, beta, q, channel);
        groups(p, c, m, first, true);
        if (p.x.dtype == CKCONV_F16) {
            write<CKCONV_F16>(p, s, own, c, m);
        } else if (p.x.dtype == CKCONV_BF16) {
            write<CKCONV_BF16>(p, s, own, c, m);
        } else {
            write<CKCONV_F32>(p, s, own, c, m);
        }
    }
};

template <bool PLANES>
struct ckci_k_norm_bwd_kept : ckci_k_by_vendor<ckci_k_norm_bwd_kept_by<PLANES>, ckci_k_norm_kept_none> {
};

/* As the planner counts on: three where channels come first, at least two where they come last. */
template <int W> struct ckci_k_resident<ckci_k_norm_stats<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : 3 };
};
template <int W, bool JOINED> struct ckci_k_resident<ckci_k_norm_fwd<float, W, JOINED>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};
template <int W> struct ckci_k_resident<ckci_k_norm_din<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};

template <> struct ckci_k_resident<ckci_k_norm_fwd_kept> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_norm_fwd_kept_joined> {
    enum { BLOCKS = 2 };
};
template <bool PLANES> struct ckci_k_resident<ckci_k_norm_bwd_kept<PLANES>> {
    enum { BLOCKS = 2 };
};
