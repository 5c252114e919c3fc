/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-tma-send
  What a block of >>k-matrix-tma has of tiles, and the boxes that its waves send for: where these begin, and
  how they go through the reduction. A wave that sends needs few instructions for a step, or the products of
  one wait for it (H200: a lane for each box, and divisions, took 750 clocks; a tile's step has 512 to 1,024).
*/
#pragma once
#include "kernels/boxes.h"

#if defined(CKCI_K_WGMMA)
/* Is this the second block of two that share columns' boxes? */
CKCI_K_FN int32_t ckci_k_second(const ckci_gpu_tma &p)
{
    return p.multicast & (int32_t)blockIdx.x;
}

/* Where 64 columns begin, and how many of them exist: tap and input channel (WEIGHT), or channel. */
template <bool WEIGHT> struct ckci_k_tma_columns {
    int32_t tap, first, count;

    CKCI_K_MEMBER ckci_k_tma_columns(const ckci_gpu_tma &p, int32_t block) : tap(0)
    {
        if constexpr (WEIGHT) {
            tap = ckci_k_divide(block, p.by_blocks);
            block -= tap * p.blocks;
        }
        first = block * CKCI_TMA_BOX;
        count = tap < p.taps || !WEIGHT ? (WEIGHT ? p.conv.red : p.conv.columns) - first : 0;
    }
};

/* What a block has of tiles, one piece after the other: whole tiles of part `part`, and a share of the steps
   of those that are left over, tile by tile (stream-K). Of a shared tile the block that has its first steps
   adds what later ones have put into their slots, and stores it. Later steps are those of blocks with lower
   numbers, which began before, and do them first: none waits for one that waits. */
template <bool PHASED, bool TRIMS> struct ckci_k_tma_pieces {
    const ckci_gpu_tma &p;
    int32_t work, at, end; /* the next whole tile; steps of the share that are left */

    CKCI_K_MEMBER ckci_k_tma_pieces(const ckci_gpu_tma &args)
        : p(args), work((int32_t)blockIdx.x >> args.multicast), at(0), end(0)
    {
        if (p.share) {
            range(work, at, end);
        }
    }

    /* The share of a block, or pair. */
    CKCI_K_MEMBER void range(int32_t block, int32_t &first, int32_t &past) const
    {
        const int32_t turned = p.workers - 1 - block;
        first = turned * p.share + (turned < p.share_rest ? turned : p.share_rest);
        past = first + p.share + (turned < p.share_rest ? 1 : 0);
    }

    int32_t image, row, column; /* of tiles */
    int32_t part, from, to;     /* steps: of the tile, or of its phase */
    int32_t past;               /* of the share's steps: where the tile, or phase, ends */
    int32_t phase;
    bool late, early;           /* another block has the tile's first steps; its last */
    int32_t tap, taps;          /* TRIMS: the first that rows need, and how many from there on */

    CKCI_K_MEMBER bool next()
    {
        int32_t tile;
        const bool shared = at < end;
        part = phase = 0;
        late = early = false;
        if (shared) {
            int32_t all = p.steps;
            tile = ckci_k_divide(at, p.by_steps);
            int32_t first = tile * p.steps;
            tile += p.whole;
            if constexpr (PHASED) {
                while (at - first >= p.phases.at[phase + 1]) {
                    phase++;
                }
                first += p.phases.at[phase];
                all = p.phases.at[phase + 1] - p.phases.at[phase];
            }
            past = first + all;
            from = at - first;
            at = end < past ? end : past;
            to = at - first;
            late = from > 0;
            early = to < all;
            if (PHASED && phase_taps() == 0) {
                from = to = 0;
                late = early = false;
            }
        } else if (work < p.whole) {
            if (p.cluster > 1) { /* its blocks follow each other */
                tile = ckci_k_divide(work, p.by_parts);
                part = work - tile * p.cluster;
            } else {
                part = ckci_k_divide(work, p.by_tiles);
                tile = work - part * p.tiles;
            }
            work += p.workers;
        } else {
            return false;
        }
        const bool last = tile >= p.full;
        row = last ? tile - p.full : ckci_k_divide(tile, p.by_across);
        column = last ? p.across : tile - row * p.across;
        image = 0;
        if (p.images > 1) {
            image = ckci_k_divide(row, p.by_rows);
            row -= image * (int32_t)p.by_rows.d;
        }
        row = (row << p.multicast) + ckci_k_second(p);
        int32_t steps = p.steps;
        if constexpr (TRIMS) {
            tap = 0;
            taps = p.taps;
            if (p.trim) {
                tap = ckci_k_trim(p.conv, row * p.rows, p.rows, taps);
                tap = p.turned ? p.taps - tap - taps : tap; /* pixels of boxes go up */
                steps = taps * p.blocks;
                if (shared) { /* blocks' shares shrink alike */
                    from = ckci_k_divide(from * steps, p.by_steps);
                    to = ckci_k_divide(to * steps, p.by_steps);
                }
            }
        }
        if (!shared) {
            from = ckci_k_divide(steps * part, p.by_parts);
            to = ckci_k_divide(steps * (part + 1), p.by_parts);
        }
        return true;
    }

    /* Of the phase. */
    CKCI_K_MEMBER int32_t phase_taps() const
    {
        return p.phases.first[phase + 1] - p.phases.first[phase];
    }
};

/* The residual's boxes of a block's tiles, in the order in which groups store what is written, as far ahead
   as LDS has room. The TMA brings them, or the wave copies those of planes that do not lie in one image, or
   not at 16 bytes. */
template <class TILES> struct ckci_k_tma_residual {
    typedef typename TILES::columns columns;
    typedef typename TILES::pieces pieces;

    const ckci_gpu_tma &p;
    typename TILES::lds &m;
    uint32_t next;  /* box, four bits for each group: its place, and above them the place's parity */
    uint64_t *late; /* a box whose copies have yet to come */

    CKCI_K_MEMBER ckci_k_tma_residual(const ckci_gpu_tma &args, typename TILES::lds &room)
        : p(args), m(room), next(0x44), late(nullptr)
    {
    }

    /* Barriers, before the block meets; `left` lies behind `come`. */
    CKCI_K_MEMBER void begin() const
    {
        const int32_t i = TILES::lane();
        if (i < 4 * CKCI_TMA_RESIDUALS) {
            ckci_k_turns_begin(&m.come[0][0] + i, i < 2 * CKCI_TMA_RESIDUALS ? 1 : 4);
            ckci_k_turns_begun();
        }
    }

    /* Those of a piece; in turns, `group` has the tile. */
    CKCI_K_MEMBER void send(const pieces &s, int32_t group)
    {
        CKCI_K_UNROLL(1)
        for (int32_t box = 0; box < TILES::MI * TILES::SLABS && !s.late; box++) {
            CKCI_K_UNROLL(1)
            for (int32_t g = 0; g < 2; g++) {
                const int32_t part = p.turns ? 0 : g, at = next >> 4 * g & 3;
                const columns b(p, TILES::column_at(s, part, box / TILES::MI));
                const int32_t row = TILES::row_at(s, part, box % TILES::MI, box / TILES::MI);
                if ((!p.turns || g == group) && b.count > 0 && row < p.conv.rows) {
                    if (box >= p.places) { /* who leaves a place may wait for what is late */
                        say<0>();
                    }
                    ckci_k_turns_await(&m.left[g][at], next >> (4 * g + 2) & 1);
                    bring(s, b, row, TILES::residual_box(p, m, g, at), &m.come[g][at]);
                    next += (at + 1 == p.places ? 4 - at : 1) << 4 * g;
                    next &= 0x77; /* a parity's bit falls out */
                }
            }
        }
        say<0>();
    }

    CKCI_K_MEMBER void bring(const pieces &s, const columns &b, int32_t row, unsigned char *to,
                             uint64_t *come)
    {
        const int32_t image = p.plane ? ckci_k_divide(row, p.by_plane) : 0, past = (image + 1) * p.plane;
        if (p.box[3].rank > 0 && (!p.plane || row + CKCI_TMA_BOX <= past || past == p.conv.rows)) {
            if (ckci_k_elect()) {
                load(to, come, p.plane ? TILES::plane_of(p, b, row) : TILES::corner_of(s, b, row));
            }
            return;
        }
        copy(s, b, row, to);
        ckci_k_copies_end();
        say<1>();
        late = come;
    }

    CKCI_K_MEMBER void load(unsigned char *to, uint64_t *come, const ckci_k_corner &at) const
    {
        ckci_k_turns_expect(come, CKCI_TMA_BOX_BYTES);
        if (p.box[3].rank == 2) {
            ckci_k_box_load<2>(p, 3, to, come, at);
        } else {
            ckci_k_box_load<3>(p, 3, to, come, at);
        }
    }

    /* Channels of 64 positions, four at a time, of which planes have a multiple; zeros where there are none.
       Rows are positions, or, of products for each image, channels. A lane has four positions of every other
       channel. */
    CKCI_K_MEMBER void copy(const pieces &s, const columns &b, int32_t row, unsigned char *to) const
    {
        enum { P = 4, EACH = CKCI_TMA_BOX / P, ROWS = 32 / EACH };
        const ckci_gpu_box &o = p.box[3];
        const bool across = !p.plane;
        const int32_t own = TILES::lane() / EACH, first = TILES::lane() % EACH * P;
        const int32_t position = (across ? b.first : row) + first, channel = (across ? row : b.first) + own;
        const int32_t image = across ? s.image : ckci_k_divide(position, p.by_plane);
        const bool some = position < (across ? p.conv.columns : p.conv.rows);
        const int32_t left = some ? (across ? p.conv.rows - row : b.count) - own : 0;
        const unsigned char *from = o.p + CKCI_K_HALF * (image * o.stride[1] + channel * o.stride[2] +
                                                         position - (across ? 0 : image * p.plane));
        const int64_t more = CKCI_K_HALF * ROWS * o.stride[2];
        to += first % 8 * CKCI_K_HALF;
        CKCI_K_UNROLL(4)
        for (int32_t r = 0; r < CKCI_TMA_BOX; r += ROWS) {
            const bool good = r < left;
            ckci_k_copy_async<CKCI_K_HALF * P>(to + ckci_k_spot<128>(own + r, first / 8), good ? from : o.p,
                                               good);
            from += more;
        }
    }

    /* All but the last COUNT boxes that were copied have come. */
    template <int COUNT> CKCI_K_MEMBER void say()
    {
        if (late) {
            ckci_k_copies_wait<COUNT>();
            ckci_k_wave_barrier();
            if (TILES::lane() == 0) {
                ckci_k_turns_arrive(late);
            }
            late = nullptr;
        }
    }
};

/* What one of four waves sends of an operand: every other box, or, where a wave has the residual, all of
   columns'. Nothing here depends on a wave's lane, so that compilers compute it once for all; KIND_OF: of its
   boxes. A step has few instructions: a tile's products would wait for many. Boxes of a step's taps, then of
   the next step's, go through the reduction one after the other: taps first, but layers after channels. What
   is left of the last step has channels that there are not. PHASED: taps are a phase's, from a list. */
template <class TILES, int WHICH, int KIND_OF> struct ckci_k_tma_sender {
    typedef typename TILES::pieces pieces;
    enum {
        PHASED = TILES::PHASED,
        WEIGHT = TILES::WEIGHT,
        GATHER = TILES::GATHER,
        BN = TILES::WIDTH,
        SLABS_B = TILES::SLABS_B,
        BOXES = WHICH ? +TILES::BOXES_B : +TILES::BOXES_A,
        EACH = (BOXES + 1) / 2, /* of a wave */
        PIXELS = KIND_OF >= CKCI_K_BOX_PIXELS,
        TAPPED = WEIGHT && WHICH /* a tile's boxes have taps and channels of their own */
    };
    struct tapped {
        int32_t place, x, y, z;
    };

    const ckci_gpu_tma &p;
    int32_t half;  /* 0: the wave has boxes 0, 2, ..., 1: 1, 3, ... */
    bool across;   /* they lie across the reduction */
    int32_t boxes; /* of the tile, for each of a step's taps: those with columns */
    int32_t bytes; /* that the wave sends in a step */
    ckci_k_corner at;
    int32_t left, count;               /* boxes until the slower index goes on, of so many */
    int32_t last;                      /* PHASED: behind the phase's taps in the list */
    int32_t begin[3];                  /* x, y, z of the tile's first tap */
    int32_t fast[3], slow[3];          /* how much further place, x and y are else, and then */
    int32_t more[4], past[3], span[3]; /* WEIGHT: pixels that 64 positions are (x, y, z, image), that end
                                          an axis, and that it has */
    tapped own[TAPPED ? +EACH : 1];

    CKCI_K_MEMBER ckci_k_tma_sender(const ckci_gpu_tma &args, int32_t which_half)
        : p(args), half(which_half), across(TILES::lies_across(args, WHICH)), boxes(0),
          bytes(0), at{0, 0, 0, 0, 0, 0, 0, 0}, left(1), count(1),
          last(1), begin{0, 0, 0}, fast{0, 0, 0}, slow{0, 0, 0}, more{0, 0, 0, 0}, past{0, 0, 0},
          span{0, 0, 0}
    {
        if constexpr (WEIGHT && PIXELS) {
            const ckci_gpu_box &b = p.box[WEIGHT];
            const ckci_k_place q = decode(CKCI_TMA_BOX);
            more[0] = q.x * b.step[0];
            more[1] = q.y * b.step[1];
            more[2] = q.z * b.step[2];
            more[3] = q.n;
            CKCI_K_UNROLL(3)
            for (int i = 0; i < 3; i++) {
                span[i] = b.step[i] * (int32_t)p.conv.dim[2 - i].count[0].d;
                past[i] = b.low[i] + span[i];
            }
        }
    }

    CKCI_K_MEMBER ckci_k_place decode(int32_t position) const
    {
        const ckci_gpu_dim *d = p.conv.dim;
        return ckci_k_decode(position, d[0].count[0], d[1].count[0], d[2].count[0]);
    }

    static CKCI_K_MEMBER bool layers(const ckci_gpu_tma &p)
    {
        return GATHER && p.layers;
    }

    /* Of the tile's boxes those that have columns (or rows, where they lie across). */
    CKCI_K_MEMBER void count_boxes(const pieces &s)
    {
        int32_t exist = p.conv.columns - s.column * BN, most = TILES::BOXES_B;
        if (WHICH == 0) {
            exist = across ? p.conv.rows - s.row * TILES::rows(p) : 1;
            most = TILES::rows(p) / CKCI_TMA_BOX;
        } else if (WEIGHT) {
            exist = (p.taps * p.blocks - s.column * SLABS_B) * CKCI_TMA_BOX;
        } else if (GATHER && p.box[1].rows != CKCI_TMA_BOX) {
            most = 1;
        }
        boxes = (exist + CKCI_TMA_BOX - 1) / CKCI_TMA_BOX;
        boxes = boxes < most ? boxes : most;
        boxes = boxes > 0 ? boxes : 0; /* the second tile of two may have no rows */
        bytes = (boxes + 1 - half) / 2 *
                (across ? +CKCI_TMA_BOX_BYTES : 128 * (WHICH ? p.box[1].rows : TILES::rows(p)));
        if (alone()) {
            bytes = boxes * (across ? +CKCI_TMA_BOX_BYTES : 128 * p.box[1].rows);
        }
    }

    /* Are all boxes this wave's? */
    CKCI_K_MEMBER bool alone() const
    {
        return WHICH && !WEIGHT && p.residual;
    }

    /* The pixel, or the row, of a position. */
    CKCI_K_MEMBER void position(int32_t first)
    {
        at.x = first;
        if constexpr (PIXELS) {
            const ckci_gpu_box &b = p.box[WEIGHT];
            const ckci_k_place q = decode(first);
            at.x = q.x * b.step[0] + b.low[0];
            at.y = q.y * b.step[1] + b.low[1];
            at.z = q.z * b.step[2] + b.low[2];
            at.n = q.n;
        }
    }

    /* 64 positions on. */
    CKCI_K_MEMBER void advance()
    {
        if constexpr (PIXELS) {
            enum { AXES = KIND_OF - CKCI_K_BOX_PIXELS - 2 };
            const ckci_gpu_box &b = p.box[WEIGHT];
            at.x += more[0];
            bool end = at.x >= past[0];
            at.x -= end ? span[0] : 0;
            if constexpr (AXES > 1) {
                at.y += more[1] + (end ? b.step[1] : 0);
                end = at.y >= past[1];
                at.y -= end ? span[1] : 0;
            }
            if constexpr (AXES > 2) {
                at.z += more[2] + (end ? b.step[2] : 0);
                end = at.z >= past[2];
                at.z -= end ? span[2] : 0;
            }
            at.n += more[3] + end;
        } else {
            at.x += CKCI_TMA_BOX;
        }
    }

    CKCI_K_MEMBER void pixel_of_tap(int32_t tap)
    {
        const ckci_gpu_dim *d = p.conv.dim;
        const int32_t up = ckci_k_divide(tap, p.by_taps[0]), deep = ckci_k_divide(up, p.by_taps[1]);
        at.tap_x = (tap - up * d[2].filter) * d[2].dilation;
        at.tap_y = (up - deep * d[1].filter) * d[1].dilation;
        at.tap_z = deep * d[0].dilation;
    }

    /* The first step of a piece of a tile. */
    CKCI_K_MEMBER void start(const pieces &s)
    {
        count_boxes(s);
        if constexpr (TAPPED) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < EACH; j++) {
                const int32_t one = s.column * SLABS_B + 2 * j + half, tap = ckci_k_divide(one, p.by_blocks);
                pixel_of_tap(tap);
                own[j] = {(one - tap * p.blocks) * CKCI_TMA_BOX, at.tap_x, at.tap_y, at.tap_z};
            }
        }
        if constexpr (WEIGHT) {
            at.place = WHICH ? 0 : s.row * TILES::rows(p);
            position(s.from * CKCI_TMA_BOX);
        } else if constexpr (PHASED) {
            go_phase(s, s.from * p.subs);
        } else {
            go(s, s.from * p.subs);
        }
    }

    /* The same as go of a phase's boxes. */
    CKCI_K_MEMBER void go_phase(const pieces &s, int32_t one)
    {
        count = s.phase_taps() ? s.phase_taps() : 1;
        const int32_t block = one / count, tap = one - block * count, place = block * TILES::wide(p);
        left = count - tap;
        last = p.phases.first[s.phase] + count;
        if constexpr (WHICH == 0) {
            position(s.row * TILES::rows(p));
            at.place = place;
        } else {
            at.place = s.column * BN;
            at.y = place;
        }
        take();
    }

    /* The tap that is `left` before the last one. */
    CKCI_K_MEMBER void take()
    {
        const uint32_t tap = p.phases.tap[last - left];
        if constexpr (WHICH == 0) {
            at.tap_x = (int32_t)(tap & 255);
            at.tap_y = (int32_t)(tap >> 8 & 255);
            at.tap_z = (int32_t)(tap >> 16 & 255);
        } else {
            at.x = KIND_OF == 2 ? at.y : (int32_t)(tap >> 24);
        }
    }

    /* Where box `one` of a tile begins, and how to go on. bwd_data has taps in the opposite
       order. */
    CKCI_K_MEMBER void go(const pieces &s, int32_t one)
    {
        int32_t block = p.trim ? one / s.taps : ckci_k_divide(one, p.by_all_taps),
                tap = s.tap + one - block * s.taps;
        if (layers(p)) {
            tap = ckci_k_divide(one, p.by_blocks);
            block = one - tap * p.blocks;
        }
        const int32_t first = s.row * TILES::rows(p), column = s.column * BN, place = block * TILES::wide(p);
        const bool alone = p.taps == 1;
        int32_t along[3] = {0, 0, 0}, step = 0; /* of a block, of a tap (x) */
        at.y = 0;
        if (WHICH == 0 && across) {
            at.place = first;
            at.x = place;
            along[1] = TILES::wide(p);
        } else if (WHICH == 0) {
            position(first);
            if (p.trim) {
                pixel_of_tap(s.tap);
                begin[0] = at.tap_x;
                begin[1] = at.tap_y;
                begin[2] = at.tap_z;
            }
            pixel_of_tap(tap);
            at.place = place;
            along[0] = TILES::wide(p);
            if (layers(p)) {
                at.y = first;
                at.x = tap;
                step = 1;
            }
        } else {
            const int32_t of = p.turned ? p.taps - 1 - tap : tap, before = alone ? s.image : of;
            step = alone ? 0 : p.turned ? -1 : 1;
            at.place = GATHER ? place : column;
            at.y = GATHER ? column : place;
            at.x = KIND_OF == 2 ? at.y : before;
            along[GATHER ? 0 : KIND_OF == 2 ? 1 : 2] = TILES::wide(p);
        }
        const bool blocks = layers(p);
        count = blocks ? p.blocks : s.taps;
        left = count - (blocks ? block : tap - s.tap);
        CKCI_K_UNROLL(3)
        for (int i = 0; i < 3; i++) {
            const int32_t tapped = i == 1 ? step : 0;
            fast[i] = blocks ? along[i] : tapped;
            slow[i] = (blocks ? tapped : along[i]) - (count - 1) * fast[i];
        }
    }

    /* To the next box. */
    CKCI_K_MEMBER void next()
    {
        const bool end = --left == 0;
        left = end ? count : left;
        if constexpr (PHASED) {
            (WHICH ? at.y : at.place) += end ? TILES::wide(p) : 0;
            take();
            return;
        }
        at.place += end ? slow[0] : fast[0];
        if constexpr (WHICH == 0 && PIXELS) {
            const ckci_gpu_dim *d = p.conv.dim;
            at.tap_x += d[2].dilation;
            if (at.tap_x == d[2].filter * d[2].dilation) {
                at.tap_x = 0;
                at.tap_y += d[1].dilation;
                if (at.tap_y == d[1].filter * d[1].dilation) {
                    at.tap_y = 0;
                    at.tap_z += d[0].dilation;
                }
            }
            if (end) {
                at.tap_x = begin[0];
                at.tap_y = begin[1];
                at.tap_z = begin[2];
            }
        } else {
            at.x += end ? slow[1] : fast[1];
            at.y += end ? slow[2] : fast[2];
        }
    }

    /* The wave's j-th box of the corner's tap, the i-th of all, to `to`. Of two blocks that have the same
       columns the first sends boxes 0, 3, 4, 7, ... to both, the second the others. */
    CKCI_K_MEMBER void send_box(int j, int32_t i, unsigned char *to, uint64_t *full) const
    {
        const bool both = WHICH && p.multicast;
        if (both && ((i + i / 2) & 1) != ckci_k_second(p)) {
            return;
        }
        ckci_k_corner c = at;
        if constexpr (TAPPED) {
            c = {own[j].place, at.x, at.y, at.z, at.n, own[j].x, own[j].y, own[j].z};
        } else if (WHICH && GATHER) {
            c.y += i * CKCI_TMA_BOX;
            c.x += KIND_OF == 2 ? i * CKCI_TMA_BOX : 0;
        } else {
            c.place += i * CKCI_TMA_BOX;
        }
        if (both) {
            ckci_k_box_load<KIND_OF, true>(p, WHICH, to, full, c);
        } else {
            ckci_k_box_load<KIND_OF>(p, WHICH, to, full, c);
        }
    }

    /* A step's boxes to its stage, of which this operand is at `to`; by one lane. */
    CKCI_K_MEMBER void send(unsigned char *to, uint64_t *full)
    {
        const bool gather = WHICH && GATHER;
        const int32_t beside = gather ? 128 * TILES::wide(p) : +CKCI_TMA_BOX_BYTES,
                      below = gather       ? BN * 2 * TILES::wide(p)
                              : WHICH == 0 ? TILES::rows(p) * 2 * TILES::wide(p)
                                           : 128 * TILES::wide(p);
        const bool elected = ckci_k_elect();
        if (elected) {
            ckci_k_turns_expect(full, bytes);
        }
        CKCI_K_UNROLL(1)
        for (int32_t sub = 0; sub < (WEIGHT ? 1 : p.subs); sub++) {
            if (elected) {
                CKCI_K_UNROLL(2)
                for (int j = 0; j < EACH; j++) {
                    const int32_t i = 2 * j + half;
                    if (i < boxes) {
                        send_box(j, i, to + i * beside, full);
                    }
                }
                CKCI_K_UNROLL(1)
                for (int32_t i = 1; i < boxes && alone(); i += 2) {
                    send_box(0, i, to + i * beside, full);
                }
            }
            to += below;
            if constexpr (!WEIGHT) {
                next();
            }
        }
        if constexpr (WEIGHT) {
            advance();
        }
    }
};

/* dout as it lies, channels first: the boxes of a step have the tile's rows and some of its positions each,
   of which the two waves take turns. */
template <class TILES> struct ckci_k_tma_planes {
    typedef typename TILES::pieces pieces;

    const ckci_gpu_tma &p;
    int32_t half, wide, box, bytes; /* numbers of a row; bytes of a box, and that the wave sends in a step */
    ckci_k_corner at;

    CKCI_K_MEMBER ckci_k_tma_planes(const ckci_gpu_tma &args, int32_t which_half)
        : p(args), half(which_half), wide(args.box[0].wide), box(TILES::rows(args) * wide * CKCI_K_HALF),
          bytes((CKCI_TMA_BOX / wide + 1 - half) / 2 * box), at{0, 0, 0, 0, 0, 0, 0, 0}
    {
    }

    CKCI_K_MEMBER void start(const pieces &s)
    {
        const int32_t position = s.from * CKCI_TMA_BOX, image = ckci_k_divide(position, p.by_plane);
        at = {position - image * p.plane, image, s.row * TILES::rows(p), 0, 0, 0, 0, 0};
    }

    /* A step's boxes to its stage. */
    CKCI_K_MEMBER void send(unsigned char *to, uint64_t *full)
    {
        const bool elected = ckci_k_elect();
        if (elected) {
            ckci_k_turns_expect(full, bytes);
        }
        CKCI_K_UNROLL(1)
        for (int32_t first = 0; first < CKCI_TMA_BOX; first += wide) {
            if (elected && first / wide % 2 == half) {
                ckci_k_box_load<3>(p, 0, to, full, at);
            }
            to += box;
            at.place += wide;
            const bool end = at.place == p.plane;
            at.place = end ? 0 : at.place;
            at.x += end;
        }
    }
};

/* Copies columns' operand of products for each image whose planes begin at 8 bytes, not at 16: 64 positions
   of 64 channels as the TMA leaves a box of them, four positions at a time. Each of four waves has a quarter
   of the channels; that a step's have come they say LATE steps later. */
template <class TILES> struct ckci_k_tma_copier {
    typedef typename TILES::pieces pieces;
    enum { LATE = 2, P = 4, EACH = CKCI_TMA_BOX / P, ROWS = 32 / EACH, BN = TILES::WIDTH };
    enum { OWN = CKCI_TMA_BOX / 4 }; /* channels of a wave */

    const ckci_gpu_tma &p;
    int32_t row, first; /* of a box: this lane's first channel, its positions */
    int32_t spot[4];    /* of the lane's first four channels in a box; eight channels on they lie alike */

    CKCI_K_MEMBER ckci_k_tma_copier(const ckci_gpu_tma &args, int32_t quarter)
        : p(args), row(quarter * OWN + (int32_t)threadIdx.x % 32 / EACH),
          first((int32_t)threadIdx.x % EACH * P), spot{0, 0, 0, 0}
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            spot[i] = ckci_k_spot<128>(row + i * ROWS, first / 8) + first % 8 * CKCI_K_HALF;
        }
    }

    /* Eight channels of the lane, of which `left` places from its first one on exist; ALL: they do. */
    template <bool ALL>
    CKCI_K_MEMBER void copy_box(unsigned char *to, const unsigned char *from, int64_t more,
                                int32_t left) const
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < OWN / ROWS; i++) {
            ckci_k_copy_async<CKCI_K_HALF * P>(to + i / 4 * 1024 + spot[i % 4], from, ALL || i * ROWS < left);
            from += more;
        }
    }

    CKCI_K_MEMBER void copy(const pieces &s, int32_t step, unsigned char *to) const
    {
        const ckci_gpu_box &b = p.box[1];
        const int32_t channel = step * CKCI_TMA_BOX + row, column = s.column * BN + first;
        const int64_t more = CKCI_K_HALF * ROWS * b.stride[2];
        const unsigned char *from =
            b.p + CKCI_K_HALF * (s.image * b.stride[1] + channel * b.stride[2] + column);
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < BN && s.column * BN + i < p.conv.columns; i += CKCI_TMA_BOX) {
            const int32_t left = column + i < p.conv.columns ? p.conv.red - channel : 0;
            if (left > OWN - ROWS) {
                copy_box<true>(to, from, more, left);
            } else {
                copy_box<false>(to, from, more, left);
            }
            from += CKCI_K_HALF * CKCI_TMA_BOX;
            to += CKCI_TMA_BOX_BYTES;
        }
    }

    /* All but the last COUNT steps have come. */
    template <int COUNT> static CKCI_K_MEMBER void say(uint64_t *full)
    {
        ckci_k_copies_wait<COUNT>();
        ckci_k_proxy_fence();
        ckci_k_wave_barrier();
        if (threadIdx.x % 32 == 0) {
            ckci_k_turns_arrive(full);
        }
    }
};
#endif
