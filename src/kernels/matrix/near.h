/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-near
  Small groups side by side in one block: what fwd, bwd_data and bwd_weight share. Pixels of a region lie in
  LDS once for all taps; regions, and where they lie, come from the planner (>>gpu-near). What a unit must do
  for these kernels stands here, too, one specialisation for each. A block owns 64 channels of the regions
  that it walks over.
*/
#pragma once
#include "kernels/store.h"
#include "kernels/unit/mfma.h"
#include "kernels/unit/wmma.h"
#include "kernels/unit/mma.h"
#include "kernels/chunks.h"

/* ---- Small groups in one phase: fwd and bwd_data, and bwd_weight. A block owns 64 channels, in blocks of Q
   that hold one group or several whole ones, and walks over regions of some images x rows x columns of
   positions in one plane of the output. What the positions of a region read of a plane, with its halo, lies
   in LDS as rows of 128 bytes for each pixel, padding as zeros; every tap reads its operand from there, so
   that memory is read once for each plane of the filter. A row's pitch is such that 16 positions, which may
   be parts of two rows, meet in no bank. The next region is on its way while one is multiplied: on NVIDIA
   into LDS, on AMD into registers.
   fwd, bwd_data: a wave owns 16 channels of the written tensor, whose weights it keeps in registers, and all
   positions of a region, or half of them. The weights of merged groups lie on the diagonal, [column][tap][Q].
   With 3 x 3 filters that step from row to row (near_down), 16 positions are of one row (of several images,
   if these are narrow), and the wave walks down: what it reads of a row of pixels serves three rows of
   positions. On NVIDIA a region may then be as high as the image and pass through LDS in chunks of rows:
   waves keep the sums of the rows that a chunk leaves unfinished, and no row is read twice. A residual
   (q.residual) comes into LDS with the pixels there, so that its bytes are on their way as theirs are.
   With filters of several planes (near_deep) those that a region reads pass through LDS one after the other;
   a wave keeps the sums of all its positions. The weights of a plane come with it: on NVIDIA into LDS too,
   where bwd_data finds them as they lie in memory and turns them when it loads them.
   bwd_weight: dout lies in LDS behind the pixels. Channels are rows and columns here and positions the
   reduction, so operands are turned when they are loaded. A wave owns 16 output x 16 input channels, for all
   taps of a plane of the filter, all along its regions; two waves that share them add theirs at the end. Sums
   go to workspace. Where K is not C, the 64 channels of a block are the wider side's; of the other side, of
   which several blocks then use parts, it loads the 64 among which its own are. */
enum { CKCI_K_NEAR_TAPS = 9 };

/* On AMD few epilogues: with all, clang 19 wants scalars from vector registers on gfx11. */
#if defined(__HIP_DEVICE_COMPILE__)
enum { CKCI_K_NEAR_OPS = CKCI_K_OPS_FEW };
#else
enum { CKCI_K_NEAR_OPS = CKCI_K_OPS_ALL };
#endif

/* A position or pixel of a region: where it lies from the region's first in memory (bytes of pixels, elements
   of positions); in LDS, of a position its first pixel; its row and column. */
struct ckci_k_near_spot {
    int32_t offset;
    uint32_t word;

    CKCI_K_MEMBER void set(int64_t from_first, int32_t at, int32_t y, int32_t x)
    {
        offset = (int32_t)from_first;
        word = (uint32_t)(at / 16) | (uint32_t)y << 12 | (uint32_t)x << 22;
    }

    CKCI_K_MEMBER int32_t at() const
    {
        return (int32_t)(word & 0xfffu) * 16;
    }

    CKCI_K_MEMBER int32_t y() const
    {
        return (int32_t)(word >> 12 & 0x3ffu);
    }

    CKCI_K_MEMBER int32_t x() const
    {
        return (int32_t)(word >> 22);
    }
};

/* What near asks of a unit. Weights are an operand of 16 columns; sums of 16 positions and 16 channels come
   in PIECES of RUN neighbouring channels of one position: sum j of a piece, its position, its first channel.
   load_turned reads an operand whose rows are 16 channels and whose reduction 16 positions, of which a lane
   gives the addresses of TURNED. Of sums of such operands ACROSS neighbours lie in neighbouring columns. */
template <class U> struct ckci_k_near_unit;

#if defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* AMD: weights are the rows, a lane's sums lie in one position. */
template <class U, int R, int T> struct ckci_k_near_amd {
    enum { PIECES = 1, RUN = R, TURNED = T, ACROSS = 1 };
    typedef typename U::operand operand;

    template <class E>
    static CKCI_K_MEMBER void multiply(typename U::sums &d, const operand &weights, const operand &pixels)
    {
        U::template multiply<E>(d, weights, pixels);
    }

    static CKCI_K_MEMBER int sum(int, int j)
    {
        return j;
    }

    static CKCI_K_MEMBER int position(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int channel()
    {
        return (int)threadIdx.x % U::WAVE / 16 * RUN;
    }

    template <class E>
    static CKCI_K_MEMBER void multiply_turned(typename U::sums &d, const operand &first,
                                              const operand &second)
    {
        U::template multiply<E>(d, first, second);
    }

    template <class F> static CKCI_K_MEMBER operand load_turned_second(const F &position)
    {
        return load_turned(position);
    }

    /* this lane's channel of 16, from the address of a position's first one */
    template <class F> static CKCI_K_MEMBER operand load_turned(const F &position)
    {
        uint32_t two[TURNED / 2];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < TURNED / 2; i++) {
            two[i] = channel_of(position(2 * i)) | channel_of(position(2 * i + 1)) << 16;
        }
        return ckci_k_cast<operand>(two);
    }

    static CKCI_K_MEMBER uint32_t channel_of(const unsigned char *position)
    {
        return ((const uint16_t *)position)[(int)threadIdx.x % 16];
    }
};
#endif

#if defined(CKCI_K_MFMA)
template <> struct ckci_k_near_unit<ckci_k_mfma16> : ckci_k_near_amd<ckci_k_mfma16, 4, 4> {
    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 64;
        return *(const operand *)(row(lane % 16) + lane / 16 * 8);
    }

    static CKCI_K_MEMBER int turned(int i)
    {
        return (int)threadIdx.x % 64 / 16 * 4 + i;
    }

    static CKCI_K_MEMBER int turned_second(int i)
    {
        return turned(i);
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* Rows of sums alternate between the halves of a wave before gfx12, so weights are put in such an order. */
template <int GFX>
struct ckci_k_near_unit<ckci_k_wmma<GFX>> : ckci_k_near_amd<ckci_k_wmma<GFX>, 8, GFX == 11 ? 16 : 8> {
    typedef typename ckci_k_wmma<GFX>::operand operand;

    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 16, half = (int)threadIdx.x % 32 / 16;
        const unsigned char *from = row(GFX == 11 ? lane % 2 * 8 + lane / 2 : lane);
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = ((const ckci_k_uint4 *)from)[0];
            r.v[1] = ((const ckci_k_uint4 *)from)[1];
        } else {
            r.v[0] = ((const ckci_k_uint4 *)from)[half];
        }
        (void)half;
        return r;
    }

    static CKCI_K_MEMBER int turned(int i)
    {
        return GFX == 11 ? i : (int)threadIdx.x % 32 / 16 * 8 + i;
    }

    static CKCI_K_MEMBER int turned_second(int i)
    {
        return turned(i);
    }
};
#endif

#if defined(CKCI_K_MMA)
/* Columns of the weights are in such an order that a lane's sums are four neighbours. */
template <> struct ckci_k_near_unit<ckci_k_mma> {
    enum { PIECES = 2, RUN = 4, TURNED = 1, ACROSS = 2 };
    typedef ckci_k_mma::operand operand;

    /* Of the second operand the registers of one product lie side by side. */
    template <class E>
    static CKCI_K_MEMBER void multiply(ckci_k_mma::sums &d, const operand &weights, const operand &pixels)
    {
        ckci_k_mma::half<E>(d.v, pixels, weights.x, weights.y);
        ckci_k_mma::half<E>(d.v + 4, pixels, weights.z, weights.w);
    }

    static CKCI_K_MEMBER int sum(int piece, int j)
    {
        return 2 * piece + j % 2 + j / 2 * 4;
    }

    static CKCI_K_MEMBER int position(int piece)
    {
        return (int)threadIdx.x % 32 / 4 + 8 * piece;
    }

    static CKCI_K_MEMBER int channel()
    {
        return (int)threadIdx.x % 4 * 4;
    }

    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 32, column = lane / 8 * 4 + lane / 4 % 2, word = lane % 4;
        const uint32_t *low = (const uint32_t *)row(column), *high = (const uint32_t *)row(column + 2);
        const operand r = {low[word], low[4 + word], high[word], high[4 + word]};
        return r;
    }

    /* of the first operand, and of the second one */
    static CKCI_K_MEMBER int turned(int)
    {
        const int lane = (int)threadIdx.x % 32;
        return lane / 16 * 8 + lane % 8;
    }

    static CKCI_K_MEMBER int turned_second(int)
    {
        return (int)threadIdx.x % 16;
    }

    /* Weights from LDS, 16 rows `pitch` apart and those from the eighth on 32 bytes more, so that no two
       meet in a bank: rows are columns of the product, in the order above, or, TURN, the reduction, and
       columns in their own order; see own_four. Where this lane reads: */
    template <int TURN> static CKCI_K_MEMBER int32_t weights_at(int32_t pitch)
    {
        const int lane = (int)threadIdx.x % 32, one = lane % 8, two = lane / 8 % 2;
        const int32_t row = TURN ? two * 8 + one : one / 2 * 4 + one % 2 + lane / 16 * 2;
        return row * pitch + row / 8 * 32 + (TURN ? lane / 16 : two) * 16;
    }

    template <int TURN> static CKCI_K_MEMBER operand load_weights_at(const unsigned char *p)
    {
        if constexpr (TURN) {
            return load_trans(p);
        } else {
            return ckci_k_mma::load_rows(p - (int)threadIdx.x % 32 / 16 * 16, 0);
        }
    }

    /* After TURN a lane has sums of two channels and of those eight further on: its neighbour's two and its
       own make four, the first ones of an even lane. */
    static CKCI_K_MEMBER void own_four(ckci_k_mma::sums &d)
    {
        const bool odd = threadIdx.x % 2;
        CKCI_K_UNROLL(4)
        for (int e = 0; e < 4; e++) {
            const float given = odd ? d.v[e] : d.v[4 + e];
            const float other = ckci_k_shuffle_xor(given, 1);
            d.v[e] = odd ? other : d.v[e];
            d.v[4 + e] = odd ? d.v[4 + e] : other;
        }
    }

    static CKCI_K_MEMBER int channel_of_four()
    {
        return (int)threadIdx.x % 4 / 2 * 4 + (int)threadIdx.x % 2 * 8;
    }

    template <class F> static CKCI_K_MEMBER operand load_turned(const F &position)
    {
        return load_trans(position(0) + (int)threadIdx.x / 8 % 2 * 16);
    }

    template <class F> static CKCI_K_MEMBER operand load_turned_second(const F &position)
    {
        return load_trans(position(0) + (int)threadIdx.x / 16 % 2 * 16);
    }

    template <class E>
    static CKCI_K_MEMBER void multiply_turned(ckci_k_mma::sums &d, const operand &first,
                                              const operand &second)
    {
        multiply<E>(d, second, first);
    }

    static CKCI_K_MEMBER operand load_trans(const unsigned char *p)
    {
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4_trans(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }
};
#endif

template <int ASYNC> struct ckci_k_near_lds {
    enum { STAGES = ASYNC ? 2 : 1, BYTES = ASYNC ? CKCI_NEAR_NVIDIA_BYTES : CKCI_NEAR_AMD_BYTES };
    alignas(128) unsigned char stage[STAGES * BYTES];
    union {
        ckci_k_near_spot pixel[ASYNC ? 1 : CKCI_NEAR_AMD_PIXELS]; /* of which threads copy eight channels */
        /* NVIDIA: what D tensors of one number a channel add to sums, and multiply them with. */
        float numbers[2][64];
    };
    ckci_k_near_spot position[ASYNC ? CKCI_NEAR_NVIDIA_POSITIONS : CKCI_NEAR_AMD_POSITIONS];
};
static_assert(sizeof(ckci_k_near_lds<1>) == CKCI_NEAR_NVIDIA_LDS, "what the planner asks a device for");

/* A region: its first position, how much of it there is. */
struct ckci_k_near_region {
    int32_t n, z, y, x, images, rows, columns;

    CKCI_K_MEMBER ckci_k_near_region(const ckci_gpu_conv &conv, int32_t index)
    {
        const ckci_gpu_conv &p = ckci_k_late_again(conv);
        const ckci_gpu_near &q = p.as.region;
        const int32_t line = ckci_k_divide(index, q.by_regions_x),
                      plane = ckci_k_divide(line, q.by_regions_y),
                      group = ckci_k_divide(plane, q.by_regions_z);
        n = group * q.images;
        z = plane - group * (int32_t)q.by_regions_z.d;
        y = (line - plane * (int32_t)q.by_regions_y.d) * q.rows;
        x = (index - line * (int32_t)q.by_regions_x.d) * q.columns;
        images = p.n - n < q.images ? p.n - n : q.images;
        rows = p.dim[1].length - y < q.rows ? p.dim[1].length - y : q.rows;
        columns = p.dim[2].length - x < q.columns ? p.dim[2].length - x : q.columns;
    }

    CKCI_K_MEMBER bool holds(const ckci_gpu_near &q, int32_t i, const ckci_k_near_spot &s) const
    {
        return i < images * q.lines * q.columns && s.y() < rows && s.x() < columns;
    }
};

/* From one image, plane, row, pixel to the next, in elements: images of a block reach over less than 2^31
   bytes. */
struct ckci_k_near_steps {
    int32_t n, z, y, x;

    explicit CKCI_K_MEMBER ckci_k_near_steps(const ckci_tensor &t)
    {
        n = (int32_t)t.stride[1];
        z = (int32_t)t.stride[3];
        y = (int32_t)t.stride[4];
        x = (int32_t)t.stride[5];
    }

    CKCI_K_MEMBER int64_t at(int32_t image, int32_t plane, int32_t row, int32_t column) const
    {
        return (int64_t)image * n + (plane * z + row * y + column * x);
    }
};

/* The plane of pixels that a plane of the filter reads. */
CKCI_K_FN int32_t ckci_k_near_plane(const ckci_gpu_conv &p, const ckci_k_near_region &r, int32_t plane)
{
    return r.z * p.dim[0].read_step + p.as.region.first_z + plane * p.dim[0].dilation;
}

/* AMD: what threads copy from memory, eight of them the 128 bytes of a pixel and of a position of dout. */
template <class U, int WEIGHT> struct ckci_k_near_copies {
    typedef ckci_k_near_lds<0> lds;
    enum { PIXELS = CKCI_NEAR_AMD_PIXELS / 32, POSITIONS = WEIGHT ? CKCI_NEAR_AMD_POSITIONS / 32 : 0 };
    ckci_k_uint4 kept[PIXELS + POSITIONS];
    int32_t channel, channel_dout;

    /* the slice's first channel of the pixels' tensor, and of dout */
    CKCI_K_MEMBER ckci_k_near_copies(const ckci_gpu_conv &, int32_t first, int32_t dout)
    {
        channel = first;
        channel_dout = dout;
    }

    /* Begins to load what a region reads of a plane. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_conv &conv, const ckci_k_near_region &r, lds &m, int32_t plane,
                             int32_t, int32_t)
    {
        const ckci_gpu_conv &p = ckci_k_late_again(conv);
        const ckci_gpu_near &q = p.as.region;
        const ckci_tensor &t = WEIGHT ? p.b : p.a;
        const int32_t thread = ckci_k_lane_afresh((int32_t)threadIdx.x), chunk = thread % 8 * 16;
        /* not kept from region to region */
        const bool inside = channel + thread % 8 * 8 < (WEIGHT ? q.channels_in : q.channels);
        const int32_t z = ckci_k_near_plane(p, r, plane);
        const int32_t y = r.y * p.dim[1].read_step + q.first_y, x = r.x * p.dim[2].read_step + q.first_x;
        const ckci_k_window from =
            ckci_k_make_window(t.p + CKCI_K_HALF * (r.n * t.stride[1] + z * t.stride[3] + y * t.stride[4] +
                                                    x * t.stride[5] + channel));
        const int32_t images = (uint32_t)z < (uint32_t)p.dim[0].read_len ? r.images : 0;
        const int32_t pixels = images * q.high * q.wide, room = q.images * q.high * q.wide;
        CKCI_K_UNROLL(6)
        for (int slot = 0; slot < PIXELS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i >= room) {
                break;
            }
            const ckci_k_near_spot s = m.pixel[i];
            const bool good = inside && i < pixels && (uint32_t)(y + s.y()) < (uint32_t)p.dim[1].read_len &&
                              (uint32_t)(x + s.x()) < (uint32_t)p.dim[2].read_len;
            kept[slot] = ckci_k_window_load(from, good ? s.offset + chunk : INT32_MIN);
        }
        if constexpr (WEIGHT) {
            const int64_t *s = p.a.stride;
            const ckci_k_window dout = ckci_k_make_window(
                p.a.p + CKCI_K_HALF * (r.n * s[1] + r.z * s[3] + r.y * s[4] + r.x * s[5] + channel_dout));
            const bool holds = channel_dout + thread % 8 * 8 < q.channels;
            CKCI_K_UNROLL(4)
            for (int slot = 0; slot < POSITIONS; slot++) {
                const int32_t i = thread / 8 + slot * 32;
                if (i >= q.tiles * 16) {
                    break;
                }
                const ckci_k_near_spot e = m.position[i];
                kept[PIXELS + slot] = ckci_k_window_load(
                    dout, holds && r.holds(q, i, e) ? CKCI_K_HALF * e.offset + chunk : INT32_MIN);
            }
        }
    }

    /* What was loaded, into LDS. */
    CKCI_K_MEMBER void store(const ckci_gpu_conv &p, lds &m) const
    {
        const ckci_gpu_near &q = ckci_k_late_again(p).as.region;
        const int32_t thread = ckci_k_lane_afresh((int32_t)threadIdx.x), chunk = thread % 8 * 16;
        CKCI_K_UNROLL(6)
        for (int slot = 0; slot < PIXELS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i < q.images * q.high * q.wide) {
                *(ckci_k_uint4 *)(m.stage + m.pixel[i].at() + chunk) = kept[slot];
            }
        }
        CKCI_K_UNROLL(4)
        for (int slot = 0; slot < POSITIONS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i < q.tiles * 16) {
                *(ckci_k_uint4 *)(m.stage + q.bytes + i * CKCI_NEAR_PITCH + chunk) = kept[PIXELS + slot];
            }
        }
    }
};

#if defined(CKCI_K_MMA)
/* NVIDIA: eight threads copy a pixel straight into LDS, a block 32 pixels of one or several rows at a time,
   and then those of the rows below. */
template <int WEIGHT> struct ckci_k_near_copies<ckci_k_mma, WEIGHT> {
    typedef ckci_k_near_lds<1> lds;
    int32_t channel, channel_dout, chunk;
    bool inside, inside_dout;

    /* the slice's first channel of the pixels' tensor, and of dout */
    CKCI_K_MEMBER ckci_k_near_copies(const ckci_gpu_conv &p, int32_t first, int32_t dout)
    {
        chunk = (int32_t)threadIdx.x % 8 * 16;
        channel = first + chunk / CKCI_K_HALF;
        inside = channel < (WEIGHT ? p.as.region.channels_in : p.as.region.channels);
        channel_dout = dout + chunk / CKCI_K_HALF;
        inside_dout = channel_dout < p.as.region.channels;
    }

    /* Begins to load what a region reads of a plane, or its chunk of rows that begins at `row` (pixels that
       no chunk before it had), into the stage that begins there. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_conv &p, const ckci_k_near_region &r, lds &m, int32_t plane,
                             int32_t row, int32_t stage) const
    {
        const ckci_gpu_near &q = p.as.region;
        const int32_t above = q.high - q.chunk,
                      had = row ? row + above : 0; /* rolled: rows of taps less one */
        unsigned char *to = m.stage + stage + chunk;
        const int32_t y = r.y * p.dim[1].read_step + q.first_y + had;
        const int32_t x = r.x * p.dim[2].read_step + q.first_x;
        const int32_t high = row ? q.chunk : q.high, left = r.rows + above - had;
        const int32_t z = ckci_k_near_plane(p, r, plane);
        const int32_t end_y = (uint32_t)z < (uint32_t)p.dim[0].read_len ? p.dim[1].read_len : 0;
        const rows in = {
            z, y, x, end_y, p.dim[2].read_len, q.rolled && left < high ? left : high, q.wide, q.row_pitch};
        const ckci_tensor &read = WEIGHT ? p.b : p.a;
        const int32_t line = q.columns * CKCI_NEAR_PITCH;
        image(read.p, read, r, in, q.by_wide, q.images, q.image_pitch, channel, inside, to);
        if constexpr (WEIGHT) {
            const rows dout = {r.z, r.y, r.x, r.y + r.rows, r.x + r.columns, q.rows, q.columns, line};
            image(p.a.p, p.a, r, dout, q.by_columns, q.images, q.rows * line, channel_dout, inside_dout,
                  to + q.bytes);
        } else if (q.residual > 0) {
            /* positions in their order; strips: those of a row of all images, row after row */
            const rows more = {r.z,
                               r.y + row,
                               r.x,
                               r.y + r.rows,
                               r.x + r.columns,
                               q.chunk,
                               q.columns,
                               q.rolled ? q.images * line : line};
            image(p.o.d[q.residual - 1].p, p.o.t, r, more, q.by_columns, q.images, q.lines * line, channel,
                  inside, to + q.bytes);
        }
    }

    /* From where on, up to where rows and columns exist; how many, and how far apart in LDS rows are. */
    struct rows {
        int32_t z, y, x, end_y, end_x, high, wide, pitch;
    };

    /* p: a tensor that lies as t */
    CKCI_K_MEMBER void image(const unsigned char *p, const ckci_tensor &t, const ckci_k_near_region &r,
                             const rows &w, const ckci_divisor &by_wide, int32_t images, int32_t image_pitch,
                             int32_t first, bool exists, unsigned char *to) const
    {
        int32_t first_x = (int32_t)threadIdx.x / 8, first_y = 0, down = 1;
        if (w.wide < 32) {
            down = ckci_k_divide(32, by_wide);
            first_y = ckci_k_divide(first_x, by_wide);
            first_x = first_y < down ? first_x - first_y * w.wide : w.wide;
        }
        const ckci_k_near_steps s(t);
        const unsigned char *from = p + CKCI_K_HALF * (s.at(r.n, w.z, w.y + first_y, w.x + first_x) + first);
        const int32_t below = CKCI_K_HALF * down * s.y, pitch = down * w.pitch;
        to += first_y * w.pitch + first_x * CKCI_NEAR_PITCH;
        CKCI_K_UNROLL(1)
        for (int32_t n = 0; n < images; n++) {
            const unsigned char *column = from;
            unsigned char *place = to;
            CKCI_K_UNROLL(1)
            for (int32_t x = first_x; x < w.wide; x += 32) {
                const bool good = exists && n < r.images && (uint32_t)(w.x + x) < (uint32_t)w.end_x;
                const uint32_t end = good ? (uint32_t)w.end_y : 0;
                const unsigned char *now = column;
                unsigned char *at = place;
                CKCI_K_UNROLL(4)
                for (int32_t row = first_y; row < w.high; row += down) {
                    ckci_k_copy_from(at, now, (uint32_t)(w.y + row) < end ? 16 : 0);
                    now += below;
                    at += pitch;
                }
                column += 32 * CKCI_K_HALF * s.x;
                place += 32 * CKCI_NEAR_PITCH;
            }
            from += CKCI_K_HALF * s.n;
            to += image_pitch;
        }
    }
};
#endif

/* The walk of a block over its regions: work(region, step, stage) for each, where a step is the first row of
   a chunk (NVIDIA; elsewhere 0) or, if DEEP, a plane of the filter: all of them one after the other. Others
   take `plane`. begin() comes once, while the first pixels are on their way; beside(step, stage) for each
   step, on NVIDIA when the copies of its pixels begin, elsewhere before they are multiplied. */
template <class U, int WEIGHT, int DEEP, class B, class A, class F>
CKCI_K_FN void ckci_k_near_walk(const ckci_gpu_conv &p, ckci_k_near_lds<U::ASYNC> &m, int32_t part,
                                int32_t regions, int32_t channel, int32_t dout, int32_t plane, const B &begin,
                                const A &beside, const F &work)
{
    const int32_t parts = p.as.region.parts;
    ckci_k_near_copies<U, WEIGHT> copies(p, channel, dout);
    copies.fetch(p, ckci_k_near_region(p, part), m, plane, 0, 0);
    if constexpr (U::ASYNC) {
        beside(0, 0);
        ckci_k_copies_end();
    }
    begin();
    int32_t region = part, step = 0, stage = 0;
    ckci_k_near_region now(p, region);
    CKCI_K_UNROLL(1)
    while (region < regions) {
        if constexpr (!WEIGHT) {
            now = ckci_k_near_region(p, region); /* not kept in registers, which are few there */
        }
        int32_t next = region + parts, next_step = 0;
        if constexpr (DEEP) {
            if (step + 1 < p.as.region.planes) {
                next = region;
                next_step = step + 1;
            }
        } else if constexpr (U::ASYNC) {
            if (step + p.as.region.chunk < now.rows) {
                next = region;
                next_step = step + p.as.region.chunk;
            }
        }
        const int32_t other = CKCI_NEAR_NVIDIA_BYTES - stage;
        if constexpr (!U::ASYNC) {
            copies.store(p, m);
            __syncthreads();
        }
        ckci_k_near_region upcoming(p, next);
        if (next < regions) {
            copies.fetch(p, upcoming, m, DEEP ? next_step : plane, DEEP ? 0 : next_step, other);
            if constexpr (U::ASYNC) {
                beside(next_step, other);
            }
        }
        if constexpr (U::ASYNC) {
            ckci_k_copies_end();
            ckci_k_copies_wait<1>();
            __syncthreads();
        } else {
            beside(step, 0);
        }
        work(now, step, m.stage + stage);
        now = upcoming;
        region = next;
        step = next_step;
        stage = U::ASYNC ? other : 0;
        __syncthreads();
    }
}

template <int ASYNC>
CKCI_K_FN void ckci_k_near_tables(const ckci_gpu_conv &p, const ckci_tensor &pixels,
                                  const ckci_tensor &positions, ckci_k_near_lds<ASYNC> &m)
{
    const ckci_gpu_near &q = p.as.region;
    const int64_t *s = pixels.stride, *o = positions.stride;
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; !ASYNC && i < q.images * q.high * q.wide; i += 256) {
        const int32_t row = ckci_k_divide(i, q.by_wide), n = ckci_k_divide(row, q.by_high);
        const int32_t y = row - n * q.high, x = i - row * q.wide;
        m.pixel[i].set(CKCI_K_HALF * (n * s[1] + y * s[4] + x * s[5]),
                       n * q.image_pitch + y * q.row_pitch + x * CKCI_NEAR_PITCH, y, x);
    }
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; i < q.tiles * 16; i += 256) {
        const int32_t row = ckci_k_divide(i, q.by_columns), n = ckci_k_divide(row, q.by_rows);
        const int32_t y = row - n * q.lines, x = i - row * q.columns;
        if (n < q.images) {
            m.position[i].set(n * o[1] + y * o[4] + x * o[5],
                              n * q.image_pitch + y * p.dim[1].read_step * q.row_pitch +
                                  x * p.dim[2].read_step * CKCI_NEAR_PITCH,
                              y, x);
        } else {
            m.position[i].set(0, 0, 0x3ff, 0x3ff); /* beyond every region */
        }
    }
    __syncthreads();
}

/* Sums of one position in N neighbouring channels. */
template <int N> struct ckci_k_near_run {
    float v[N];
};

/* They go through an epilogue in any form but SINGLE; apart, lest it take registers from the rest. */
template <int N>
CKCI_K_APART ckci_k_near_run<N> ckci_k_near_line(const ckci_gpu_conv &p, ckci_k_near_run<N> sum,
                                                 const unsigned char *to, int32_t channel)
{
    ckci_k_epilogue<N>(p.o, sum.v, to, channel);
    return sum;
}

/* The same element by element. i: of the positions of a region
   that begins at image n; z, y, x: where that is. */
template <int N>
CKCI_K_APART void ckci_k_near_finish(const ckci_gpu_conv &p, int32_t n, int32_t z, int32_t y, int32_t x,
                                     int32_t i, const ckci_k_near_spot s, int32_t channel,
                                     const ckci_k_near_run<N> sum)
{
    n += ckci_k_divide(ckci_k_divide(i, p.as.region.by_columns), p.as.region.by_rows);
    const int32_t group = ckci_k_divide(channel, p.by_columns), c = channel - group * p.columns;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < N; j++) {
        float v = 0;
        CKCI_K_UNROLL(8)
        for (int e = 0; e < N; e++) {
            v = e == j ? sum.v[e] : v;
        }
        ckci_k_write<float, CKCI_K_NEAR_OPS>(p.o, v, group, n, c + j, z, y + s.y(), x + s.x());
    }
}
