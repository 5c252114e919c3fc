/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-planes
  The layers of >>k-matrix-pointwise with channels first: fwd and bwd_data of one tap whose tensors are planes
  of positions, each a multiple of four. Weights lie in LDS; waves load, for eight channels, four positions of
  a lane each, turn them in registers into the operands of four products, and store four positions of a
  channel together (NVIDIA, planes of eights: eight). No position passes through LDS, and none is read twice
  where a block has all columns.
      rows: fours of positions of all images     columns, reduction: as there
  Rows of the matrix unit are fours, product j of a row's j-th positions. Loads of neighbouring lanes are
  runs of 64 bytes or more. Several blocks share a unit, so that some load while others store.
*/
#pragma once
#include "kernels/chunks.h"
#include "kernels/matrix/pointwise.h"

/* Up to STEPS times 32 channels; blocks of so many threads. */
template <class U, int STEPS, int THREADS> struct ckci_k_planes : ckci_k_point_weights<U::NVIDIA, THREADS> {
    typedef ckci_k_point_weights<U::NVIDIA, THREADS> held;
    enum {
        WAVES = THREADS / U::WAVE,
        AHEAD = STEPS * U::LOADS <= 2 /* AMD: the next fours come while these are multiplied */
    };
    struct lds {
        alignas(16) unsigned char weights[CKCI_PLANES_LDS(U::NVIDIA, STEPS)];
    };

    /* The four of a row: NVIDIA: a lane's two rows are neighbours. */
    static CKCI_K_MEMBER int32_t four_of(int32_t row)
    {
        return U::NVIDIA ? row % 8 * 2 + row / 8 : row;
    }

    /* What a lane holds: eight channels of four positions each, [channel][two words]. */
    struct fours {
        ckci_k_uint2 v[STEPS][U::LOADS][8];

        /* TWO: positions of two rows together. */
        template <bool TWO> CKCI_K_MEMBER void load_some(const ckci_gpu_conv &p, int32_t row0)
        {
            const int32_t plane = CKCI_K_HALF * (int32_t)p.a.stride[2];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < (TWO ? 1 : +U::LOADS); i++) {
                const int32_t row = row0 + four_of(U::position(i)),
                              image = ckci_k_divide(row, p.as.point.by_fours);
                const unsigned char *from = ckci_k_global(
                    p.a.p + CKCI_K_HALF * (image * p.a.stride[1] + 4 * (row - image * p.as.point.fours)));
                CKCI_K_UNROLL(4)
                for (int s = 0; s < STEPS; s++) {
                    const int32_t channel = s * 32 + U::chunk(i) * 8,
                                  left = row < p.rows ? p.red - channel : 0;
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < 8; e++) {
                        put<TWO>(s, i, e, from + (channel + e) * plane, e < left);
                    }
                }
            }
        }

        template <bool TWO> CKCI_K_MEMBER void put(int s, int i, int e, const unsigned char *from, bool good)
        {
            if constexpr (TWO) {
                const ckci_k_uint4 x = held::some(from, good);
                v[s][0][e] = {x.x, x.y};
                v[s][U::LOADS - 1][e] = {x.z, x.w};
            } else {
                ckci_k_uint2 x = {0, 0};
                if (good) {
                    x = *(const ckci_k_uint2 *)from;
                }
                v[s][i][e] = x;
            }
        }

        CKCI_K_MEMBER void load(const ckci_gpu_conv &p, int32_t row0)
        {
            if (U::NVIDIA && p.as.point.eights) {
                load_some<U::NVIDIA != 0>(p, row0);
            } else {
                load_some<false>(p, row0);
            }
        }

        /* Eight channels of the fours' j-th positions. */
        CKCI_K_MEMBER ckci_k_uint4 operand(int s, int i, int j) const
        {
            uint32_t w[4];
            CKCI_K_UNROLL(4)
            for (int h = 0; h < 4; h++) {
                const ckci_k_uint2 &x = v[s][i][2 * h], &y = v[s][i][2 * h + 1];
                const uint32_t a = j < 2 ? x.x : x.y, b = j < 2 ? y.x : y.y;
                w[h] = j % 2 ? ckci_k_halves<1>(a, b) : ckci_k_halves<0>(a, b);
            }
            const ckci_k_uint4 all = {w[0], w[1], w[2], w[3]};
            return all;
        }
    };

    /* Operands of all products, turned once for all columns. */
    struct operands {
        ckci_k_uint4 v[STEPS][4][U::LOADS];

        CKCI_K_MEMBER void turn(const fours &x)
        {
            CKCI_K_UNROLL(4)
            for (int s = 0; s < STEPS; s++) {
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < U::LOADS; i++) {
                        v[s][j][i] = x.operand(s, i, j);
                    }
                }
            }
        }
    };

    template <class T> static CKCI_K_MEMBER void loop(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t share = ckci_k_divide((int32_t)blockIdx.x, p.as.point.by_parts),
                      part = (int32_t)blockIdx.x - share * (int32_t)p.as.point.by_parts.d;
        const int32_t column0 = part * p.as.point.width, columns = p.columns - column0 < p.as.point.width
                                                                       ? p.columns - column0
                                                                       : p.as.point.width;
        const int32_t work = ckci_k_same(share * WAVES + (int32_t)threadIdx.x / U::WAVE);
        if constexpr (U::NVIDIA) {
            loop_filling<T>(p, m, work, column0, columns);
        } else {
            loop_ahead<T>(p, m, work, column0, columns);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void loop_ahead(const ckci_gpu_conv &p, lds &m, int32_t work, int32_t column0,
                                         int32_t columns)
    {
        fours x;
        if (AHEAD && work < p.work) {
            x.load(p, work * U::POSITIONS);
        }
        held::fill(p, m.weights, column0, columns);
        held::prepare(p, m.weights, column0, columns);
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (; work < p.work; work += p.workers) {
            const int32_t row0 = work * U::POSITIONS;
            operands a;
            if (!AHEAD) {
                x.load(p, row0);
            }
            a.turn(x);
            if (AHEAD && work + p.workers < p.work) {
                x.load(p, row0 + p.workers * U::POSITIONS);
            }
            tile<T>(p, m, a, row0, column0, columns);
        }
    }

    /* NVIDIA: no fours are ahead, but the first come while weights do, by the instructions of all. */
    template <class T>
    static CKCI_K_MEMBER void loop_filling(const ckci_gpu_conv &p, lds &m, int32_t work, int32_t column0,
                                           int32_t columns)
    {
        fours x;
        CKCI_K_UNROLL(1)
        for (bool filled = false; work < p.work || !filled; work += p.workers) {
            x.load(p, work * U::POSITIONS); /* zeros where there are none */
            if (!filled) {
                held::fill(p, m.weights, column0, columns);
                held::prepare(p, m.weights, column0, columns);
                __syncthreads();
                filled = true;
            }
            if (work < p.work) {
                operands a;
                expect(p, work * U::POSITIONS, column0, columns);
                a.turn(x);
                tile<T>(p, m, a, work * U::POSITIONS, column0, columns);
            }
        }
    }

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_conv &p, const lds &m, const operands &a, int32_t row0,
                                   int32_t column0, int32_t columns)
    {
        const int32_t steps = (p.red + 31) / 32;
        CKCI_K_UNROLL(1)
        for (int32_t column = 0; column < columns; column += 32) {
            typename U::sums d[4];
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                U::clear(d[j]);
            }
            CKCI_K_UNROLL(4)
            for (int s = 0; s < STEPS; s++) {
                if (STEPS == 1 || s < steps) {
                    ckci_k_uint4 w[U::WEIGHTS];
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < U::WEIGHTS; i++) {
                        w[i] = *(const ckci_k_uint4 *)(m.weights + held::spot(p.as.point.pitch,
                                                                              column + U::weight_column(i),
                                                                              s * 4 + U::weight_chunk(i)));
                    }
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < 4; j++) {
                        U::template multiply<T>(d[j], a.v[s][j], w);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                U::settle(d[j]);
            }
            store_all(p, m, d, row0, column0 + column, column0);
        }
    }

    /* Where the positions of a row's column begin. */
    static CKCI_K_MEMBER unsigned char *place(const ckci_gpu_conv &p, int32_t row, int32_t column)
    {
        const ckci_gpu_target &o = p.o;
        const int32_t image = ckci_k_divide(row, p.as.point.by_fours);
        return o.t.p +
               ckci_k_size(o.t.dtype) *
                   (image * o.t.stride[0] + 4 * (row - image * p.as.point.fours) + column * o.t.stride[5]);
    }

    /* NVIDIA: the residual comes to the L2 cache. A lane has no registers to load several columns at once. */
    static CKCI_K_MEMBER void expect(const ckci_gpu_conv &p, int32_t row0, int32_t column0, int32_t columns)
    {
        const int32_t lanes = U::POSITIONS / (p.as.point.eights ? 2 : 1),
                      lane = (int32_t)threadIdx.x % U::WAVE;
        const int32_t row = row0 + lane % lanes * (U::POSITIONS / lanes);
        if (!U::NVIDIA || row >= p.rows || held::form(p) != CKCI_K_POINT_RESIDUAL) {
            return;
        }
        const unsigned char *at = p.o.d[p.as.point.residual - 1].p + (place(p, row, column0) - p.o.t.p);
        const int64_t step = ckci_k_size(p.o.t.dtype) * p.o.t.stride[5];
        CKCI_K_UNROLL(1)
        for (int32_t i = lane / lanes; i < columns; i += U::WAVE / lanes) {
            ckci_k_expect(at + i * step);
        }
    }

    /* The residual's positions of a column, which go to `to`. */
    template <int N>
    static CKCI_K_MEMBER void load_residual(const ckci_gpu_conv &p, const unsigned char *to,
                                            uint32_t (&words)[N / 2])
    {
        ckci_k_load_words<N>(ckci_k_global(p.o.d[p.as.point.residual - 1].p + (to - p.o.t.p)), words);
    }

    /* Positions of a column to memory; words: the residual's (NVIDIA: loaded now). */
    template <int N, int FORM>
    static CKCI_K_MEMBER void store_column(const ckci_gpu_conv &p, const lds &m, float (&x)[N],
                                           uint32_t (&words)[N / 2], unsigned char *to, int32_t column,
                                           int32_t column0)
    {
        (void)words;
        held::template finish<N, true, FORM>(p, m.weights, x, to, column, column0);
        if constexpr (FORM == CKCI_K_POINT_RESIDUAL) {
            if (U::NVIDIA) {
                load_residual<N>(p, to, words);
            }
            ckci_k_add_residual(p.o, x, p.o.t.dtype, words, p.o.gate);
        }
        if constexpr (FORM == CKCI_K_POINT_ADDED || FORM == CKCI_K_POINT_RESIDUAL) {
            ckci_k_limit_line(p.o, x);
        }
        if constexpr (N == 8) {
            ckci_k_store8(p.o.t.dtype, to, x);
        } else {
            ckci_k_store4(p.o.t.dtype, to, *(const ckci_k_uint4 *)x);
        }
    }

    /* Lines l, ... of all four products, TWO of them: eight columns of positions that lie side by side. Those
       of any form go through the same instructions, one after the other (AMD has no registers for that).
       AMD: residuals of SOME columns are under way together (NVIDIA: see expect). */
    template <int TWO, int FORM>
    static CKCI_K_MEMBER void store(const ckci_gpu_conv &p, const lds &m, const typename U::sums (&d)[4],
                                    int l, int32_t row, int32_t column, int32_t column0)
    {
        enum {
            N = 4 * TWO,
            ROLLED = U::NVIDIA && FORM == CKCI_K_POINT_ANY,
            SOME = !U::NVIDIA && FORM == CKCI_K_POINT_RESIDUAL ? 4 : 1
        };
        float v[N][8];
        CKCI_K_UNROLL(8)
        for (int j = 0; j < N; j++) {
            U::take(d[j % 4], l + j / 4, v[j]);
        }
        if (row >= p.rows) {
            return;
        }
        const ckci_gpu_target &o = p.o;
        unsigned char *to = place(p, row, column);
        const int64_t step = ckci_k_size(o.t.dtype) * o.t.stride[5];
        uint32_t words[SOME][N / 2];
        CKCI_K_UNROLL(ROLLED ? 1 : 8)
        for (int i = 0; i < 8; i++) {
            if (SOME > 1 && i % SOME == 0) {
                CKCI_K_UNROLL(8)
                for (int k = 0; k < SOME; k++) {
                    if (column + i + k < p.columns) {
                        load_residual<N>(p, to + (i + k) * step, words[k]);
                    }
                }
            }
            if (column + i < p.columns) {
                alignas(16) float x[N];
                CKCI_K_UNROLL(8)
                for (int j = 0; j < N; j++) {
                    x[j] = v[j][ROLLED ? 0 : i];
                    CKCI_K_UNROLL(8)
                    for (int k = 0; ROLLED && k < 7; k++) {
                        v[j][k] = v[j][k + 1];
                    }
                }
                store_column<N, FORM>(p, m, x, words[i % SOME], to + i * step, column + i, column0);
            }
        }
    }

    template <int FORM>
    static CKCI_K_MEMBER void store_form(const ckci_gpu_conv &p, const lds &m, const typename U::sums (&d)[4],
                                         int32_t row0, int32_t column, int32_t column0)
    {
        if constexpr (U::NVIDIA) {
            if (p.as.point.eights) {
                store<2, FORM>(p, m, d, 0, row0 + four_of(U::line_position(0)), column + U::line_column(0),
                               column0);
                return;
            }
        }
        CKCI_K_UNROLL(2)
        for (int l = 0; l < U::LINES; l++) {
            store<1, FORM>(p, m, d, l, row0 + four_of(U::line_position(l)), column + U::line_column(l),
                           column0);
        }
    }

    static CKCI_K_MEMBER void store_all(const ckci_gpu_conv &p, const lds &m, const typename U::sums (&d)[4],
                                        int32_t row0, int32_t column, int32_t column0)
    {
        switch (held::form(p)) {
        case CKCI_K_POINT_STORE:
            store_form<CKCI_K_POINT_STORE>(p, m, d, row0, column, column0);
            break;
        case CKCI_K_POINT_ADDED:
            store_form<CKCI_K_POINT_ADDED>(p, m, d, row0, column, column0);
            break;
        case CKCI_K_POINT_RESIDUAL:
            store_form<CKCI_K_POINT_RESIDUAL>(p, m, d, row0, column, column0);
            break;
        default:
            store_form<CKCI_K_POINT_ANY>(p, m, d, row0, column, column0);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if (CKCI_K_BF16(p.a.dtype != CKCONV_F16)) {
            loop<ckci_k_bf16>(p, m);
        } else {
            loop<ckci_k_f16>(p, m);
        }
    }
};

template <int STEPS, int THREADS>
struct ckci_k_matrix_planes : ckci_k_by_unit<ckci_k_planes<ckci_k_point_mfma, STEPS, THREADS>,
                                             ckci_k_planes<ckci_k_point_wmma<11>, STEPS, THREADS>,
                                             ckci_k_planes<ckci_k_point_wmma<12>, STEPS, THREADS>,
                                             ckci_k_planes<ckci_k_point_mma, STEPS, THREADS>> {
};

/* CDNA and RDNA 3 have no registers for more than 64 channels (ckci_find_planes_unit). */
template <int THREADS>
struct ckci_k_matrix_planes<4, THREADS>
    : ckci_k_by_unit<ckci_k_nothing, ckci_k_nothing, ckci_k_planes<ckci_k_point_wmma<12>, 4, THREADS>,
                     ckci_k_planes<ckci_k_point_mma, 4, THREADS>> {
};

template <int STEPS, int THREADS> struct ckci_k_resident<ckci_k_matrix_planes<STEPS, THREADS>> {
    enum { BLOCKS = CKCI_PLANES_BLOCKS(STEPS) };
};

template <int STEPS, int THREADS> struct ckci_k_together<ckci_k_matrix_planes<STEPS, THREADS>> {
    enum { WAVES = 2 };
};
