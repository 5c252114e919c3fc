/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-tma
  Matrix tiles on sm_90a whose operands the tensor memory accelerator (TMA) brings: 1x1 layers as boxes of
  rows, others as boxes of the pixels that positions read at a tap (CUDA's im2col mode). Four waves send for
  them, as many steps ahead as LDS holds; two groups of four waves multiply what came. No thread copies, and
  no two waves wait for each other but by the barriers of >>k-boxes. Blocks take one tile after the other; the
  first steps of the next come while the sums of this one are stored. Groups have halves of a tile each, or
  take tiles of half the rows in turns: then one multiplies while the other stores.

  fwd, bwd_data: rows are positions, columns channels of what is written, and a step is 64 channels at a
  tap, or 32 at two taps or 16 at four, where fewer of 64 would exist: to fill a box where no channels are
  takes twice as long as to bring some. Taps go first, but those at which all rows of the tile read padding;
  GATHER reads weights along these channels, BACK across them. PHASE is BACK for bwd_data with strides: phases
  of a tile follow each other, each with the taps that it has, and blocks share the steps of all. Boxes
  without any column that exists are not sent for.
  bwd_weight: rows are output channels, columns are 64s of input channels at a tap, and a step is 64
  positions. Channels first, dout is read as it lies: its rows are along the reduction, and boxes are of 64
  or 32 positions of a plane, of which planes have a multiple. Instructions have the tile's rows as theirs,
  but where a tile has 64 columns, the channels: an instruction with as few columns would wait for LDS. A
  residual's boxes of 64 x 64 come into LDS where the last stage would be: one of the waves that send does
  nothing else, in the order in which groups store what they are added to.

  Pairs of blocks, clusters of two, may have tiles of neighbouring rows and the same columns: each sends half
  of the columns' boxes to both (multicast), where rows that are no lines take longer to come than products.
  The last pair's second tile may have no rows.

  1x1 layers, channels first, are products for each image (ckci_image_product) that BACK takes: rows are
  channels of what is written, columns an image's positions, and weights are rows' operand, which in bwd_data
  lies across the reduction as well. bwd_weight is one product, summed over images, that GATHER takes: its
  taps are images, and 64 places of the reduction are positions of one of them (ckci_image_weights).
*/
#pragma once
#include "kernels/matrix/tma_send.h"
#include "kernels/matrix/weight.h"

enum { CKCI_K_TMA_GATHER, CKCI_K_TMA_BACK, CKCI_K_TMA_PHASE, CKCI_K_TMA_WEIGHT };

#if defined(CKCI_K_WGMMA)
template <int KIND, int BM, int BN> struct ckci_k_tma_tiles {
    enum {
        WEIGHT = KIND == CKCI_K_TMA_WEIGHT,
        GATHER = KIND == CKCI_K_TMA_GATHER,
        PHASED = KIND == CKCI_K_TMA_PHASE,
        DOUT = WEIGHT && CKCI_TMA_DOUT(BN), /* may be read as it lies */
        WIDTH = BN,
        ACROSS_A = WEIGHT, /* rows of an operand in LDS are places of the reduction */
        ACROSS_B = KIND != CKCI_K_TMA_GATHER,
        TURNED = !WEIGHT && BN == CKCI_TMA_BOX, /* the tile's columns are the instruction's rows */
        APART = TURNED || BM == CKCI_TMA_BOX,   /* groups part the instruction's columns, not its rows */
        MI = APART ? 1 : BM / 128,              /* instructions of a group along their rows */
        NI = TURNED  ? BM / 2
             : APART ? BN / 2
                     : BN, /* columns of an instruction */
        SLABS = NI / CKCI_TMA_BOX,
        SLABS_A = BM / CKCI_TMA_BOX,
        SLABS_B = BN / CKCI_TMA_BOX,
        BOXES_A = ACROSS_B ? +SLABS_A : 1, /* of a stage at most, for each of its taps */
        BOXES_B = SLABS_B,
        STRIPS = WEIGHT ? 1 : 2,        /* of a group: one is read while the other is filled */
        ROWS = TURNED ? +NI : MI * 64,  /* of the tile, that a group has */
        ADDED = BN > ROWS ? BN : +ROWS, /* columns or rows of a group, for which D tensors have numbers */
        EACH = CKCI_TMA_FACTORS(BN) ? 2 : 1, /* what is added to its sums; what they are multiplied with */
        VECTOR = WEIGHT ? 8 * BM : 2 * EACH * ADDED
    };
    typedef ckci_k_tma_pieces<PHASED, !WEIGHT && !PHASED> pieces;
    typedef ckci_k_tma_columns<WEIGHT != 0> columns;
    static_assert(BM % (APART ? 64 : 128) == 0 && BM <= 256 && BN % CKCI_TMA_BOX == 0 && BN <= 256,
                  "boxes of 256 rows at most");

    struct lds {
        alignas(1024) unsigned char stages[CKCI_TMA_ROOM];
        /* a group's, on its way to memory */
        alignas(1024) unsigned char strip[2][STRIPS][CKCI_TMA_BOX_BYTES];
        /* Numbers for a column, or a row, [group][column][EACH]; rows of dout, [wave][row]. */
        alignas(16) float vector[VECTOR];
        /* What a stage is to hold has come, [1]: for the second group alone; the waves that multiply it, of
           both blocks of a pair, are done with it. */
        uint64_t full[2][CKCI_TMA_MOST], empty[CKCI_TMA_MOST];
        /* The same of the residual's boxes, [group]. */
        uint64_t come[2][CKCI_TMA_RESIDUALS], left[2][CKCI_TMA_RESIDUALS];
    };

    /* Rows of a tile, steps that LDS holds, and do groups take turns? In bwd_weight none do. */
    static CKCI_K_MEMBER int32_t rows(const ckci_gpu_tma &p)
    {
        return WEIGHT ? BM : p.rows;
    }

    static CKCI_K_MEMBER int32_t stages(const ckci_gpu_tma &p)
    {
        return WEIGHT ? CKCI_TMA_STAGES(BM + BN) : p.stages;
    }

    static CKCI_K_MEMBER int32_t turns(const ckci_gpu_tma &p)
    {
        return WEIGHT ? 0 : p.turns;
    }

    /* Is the columns' operand copied by threads? */
    static CKCI_K_MEMBER bool copies(const ckci_gpu_tma &p)
    {
        return KIND == CKCI_K_TMA_BACK && p.box[1].rank == 0;
    }

    /* Does an operand lie across the reduction? */
    static CKCI_K_MEMBER bool lies_across(const ckci_gpu_tma &p, int32_t which)
    {
        return which    ? ACROSS_B != 0
               : WEIGHT ? !DOUT || p.plane == 0
                        : KIND == CKCI_K_TMA_BACK && p.both != 0;
    }

    /* Numbers of an operand's row in LDS where rows lie along the reduction. */
    static CKCI_K_MEMBER int32_t wide(const ckci_gpu_tma &p)
    {
        return WEIGHT ? +CKCI_TMA_BOX : p.box[0].wide;
    }

    /* All threads of a block, or of two that send for each other, before the first box: barriers began. */
    static CKCI_K_MEMBER void meet(const ckci_gpu_tma &p)
    {
        if (p.multicast) {
            ckci_k_cluster_meet();
        } else {
            __syncthreads();
        }
    }

    /* ---- Waves that send. The first boxes are known before barriers have begun. */
    template <int WHICH, class SENDER>
    static CKCI_K_MEMBER void send_by(const ckci_gpu_tma &p, lds &m, int32_t half)
    {
        const int32_t room = (rows(p) + BN) * 128, all = stages(p);
        unsigned char *to = m.stages + (WHICH ? rows(p) * 128 : 0);
        SENDER s(p, half);
        int32_t stage = 0, group = 0;
        uint32_t parity = 1;
        pieces piece(p);
        bool some = piece.next();
        if (some) {
            s.start(piece);
        }
        meet(p);
        ckci_k_await_last();
        CKCI_K_UNROLL(1)
        while (some) {
            CKCI_K_UNROLL(1)
            for (int32_t step = piece.from; step < piece.to; step++) {
                ckci_k_turns_await(&m.empty[stage], parity);
                s.send(to + stage * room, &m.full[group][stage]);
                const bool last = ++stage == all;
                stage = last ? 0 : stage;
                parity ^= last;
            }
            group ^= turns(p);
            some = piece.next();
            if (some) {
                s.start(piece);
            }
        }
    }

    template <int WHICH, int KIND_OF>
    static CKCI_K_MEMBER void send_kind(const ckci_gpu_tma &p, lds &m, int32_t half)
    {
        send_by<WHICH, ckci_k_tma_sender<ckci_k_tma_tiles, WHICH, KIND_OF>>(p, m, half);
    }

    /* A wave has the residual for itself: it waits for those that add it, operands do not. */
    static CKCI_K_MEMBER void send_residual(const ckci_gpu_tma &p, lds &m)
    {
        ckci_k_tma_residual<ckci_k_tma_tiles> residual(p, m);
        pieces piece(p);
        int32_t group = 0;
        residual.begin();
        meet(p);
        ckci_k_await_last();
        CKCI_K_UNROLL(1)
        while (piece.next()) {
            residual.send(piece, group);
            group ^= turns(p);
        }
    }

    /* All four waves copy the columns' operand; those of the rows' operand send for that before. */
    template <int WHICH> static CKCI_K_MEMBER void copy_all(const ckci_gpu_tma &p, lds &m, int32_t half)
    {
        typedef ckci_k_tma_copier<ckci_k_tma_tiles> copier;
        const copier c(p, 2 * WHICH + half);
        ckci_k_tma_sender<ckci_k_tma_tiles, 0, 2> s(p, half);
        const int32_t room = (rows(p) + BN) * 128, all = stages(p);
        unsigned char *to = m.stages + rows(p) * 128;
        uint64_t *late[copier::LATE] = {nullptr, nullptr}; /* steps that have yet to come */
        int32_t stage = 0, group = 0;
        uint32_t parity = 1;
        pieces piece(p);
        meet(p);
        ckci_k_await_last();
        CKCI_K_UNROLL(1)
        while (piece.next()) {
            if constexpr (WHICH == 0) {
                s.start(piece);
            }
            CKCI_K_UNROLL(1)
            for (int32_t step = piece.from; step < piece.to; step++) {
                ckci_k_turns_await(&m.empty[stage], parity);
                if constexpr (WHICH == 0) {
                    s.send(to + stage * room - rows(p) * 128, &m.full[group][stage]);
                }
                c.copy(piece, step, to + stage * room);
                ckci_k_copies_end();
                if (late[1]) {
                    copier::template say<2>(late[1]);
                }
                late[1] = late[0];
                late[0] = &m.full[group][stage];
                const bool last = ++stage == all;
                stage = last ? 0 : stage;
                parity ^= last;
            }
            group ^= turns(p);
        }
        if (late[1]) {
            copier::template say<1>(late[1]);
        }
        if (late[0]) {
            copier::template say<0>(late[0]);
        }
    }

    template <int WHICH> static CKCI_K_MEMBER void send_all(const ckci_gpu_tma &p, lds &m, int32_t half)
    {
        enum { PIXELS = CKCI_K_BOX_PIXELS };
        const int32_t kind = p.box[WHICH].rank + (p.box[WHICH].pixels ? +PIXELS : 0);
        if constexpr (KIND == CKCI_K_TMA_BACK) {
            if (copies(p)) {
                copy_all<WHICH>(p, m, half);
                return;
            }
        }
        if constexpr (DOUT && WHICH == 0) {
            if (p.plane) {
                send_by<0, ckci_k_tma_planes<ckci_k_tma_tiles>>(p, m, half);
                return;
            }
        }
        if constexpr (WHICH && !WEIGHT && !PHASED) {
            if (half && p.residual) {
                send_residual(p, m);
                return;
            }
        }
        if (kind == 2) {
            send_kind<WHICH, 2>(p, m, half);
            return;
        }
        if constexpr (WHICH == WEIGHT) {
            if (kind == PIXELS + 3) {
                send_kind<WHICH, PIXELS + 3>(p, m, half);
                return;
            }
            if (kind == PIXELS + 4) {
                send_kind<WHICH, PIXELS + 4>(p, m, half);
                return;
            }
            if (WEIGHT || kind == PIXELS + 5) {
                send_kind<WHICH, PIXELS + 5>(p, m, half);
                return;
            }
        }
        if constexpr (!WEIGHT) {
            send_kind<WHICH, 3>(p, m, half);
        }
    }

    /* ---- The groups that multiply. */
    const ckci_gpu_tma &p;
    lds &m;
    int32_t group;  /* the same for all of a wave */
    bool first;     /* its first wave? */
    int32_t part;   /* of a tile that is the group's: 0, where groups take tiles in turns */
    int32_t filled; /* the strip that was filled last */
    int32_t spot;   /* in a strip, of a thread's eight numbers of 16 of the instruction's columns */
    int32_t stage;
    uint32_t parities; /* of stages' turns, a bit each; above, of the residual's */
    int32_t place;     /* of the residual's next box */
    int32_t known;     /* columns of tiles, or rows, whose numbers `vector` has */
    alignas(16) float sum[MI][NI / 2], row_sum[SLABS_A + SLABS_A % 2][2];

    CKCI_K_MEMBER ckci_k_tma_tiles(const ckci_gpu_tma &args, lds &room, int32_t wave) : p(args), m(room)
    {
        group = wave / 4;
        first = wave % 4 == 0;
        part = turns(p) ? 0 : group;
        filled = stage = place = 0;
        parities = 0;
        known = -1;
        const int32_t row = turned_strip() ? lane() / 16 * 8 + lane() % 8 : wave % 4 * 16 + lane() % 16;
        spot = ckci_k_spot<128>(row, turned_strip() ? wave % 4 * 2 + lane() / 8 % 2 : lane() / 16);
    }

    /* Are rows of strips the instruction's columns? */
    CKCI_K_MEMBER bool turned_strip() const
    {
        return planes() != (TURNED != 0);
    }

    /* What one thread of a group does, always the same one: it stores boxes. Compilers see that it is alone
       only where the branch depends on nothing but elect.sync. */
    template <class What> CKCI_K_MEMBER void by_one(const What &what) const
    {
        if (first) {
            if (ckci_k_elect()) {
                what();
            }
        }
    }

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int32_t)threadIdx.x % 32;
    }

    /* The same of a group, where few layers come by: what follows from it is computed there. Compilers would
       have it ready before the first tile: a thousand instructions for every block to fetch. */
    static CKCI_K_MEMBER int32_t thread_again()
    {
        return ckci_k_again((int32_t)threadIdx.x % 128);
    }

    /* Whose tiles it takes: 0: all, or those of the first group. */
    CKCI_K_MEMBER int32_t whose() const
    {
        return WEIGHT ? 0 : group - part;
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < MI; i++) {
            CKCI_K_UNROLL(128)
            for (int j = 0; j < NI / 2; j++) {
                sum[i][j] = 0;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < SLABS_A + SLABS_A % 2; i++) {
            row_sum[i][0] = row_sum[i][1] = 0;
        }
    }

    /* Sums are where they must be: 32 at a time, as in groups.h. */
    CKCI_K_MEMBER void hold()
    {
#if defined(__CUDA_ARCH__)
        CKCI_K_UNROLL(2)
        for (int i = 0; i < MI; i++) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < NI / 2; j += 32) {
                asm volatile("" : CKCI_K_SUM32(sum[i], j)::"memory");
            }
        }
#endif
    }

    /* All but COUNT steps are multiplied. */
    template <int COUNT> static CKCI_K_MEMBER void wait()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
#endif
    }

    CKCI_K_MEMBER void leave(int32_t stage)
    {
        ckci_k_wave_barrier();
        if (lane() == 0) {
            ckci_k_turns_arrive(&m.empty[stage]);
            if (p.multicast) { /* the other block's boxes lie here, too */
                ckci_k_turns_arrive_at(&m.empty[stage], 1 - ckci_k_second(p));
            }
        }
    }

    /* How an operand lies in a stage: numbers of a row along the reduction; bytes from its first 16 places to
       the second and to the third 16, from 64 rows to the next; how it is described. */
    struct layout {
        int32_t wide, one, two, slab;
        uint32_t rows;

        CKCI_K_MEMBER layout(bool across, int32_t along, int32_t rows_of) : wide(along)
        {
            one = across ? 2048 : wide == 16 ? 32 * rows_of : 32;
            two = across ? 4096 : wide == 64 ? 64 : 64 * rows_of;
            slab = across ? +CKCI_TMA_BOX_BYTES : 128 * wide;
            rows = ckci_k_rows_of(across ? +CKCI_TMA_BOX : wide);
        }
    };

    enum { ACROSS_M = TURNED ? ACROSS_B : ACROSS_A, ACROSS_N = TURNED ? ACROSS_A : ACROSS_B };

    /* A step that lies in a stage. M, N: which of the instruction's operands lie across. */
    template <class T, int M, int N> CKCI_K_MEMBER void multiply(const layout &left, const layout &right)
    {
        const int32_t second = rows(p) * 128, at = stage * (second + BN * 128);
#if defined(__CUDA_ARCH__)
        const uint32_t start =
            ckci_k_lds_address(m.stages) & 0x3ffff; /* without the block's number in a cluster */
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int32_t a = at + (TURNED ? second : 0) + (APART ? 0 : part * MI * left.slab) +
                              i % 2 * left.one + i / 2 * left.two;
            const int32_t b = at + (TURNED ? 0 : second) + (APART ? part * SLABS * right.slab : 0) +
                              i % 2 * right.one + i / 2 * right.two;
            CKCI_K_UNROLL(2)
            for (int j = 0; j < MI; j++) {
#if defined(CKCI_SIMULATOR)
                sim_wgmma_m64nNk16<T>(sum[j], m.stages + a + j * left.slab, m.stages + b, NI, M, N,
                                      N ? left.wide : right.wide);
#else
                ckci_k_multiply_groups<T, NI, M, N>(
                    sum[j], ckci_k_describe((start + (uint32_t)(a + j * left.slab)) >> 4, left.rows),
                    ckci_k_describe((start + (uint32_t)b) >> 4, right.rows));
#endif
            }
        }
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
    }

    /* Steps from .. to - 1. A stage is left one step after its products began. BOTH: both operands may lie
       across; a loop of its own for that has sums in other registers, and spills. PLANES: bwd_weight, dout is
       read as it lies. */
    template <class T, bool BOTH, bool PLANES>
    CKCI_K_MEMBER void loop(int32_t from, int32_t to, int32_t column, int32_t along)
    {
        const layout left(ACROSS_M, along, TURNED ? BN : rows(p)),
            right(ACROSS_N, along, TURNED ? rows(p) : BN);
        int32_t before = -1;
        clear();
        CKCI_K_UNROLL(1)
        for (int32_t step = from; step < to; step++) {
            ckci_k_turns_await(&m.full[whose()][stage], parities >> stage & 1);
            parities ^= 1u << stage;
            if constexpr (PLANES) {
                multiply<T, 0, ACROSS_N>(layout(false, p.box[0].wide, BM), right);
            } else if (BOTH && lies_across(p, 0)) {
                const layout lain(true, CKCI_TMA_BOX, CKCI_TMA_BOX);
                multiply<T, 1, 1>(lain, lain);
            } else {
                multiply<T, ACROSS_M, ACROSS_N>(left, right);
            }
            if constexpr (WEIGHT) {
                if (sums_rows(column) && ((step - column) & (p.conv.bias_turns - 1)) == 0) {
                    ckci_k_sum_slabs<T>(m.stages + stage * (BM + BN) * 128, row_sum);
                }
            }
            wait<1>();
            if (before >= 0) {
                leave(before);
            }
            before = stage;
            stage = stage + 1 == stages(p) ? 0 : stage + 1;
        }
        wait<0>();
        hold();
        if (before >= 0) {
            leave(before);
        }
    }

    CKCI_K_MEMBER bool sums_rows(int32_t column) const
    {
        return ckci_k_sums_rows(p.conv, column);
    }

    /* Are rows channels of what is written, and not columns? Those of images are. */
    CKCI_K_MEMBER bool across() const
    {
        return KIND == CKCI_K_TMA_BACK && p.conv.o.across != 0;
    }

    /* What D tensors of one number a channel make of a group's columns, or rows, to LDS. */
    CKCI_K_MEMBER void prepare(const pieces &s)
    {
        if constexpr (!WEIGHT) {
            const ckci_gpu_target &o = p.conv.o;
            if (o.form != CKCI_FORM_LINEAR || o.partial) {
                return;
            }
            const int32_t count = across() ? +ROWS : BN, first = across() ? row_of(s, 0, 0) : s.column * BN;
            if (first == known) {
                return;
            }
            known = first;
            const int32_t all = across() ? p.conv.rows : p.conv.columns;
            CKCI_K_UNROLL(1)
            for (int32_t i = (int32_t)threadIdx.x % 128; i < count; i += 128) {
                const int64_t channel = (int64_t)first + i;
                float shift = 0, factor = o.alpha;
                CKCI_K_UNROLL(1)
                for (int32_t d = 0; d < o.adds && channel < all; d++) {
                    float more = 0;
                    const ckci_gpu_extra &v = o.d[d];
                    if (v.line != CKCI_LINE_CHANNELS) {
                        continue;
                    }
                    const int64_t step = across() ? v.stride[5] : v.stride[2];
                    ckci_k_load_number(v.dtype, v.p + channel * step * ckci_k_size(v.dtype), more);
                    if (EACH == 2 && v.how == CKCI_EXTRA_MULTIPLY) {
                        factor *= more;
                    } else {
                        shift = fmaf(o.beta, more, shift);
                    }
                }
                m.vector[(group * ADDED + i) * EACH] = shift;
                if constexpr (EACH == 2) {
                    m.vector[(group * ADDED + i) * EACH + 1] = factor;
                }
            }
        }
    }

    /* Where the j-th 64 columns (TURNED: rows) and i-th 64 rows of a part of a tile are, among rows and 64s
       of columns; of the group's own. */
    static CKCI_K_MEMBER int32_t row_at(const pieces &s, int32_t part, int32_t i, int32_t j)
    {
        return s.row * rows(s.p) + (TURNED ? part * SLABS + j : APART ? 0 : part * MI + i) * 64;
    }

    static CKCI_K_MEMBER int32_t column_at(const pieces &s, int32_t part, int32_t j)
    {
        return s.column * SLABS_B + (TURNED ? 0 : APART ? part * SLABS + j : j);
    }

    CKCI_K_MEMBER int32_t row_of(const pieces &s, int32_t i, int32_t j) const
    {
        return row_at(s, part, i, j);
    }

    CKCI_K_MEMBER int32_t column_of(const pieces &s, int32_t j) const
    {
        return column_at(s, part, j);
    }

    /* Where the TMA has a box of what is written. */
    static CKCI_K_MEMBER ckci_k_corner corner_of(const pieces &s, const columns &b, int32_t row)
    {
        const int32_t second = WEIGHT && s.p.taps > 1                      ? b.tap
                               : KIND == CKCI_K_TMA_BACK && s.p.images > 1 ? s.image
                                                                           : row;
        return {b.first, second, row, 0, 0, 0, 0, 0};
    }

    /* The same in planes. */
    static CKCI_K_MEMBER ckci_k_corner plane_of(const ckci_gpu_tma &p, const columns &b, int32_t row)
    {
        const int32_t image = ckci_k_divide(row, p.by_plane);
        return {row - image * p.plane, image, b.first, 0, 0, 0, 0, 0};
    }

    /* A box of the residual in LDS, behind the stages. */
    static CKCI_K_MEMBER unsigned char *residual_box(const ckci_gpu_tma &p, lds &m, int32_t group,
                                                     int32_t place)
    {
        return m.stages + p.residual + (group * p.places + place) * CKCI_TMA_BOX_BYTES;
    }

    /* Sums as f32 to [part][image][row][column]; more: added to what is there. Four lanes fill a sector. */
    CKCI_K_MEMBER void finish_parts(const pieces &s, bool more)
    {
        const ckci_gpu_conv &c = p.conv;
        const int32_t thread = thread_again();
        CKCI_K_UNROLL(4)
        for (int j = 0; j < SLABS; j++) {
            const columns b(p, column_of(s, j));
            const int32_t column = thread % 4 * 2;
            CKCI_K_UNROLL(2)
            for (int i = 0; i < MI; i++) {
                const int32_t row = row_of(s, i, j) + thread / 32 * 16 + thread % 32 / 4;
                const int64_t part = KIND == CKCI_K_TMA_BACK ? s.part * p.images + s.image : s.part;
                float *to = (float *)c.o.partial + (part * c.rows + row) * c.columns +
                            (WEIGHT ? b.tap * c.red : 0) + b.first + column;
                CKCI_K_UNROLL(2)
                for (int high = 0; high < 2; high++) {
                    CKCI_K_UNROLL(8)
                    for (int k = 0; k < 8 && row + 8 * high < c.rows; k++) {
                        if (column + 8 * k < b.count) {
                            float *two = to + (int64_t)(8 * high) * c.columns + 8 * k;
                            const float x = sum[i][j * 32 + k * 4 + high * 2],
                                        y = sum[i][j * 32 + k * 4 + high * 2 + 1];
                            const ckci_k_uint2 before =
                                WEIGHT && more ? *(const ckci_k_uint2 *)two : ckci_k_uint2{0, 0};
                            const ckci_k_uint2 after = {ckci_k_bits(ckci_k_float(before.x) + x),
                                                        ckci_k_bits(ckci_k_float(before.y) + y)};
                            *(ckci_k_uint2 *)two = after;
                        }
                    }
                }
            }
        }
    }

    /* Are rows of strips channels of planes, and not positions? */
    CKCI_K_MEMBER bool planes() const
    {
        return !WEIGHT && !PHASED && p.plane > 0;
    }

    /* factor * sum + shift of numbers x whose instruction's columns, or rows, `vector` has from `more` on: a
       thread has pairs of columns, two rows. Loads are few: LDS is busy with operands. */
    CKCI_K_MEMBER void scale(float (&x)[32], const float *more, bool along) const
    {
        const ckci_gpu_target &o = p.conv.o;
        if (along) {
            more += EACH * (lane() % 4 * 2);
            CKCI_K_UNROLL(8)
            for (int q = 0; q < 8; q++) {
                alignas(16) float v[4];
                if constexpr (EACH == 1) {
                    *(ckci_k_uint2 *)v = *(const ckci_k_uint2 *)(more + 8 * q);
                } else {
                    *(ckci_k_uint4 *)v = *(const ckci_k_uint4 *)(more + 16 * q);
                }
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    x[4 * q + i] =
                        fmaf(EACH == 1 ? o.alpha : v[i % 2 * EACH + EACH - 1], x[4 * q + i], v[i % 2 * EACH]);
                }
            }
            return;
        }
        more += EACH * ((int32_t)threadIdx.x % 128 / 32 * 16 + lane() / 4);
        CKCI_K_UNROLL(2)
        for (int high = 0; high < 2; high++) {
            const float shift = more[EACH * 8 * high],
                        factor = EACH == 1 ? o.alpha : more[EACH * 8 * high + EACH - 1];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < 16; i++) {
                const int at = i / 2 * 4 + high * 2 + i % 2;
                x[at] = fmaf(factor, x[at], shift);
            }
        }
    }

    /* From a strip's begin, a thread's eight numbers of the q-th 16 of the instruction's columns. */
    CKCI_K_MEMBER int32_t spot_of(int q, bool turn) const
    {
        return turn ? spot + q * 16 * 128 : spot ^ q * 32;
    }

    /* The residual's next box comes to sums. */
    CKCI_K_MEMBER void add_residual(float (&x)[32], bool turn)
    {
        const unsigned char *box = residual_box(p, m, group, place);
        uint32_t more[4][4];
        ckci_k_turns_await(&m.come[group][place], parities >> CKCI_TMA_MOST & 1);
        CKCI_K_UNROLL(4)
        for (int q = 0; q < 4; q++) {
            ckci_k_get_blocks(box + spot_of(q, turn), more[q], turn);
        }
        ckci_k_wave_barrier();
        if (lane() == 0) {
            ckci_k_turns_arrive(&m.left[group][place]);
        }
        place++;
        if (place == p.places) {
            place = 0;
            parities ^= 1u << CKCI_TMA_MOST;
        }
        const ckci_gpu_target &o = p.conv.o;
        if (o.gate < CKCI_EXTRA_MASK) {
            CKCI_K_UNROLL(4)
            for (int q = 0; q < 4; q++) {
                ckci_k_add_residual(o, *(float(*)[8])(x + q * 8), o.t.dtype, more[q], CKCI_EXTRA_ADD);
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int q = 0; q < 4; q++) {
                ckci_k_add_residual(o, *(float(*)[8])(x + q * 8), o.t.dtype, more[q], o.gate);
            }
        }
    }

    /* 64 x 64 sums, rounded, to the group's strip. LINEAR: 1: factor * sum + shift, between low and high; 2:
       with the residual; `shift`: those lie along the instruction's columns, or its rows. */
    template <int LINEAR> CKCI_K_MEMBER void round(const float *d, const float *shift)
    {
        const ckci_gpu_target &o = p.conv.o;
        const bool along = across() == (TURNED != 0), turn = turned_strip();
        float x[32];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < 32; i++) {
            x[i] = d[i];
        }
        if constexpr (LINEAR) {
            scale(x, shift, along);
            if constexpr (LINEAR == 2) {
                add_residual(x, turn);
            }
        }
        const ckci_k_half_bounds bounds(o);
        CKCI_K_UNROLL(4)
        for (int q = 0; q < 4; q++) { /* 16 of the instruction's columns each */
            uint32_t two[4];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                two[i] =
                    ckci_k_two(o.t.dtype, ckci_k_bits(x[q * 8 + i * 2]), ckci_k_bits(x[q * 8 + i * 2 + 1]));
                if constexpr (LINEAR) {
                    two[i] = bounds.limit(two[i]);
                }
            }
            ckci_k_put_blocks(m.strip[group][filled] + spot_of(q, turn), two, turn);
        }
    }

    /* What lies in the group's strip to rows that the TMA does not store: an odd number of words. */
    CKCI_K_MEMBER void finish_rows_of(int32_t row, const columns &b)
    {
        const ckci_gpu_box &o = p.box[2];
        CKCI_K_UNROLL(4)
        for (int32_t e = thread_again(); e < 64 * 32; e += 128) {
            const int32_t r = e / 32, word = e % 32;
            if (row + r < p.conv.rows && 2 * word < b.count) {
                *(uint32_t *)(uintptr_t)(o.p + 2 * ((row + r) * o.stride[1] + b.first + 2 * word)) = *(
                    const uint32_t *)(m.strip[group][filled] + ckci_k_spot<128>(r, word / 4) + word % 4 * 4);
            }
        }
    }

    /* Where in what is written this lane's of a wave's 16 rows lies, 16 bytes apart; -1: nowhere. row: the
       first of the group's 64. */
    CKCI_K_MEMBER int32_t place_of(const pieces &s, int32_t row) const
    {
        const ckci_gpu_dim *d = p.conv.dim;
        const int64_t *stride = p.conv.o.t.stride;
        const uint32_t origin = p.phases.origin[s.phase];
        const int32_t e = thread_again();
        row += e / 32 * 16 + e % 16;
        const ckci_k_place q = ckci_k_decode(row, d[0].count[0], d[1].count[0], d[2].count[0]);
        const int32_t x = q.x * d[2].write_step + (int32_t)(origin & 255),
                      y = q.y * d[1].write_step + (int32_t)(origin >> 8 & 255),
                      z = q.z * d[0].write_step + (int32_t)(origin >> 16 & 255);
        const bool some = row < p.conv.rows && x < d[2].length && y < d[1].length && z < d[0].length;
        return some ? q.n * (int32_t)(stride[1] / 8) + z * (int32_t)(stride[3] / 8) +
                          y * (int32_t)(stride[4] / 8) + x * (int32_t)(stride[5] / 8)
                    : -1;
    }

    /* Planes: what lies in the strip, channels of 64 positions, to the images that have them (a product's
       own: `image`), by threads: a store is P positions, of which planes have a multiple. */
    template <int P, class V>
    CKCI_K_MEMBER void finish_planes_by(int32_t row, int32_t image, const columns &b)
    {
        enum { EACH = CKCI_TMA_BOX / P };
        const ckci_gpu_box &o = p.box[2];
        const int32_t e = thread_again(), first = e % EACH * P;
        const int32_t position = (across() ? b.first : row) + first, channel = across() ? row : b.first;
        const bool some = position < (across() ? p.conv.columns : p.conv.rows);
        const int32_t count = some ? (across() ? p.conv.rows - row : b.count) : 0;
        image = across() ? image : ckci_k_divide(position, p.by_plane);
        const unsigned char *to = o.p + 2 * (image * o.stride[1] + (channel + e / EACH) * o.stride[2] +
                                             (position - (across() ? 0 : image * p.plane)));
        CKCI_K_UNROLL(8)
        for (int32_t r = 0; r < CKCI_TMA_BOX; r += 128 / EACH) {
            if (r + e / EACH < count) {
                *(V *)(uintptr_t)(to + 2 * r * o.stride[2]) =
                    *(const V *)(m.strip[group][filled] + ckci_k_spot<128>(r + e / EACH, first / 8) +
                                 first % 8 * 2);
            }
        }
    }

    /* The TMA takes positions of one image: a box that begins before a plane is an illegal instruction. */
    template <bool ALL> CKCI_K_MEMBER void finish_planes(int32_t row, int32_t image, const columns &b)
    {
        if (!ALL || p.box[2].rank > 0) {
            image = ckci_k_divide(row, p.by_plane);
            const int32_t past = (image + 1) * p.plane;
            const bool inside = row + CKCI_TMA_BOX <= past || past == p.conv.rows;
            const ckci_k_corner at = plane_of(p, b, row);
            by_one([&]() {
                if (inside) {
                    ckci_k_box_store(p, m.strip[group][filled], at);
                }
                ckci_k_boxes_sent(); /* strips and groups of boxes take turns alike */
            });
            if (!inside) {
                finish_planes_by<8, ckci_k_uint4>(row, image, b);
            }
        } else if (p.box[2].rows == 4) {
            finish_planes_by<4, ckci_k_uint2>(row, image, b);
        } else if (p.box[2].rows == 2) {
            finish_planes_by<2, uint32_t>(row, image, b);
        } else {
            finish_planes_by<1, uint16_t>(row, image, b);
        }
    }

    /* 64 x 64 sums of a group, its i-th rows and j-th columns, to memory by way of a strip. ALL: threads may
       store them, too, where the TMA does not. */
    template <bool ALL> CKCI_K_MEMBER void finish_box(const pieces &s, int32_t i, int32_t j, const float *d)
    {
        const ckci_gpu_target &o = p.conv.o;
        const columns b(p, column_of(s, j));
        const int32_t row = row_of(s, i, j);
        if (b.count <= 0 || row >= p.conv.rows) {
            return;
        }
        by_one([]() { ckci_k_boxes_read<STRIPS - 1>(); });
        filled = STRIPS - 1 - filled;
        ckci_k_meet<128>(1 + group);
        const float *shift = m.vector + EACH * (group * ADDED + (across() ? row - row_of(s, 0, 0)
                                                                 : TURNED ? 0
                                                                          : j * CKCI_TMA_BOX));
        if (WEIGHT || o.form == CKCI_FORM_STORE) {
            round<0>(d, nullptr);
        } else if (!p.residual) {
            round<1>(d, shift);
        } else {
            round<2>(d, shift);
        }
        ckci_k_proxy_fence();
        ckci_k_meet<128>(1 + group);
        if (planes() || (ALL && across() && p.box[2].rank == 0)) {
            finish_planes<ALL>(row, s.image, b);
        } else if (ALL && p.box[2].rank == 0) {
            finish_rows_of(row, b);
        } else {
            const ckci_k_corner at = corner_of(s, b, row);
            by_one([&]() {
                ckci_k_box_store(p, m.strip[group][filled], at);
                ckci_k_boxes_sent();
            });
        }
    }

    /* Has this block all sums of a tile, and does the TMA store them? */
    CKCI_K_MEMBER bool whole(const pieces &s) const
    {
        return !PHASED && !s.late && !s.early && p.cluster == 1 && p.box[2].rank > 0;
    }

    /* Such a tile. The boxes' code stands for each of them, near where the kernel begins, before what fewer
       tiles need: what is further back than 64 KiB waits for memory where a kernel has run little (H200). */
    CKCI_K_MEMBER void finish(const pieces &s)
    {
        CKCI_K_UNROLL(8)
        for (int box = 0; box < MI * SLABS; box++) {
            finish_box<false>(s, box % MI, box / MI, sum[box % MI] + box / MI * 32);
        }
    }

    /* Any other, of which this block has the last word. more: added to what is there. */
    CKCI_K_MEMBER void finish_rest(const pieces &s, bool more)
    {
        if (s.early) {
            add_apart(s);
        }
        if constexpr (PHASED) {
            finish_phase(s);
        } else if (!TURNED && p.cluster == 1 && p.conv.o.partial) {
            finish_parts(s, more);
        } else {
            finish_in_turns(s);
        }
    }

    /* Sums of a phase, whose positions lie apart: each wave stores the rows that it has in a strip, 16 of
       them, eight channels of four at a time. (TURNED: all waves have some of each row.) */
    CKCI_K_MEMBER void finish_phase(const pieces &s)
    {
        const int32_t e = thread_again(), chunk = e % 8, first = e % 32 / 8;
        int32_t place[MI] = {};
        CKCI_K_UNROLL(2)
        for (int i = 0; i < MI && !TURNED; i++) {
            place[i] = place_of(s, row_of(s, i, 0));
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < SLABS; j++) {
            const columns b(p, column_of(s, j));
            CKCI_K_UNROLL(2)
            for (int i = 0; i < MI && b.count > 0; i++) {
                filled = STRIPS - 1 - filled;
                meet_rows();
                round<0>(sum[i] + j * 32, nullptr);
                meet_rows();
                const int32_t own = TURNED ? place_of(s, row_of(s, i, j)) : place[i];
                unsigned char *to = p.conv.o.t.p + CKCI_K_HALF * (b.first + 8 * chunk);
                const unsigned char *from = m.strip[group][filled] + e / 32 * 2048;
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    const int32_t row = 4 * k + first, at = ckci_k_of_lane(own, row);
                    if (at >= 0 && 8 * chunk < b.count) {
                        *(ckci_k_uint4 *)(to + 16 * (int64_t)at) =
                            *(const ckci_k_uint4 *)(from + ckci_k_spot<128>(row, chunk));
                    }
                }
            }
        }
    }

    CKCI_K_MEMBER void meet_rows() const
    {
        if (TURNED) {
            ckci_k_meet<128>(1 + group);
        } else {
            ckci_k_wave_barrier();
        }
    }

    /* As finish(), but the code stands once. A cluster's blocks leave their sums where their stages were, and
       each adds those of all, in their order, for some of the boxes; else it takes the first sums, and the
       others move up. */
    CKCI_K_MEMBER void finish_in_turns(const pieces &s)
    {
        const bool cluster = p.cluster > 1;
        ckci_k_uint4 *own = (ckci_k_uint4 *)m.stages + group * 128 + thread_again();
        if (cluster) {
            ckci_k_meet<256>(3);
            CKCI_K_UNROLL(2)
            for (int i = 0; i < MI; i++) {
                CKCI_K_UNROLL(32)
                for (int j = 0; j < NI / 8; j++) {
                    own[(i * (NI / 8) + j) * 256] = *(const ckci_k_uint4 *)&sum[i][4 * j];
                }
            }
            ckci_k_cluster_barrier();
        }
        CKCI_K_UNROLL(1)
        for (int32_t box = cluster ? s.part : 0; box < MI * SLABS; box += p.cluster) {
            const int32_t i = box % MI, j = box / MI;
            if (cluster) {
                add_cluster(own + (i * SLABS + j) * 8 * 256);
            }
            finish_box<true>(s, i, j, sum[0]);
            if (!cluster) {
                move_up();
            }
        }
        if (cluster) {
            ckci_k_cluster_barrier(); /* nobody reads this block's any more */
        }
    }

    /* The first 32 sums become those of all blocks, of which this one has its own at `own`. */
    CKCI_K_MEMBER void add_cluster(const ckci_k_uint4 *own)
    {
        CKCI_K_UNROLL(32)
        for (int j = 0; j < 32; j++) {
            sum[0][j] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t block = 0; block < p.cluster; block++) {
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                const ckci_k_uint4 v = ckci_k_cluster_load(own + j * 256, block);
                sum[0][4 * j] += ckci_k_float(v.x);
                sum[0][4 * j + 1] += ckci_k_float(v.y);
                sum[0][4 * j + 2] += ckci_k_float(v.z);
                sum[0][4 * j + 3] += ckci_k_float(v.w);
            }
        }
    }

    /* Each box's sums become those of the next one. */
    CKCI_K_MEMBER void move_up()
    {
        CKCI_K_UNROLL(8)
        for (int box = 0; box + 1 < MI * SLABS; box++) {
            CKCI_K_UNROLL(32)
            for (int k = 0; k < 32; k++) {
                sum[box % MI][box / MI * 32 + k] = sum[(box + 1) % MI][(box + 1) / MI * 32 + k];
            }
        }
    }

    /* Sums of rows of dout to their part; from there, if it is the only one, to dbias. */
    CKCI_K_MEMBER void finish_rows(const pieces &s, bool more, bool last)
    {
        const ckci_gpu_conv &c = p.conv;
        const int32_t wave = (int32_t)threadIdx.x / 32, r = (int32_t)threadIdx.x;
        if (!sums_rows(s.column)) {
            return;
        }
        ckci_k_meet<256>(3);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < SLABS_A; i++) {
            m.vector[(wave * SLABS_A + i) * 64 + lane() * 2] = row_sum[i][0];
            m.vector[(wave * SLABS_A + i) * 64 + lane() * 2 + 1] = row_sum[i][1];
        }
        ckci_k_meet<256>(3);
        if (r < BM && s.row * BM + r < c.rows) {
            float total = m.vector[r];
            CKCI_K_UNROLL(8)
            for (int i = 1; i < 8; i++) {
                total += m.vector[i * BM + r];
            }
            const int32_t channel = s.row * BM + r;
            float *to = (float *)c.bias.sums + ((int64_t)s.part * c.bias_turns + s.column) * c.rows + channel;
            total = more ? *to + total : total;
            *to = total;
            if (last && c.bias.out) {
                ckci_k_bias_put<float>(c.bias, channel, total);
            }
        }
    }

    /* A block's slot: sums as registers have them, of a thread each 16 bytes after those of its neighbour;
       row sums behind them. */
    CKCI_K_MEMBER ckci_k_uint4 *slot(int32_t block) const
    {
        return (ckci_k_uint4 *)(p.slots + (int64_t)block * CKCI_TMA_SLOT(BM, BN)) + group * 128 +
               thread_again();
    }

    CKCI_K_MEMBER uint64_t *done(int32_t block) const
    {
        return (uint64_t *)(p.slots + ((int64_t)p.workers << p.multicast) * CKCI_TMA_SLOT(BM, BN)) +
               2 * block + group;
    }

    /* Sums that another block finishes, to this one's slot. */
    CKCI_K_MEMBER void put_apart()
    {
        ckci_k_uint4 *to = slot((int32_t)blockIdx.x);
        CKCI_K_UNROLL(2)
        for (int i = 0; i < MI; i++) {
            CKCI_K_UNROLL(32)
            for (int j = 0; j < NI / 8; j++) {
                to[(i * (NI / 8) + j) * 256] = *(const ckci_k_uint4 *)&sum[i][4 * j];
            }
        }
        if constexpr (WEIGHT) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < (SLABS_A + 1) / 2; i++) {
                to[(MI * (NI / 8) + i) * 256] = *(const ckci_k_uint4 *)&row_sum[2 * i][0];
            }
        }
        ckci_k_publish<128>(done((int32_t)blockIdx.x), 1 + group);
    }

    /* And from the slots of those that have the tile's later steps, in their order. */
    CKCI_K_MEMBER void add_apart(const pieces &s)
    {
        int32_t worker = (int32_t)blockIdx.x >> p.multicast, past = s.end;
        CKCI_K_UNROLL(1)
        while (past < s.past) {
            int32_t first;
            worker--;
            s.range(worker, first, past);
            const int32_t block = (worker << p.multicast) + ckci_k_second(p);
            ckci_k_obtain<128>(done(block), 1 + group);
            const ckci_k_uint4 *from = slot(block);
            CKCI_K_UNROLL(2)
            for (int i = 0; i < MI; i++) {
                CKCI_K_UNROLL(32)
                for (int j = 0; j < NI / 8; j++) {
                    const ckci_k_uint4 v = ckci_k_load_others(from + (i * (NI / 8) + j) * 256);
                    sum[i][4 * j] += ckci_k_float(v.x);
                    sum[i][4 * j + 1] += ckci_k_float(v.y);
                    sum[i][4 * j + 2] += ckci_k_float(v.z);
                    sum[i][4 * j + 3] += ckci_k_float(v.w);
                }
            }
            if constexpr (WEIGHT) {
                CKCI_K_UNROLL(2)
                for (int i = 0; i < (SLABS_A + 1) / 2; i++) {
                    const ckci_k_uint4 v = ckci_k_load_others(from + (MI * (NI / 8) + i) * 256);
                    row_sum[2 * i][0] += ckci_k_float(v.x);
                    row_sum[2 * i][1] += ckci_k_float(v.y);
                    row_sum[2 * i + 1][0] += ckci_k_float(v.z);
                    row_sum[2 * i + 1][1] += ckci_k_float(v.w);
                }
            }
        }
    }

    /* PARTS: boxes have fewer than 64 channels; of bwd_weight, dout is read as it lies. */
    template <class T, bool PARTS> CKCI_K_MEMBER void multiply_all()
    {
        const int32_t chain = WEIGHT ? p.conv.chain / CKCI_TMA_BOX : 0;
        pieces s(p);
        int32_t next = 0;
        CKCI_K_UNROLL(1)
        while (s.next()) {
            int32_t from = s.from;
            if (whose() != next) { /* the other one's */
                next ^= turns(p);
                stage += p.trim ? (s.to - s.from) % stages(p) : p.skip;
                stage -= stage >= stages(p) ? stages(p) : 0;
                continue;
            }
            next ^= turns(p);
            prepare(s);
            CKCI_K_UNROLL(1)
            for (;;) {
                const int32_t to = chain && s.to - from > chain ? from + chain : s.to;
                loop<T, KIND == CKCI_K_TMA_BACK && !PARTS, WEIGHT && PARTS>(
                    from, to, s.column, PARTS ? wide(p) : +CKCI_TMA_BOX);
                const bool own = whole(s);
                if (own) { /* and no else: compilers would have its code first */
                    finish(s);
                }
                if (s.late) {
                    put_apart();
                    break;
                }
                if (!own) {
                    finish_rest(s, from > s.from);
                }
                if constexpr (WEIGHT) {
                    finish_rows(s, from > s.from, to >= s.to);
                }
                from = to;
                if (from >= s.to) {
                    break;
                }
            }
        }
        by_one([]() { ckci_k_boxes_read<0>(); });
    }

    template <class T> CKCI_K_MEMBER void multiply_any()
    {
        if (WEIGHT ? DOUT && p.plane > 0 : p.subs > 1) {
            multiply_all<T, !WEIGHT || DOUT>();
        } else {
            multiply_all<T, false>();
        }
    }

    /* Three waves begin a kind of barriers each, a lane those of a stage; three others have the TMA read what
       it has to know. Those that send have more to do before the first box. */
    static CKCI_K_MEMBER void begin(const ckci_gpu_tma &p, lds &m, int32_t wave)
    {
        const int32_t i = lane();
        if (wave < 3) {
            if (i < stages(p)) {
                ckci_k_turns_begin(wave < 2 ? &m.full[wave][i] : &m.empty[i],
                                   wave < 2   ? (copies(p) ? 6 : !WEIGHT && p.residual ? 3 : 4)
                                   : turns(p) ? 4 << p.multicast
                                              : 8 << p.multicast);
                ckci_k_turns_begun();
            }
        } else if (wave < 6 && p.box[wave - 3].rank > 0) {
            if (ckci_k_elect()) {
                ckci_k_box_known(p, wave - 3);
            }
        }
    }

    /* The waves that do not multiply. Of a pair none leaves before the other block's have arrived here. */
    static CKCI_K_MEMBER void serve(const ckci_gpu_tma &p, lds &m, int32_t wave)
    {
        ckci_k_leave_registers<40>();
        if (wave % 2 == 0) {
            send_all<0>(p, m, wave / 2 % 2);
        } else {
            send_all<1>(p, m, wave / 2 % 2);
        }
        if (p.cluster > 1) { /* as those that multiply: finish_in_turns */
            ckci_k_cluster_barrier();
            ckci_k_cluster_barrier();
        }
        if (p.multicast) {
            ckci_k_cluster_barrier();
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_tma &p, lds &m)
    {
        const int32_t wave = ckci_k_wave_number();
        if (wave >= 8) {
            serve(p, m, wave);
            return;
        }
        begin(p, m, wave);
        meet(p);
        ckci_k_await_last();
        ckci_k_take_registers<232>();
        ckci_k_tma_tiles tiles(p, m, wave);
        if (CKCI_K_BF16(p.conv.a.compute == CKCONV_BF16)) {
            tiles.template multiply_any<ckci_k_bf16>();
        } else {
            tiles.template multiply_any<ckci_k_f16>();
        }
        if (p.multicast) {
            ckci_k_cluster_barrier();
        }
    }
};
#endif
