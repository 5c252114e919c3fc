/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-gather
  fwd and bwd_data on matrix units: taps, padding, rows of the implicit GEMM, and their kernel. A block owns
  tiles of outputs of one group and phase; what lies on padding is told by bits of a row and of a tap, so that
  a chunk costs an addition and a test. Taps at which all rows of a tile lie there are left out (not by groups
  of waves). Groups of waves take several tiles and load the next one while they write (NVIDIA). bwd_weight
  takes the table of taps and the tests of padding from here.
*/
#pragma once
#include "kernels/vector/gather.h"
#include "kernels/matrix/groups.h"
#include "kernels/store.h"

/* A bit for each tap t of a dimension for which first + t * step lies outside 0 to len - 1. */
CKCI_K_FN uint32_t ckci_k_bad_taps(int32_t first, int32_t taps, int32_t step, int32_t len)
{
    if (step == 1 || step == -1) {
        int32_t low = step > 0 ? -first : first - len + 1, high = step > 0 ? len - first : first + 1;
        low = low < 0 ? 0 : low > taps ? taps : low;
        high = high < low ? low : high > taps ? taps : high;
        return ((1u << taps) - 1) & ~((1u << high) - (1u << low));
    }
    uint32_t bad = 0;
    CKCI_K_UNROLL(1)
    for (int32_t t = 0; t < taps; t++) {
        bad |= (uint32_t)(first + t * step) < (uint32_t)len ? 0u : 1u << t;
    }
    return bad;
}

/* Which taps of a row or position lie on padding. Masks: a bit for each tap of each dimension (z above y
   above x), bit 31 always set; a tap needs three clear bits. Ranges, where one dimension alone has several
   taps: taps low to low + count - 1 are good. Either way the sign of `bad` tells. */
struct ckci_k_hole {
    uint32_t word;

    CKCI_K_MEMBER void close(int32_t ranges)
    {
        word = ranges ? 0u : 0xffffffffu;
    }

    CKCI_K_MEMBER void open(int32_t ranges)
    {
        word = ranges ? (uint32_t)CKCI_K_TAPS << 16 : 0x80000000u;
    }

    /* A dimension: coordinate at tap 0, taps and the step between them, its end; the first of its bits. */
    CKCI_K_MEMBER void add(int32_t ranges, int32_t first, int32_t taps, int32_t step, int32_t end, int shift)
    {
        if (!ranges) {
            word |= ckci_k_bad_taps(first, taps, step, end) << shift;
            return;
        }
        int32_t low = 0, high = 0;
        for (int32_t t = taps - 1; t >= 0; t--) {
            if ((uint32_t)(first + t * step) < (uint32_t)end) {
                low = t;
                high = high == 0 ? t + 1 : high;
            }
        }
        if (taps > 1) {
            word = word == 0 ? 0 : (uint32_t)(high - low) << 16 | (uint32_t)low;
        } else if (high == 0) {
            word = 0;
        }
    }

    /* All dimensions of what reads from z, y, x on; taps in each of them. One after the other, so that the
       code stands once. */
    CKCI_K_MEMBER void add_all(int32_t ranges, const ckci_gpu_dim dim[3], const ckci_k_place &q,
                               int32_t taps_z, int32_t taps_y, int32_t taps_x)
    {
        int32_t shift = 0;
        CKCI_K_UNROLL(1)
        for (int i = 2; i >= 0; i--) {
            int32_t first = i == 2 ? q.x : i == 1 ? q.y : q.z;
            int32_t taps = i == 2 ? taps_x : i == 1 ? taps_y : taps_z;
            add(ranges, first, taps, dim[i].read_tap, dim[i].read_len, shift);
            shift += taps;
        }
    }

    CKCI_K_MEMBER bool good(int32_t ranges, int32_t tap, uint32_t need) const
    {
        return ranges ? bad(1, tap, need) >= 0 : (word & need) == 0;
    }

    CKCI_K_MEMBER int32_t bad(int32_t ranges, int32_t tap, uint32_t need) const
    {
        if (!ranges) {
            return (int32_t)(0u - (word & need));
        }
        int32_t past = tap - (int32_t)(word & 0xffffu);
        return (past | ((int32_t)(word >> 16) - 1 - past)) & INT32_MIN;
    }
};

/* The taps of a phase, in LDS: byte offsets in both operands, and what the tap needs of a row. One more entry
   follows them, a tap that is never good. bwd_weight: the positions of a step, with their holes in `need`. */
struct alignas(16) ckci_k_tap_entry {
    int32_t a, b;
    uint32_t need;
    int32_t unused;
};

/* A row of a block: its offset at the first tap, and which taps lie on padding. */
struct ckci_k_row_entry {
    int32_t at;
    ckci_k_hole hole;
};

/* ---- fwd and bwd_data. Rows, columns and the reduction are those of >>k-vector-gather; the reduction is
   taken in chunks of 16 bytes, which lie in one tap: the channels of a tap are a multiple of a chunk. A
   thread fetches chunks of one place in the reduction, of several rows and columns. Rows keep the offset of
   their first tap and what lies on padding, taps their offsets (in LDS), so that a chunk costs an addition
   and a test. */
template <class U, int BM, int BN, int BACK> struct ckci_k_gather_chunks {
    enum {
        CHUNKS = U::KB / 16,
        EACH = U::THREADS / CHUNKS, /* rows that the block fetches at a time */
        A = (BM + EACH - 1) / EACH,
        B = (BN + EACH - 1) / EACH,
        LOADS = A + B,
        SLAB = 64 * U::KB,             /* BACK, DIRECT: of 64 columns, a line for each place */
        SIDE = U::THREADS * 16 / SLAB, /* that the block fills side by side */
        TURNED = BACK && ckci_k_turns<U>::LOADS, /* weights by loads that turn */
        /* waves fill tiles: 0: never, 1: for plain steps, 2: always; -1: never, and steps are plain */
        DIRECT = TURNED ? -1 : +U::DIRECT,
        SLABS = (BN + 63) / 64,
        SEGMENT = 0,
        BESIDE = 0,
        LOOPS = U::ASYNC, /* a block may take several tiles */
        SIZE = U::SIZE    /* of an element */
    };
    const ckci_gpu_conv &p;
    const ckci_k_tap_entry *taps;
    ckci_k_window wa, wb;
    int32_t tap, at, count, red, first; /* at: bytes past the first channel of the tap */
    int32_t next_a, next_b, need;       /* of plain steps */
    int32_t down; /* BACK: bytes past the first row of weights; of steps of several taps: their first place */
    int32_t a_at[A], b_at[B];
    ckci_k_hole hole[A];
    ckci_k_uint4 a_raw[A], b_raw[B];

    CKCI_K_MEMBER ckci_k_gather_chunks(const ckci_gpu_conv &conv, const ckci_k_block &b,
                                       ckci_k_tap_entry *table, ckci_k_row_entry *rows)
        : p(conv), taps(table)
    {
        const ckci_k_axis *axis = b.axis;
        count = axis[0].taps * axis[1].taps * axis[2].taps;
        const int32_t tap0 = ckci_k_trim(p, b.row, BM, count);
        red = p.red * SIZE;
        next_a = next_b = need = 0;
        int32_t row_low = 0, tap_low = 0; /* what makes all offsets of rows and of taps positive */
        if constexpr (!U::ASYNC) {
            CKCI_K_UNROLL(3)
            for (int i = 0; i < 3; i++) {
                int32_t reach = (axis[i].taps - 1) * p.dim[i].read_tap, step = (int32_t)p.a.stride[3 + i];
                row_low += axis[i].read0 < 0 ? axis[i].read0 * step : 0;
                tap_low += reach < 0 ? reach * step : 0;
            }
            row_low *= SIZE;
            tap_low *= SIZE;
        }
        fill(axis, tap0, count, table, tap_low);
        ckci_k_place start = ckci_k_row(axis, b.row);
        for (int r = (int)threadIdx.x; r < BM; r += U::THREADS) {
            rows[r] = row(axis, ckci_k_row(axis, b.row + r), start.n);
            rows[r].at -= row_low;
        }
        __syncthreads();
        wa = ckci_k_make_window(p.a.p + SIZE * (b.group * p.a.stride[0] + start.n * p.a.stride[1]) +
                                (row_low + tap_low));
        wb = ckci_k_make_window(p.b.p + SIZE * (b.group * p.b.stride[0] + b.column * p.b_column));
        settle(b.column, rows);
    }

    /* One that is told later where it reads: settle(), after its windows and tables. */
    explicit CKCI_K_MEMBER ckci_k_gather_chunks(const ckci_gpu_conv &conv) : p(conv)
    {
        red = p.red * SIZE;
        next_a = next_b = need = 0;
    }

    CKCI_K_MEMBER void settle(int32_t column0, const ckci_k_row_entry *rows)
    {
        first = (int32_t)threadIdx.x / CHUNKS;
        at = own();
        tap = 0;
        if (!p.taps_inside) {
            wrap();
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            const ckci_k_row_entry e = rows[(BM >= EACH ? first : first % BM) + i * EACH];
            a_at[i] = e.at;
            hole[i] = e.hole;
        }
        down = 0;
        if constexpr (TURNED) { /* eight places of a channel; columns that nobody stores get the first's */
            const int32_t place = (int32_t)threadIdx.x / 32 % 4 * 8 + (int32_t)threadIdx.x % 8;
            CKCI_K_UNROLL(2)
            for (int i = 0; i < B; i++) {
                const int32_t column = turned_column(i);
                b_at[i] =
                    SIZE * (place * (int32_t)p.b_red + (column0 + column < p.columns ? column : 0));
            }
        } else if constexpr (BACK && U::DIRECT) {
            const int32_t line = (int32_t)threadIdx.x / 8 % (U::KB / SIZE);
            const int32_t chunk = (int32_t)threadIdx.x / (SLAB / 16) * 64 +
                                  U::across_chunk_of(line, (int32_t)threadIdx.x % 8) * 8;
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                const int32_t column = chunk + i * SIDE * 64;
                b_at[i] =
                    column0 + column < p.columns ? SIZE * (line * (int32_t)p.b_red + column) : INT32_MIN;
            }
        } else if constexpr (BACK) {
            const int32_t column = (int32_t)threadIdx.x % CHUNKS * 8;
            const int32_t row = CKCI_BACK_ANY(BN) && !p.taps_inside ? 0 : first * (int32_t)p.b_red;
            CKCI_K_UNROLL(2)
            for (int i = 0; i < SLABS; i++) {
                b_at[i] = column0 + column + i * 64 < p.columns && column + i * 64 < BN
                              ? SIZE * (row + column + i * 64)
                              : INT32_MIN;
            }
        } else {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                int32_t column = first + i * EACH;
                b_at[i] = column0 + column < p.columns ? SIZE * column * (int32_t)p.b_column : INT32_MIN;
            }
        }
    }

    /* TURNED: the first of the eight columns that eight threads load and keep one of, each. */
    static CKCI_K_MEMBER int32_t turned_column(int i)
    {
        return (int32_t)threadIdx.x / 128 * 32 + (int32_t)threadIdx.x / 8 % 4 * 8 + i * 64;
    }

    /* This thread's chunk, in bytes: that of its place in LDS, or, where waves fill rows from their
       beginning, the one that lies there. */
    static CKCI_K_MEMBER int32_t own()
    {
        const int32_t place = (int32_t)threadIdx.x % CHUNKS;
        if constexpr (U::DIRECT) {
            return U::chunk_of((int32_t)threadIdx.x / CHUNKS, place) * 16;
        } else {
            return place * 16;
        }
    }

    /* From the first step on to another one, in the order in which steps are taken. */
    CKCI_K_MEMBER void skip(int32_t steps)
    {
        if (p.taps_inside && (U::ASYNC || !p.ranges)) {
            const int32_t slices = steps / count;
            tap = steps - slices * count;
            at += slices * U::KB;
            down += slices * (SIZE * 64 * (int32_t)p.b_red);
        } else {
            at += steps * U::KB;
            down += steps * (U::KB / SIZE);
            wrap();
        }
    }

    /* Row q: its offset at the first tap, from batch n0 on, and what lies on padding. */
    CKCI_K_MEMBER ckci_k_row_entry row(const ckci_k_axis axis[3], ckci_k_place q, int32_t n0) const
    {
        const int64_t *s = p.a.stride;
        q.z = q.z * p.dim[0].read_step + axis[0].read0;
        q.y = q.y * p.dim[1].read_step + axis[1].read0;
        q.x = q.x * p.dim[2].read_step + axis[2].read0;
        ckci_k_row_entry e;
        e.at = SIZE * (int32_t)((q.n - n0) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
        e.hole.close(p.ranges);
        if (q.n < p.n) {
            e.hole.open(p.ranges);
            e.hole.add_all(p.ranges, p.dim, q, axis[0].taps, axis[1].taps, axis[2].taps);
        }
        return e;
    }

    /* Taps tap0 to tap0 + all - 1. */
    CKCI_K_MEMBER void fill(const ckci_k_axis axis[3], int32_t tap0, int32_t all, ckci_k_tap_entry *table,
                            int32_t low) const
    {
        const int64_t *s = p.a.stride;
        for (int32_t i = (int32_t)threadIdx.x; i <= all; i += U::THREADS) {
            ckci_k_tap t = ckci_k_find_tap(p, axis, (tap0 + i) * p.red);
            ckci_k_tap_entry e = {0, INT32_MIN, 0x80000000u, 0};
            if (i < all) {
                e.a = SIZE * (int32_t)(t.z * p.dim[0].read_tap * s[3] + t.y * p.dim[1].read_tap * s[4] +
                                       t.x * p.dim[2].read_tap * s[5]) -
                      low;
                e.b = SIZE * (int32_t)ckci_k_weight_at(p, axis, t);
                e.need = p.ranges ? 0
                                  : 1u << t.x % 32 | 1u << (axis[2].taps + t.y) % 32 |
                                        1u << (axis[2].taps + axis[1].taps + t.z) % 32;
            }
            table[i] = e;
        }
    }

    CKCI_K_MEMBER void wrap()
    {
        while (at >= red) {
            at -= red;
            tap++;
        }
        tap = tap < count ? tap : count;
    }

    /* To the next step: the next tap of the same channels where no step has several taps, since neighbouring
       taps read the same lines; else the next channels. */
    CKCI_K_MEMBER void advance()
    {
        if (p.taps_inside) {
            if (++tap == count) {
                tap = 0;
                at += U::KB;
                down += SIZE * 64 * (int32_t)p.b_red;
            }
        } else {
            at += U::KB;
            down += U::KB / SIZE;
            wrap();
        }
    }

    CKCI_K_MEMBER int32_t a_offset(int i, const ckci_k_tap_entry &e) const
    {
        return ckci_k_add(a_at[i], e.a, at) | hole[i].bad(p.ranges, tap, e.need);
    }

    CKCI_K_MEMBER int32_t b_offset(int i, const ckci_k_tap_entry &e) const
    {
        return ckci_k_add(b_at[i], e.b, b_at[i] < 0 ? 0 : at);
    }

    /* Is the tap of a step the same for all threads? Then its offsets lie in scalar registers. */
    CKCI_K_MEMBER bool plain() const
    {
        return p.taps_inside && !p.ranges;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin()
    {
        if constexpr (PLAIN) {
            const int32_t chunk = own();
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                a_at[i] += chunk;
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B && !BACK; i++) {
                b_at[i] += b_at[i] < 0 ? 0 : chunk;
            }
            at = p.split > 1 ? ckci_k_same(at - chunk) : 0;
            tap = p.split > 1 ? ckci_k_same(tap) : 0;
            look();
        }
    }

    CKCI_K_MEMBER void look()
    {
        ckci_k_tap_entry e = taps[tap];
        next_a = ckci_k_same(e.a) + at;
        next_b = ckci_k_same(e.b) + (BACK ? at * (int32_t)p.b_red : at);
        need = ckci_k_same((int32_t)e.need);
    }

    /* Beyond the last step to something that was there before. */
    CKCI_K_MEMBER void advance_plain()
    {
        tap++;
        int32_t wrap = tap == count, last = red - U::KB;
        tap = wrap ? 0 : tap;
        at = !wrap ? at : at < last ? at + U::KB : last;
        look();
    }

    /* Plain steps: waves fill the tile, 16 rows at a time, or eight lines of 64 columns. */
    template <int> CKCI_K_MEMBER void fill(int32_t, unsigned char *tile)
    {
        tile += ckci_k_same((int32_t)threadIdx.x / U::WAVE) * (U::WAVE * 16);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < A; i++) {
            const int32_t bad = hole[i].bad(0, 0, (uint32_t)need);
            ckci_k_copy_direct(tile + i * EACH * U::KB, wa, a_at[i] | bad, next_a);
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < B; i++) {
            ckci_k_copy_direct(tile + BM * U::KB + i * (BACK ? +SIDE * SLAB : EACH * U::KB), wb, b_at[i],
                               next_b);
        }
        advance_plain();
    }

    /* Beyond the last step it loads something again. */
    template <int PLAIN> CKCI_K_MEMBER void fetch(int32_t)
    {
        if constexpr (PLAIN) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                int32_t bad = hole[i].bad(0, 0, (uint32_t)need);
                a_raw[i] = ckci_k_window_load(wa, a_at[i] | bad, next_a);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                if constexpr (TURNED) {
                    b_raw[i] = ckci_k_load_turned(ckci_k_window_begin(wb) + next_b + (uint32_t)b_at[i]);
                } else {
                    b_raw[i] = ckci_k_window_load(wb, b_at[i], next_b);
                }
            }
            advance_plain();
        } else {
            ckci_k_tap_entry e = taps[tap];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                a_raw[i] = ckci_k_window_load(wa, a_offset(i, e));
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_raw[i] = ckci_k_window_load(wb, b_offset(i, e));
            }
            at += U::KB;
            wrap();
        }
    }

#if defined(CKCI_K_MMA)
    CKCI_K_MEMBER void copy(int32_t, unsigned char *tile)
    {
        if (p.ranges) {
            copy_step<1>(tile);
        } else {
            copy_step<0>(tile);
        }
        advance();
    }

    template <int RANGES> CKCI_K_MEMBER void copy_step(unsigned char *tile) const
    {
        const ckci_k_tap_entry e = taps[tap];
        const int32_t most = (int32_t)e.need < 0 ? 0 : 16;
        const unsigned char *a = wa.base + (e.a + at);
        unsigned char *to = tile + ckci_k_spot<U::KB>(first, (int)threadIdx.x % CHUNKS);
        const bool inside = !BACK || at < red; /* the last step of one tap may be less */
        ckci_k_known(a);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            ckci_k_copy_from(to + i * EACH * U::KB, a + a_at[i],
                             inside && hole[i].good(RANGES, tap, e.need) ? 16 : 0);
        }
        if constexpr (BACK && CKCI_BACK_ANY(BN)) {
            if (!p.taps_inside) {
                copy_rows(to);
                return;
            }
        }
        if constexpr (BACK) {
            const int32_t left = (red - at) / SIZE + (int32_t)threadIdx.x % CHUNKS * 8 - first;
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const int32_t row = ckci_k_add(e.b, down, j * SIZE * 32 * (int32_t)p.b_red);
                CKCI_K_UNROLL(2)
                for (int i = 0; i < SLABS; i++) {
                    ckci_k_copy(to + (BM + i * 64 + j * 32) * U::KB, wb, ckci_k_add(b_at[i], row, 0),
                                b_at[i] < 0 || j * 32 >= left ? 0 : 16);
                }
            }
        } else {
            const int32_t b = ckci_k_add(e.b, at, 0);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                ckci_k_copy(to + (BM + i * EACH) * U::KB, wb, ckci_k_add(b_at[i], b, 0),
                            b_at[i] < 0 ? 0 : most);
            }
        }
    }

    /* BACK, where a step has several taps: each row of weights is looked for. */
    CKCI_K_MEMBER void copy_rows(unsigned char *to) const
    {
        CKCI_K_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            const int32_t place = down + first + j * 32, of = ckci_k_divide(place, p.by_red);
            const int32_t b = taps[of < count ? of : count].b;
            const int32_t row = ckci_k_add(b, SIZE * (place - of * p.red) * (int32_t)p.b_red, 0);
            CKCI_K_UNROLL(2)
            for (int i = 0; i < SLABS; i++) {
                ckci_k_copy(to + (BM + i * 64 + j * 32) * U::KB, wb, ckci_k_add(b_at[i], row, 0),
                            b_at[i] < 0 || of >= count ? 0 : 16);
            }
        }
    }
#endif

    template <class T> CKCI_K_MEMBER void put(unsigned char *tile) const
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < A; i++) {
            if (BM >= EACH || first < BM) {
                *(ckci_k_uint4 *)(tile + spot(i * EACH)) = ckci_k_rounded<T>(a_raw[i]);
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < B; i++) {
            if constexpr (TURNED) {
                *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(
                                             BM + turned_column(i) + (int32_t)threadIdx.x % 8,
                                             (int32_t)threadIdx.x / 32 % 4)) = b_raw[i];
            } else if (BN >= EACH || first < BN) {
                *(ckci_k_uint4 *)(tile + spot(BM + i * EACH)) = ckci_k_rounded<T>(b_raw[i]);
            }
        }
    }

    /* Where this thread's chunk lies, so many rows further down. */
    CKCI_K_MEMBER int spot(int down) const
    {
        const int place = (int)threadIdx.x % CHUNKS;
        return U::DIRECT ? (first + down) * U::KB + place * 16 : ckci_k_spot<U::KB>(first + down, place);
    }
};

/* The table holds the taps and, in bwd_weight, eight steps of places in the reduction; rows afterwards their
   offsets in the output. */
template <int BYTES, int ROWS, int PLACES> struct ckci_k_matrix_lds {
    alignas(CKCI_K_TILE_ALIGN) unsigned char tiles[BYTES];
    ckci_k_tap_entry table[PLACES ? PLACES * 8 : CKCI_K_TAPS + 1];
    union {
        ckci_k_row_entry rows[ROWS];
        int64_t outputs[ROWS];
    };
};

/* The same for a block that takes several tiles (ckci_k_stream): where its rows lie in the output, and what
   else a tile begins with, for the tile that is multiplied and for the next one. */
struct ckci_k_stream_tile {
    const unsigned char *a, *b;
    unsigned char *out;
    int32_t column, taps, first, steps; /* first: step of a part */
};

template <int BYTES, int ROWS, int COLUMNS> struct ckci_k_stream_lds {
    alignas(CKCI_K_TILE_ALIGN) unsigned char tiles[BYTES];
    ckci_k_tap_entry table[CKCI_K_TAPS + 1];
    union {
        ckci_k_row_entry rows[ROWS];
        int64_t outputs[ROWS];
    };
    ckci_k_stream_tile tile[2];
    int32_t places[2][ROWS];
    /* what D tensors of one number a channel add to sums, and, where there is room, multiply them with */
    float shift[2][COLUMNS], factor[2][COLUMNS > 64 ? COLUMNS : 1];
};

template <int BYTES, int ROWS, int PLACES, int COLUMNS> struct ckci_k_matrix_room {
    typedef ckci_k_stream_lds<BYTES, ROWS, COLUMNS> type;
};
template <int BYTES, int ROWS, int PLACES> struct ckci_k_matrix_room<BYTES, ROWS, PLACES, 0> {
    typedef ckci_k_matrix_lds<BYTES, PLACES ? 1 : ROWS, PLACES> type;
};

/* Which of the work a block takes. */
CKCI_K_FN int32_t ckci_k_block_in_order(const ckci_gpu_conv &p)
{
    const int32_t block = (int32_t)blockIdx.x;
    return ckci_k_has_dies() ? ckci_k_in_order(p.as.order, block) : block;
}

/* The tile of a block's work, which part of its steps (p.split of them), and those. */
CKCI_K_FN int32_t ckci_k_tile_of(const ckci_gpu_conv &p, int32_t work, int32_t &part)
{
    part = 0;
    if (p.split > 1) {
        part = ckci_k_divide(work, p.by_work);
        work -= part * (int32_t)p.by_work.d;
    }
    return work;
}

CKCI_K_FN void ckci_k_part_steps(const ckci_gpu_conv &p, int32_t part, int32_t &first, int32_t &steps)
{
    first = 0;
    if (p.split > 1) {
        first = ckci_k_divide(steps * part, p.by_split);
        steps = ckci_k_divide(steps * (part + 1), p.by_split) - first;
    }
}

/* The sums of tile `work` to memory; those of a part as they are, to its place in the workspace. */
template <class F, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_finish(const ckci_gpu_conv &conv, int32_t work, F &f, L &m)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    int32_t part;
    const int32_t tile = ckci_k_tile_of(p, work, part);
    ckci_k_block b = ckci_k_block_of(p, tile, BM, BN);
    enum { RUNS = F::PLANES && CKCI_K_MAYBE_AMD };
    typedef typename F::number number;
    const ckci_tensor &t = p.o.t;
    const bool parts = p.split > 1;
    const bool planes = F::PLANES && p.o.across == CKCI_ACROSS_PLANES;
#if defined(CKCI_SIMULATOR)
    if (!planes && p.o.across == CKCI_ACROSS_PLANES) {
        sim_die("a tile is to write planes, and cannot");
    }
#endif
    const bool lines = parts || planes || ((p.o_vec || t.stride[2] == 1) && p.o.form != CKCI_FORM_SINGLE);
    int64_t *at = m.outputs;
    if (parts) {
        for (int r = (int)threadIdx.x; r < BM; r += F::THREADS) {
            const int64_t row = (int64_t)(part * p.g + b.group) * p.rows + b.row + r;
            at[r] = b.row + r < p.rows ? row * p.columns : (int64_t)-1;
        }
    } else if (lines) {
        for (int r = (int)threadIdx.x; r < BM; r += F::THREADS) {
            ckci_k_place q = ckci_k_row(b.axis, b.row + r);
            at[r] = q.n >= p.n ? -1
                               : b.group * t.stride[0] + q.n * t.stride[1] +
                                     (b.axis[0].write0 + q.z * p.dim[0].write_step) * t.stride[3] +
                                     (b.axis[1].write0 + q.y * p.dim[1].write_step) * t.stride[4] +
                                     (b.axis[2].write0 + q.x * p.dim[2].write_step) * t.stride[5];
        }
    }
    if constexpr (F::SUMS_WIDE == 4) { /* so that a wave's stores fill lines */
        if (parts) {
            const int32_t order = CKCI_K_FINISH_LINES;
            f.template finish<4>(m.tiles, order, [&](int row, int column, typename F::number *v, int) {
                column += b.column;
                if (at[row] >= 0 && column < p.columns) {
                    unsigned char *to = ckci_k_global(p.o.partial) + (at[row] + column) * 4;
                    *(ckci_k_uint4 *)to = *(const ckci_k_uint4 *)v;
                }
            });
            return;
        }
    }
    const int32_t order = planes                                ? CKCI_K_FINISH_PLANES
                          : !lines && t.stride[5] < t.stride[2] ? CKCI_K_FINISH_ROWS
                                                                : CKCI_K_FINISH_LINES;
    f.template finish<8, F::PLANES>(m.tiles, order, [&](int row, int column, number *v, int count) {
        column += b.column;
        if (lines) {
            if (at[row] < 0 || column >= p.columns) {
                return;
            }
            if (parts) {
                ckci_k_store8(CKCONV_F32, p.o.partial + (at[row] + column) * 4, v);
                return;
            }
            unsigned char *to = t.p + (at[row] + column * t.stride[2]) * ckci_k_size(t.dtype);
            const int64_t channel =
                p.o.across == CKCI_ACROSS_ROWS ? (int64_t)b.row + row : (int64_t)b.group * p.columns + column;
            bool whole = p.o_vec != 0; /* planes of AMD's: are they in one image? */
            if constexpr (RUNS) {
                whole = whole || (planes && at[row + 7] == at[row] + 7);
            }
            if (whole) {
                ckci_k_write_line(p.o, v, to, channel);
            } else {
                const int32_t left = RUNS && planes ? p.rows - b.row - row : p.columns - column;
                ckci_k_write_line<true>(p.o, v, to, channel, left, RUNS ? at + row : nullptr);
            }
            return;
        }
        ckci_k_place q = ckci_k_row(b.axis, b.row + row);
        if (q.n < p.n && column < p.columns) {
            ckci_k_write8(
                p, v, count, b.group, q.n, column, p.columns, b.axis[0].write0 + q.z * p.dim[0].write_step,
                b.axis[1].write0 + q.y * p.dim[1].write_step, b.axis[2].write0 + q.x * p.dim[2].write_step);
        }
    });
}

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_tile(const ckci_gpu_conv &p, int32_t work, L &m)
{
    F f;
    {
        int32_t part, first;
        const int32_t tile = ckci_k_tile_of(p, work, part);
        ckci_k_block b = ckci_k_block_of(p, tile, BM, BN);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        Loader loader(p, b, m.table, m.rows);
        int32_t bytes = loader.count * p.red * F::SIZE, steps = (bytes + F::KB - 1) / F::KB;
        ckci_k_part_steps(p, part, first, steps);
        if (first > 0) {
            loader.skip(first);
        }
        ckci_k_multiply_all(f, m.tiles, loader, steps, p.a.compute);
    }
    ckci_k_matrix_gather_finish<F, BM, BN>(p, work, f, m);
}

#if defined(CKCI_K_WGMMA)
/* Groups of waves: a block takes several tiles. While it multiplies one it prepares the tables of the next,
   and its last steps load the next one's first ones, which arrive while the sums are written; these pass
   through tiles in LDS that nothing is on its way to. That is so where finish16 takes the epilogue and
   all tiles have as many steps, or three at least (p.stream); else tiles follow one another. Blocks take
   every p.workers-th tile, not neighbours: what they all read at a time should lie close together. Where
   phases differ, whoever had the first tile, with most steps, gets the last one of the next p.workers. */
template <class F, class Loader, int BM, int BN, class L> struct ckci_k_stream {
    const ckci_gpu_conv &p;
    L &m;
    Loader loader;
    F f;
    int32_t slot, full, empty; /* the tile's tables; what is multiplied, what is loaded next */

    CKCI_K_MEMBER ckci_k_stream(const ckci_gpu_conv &conv, L &lds)
        : p(conv), m(lds), loader(conv), slot(0), full(0), empty(0)
    {
    }

    CKCI_K_MEMBER ckci_k_tap_entry *table(int32_t of) const
    {
        return m.table + (p.phases > 1 && p.stream ? of * CKCI_STREAM_TAPS : 0);
    }

    CKCI_K_MEMBER void prepare(int32_t work, int32_t to, bool taps)
    {
        int32_t part;
        const int32_t tile = ckci_k_tile_of(p, work, part);
        const ckci_k_block b = ckci_k_block_of(p, tile, BM, BN);
        const ckci_k_axis *axis = b.axis;
        const ckci_k_place start = ckci_k_row(axis, b.row);
        const int64_t *s = p.o.t.stride;
        const int32_t count = axis[0].taps * axis[1].taps * axis[2].taps;
        if (taps) {
            loader.fill(axis, 0, count, table(to), 0);
        }
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            const ckci_k_place q = ckci_k_row(axis, b.row + r);
            m.rows[r] = loader.row(axis, q, start.n);
            m.places[to][r] = q.n >= p.n ? -1
                                         : (int32_t)((q.n - start.n) * s[1] +
                                                     (axis[0].write0 + q.z * p.dim[0].write_step) * s[3] +
                                                     (axis[1].write0 + q.y * p.dim[1].write_step) * s[4] +
                                                     (axis[2].write0 + q.x * p.dim[2].write_step) * s[5]);
        }
        if (threadIdx.x == 0) {
            ckci_k_stream_tile &t = m.tile[to];
            const int32_t bytes = ckci_k_reduction(p, axis) * F::SIZE;
            t.a = p.a.p + F::SIZE * (b.group * p.a.stride[0] + start.n * p.a.stride[1]);
            t.b = p.b.p + F::SIZE * (b.group * p.b.stride[0] + b.column * p.b_column);
            t.out = p.o.t.p + 2 * (b.group * s[0] + start.n * s[1] + b.column * s[2]);
            t.column = b.column;
            t.taps = count;
            t.first = 0;
            t.steps = start.n < p.n ? (bytes + F::KB - 1) / F::KB : -1;
            if (t.steps >= 0) {
                ckci_k_part_steps(p, part, t.first, t.steps);
            }
        }
        if (p.o.form == CKCI_FORM_LINEAR && !F::rows_add(p.o) && (int)threadIdx.x < BN) {
            const int32_t column = b.column + (int32_t)threadIdx.x;
            float shift = 0, factor = 0;
            if (column < p.columns) {
                shift = added((int64_t)b.group * p.columns + column, 2, factor);
            }
            m.shift[to][threadIdx.x] = shift;
            if constexpr (F::FACTORS) {
                m.factor[to][threadIdx.x] = factor;
            }
        }
    }

    /* What D tensors of one number a channel add to channel `channel`, along their dimension `axis`; factor:
       what they multiply its sums with. */
    CKCI_K_MEMBER float added(int64_t channel, int axis, float &factor) const
    {
        float shift = 0;
        factor = p.o.alpha;
        for (int32_t d = 0; d < p.o.adds; d++) {
            float more = 0;
            if (p.o.d[d].line == CKCI_LINE_CHANNELS) {
                const ckci_gpu_extra &v = p.o.d[d];
                ckci_k_load_number(v.dtype, v.p + channel * v.stride[axis] * ckci_k_size(v.dtype), more);
            }
            if (p.o.d[d].how == CKCI_EXTRA_MULTIPLY) {
                factor *= more;
            } else {
                shift = fmaf(p.o.beta, more, shift);
            }
        }
        return shift;
    }

    /* The same for the rows of a tile, where the table of rows was, which start() has read. */
    CKCI_K_MEMBER const float *added_to_rows(int32_t work)
    {
        float *shift = (float *)m.rows;
        const ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        __syncthreads();
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            float factor;
            shift[r] = b.row + r < p.rows ? added(b.row + r, 5, factor) : 0.f;
        }
        return shift;
    }

    CKCI_K_MEMBER void start(int32_t from)
    {
        const ckci_k_stream_tile &t = m.tile[from];
        loader.wa = ckci_k_make_window(t.a);
        loader.wb = ckci_k_make_window(t.b);
        loader.taps = table(from);
        loader.count = t.taps;
        loader.settle(t.column, m.rows);
        if (t.first > 0) {
            loader.skip(t.first);
        }
    }

    static CKCI_K_MEMBER int32_t after(int32_t tile)
    {
        return tile == (F::STAGES - 1) * F::TILE ? 0 : tile + F::TILE;
    }

    CKCI_K_MEMBER void load()
    {
        loader.copy(0, m.tiles + empty);
        empty = after(empty);
    }

    /* All steps of a tile, whose first `ahead` are loaded. next: the tile of which as many are to be loaded;
       -1: none. */
    template <class T> CKCI_K_MEMBER void multiply(int32_t steps, int32_t ahead, int32_t next)
    {
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            if (ahead == 1) {
                ckci_k_copies_wait<0>();
            } else if (F::AHEAD == 2 || ahead == 2) {
                ckci_k_copies_wait<1>();
            } else {
                ckci_k_copies_wait<2>();
            }
            f.arrive();
            f.template multiply<T>(m.tiles, full);
            full = after(full);
            if (s == 0 && next >= 0) {
                prepare(next, slot ^ 1, p.phases > 1);
                if (steps <= ahead) {
                    __syncthreads();
                }
            }
            if (s + ahead == steps && next >= 0) {
                start(slot ^ 1);
            }
            if (s + ahead < steps || next >= 0) {
                load();
            }
            ckci_k_copies_end();
        }
        f.template wait<0>();
    }

    /* Has a tile no rows? A phase can have fewer than the first one. */
    CKCI_K_MEMBER bool no_rows(int32_t work) const
    {
        const ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        return ckci_k_row(b.axis, b.row).n >= p.n;
    }

    CKCI_K_MEMBER void run()
    {
        const bool sixteen = p.o_vec && p.split == 1 && F::takes(p.o);
        const bool stream = sixteen && p.stream, skips = stream && p.phases > 1;
        bool loaded = false;
        int32_t work = (int32_t)blockIdx.x;
        int32_t step = p.phases > 1 ? 2 * p.workers - 1 - 2 * work : p.workers;
        CKCI_K_UNROLL(1)
        while (work < p.work) {
            int32_t next = work + step;
            step = 2 * p.workers - step;
            CKCI_K_UNROLL(1)
            while (skips && next < p.work && no_rows(next)) {
                next += step;
                step = 2 * p.workers - step;
            }
            if (!loaded) {
                __syncthreads();
                prepare(work, slot, true);
                __syncthreads();
                start(slot);
            }
            const int32_t steps = m.tile[slot].steps,
                          ahead = stream && steps > 0 && steps < F::AHEAD ? steps : +F::AHEAD;
            for (int32_t s = 0; s < ahead && !loaded; s++) {
                if (s < steps) {
                    load();
                }
                ckci_k_copies_end();
            }
            loaded = stream && steps > 0 && next < p.work;
            f.clear();
            if (CKCI_K_BF16(p.a.compute == CKCONV_BF16)) {
                multiply<ckci_k_bf16>(steps, ahead, loaded ? next : -1);
            } else {
                multiply<ckci_k_f16>(steps, ahead, loaded ? next : -1);
            }
            if (sixteen && steps >= 0) {
                const ckci_k_stream_tile &t = m.tile[slot];
                const float *shift = F::rows_add(p.o) ? added_to_rows(work) : m.shift[slot];
                f.finish16(m.tiles, full, p.o, shift, m.factor[slot], m.places[slot], p.columns - t.column,
                           t.out);
            } else if (steps >= 0) {
                ckci_k_matrix_gather_finish<F, BM, BN>(p, work, f, m);
            }
            slot ^= 1;
            work = next;
        }
    }
};
#endif

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_run(const ckci_gpu_conv &p, L &m)
{
    if constexpr (F::SIXTEEN) {
#if defined(CKCI_K_WGMMA)
        ckci_k_stream<F, Loader, BM, BN, L> stream(p, m);
        stream.run();
#endif
    } else if constexpr (Loader::LOOPS) {
        CKCI_K_UNROLL(1)
        for (int32_t work = (int32_t)blockIdx.x; work < p.work; work += p.workers) {
            __syncthreads();
            ckci_k_matrix_gather_tile<F, Loader, BM, BN>(p, work, m);
        }
    } else {
        ckci_k_matrix_gather_tile<F, Loader, BM, BN>(p, ckci_k_block_in_order(p), m);
    }
}

/* The positions of bwd_weight. Each is decoded once, by one thread, and passes through LDS: offsets in dout
   and in, what lies on padding. KT positions a step; threads decode those of four steps at a time, while the
   four before are used. PAIRS: the entries of dout (without holes) and of in lie apart, half a
   ckci_k_tap_entry each, a step's as [tensor][half of a four][four][position of the half], with the fours of
   the second half in another order, so that neither the lanes that store entries nor those that load two at a
   time meet in the banks. SIZE: bytes of an element. */
struct alignas(8) ckci_k_position_entry {
    int32_t at;
    uint32_t holes;
};
