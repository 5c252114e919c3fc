/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-weight
  bwd_weight on matrix units: the reduction runs over positions, in parts that a later launch adds in fixed
  order. Operands lie across in memory: they are turned in registers on their way to LDS or, where the unit
  takes them so, copied as they are. Long parts are summed in pieces, whose sums are added in registers or in
  the part in workspace, which is the block's own, so that a sum's error does not grow with its length.
  dbias (p.bias.sums): blocks sum rows of dout from the tiles in LDS. Those beside each other in p.bias_turns
  columns of tiles have the same rows, and take turns, a step each, lest one keep the others waiting; their
  sums are [part][column of tiles][g][row].
*/
#pragma once
#include "kernels/vector/weight.h"
#include "kernels/matrix/gather.h"

/* PAIRS: entries of two positions lie side by side, in halves of a step, for threads that take four: 1: four
   neighbours, 2: every eighth, with offsets that count from -2^31. */
template <int KT, int PAIRS, int SIZE> struct ckci_k_positions {
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table;
    int32_t from, to, start; /* start: the batch that offsets count from */

    CKCI_K_MEMBER ckci_k_positions(const ckci_gpu_conv &conv, int32_t first, int32_t last,
                                   ckci_k_tap_entry *entries)
        : p(conv), table(entries), from(first), to(last)
    {
        start = place(from).n;
    }

    CKCI_K_MEMBER ckci_k_place place(int32_t k) const
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER const unsigned char *origin(const ckci_tensor &t, int32_t group) const
    {
        return t.p + SIZE * (group * t.stride[0] + start * t.stride[1]);
    }

    CKCI_K_MEMBER ckci_k_window window(const ckci_tensor &t, int32_t group) const
    {
        return ckci_k_make_window(origin(t, group));
    }

    CKCI_K_MEMBER void begin()
    {
        prepare(0);
        __syncthreads();
    }

    /* After the entries of a step were read; those of the four steps before are not read any more, since
       there was a barrier after them. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        if (step % 4 == 1) {
            prepare(step / 4 + 1);
        }
    }

    CKCI_K_MEMBER const ckci_k_tap_entry &entry(int32_t step, int32_t j) const
    {
        return table[step % 8 * KT + j];
    }

    CKCI_K_MEMBER void prepare(int32_t four)
    {
        int32_t j = (int32_t)threadIdx.x, k = from + four * 4 * KT + j;
        if (j >= 4 * KT) {
            return;
        }
        ckci_k_tap_entry e = {INT32_MIN, INT32_MIN, 0, 0};
        ckci_k_hole hole;
        hole.close(p.ranges);
        if (k < to) {
            ckci_k_place q = place(k);
            const int64_t *a = p.a.stride, *b = p.b.stride;
            e.a = SIZE * (int32_t)((q.n - start) * a[1] + q.z * a[3] + q.y * a[4] + q.x * a[5]);
            q.z = q.z * p.dim[0].stride - p.dim[0].pad;
            q.y = q.y * p.dim[1].stride - p.dim[1].pad;
            q.x = q.x * p.dim[2].stride - p.dim[2].pad;
            e.b = SIZE * (int32_t)((q.n - start) * b[1] + q.z * b[3] + q.y * b[4] + q.x * b[5]);
            hole.open(p.ranges);
            hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
        }
        e.need = hole.word;
        if constexpr (PAIRS) {
            ckci_k_position_entry *pairs = (ckci_k_position_entry *)(table + (four % 2 * 4 + j / KT) * KT);
            const int32_t i = PAIRS == 2 ? j % 8 * 4 + j % KT / 8 : j % KT;
            int32_t half = i % 4 / 2, four_at = (i / 4) ^ (half * (KT / 8));
            int32_t at = half * (KT / 2) + four_at * 2 + i % 2;
            const uint32_t from = PAIRS == 2 ? 0x80000000u : 0u;
            pairs[at].at = (int32_t)((uint32_t)e.a ^ from);
            pairs[at].holes = PAIRS == 2 && k >= to ? hole.word : p.ranges ? (uint32_t)CKCI_K_TAPS << 16 : 0;
            pairs[KT + at].at = (int32_t)((uint32_t)e.b ^ from);
            pairs[KT + at].holes = hole.word;
        } else {
            table[four % 2 * 4 * KT + j] = e;
        }
    }
};

/* Does the block at this column of tiles sum dout's rows? */
CKCI_K_FN bool ckci_k_sums_rows(const ckci_gpu_conv &p, int32_t tile_n)
{
    return p.bias.sums && tile_n < p.bias_turns;
}

/* The step, of every p.bias_turns, that the block sums; -1: none. `from`: the first position, the same for
   all who take turns, or a multiple of KT. */
template <int KT> CKCI_K_FN int32_t ckci_k_row_turn(const ckci_gpu_conv &p, int32_t tile_n, int32_t from)
{
    return ckci_k_sums_rows(p, tile_n) ? (tile_n - from / KT) & (p.bias_turns - 1) : -1;
}

/* Where the sum of a row belongs: to a column of tiles in part `part`; more: pieces before are there. */
struct ckci_k_row_part {
    float *first; /* of the block's rows */
    int32_t rows; /* from there on */
    bool more;

    CKCI_K_MEMBER ckci_k_row_part(const ckci_gpu_conv &p, int32_t part, int32_t tile_n, int32_t group,
                                  int32_t row0, bool others)
        : first((float *)p.bias.sums +
                ((((int64_t)part * p.bias_turns + tile_n) * p.g + group) * p.rows + row0)),
          rows(p.rows - row0), more(others)
    {
    }

    CKCI_K_MEMBER void put(int32_t row, float sum) const
    {
        if (row < rows) {
            first[row] = more ? first[row] + sum : sum;
        }
    }
};

/* The first (0) or second (1) of two numbers of T, of two bytes each. */
template <class T> CKCI_K_FN float ckci_k_half_of(uint32_t two, int second)
{
    if constexpr ((int)T::TYPE == (int)CKCONV_BF16) {
        return ckci_k_float(second ? two & 0xffff0000u : two << 16);
    } else {
        return ckci_k_half_float(second ? two >> 16 : two & 0xffffu);
    }
}

#if defined(__HIP_DEVICE_COMPILE__) && (CKCI_K_UNIT == CKCI_K_UNIT_RDNA3 || CKCI_K_UNIT == CKCI_K_UNIT_RDNA4)
/* Both added to `sum`, in one instruction. */
template <class T> CKCI_K_FN float ckci_k_add_two(uint32_t two, float sum)
{
    if constexpr ((int)T::TYPE == (int)CKCONV_BF16) {
        return __builtin_amdgcn_fdot2_f32_bf16(ckci_k_as<short, 2>(two), ckci_k_as<short, 2>(0x3f803f80u),
                                               sum, false);
    } else {
        return __builtin_amdgcn_fdot2(ckci_k_as<_Float16, 2>(two), ckci_k_as<_Float16, 2>(0x3c003c00u), sum,
                                      false);
    }
}
#else
template <class T> CKCI_K_FN float ckci_k_two_of(uint32_t two)
{
    return ckci_k_half_of<T>(two, 0) + ckci_k_half_of<T>(two, 1);
}
#endif

/* The sum of a chunk's eight. */
template <class T> CKCI_K_FN float ckci_k_eight_of(const ckci_k_uint4 &v)
{
#if defined(__HIP_DEVICE_COMPILE__) && (CKCI_K_UNIT == CKCI_K_UNIT_RDNA3 || CKCI_K_UNIT == CKCI_K_UNIT_RDNA4)
    return ckci_k_add_two<T>(v.x, ckci_k_add_two<T>(v.y, 0)) +
           ckci_k_add_two<T>(v.z, ckci_k_add_two<T>(v.w, 0));
#else
    return (ckci_k_two_of<T>(v.x) + ckci_k_two_of<T>(v.y)) + (ckci_k_two_of<T>(v.z) + ckci_k_two_of<T>(v.w));
#endif
}

/* A chunk of neighbouring rows or columns of bwd_weight, against a position's entry. */
struct ckci_k_weight_column {
    int32_t offset, tap;
    uint32_t need;

    CKCI_K_MEMBER void row(int32_t size, bool good, int32_t r)
    {
        offset = good ? size * r : INT32_MIN;
        tap = 0;
        need = 0;
    }

    CKCI_K_MEMBER void column(const ckci_gpu_conv &p, int32_t size, bool good, int32_t c)
    {
        int32_t rest, z, y, x;
        tap = ckci_k_divide(c, p.by_red);
        rest = ckci_k_divide(tap, p.dim[2].taps[0]);
        z = ckci_k_divide(rest, p.dim[1].taps[0]);
        y = rest - z * p.dim[1].filter;
        x = tap - rest * p.dim[2].filter;
        const int64_t *s = p.b.stride;
        offset = size * (int32_t)(c - tap * p.red + z * p.dim[0].dilation * s[3] +
                                  y * p.dim[1].dilation * s[4] + x * p.dim[2].dilation * s[5]);
        need = p.ranges ? 0
                        : 1u << x % 32 | 1u << (p.dim[2].filter + y) % 32 |
                              1u << (p.dim[2].filter + p.dim[1].filter + z) % 32;
        if (!good) {
            offset = 0;
            need = 0x80000000u;
        }
    }

    CKCI_K_MEMBER int32_t a(const ckci_k_tap_entry &e) const
    {
        return offset < 0 ? INT32_MIN : ckci_k_add(offset, e.a, 0);
    }

    CKCI_K_MEMBER int32_t b(int32_t ranges, const ckci_k_tap_entry &e) const
    {
        ckci_k_hole hole = {e.need};
        int32_t bad = hole.bad(ranges, tap, need) | ((int32_t)need & INT32_MIN);
        return ckci_k_add(offset, e.b, 0) | bad;
    }
};

/* ---- bwd_weight. Rows are output channels, columns a tap and, fastest, an input channel, the reduction runs
   over positions. In memory rows and columns are contiguous, not the reduction: a thread loads eight channels
   (f32: four, f64: two) at four positions, transposes them in registers and stores each channel's four places
   of the reduction. TURNED: its positions are every eighth, and loads bring eight places of one channel. */
template <class U, int BM, int BN> struct ckci_k_weight_chunks {
    enum {
        SIZE = U::SIZE,
        CHUNK = 16 / SIZE, /* channels of a load */
        KT = U::KB / SIZE, /* positions of a step */
        FOURS = KT / 4,
        EACH = 256 / FOURS * CHUNK,      /* rows and columns that the block fetches at a time, */
        ALIKE = U::WAVE / FOURS * CHUNK, /* that a wave does: of one tensor */
        FIRST = (BM + ALIKE - 1) / ALIKE * ALIKE,
        PASSES = (FIRST + BN + EACH - 1) / EACH,
        SEGMENT = 4,
        DIRECT = 0,
        BESIDE = (int)SIZE == (int)CKCI_K_HALF,
        TURNED = ckci_k_turns<U>::FAST,
        CHUNKS = U::KB / 16,                         /* of a row in LDS */
        OWN = BESIDE ? (BM * CHUNKS + 255) / 256 : 1 /* that a thread sums */
    };
    const ckci_gpu_conv &p;
    ckci_k_positions<KT, TURNED ? 2 : 1, SIZE> positions;
    ckci_k_window window[PASSES];
    const unsigned char *origin[PASSES]; /* TURNED: instead, and of offset -2^31 */
    ckci_k_weight_column pass[PASSES];
    const unsigned char *entries[PASSES][2]; /* of both halves of this thread's four */
    ckci_k_uint4 raw[PASSES][4];
    int32_t turn; /* of this block to sum rows for dbias; of a tile chunk threadIdx.x + i * 256 of all */
    float row_sum[OWN];

    CKCI_K_MEMBER ckci_k_weight_chunks(const ckci_gpu_conv &conv, int32_t group, int32_t row0,
                                       int32_t column0, int32_t first, int32_t last, ckci_k_tap_entry *table)
        : p(conv), positions(conv, first, last, table)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            int32_t r = channel(i), c = r - FIRST;
            const bool left = ckci_k_same(r / ALIKE) < FIRST / ALIKE;
            if (left) {
                pass[i].row(SIZE, r < BM && row0 + r < p.rows, row0 + r);
                window[i] = positions.window(p.a, group);
            } else {
                pass[i].column(p, SIZE, c < BN && column0 + c < p.columns, column0 + c);
                window[i] = positions.window(p.b, group);
            }
            if constexpr (TURNED) { /* rows that nobody stores get something of the tensor */
                pass[i].need |= left ? 1 : 0;
                origin[i] = positions.origin(left ? p.a : p.b, group) +
                            ((int64_t)(pass[i].offset < 0 ? 0 : pass[i].offset) + INT32_MIN);
            }
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                entries[i][j] = (const unsigned char *)table + (left ? 0 : KT * 8) + j * (KT * 4) +
                                (place() ^ (j * (FOURS / 2))) * 16;
            }
        }
        turn = BESIDE ? ckci_k_row_turn<KT>(p, column0 / BN, first) : -1;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < OWN; i++) {
            row_sum[i] = 0;
        }
        positions.begin();
    }

    /* Adds the chunks of rows in a step's tile. */
    template <class T> CKCI_K_MEMBER void beside(const unsigned char *tile, int32_t step)
    {
        if ((step & (p.bias_turns - 1)) != turn) {
            return;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < OWN; i++) {
            const int chunk = (int)threadIdx.x + i * 256;
            if (BM * CHUNKS % 256 == 0 || chunk < BM * CHUNKS) {
                const ckci_k_uint4 v =
                    *(const ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(chunk / CHUNKS, chunk % CHUNKS));
                row_sum[i] += ckci_k_eight_of<T>(v);
            }
        }
    }

    /* All of it to the part; the tile is not needed any more. */
    CKCI_K_MEMBER void finish_rows(unsigned char *tile, const ckci_k_row_part &to_part) const
    {
        float *room = (float *)tile;
        if (turn < 0) {
            return;
        }
        __syncthreads();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < OWN; i++) {
            const int chunk = (int)threadIdx.x + i * 256;
            if (BM * CHUNKS % 256 == 0 || chunk < BM * CHUNKS) {
                room[chunk] = row_sum[i];
            }
        }
        __syncthreads();
        const int row = (int)threadIdx.x;
        if (row < BM) {
            float sum = room[row * CHUNKS];
            CKCI_K_UNROLL(8)
            for (int i = 1; i < CHUNKS; i++) {
                sum += room[row * CHUNKS + i];
            }
            to_part.put(row, sum);
        }
    }

    /* First of the rows (columns: from FIRST on) of this thread's pass i; its positions are 4 * place to
       4 * place + 3 (TURNED: place, place + 8, ..). */
    CKCI_K_MEMBER int32_t channel(int i) const
    {
        return (int32_t)threadIdx.x / FOURS * CHUNK + i * EACH;
    }

    CKCI_K_MEMBER int32_t place() const
    {
        return (int32_t)threadIdx.x % FOURS;
    }

    CKCI_K_MEMBER bool plain() const
    {
        return !p.ranges;
    }

    /* Does it sum rows of tiles? */
    CKCI_K_MEMBER bool looks() const
    {
        return turn >= 0;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin() const
    {
    }

    /* Before step `step`, that fetches two steps ahead. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        positions.prepare(step / 4 + 1);
    }

    template <int PLAIN> CKCI_K_MEMBER void fetch(int32_t step)
    {
        const int32_t at = step % 8 * (KT * 16);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const ckci_k_uint4 two = *(const ckci_k_uint4 *)(entries[i][j] + at);
                raw[i][2 * j] = load<PLAIN>(i, two.x, two.y);
                raw[i][2 * j + 1] = load<PLAIN>(i, two.z, two.w);
            }
        }
    }

    template <int PLAIN> CKCI_K_MEMBER ckci_k_uint4 load(int i, uint32_t at, uint32_t holes) const
    {
        const ckci_k_hole hole = {holes};
        int32_t bad = hole.bad(!PLAIN, pass[i].tap, pass[i].need);
        bad = PLAIN ? bad : bad | ((int32_t)pass[i].need & INT32_MIN);
#if CKCI_K_TURNED
        if constexpr (TURNED) {
            const bool zeros = PLAIN ? (holes & pass[i].need) != 0 : bad < 0;
            return ckci_k_load_turned(zeros ? (const unsigned char *)&ckci_k_zeros : origin[i] + at);
        }
#endif
        return ckci_k_window_load(window[i], ckci_k_add(pass[i].offset, (int32_t)at, 0) | bad);
    }

    template <class T> CKCI_K_MEMBER void put(unsigned char *tile) const
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            const int32_t row =
                channel(i) - (FIRST - BM) * (ckci_k_same(channel(i) / ALIKE) >= FIRST / ALIKE);
            /* those between BM and FIRST hold neither rows nor columns */
            const bool held = FIRST == BM || channel(i) < BM || channel(i) >= FIRST;
            if (held && ((FIRST + BN) % EACH == 0 || row < BM + BN)) {
                const ckci_k_uint4 *r = raw[i];
                if constexpr (SIZE == 8) {
                    both(tile, row, r[0].x, r[0].y, r[1].x, r[1].y, 0);
                    both(tile, row, r[2].x, r[2].y, r[3].x, r[3].y, 1);
                    both(tile, row + 1, r[0].z, r[0].w, r[1].z, r[1].w, 0);
                    both(tile, row + 1, r[2].z, r[2].w, r[3].z, r[3].w, 1);
                } else if constexpr (SIZE == 4) {
                    single<T>(tile, row, r[0].x, r[1].x, r[2].x, r[3].x);
                    single<T>(tile, row + 1, r[0].y, r[1].y, r[2].y, r[3].y);
                    single<T>(tile, row + 2, r[0].z, r[1].z, r[2].z, r[3].z);
                    single<T>(tile, row + 3, r[0].w, r[1].w, r[2].w, r[3].w);
                } else if constexpr (TURNED) {
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < 4; j++) {
                        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row + place(), j)) = r[j];
                    }
                } else {
                    int32_t at = ckci_k_spot<U::KB>(row, place() / 2) + place() % 2 * 8;
                    if constexpr (U::WAVE == 64) { /* a register for eight places, so that three blocks fit */
                        at = ckci_k_lane_afresh(at);
                    }
                    pair<0>(tile, at, r[0].x, r[1].x, r[2].x, r[3].x);
                    pair<2>(tile, at, r[0].y, r[1].y, r[2].y, r[3].y);
                    pair<4>(tile, at, r[0].z, r[1].z, r[2].z, r[3].z);
                    pair<6>(tile, at, r[0].w, r[1].w, r[2].w, r[3].w);
                }
            }
        }
    }

    /* Two positions of f64. */
    CKCI_K_MEMBER void both(unsigned char *tile, int32_t row, uint32_t low0, uint32_t high0, uint32_t low1,
                            uint32_t high1, int second) const
    {
        const ckci_k_uint4 two = {low0, high0, low1, high1};
        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row, 2 * place() + second)) = two;
    }

    template <class T>
    CKCI_K_MEMBER void single(unsigned char *tile, int32_t row, uint32_t r0, uint32_t r1, uint32_t r2,
                              uint32_t r3) const
    {
        const ckci_k_uint4 four = {r0, r1, r2, r3};
        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row, place())) = ckci_k_rounded<T>(four);
    }

    /* Rows H and H + 1 of eight, of which the first, a multiple of eight, has its place `at`. */
    template <int H>
    static CKCI_K_MEMBER void pair(unsigned char *tile, int32_t at, uint32_t r0, uint32_t r1, uint32_t r2,
                                   uint32_t r3)
    {
        static_assert(U::KB == 64, "the order of chunks that ckci_k_spot_of_eight knows");
        const ckci_k_uint2 low = {ckci_k_halves<0>(r0, r1), ckci_k_halves<0>(r2, r3)};
        const ckci_k_uint2 high = {ckci_k_halves<1>(r0, r1), ckci_k_halves<1>(r2, r3)};
        *(ckci_k_uint2 *)(tile + ckci_k_spot_of_eight<H>(at)) = low;
        *(ckci_k_uint2 *)(tile + ckci_k_spot_of_eight<H + 1>(at)) = high;
    }
};

/* The same where waves fill tiles (CDNA 4): slabs of 64 channels, of which LDS has a line of 128 bytes for
   each position, as memory has. A wave copies eight positions of a slab at a time, a thread one chunk of its
   own position in each, so that it looks up one entry a step. The unit turns operands as it reads them. */
template <class U, int BM, int BN> struct ckci_k_weight_lines {
    enum {
        KT = U::KB / U::SIZE,
        SLAB = 64 * U::KB,
        SIDE = U::THREADS / (KT * 8), /* slabs that the block copies side by side */
        ROWS = BM / 64 / SIDE,
        COLUMNS = BN / 64 / SIDE,
        LOADS = ROWS + COLUMNS,
        SEGMENT = 4,
        DIRECT = 2,
        BESIDE = 1,
        OWN = KT * BM / 2 / U::THREADS /* positions of a step of which a thread sums two rows */
    };
    static_assert(KT == 32 && BM % (64 * SIDE) == 0 && BN % (64 * SIDE) == 0, "whole slabs");
    const ckci_gpu_conv &p;
    ckci_k_positions<KT, 0, U::SIZE> positions;
    ckci_k_window wa, wb;
    int32_t row[ROWS];
    ckci_k_weight_column column[COLUMNS];
    int32_t turn; /* of this block to sum rows for dbias */
    float row_sum[2];

    CKCI_K_MEMBER ckci_k_weight_lines(const ckci_gpu_conv &conv, int32_t group, int32_t row0, int32_t column0,
                                      int32_t first, int32_t last, ckci_k_tap_entry *table)
        : p(conv), positions(conv, first, last, table), wa(positions.window(p.a, group)),
          wb(positions.window(p.b, group))
    {
        const int32_t thread = (int32_t)threadIdx.x, line = thread / 8 % KT;
        const int32_t chunk = thread / (KT * 8) * 64 + U::across_chunk_of(line, thread % 8) * 8;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            const int32_t r = row0 + chunk + i * SIDE * 64;
            row[i] = r < p.rows ? U::SIZE * r : INT32_MIN;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < COLUMNS; i++) {
            const int32_t c = column0 + chunk + i * SIDE * 64;
            column[i].column(p, U::SIZE, c < p.columns, c);
        }
        turn = ckci_k_row_turn<KT>(p, column0 / BN, first);
        row_sum[0] = row_sum[1] = 0;
        positions.begin();
    }

    CKCI_K_MEMBER bool plain() const
    {
        return !p.ranges;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin() const
    {
    }

    /* Before step `step`, a multiple of four; copies are three steps ahead at most. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        positions.prepare(step / 4 + 1);
    }

    template <int PLAIN> CKCI_K_MEMBER void fill(int32_t step, unsigned char *tile) const
    {
        const int32_t wave = ckci_k_same((int32_t)threadIdx.x / U::WAVE);
        const ckci_k_tap_entry e = positions.entry(step, (int32_t)threadIdx.x / 8 % KT);
        tile += wave / 4 * SLAB + wave % 4 * (U::WAVE * 16);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) { /* both outside: something of a row that nobody stores */
            ckci_k_copy_direct(tile + i * SIDE * SLAB, wa, ckci_k_add(row[i], e.a, 0), 0);
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < COLUMNS; i++) {
            ckci_k_copy_direct(tile + (ROWS + i) * SIDE * SLAB, wb, column[i].b(!PLAIN, e), 0);
        }
    }

    /* Adds the rows of a step's tile: a thread has two neighbours, of every so many positions. */
    template <class T> CKCI_K_MEMBER void beside(const unsigned char *tile, int32_t step)
    {
        if ((step & (p.bias_turns - 1)) != turn) {
            return;
        }
        const int32_t pair = (int32_t)threadIdx.x % (BM / 2), from = (int32_t)threadIdx.x / (BM / 2) * OWN;
        float low = 0, high = 0;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < OWN; i++) {
            const int32_t line = from + i, chunk = U::across_chunk_of(line, pair % 32 / 4);
            const uint32_t v =
                *(const uint32_t *)(tile + pair / 32 * SLAB + line * 128 + chunk * 16 + pair % 4 * 4);
            low += ckci_k_half_of<T>(v, 0);
            high += ckci_k_half_of<T>(v, 1);
        }
        row_sum[0] += low;
        row_sum[1] += high;
    }

    /* All of it to the part; the tile is not needed any more. */
    CKCI_K_MEMBER void finish_rows(unsigned char *tile, const ckci_k_row_part &to_part) const
    {
        float *room = (float *)tile; /* [every so many positions][row] */
        const int32_t thread = (int32_t)threadIdx.x;
        if (turn < 0) {
            return;
        }
        __syncthreads();
        room[thread * 2] = row_sum[0];
        room[thread * 2 + 1] = row_sum[1];
        __syncthreads();
        if (thread < BM) {
            float sum = room[thread];
            CKCI_K_UNROLL(4)
            for (int i = 1; i < U::THREADS * 2 / BM; i++) {
                sum += room[i * BM + thread];
            }
            to_part.put(thread, sum);
        }
    }
};

#if defined(CKCI_K_MMA)
/* A position that a thread of bwd_weight follows, and the one 256 further on: a step adds the coordinates of
   position 256, each with a carry at most. Coordinates are those in `in`, padding included. */
struct ckci_k_weight_place {
    int32_t a, b, z, y, x; /* a, b: byte offsets in dout and in */
};

struct ckci_k_weight_stride {
    ckci_k_weight_place step;       /* of 256 positions */
    int32_t end[3], back[3], up[2]; /* z, y, x: where a dimension ends and how long it is; y and z go up */
    int32_t a[3], b[3];             /* what a carry out of z, y, x adds to the offsets */

    CKCI_K_MEMBER ckci_k_weight_stride(const ckci_gpu_conv &p, const ckci_k_place &q)
    {
        const ckci_gpu_dim *d = p.dim;
        const int64_t *s = p.a.stride, *t = p.b.stride;
        step = make(p, q, 0);
        CKCI_K_UNROLL(3)
        for (int i = 0; i < 3; i++) {
            const int above = i == 0 ? 1 : i + 2;
            const int64_t up_b = i == 0 ? t[1] : d[i == 0 ? 0 : i - 1].stride * t[above];
            back[i] = d[i].length * d[i].stride;
            end[i] = back[i] - d[i].pad;
            a[i] = CKCI_K_HALF * (int32_t)(s[above] - d[i].length * s[3 + i]);
            b[i] = CKCI_K_HALF * (int32_t)(up_b - back[i] * t[3 + i]);
        }
        up[0] = d[0].stride;
        up[1] = d[1].stride;
    }

    /* Position q, `pad` times the padding before it. */
    static CKCI_K_MEMBER ckci_k_weight_place make(const ckci_gpu_conv &p, const ckci_k_place &q, int32_t pad)
    {
        const int64_t *s = p.a.stride, *t = p.b.stride;
        ckci_k_weight_place w;
        w.z = q.z * p.dim[0].stride - pad * p.dim[0].pad;
        w.y = q.y * p.dim[1].stride - pad * p.dim[1].pad;
        w.x = q.x * p.dim[2].stride - pad * p.dim[2].pad;
        w.a = CKCI_K_HALF * (int32_t)(q.n * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
        w.b = CKCI_K_HALF * (int32_t)(q.n * t[1] + w.z * t[3] + w.y * t[4] + w.x * t[5]);
        return w;
    }

    CKCI_K_MEMBER void advance(ckci_k_weight_place &w) const
    {
        w.a = ckci_k_add(w.a, step.a, 0);
        w.b = ckci_k_add(w.b, step.b, 0);
        w.z += step.z;
        w.y += step.y;
        w.x += step.x;
        if (w.x >= end[2]) {
            w.x -= back[2];
            w.y += up[1];
            carry(w, 2);
        }
        if (w.y >= end[1]) {
            w.y -= back[1];
            w.z += up[0];
            carry(w, 1);
        }
        if (w.z >= end[0]) {
            w.z -= back[0];
            carry(w, 0);
        }
    }

    CKCI_K_MEMBER void carry(ckci_k_weight_place &w, int i) const
    {
        w.a = ckci_k_add(w.a, a[i], 0);
        w.b = ckci_k_add(w.b, b[i], 0);
    }
};

/* Adds the rows of a step's tile of slabs, in additions of their own: the unit would take these products one
   by one with those of the tile, and let the next copies wait. Of eight waves one has every eighth position,
   which all lie swizzled alike; of each slab a lane has rows 2 * lane and the next. */
template <class T, int SLABS>
CKCI_K_FN void ckci_k_sum_slabs(const unsigned char *tile, float (&row_sum)[SLABS][2])
{
    const int32_t lane = (int32_t)threadIdx.x % 32, wave = (int32_t)threadIdx.x / 32;
    const unsigned char *from = tile + ckci_k_spot<128>(wave, lane / 4) + lane % 4 * 4;
    CKCI_K_UNROLL(4)
    for (int i = 0; i < SLABS; i++) {
        uint32_t v[8];
        CKCI_K_UNROLL(8)
        for (int j = 0; j < 8; j++) {
            v[j] = *(const uint32_t *)(from + (i * 64 + j * 8) * 128);
        }
        CKCI_K_UNROLL(2)
        for (int high = 0; high < 2; high++) {
            float x[8];
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                x[j] = ckci_k_half_of<T>(v[j], high);
            }
            row_sum[i][high] += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        }
    }
}

/* The same where the unit takes operands that lie across: tiles are slabs of 64 channels, a row in LDS is a
   position, and chunks go straight from memory into LDS. A thread copies one chunk of two positions in each
   slab. What it must know of a position, one thread finds out for all: each follows one of every 256, and
   hands it on through LDS, for four steps at a time, while the four before are used. */
template <int BM, int BN> struct ckci_k_weight_slabs {
    enum { KT = 64, FOUR = 4 * KT, ROWS = (BM + 63) / 64, COLUMNS = (BN + 63) / 64, OUTSIDE = 2, BESIDE = 1 };
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table; /* unused: 1, and OUTSIDE */
    const unsigned char *a, *b;
    ckci_k_weight_stride stride;
    ckci_k_weight_place at;
    int32_t left; /* positions from the thread's next one on */
    int32_t row[ROWS];
    ckci_k_weight_column column[COLUMNS];
    int32_t turn;           /* of this block to sum rows for dbias, */
    float row_sum[ROWS][2]; /* of each slab rows 2 * lane and the next, of every eighth position */

    CKCI_K_MEMBER ckci_k_weight_slabs(const ckci_gpu_conv &conv, int32_t group, int32_t row0, int32_t column0,
                                      int32_t first, int32_t last, ckci_k_tap_entry *entries)
        : p(conv), table(entries), stride(conv, place(conv, FOUR))
    {
        const int32_t start = place(p, first).n, chunk = (int32_t)threadIdx.x % 8 * 8;
        a = p.a.p + CKCI_K_HALF * (group * p.a.stride[0] + start * p.a.stride[1] + row0 + chunk);
        b = p.b.p + CKCI_K_HALF * (group * p.b.stride[0] + start * p.b.stride[1]);
        ckci_k_known(a);
        ckci_k_known(b);
        const int32_t own = first + (int32_t)threadIdx.x;
        left = last - own;
        ckci_k_place q = place(p, own);
        q.n -= start;
        at = ckci_k_weight_stride::make(p, q, 1);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            const int32_t r = chunk + i * 64;
            row[i] = r < BM && row0 + r < p.rows ? +OUTSIDE : +OUTSIDE | 1;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < COLUMNS; i++) {
            const int32_t c = chunk + i * 64;
            column[i].column(p, CKCI_K_HALF, c < BN && column0 + c < p.columns, column0 + c);
        }
        turn = ckci_k_row_turn<KT>(p, column0 / BN, first);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            row_sum[i][0] = row_sum[i][1] = 0;
        }
        prepare(0);
        __syncthreads();
    }

    template <class T> CKCI_K_MEMBER void beside(const unsigned char *tile, int32_t step)
    {
        if ((step & (p.bias_turns - 1)) == turn) {
            ckci_k_sum_slabs<T>(tile, row_sum);
        }
    }

    CKCI_K_MEMBER void finish_rows(unsigned char *tiles, const ckci_k_row_part &to_part) const
    {
        float *room = (float *)tiles; /* [wave][row] */
        const int lane = (int)threadIdx.x % 32, wave = (int)threadIdx.x / 32, r = (int)threadIdx.x;
        if (turn < 0) {
            return;
        }
        __syncthreads();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            room[(wave * ROWS + i) * 64 + lane * 2] = row_sum[i][0];
            room[(wave * ROWS + i) * 64 + lane * 2 + 1] = row_sum[i][1];
        }
        __syncthreads();
        if (r < BM) {
            float sum = room[r];
            CKCI_K_UNROLL(8)
            for (int i = 1; i < 8; i++) {
                sum += room[i * ROWS * 64 + r];
            }
            to_part.put(r, sum);
        }
    }

    static CKCI_K_MEMBER ckci_k_place place(const ckci_gpu_conv &p, int32_t k)
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER void prepare(int32_t four)
    {
        ckci_k_tap_entry e = {at.a, at.b, 0, left > 0 ? 1 : 1 | OUTSIDE};
        ckci_k_hole hole;
        hole.close(p.ranges);
        if (left > 0) {
            const ckci_k_place q = {0, at.z, at.y, at.x};
            hole.open(p.ranges);
            hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
        }
        e.need = hole.word;
        table[four % 2 * FOUR + (int)threadIdx.x] = e;
        stride.advance(at);
        left -= FOUR;
    }

    CKCI_K_MEMBER void copy(int32_t step, unsigned char *tile)
    {
        if (p.ranges) {
            copy_step<1>(step, tile);
        } else {
            copy_step<0>(step, tile);
        }
        if ((uint32_t)step % 4 == 1) { /* the entries of the four before were read before a barrier */
            prepare(step / 4 + 1);
        }
    }

    template <int RANGES> CKCI_K_MEMBER void copy_step(int32_t step, unsigned char *tile) const
    {
        unsigned char *to = tile + ckci_k_spot<128>((int)threadIdx.x / 8, (int)threadIdx.x % 8);
        CKCI_K_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            const ckci_k_tap_entry e = table[(uint32_t)step % 8 * KT + threadIdx.x / 8 + 32 * j];
            const unsigned char *from_a = a + (uint32_t)e.a, *from_b = b + e.b;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < ROWS; i++) {
                ckci_k_copy_from(to + (i * 64 + 32 * j) * 128, from_a + i * 128,
                                 ((uint32_t)e.unused & (uint32_t)row[i]) == 0 ? 16 : 0);
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < COLUMNS; i++) {
                const ckci_k_hole hole = {e.need};
                const bool good = RANGES ? (hole.bad(1, column[i].tap, 0) | (int32_t)column[i].need) >= 0
                                         : (e.need & column[i].need) == 0;
                ckci_k_copy_from(to + ((ROWS + i) * 64 + 32 * j) * 128, from_b + (uint32_t)column[i].offset,
                                 good ? 16 : 0);
            }
        }
    }
};
#endif

/* The sums of tile `work` to part `part`; more: they are added to what it holds. */
template <class F, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_finish(const ckci_gpu_conv &p, int32_t work, int32_t part, bool more,
                                           F &f, L &m)
{
    const int32_t rest = ckci_k_divide(work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    const int32_t column0 = (work - rest * p.tiles_n) * BN, row0 = (rest - group * p.tiles_m) * BM;
    typedef typename F::number number;
    if constexpr (F::SIXTEEN) {
        if (p.o_vec) {
            const int32_t dtype = p.o.partial ? CKCONV_F32 : p.o.t.dtype;
            const int32_t size = p.o.partial ? 4 : ckci_k_size(dtype);
            const int64_t row = ((int64_t)part * p.g + group) * p.rows + row0;
            unsigned char *to = (p.o.partial ? p.o.partial : p.o.t.p) + size * (row * p.columns + column0);
            if (more) {
                f.add(to, p.columns, p.rows - row0, p.columns - column0);
            }
            if (size == 2 && p.columns % 8 == 0) {
                f.store_lines(m.tiles, to, p.columns, p.rows - row0, p.columns - column0, dtype);
            } else {
                f.store(to, p.columns, p.rows - row0, p.columns - column0, dtype);
            }
            return;
        }
    }
    const int32_t order = CKCI_K_FINISH_LINES;
    f.template finish<F::SUMS_WIDE>(m.tiles, order, [&](int row, int column, number *v, int count) {
        row += row0;
        column += column0;
        if (row >= p.rows || column >= p.columns) {
            return;
        }
        if (p.o.partial && p.merge == 0 && count == F::SUMS_WIDE && column + count <= p.columns) {
            int64_t at = (((int64_t)part * p.g + group) * p.rows + row) * p.columns + column;
            unsigned char *dst = (unsigned char *)p.o.partial + (int)sizeof(number) * at;
            if (more) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < F::SUMS_WIDE; i++) {
                    v[i] += ((const number *)dst)[i];
                }
            }
            if constexpr (F::SUMS_WIDE == 8) {
                ckci_k_store8(CKCONV_F32, dst, v);
            } else if constexpr (sizeof(number) == 8) {
                ((ckci_k_uint4 *)dst)[0] = ((const ckci_k_uint4 *)v)[0];
                ((ckci_k_uint4 *)dst)[1] = ((const ckci_k_uint4 *)v)[1];
            } else { /* so that a wave's stores fill lines */
                *(ckci_k_uint4 *)dst = *(const ckci_k_uint4 *)v;
            }
            return;
        }
        if constexpr (F::SUMS_WIDE == 4 && ckci_k_is_float<number>::YES) {
            if (p.o_vec && !p.o.partial && p.columns % 4 == 0) { /* dwei is dense in the order of the sums */
                const int64_t at = ((int64_t)group * p.rows + row) * p.columns + column;
                ckci_k_store4(p.o.t.dtype, p.o.t.p + at * ckci_k_size(p.o.t.dtype), *(const ckci_k_uint4 *)v);
                return;
            }
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < count && column + i < p.columns; i++) {
            ckci_k_write_weight<number, 1>(p, v[i], part, group, row, column + i, more);
        }
    });
}

/* The block's number, of which the compiler is not to know more: what follows from it is not kept. */
CKCI_K_FN int32_t ckci_k_block_again(const ckci_gpu_conv &p)
{
    return ckci_k_uniform_again(ckci_k_block_in_order(p));
}

/* What a block has of a tile: positions from .. to - 1, whose sums go to part `part`. */
struct ckci_k_weight_share {
    int32_t work, part, from, to;

    CKCI_K_MEMBER ckci_k_weight_share(const ckci_gpu_conv &p, int32_t block)
    {
        part = ckci_k_divide(ckci_k_divide(ckci_k_divide(block, p.by_tiles_n), p.by_tiles_m), p.by_phases);
        work = block - part * (p.tiles_m * p.tiles_n * p.g);
        from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        to = from + p.part + (part < p.part_rest ? 1 : 0);
    }
};

/* A loader's sums of rows to a block's part. */
template <int BM, class Loader>
CKCI_K_FN void ckci_k_finish_rows(const ckci_gpu_conv &p, const ckci_k_weight_share &s, const Loader &loader,
                                  unsigned char *tiles, bool more)
{
    const int32_t rest = ckci_k_divide(s.work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    const int32_t tile_n = s.work - rest * p.tiles_n, row0 = (rest - group * p.tiles_m) * BM;
    loader.finish_rows(tiles, ckci_k_row_part(p, s.part, tile_n, group, row0, more));
}

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_piece(const ckci_gpu_conv &p, const ckci_k_weight_share &s, int32_t from,
                                          int32_t to, bool more, F &f, L &m)
{
    enum { KT = F::KB / F::SIZE };
    const int32_t rest = ckci_k_divide(s.work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    Loader loader(p, group, (rest - group * p.tiles_m) * BM, (s.work - rest * p.tiles_n) * BN, from, to,
                  m.table);
    ckci_k_multiply_all(f, m.tiles, loader, (to - from + KT - 1) / KT, p.a.compute);
    if constexpr (Loader::BESIDE) { /* registers are scarce: none holds this over the loop */
        const ckci_gpu_conv &q = ckci_k_late_again(p);
        if constexpr (F::SIXTEEN) {
            ckci_k_finish_rows<BM>(q, s, loader, m.tiles, more);
        } else {
            ckci_k_finish_rows<BM>(q, ckci_k_weight_share(q, ckci_k_block_again(q)), loader, m.tiles, more);
        }
    }
}

/* Where there is one part, and no launch behind, a block's sums of rows go on to dbias. Their threads wrote
   them. */
template <int BM> CKCI_K_FN void ckci_k_rows_out(const ckci_gpu_conv &p, const ckci_k_weight_share &s)
{
    const int32_t rest = ckci_k_divide(s.work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    const int32_t row = (rest - group * p.tiles_m) * BM + (int32_t)threadIdx.x;
    if (p.bias.out && (int32_t)threadIdx.x < BM && row < p.rows &&
        ckci_k_sums_rows(p, s.work - rest * p.tiles_n)) {
        const int32_t channel = group * p.rows + row;
        ckci_k_bias_put<float>(p.bias, channel, ((const float *)p.bias.sums)[channel]);
    }
}

/* Positions are summed p.chain at a time (0: all), lest the error of a sum grow with their number. What one
   piece sums is added to what those before did: in registers (CKCI_MATRIX_FAR), else in memory, to the part,
   which is no other block's. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_pieces(const ckci_gpu_conv &p, const ckci_k_weight_share &s, L &m)
{
    int32_t from = s.from;
    CKCI_K_UNROLL(1)
    for (;;) {
        const int32_t end = p.chain && s.to - from > p.chain ? from + p.chain : s.to;
        F f;
        ckci_k_matrix_weight_piece<F, Loader, BM, BN>(p, s, from, end, from > s.from, f, m);
        ckci_k_matrix_weight_finish<F, BM, BN>(p, s.work, s.part, from > s.from, f, m);
        from = end;
        if (from >= s.to) {
            ckci_k_rows_out<BM>(p, s);
            return;
        }
        __syncthreads(); /* nobody is at the piece before any more */
    }
}

/* The same of fragments, whose registers are scarce: from piece to piece a block knows how many positions
   are done, and nothing else. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_pieces(const ckci_gpu_conv &args, L &m)
{
    enum { FAR = CKCI_MATRIX_FAR(F::SIZE, BM, BN) };
    F far;
    if constexpr (FAR) {
        far.clear();
    }
    int32_t done = 0;
    CKCI_K_UNROLL(1)
    for (bool last = false; !last;) {
        const ckci_gpu_conv &p = ckci_k_late_again(args);
        F f;
        {
            const ckci_k_weight_share s(p, ckci_k_block_again(p));
            const int32_t from = s.from + done;
            const int32_t end = p.chain && s.to - from > p.chain ? from + p.chain : s.to;
            ckci_k_matrix_weight_piece<F, Loader, BM, BN>(p, s, from, end, done > 0, f, m);
        }
        const ckci_gpu_conv &q = ckci_k_late_again(args);
        const ckci_k_weight_share s(q, ckci_k_block_again(q));
        if constexpr (FAR) {
            far.add(f);
        } else {
            ckci_k_matrix_weight_finish<F, BM, BN>(q, s.work, s.part, done > 0, f, m);
        }
        last = q.chain == 0 || s.to - s.from - done <= q.chain;
        done += q.chain;
        __syncthreads(); /* nobody is at the piece before any more */
    }
    const ckci_gpu_conv &p = ckci_k_late_again(args);
    const ckci_k_weight_share s(p, ckci_k_block_again(p));
    if constexpr (FAR) {
        ckci_k_matrix_weight_finish<F, BM, BN>(p, s.work, s.part, false, far, m);
    }
    if constexpr (Loader::BESIDE) {
        ckci_k_rows_out<BM>(p, s);
    }
}

/* A block has one tile and a part of its positions; or, groups of waves with p.share, as many steps as every
   other block: of neighbouring tiles, one after the other. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_run(const ckci_gpu_conv &p, L &m)
{
    if constexpr (F::SIXTEEN) {
        const int32_t block = (int32_t)blockIdx.x;
        const ckci_gpu_share &share = p.share;
        int32_t next = block, end = block + 1;
        if (share.steps) {
            next = block * share.part + (block < share.rest ? block : share.rest);
            end = next + share.part + (block < share.rest ? 1 : 0);
        }
        CKCI_K_UNROLL(1)
        while (next < end) {
            ckci_k_weight_share s(p, next);
            if (share.steps) {
                s.work = ckci_k_divide(next, share.by_steps);
                const int32_t first = s.work * share.steps, past = first + share.steps;
                s.part = block - ckci_k_share_block(share, first);
                s.from = (next - first) * 64;
                next = end < past ? end : past;
                s.to = (next - first) * 64 < share.positions ? (next - first) * 64 : share.positions;
                __syncthreads(); /* nobody is at the tile before any more */
            } else {
                next++;
            }
            ckci_k_matrix_weight_pieces<F, Loader, BM, BN>(p, s, m);
        }
    } else {
        ckci_k_matrix_weight_pieces<F, Loader, BM, BN>(p, m);
    }
}
