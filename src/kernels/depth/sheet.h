/*------------------------------------------------------------------------------------------------------------
  >>k-depth-sheet
  fwd and bwd_data, channels first: planes, or bands of their rows, lie in LDS as they lie in memory, so that
  memory is read and written in whole lines whatever the width, stride or padding. A block owns the outputs of
  its planes or bands, a thread neighbouring columns of one. Results pass through LDS, too, on their way out.
  An epilogue in its closed form acts before they are rounded: what it has for a channel lies in LDS behind
  the weights, and a residual where the results will.
*/
#pragma once
#include "kernels/depth/epilogue.h"

/* N words of halves, from half 0 of p on or (shift: 16) from half 1 on. READ: words of p that are read. */
template <int N, int READ = N + 1>
CKCI_K_FN void ckci_k_depth_words(const uint32_t *p, uint32_t shift, uint32_t *w)
{
    uint32_t v[N + 1];
    CKCI_K_UNROLL(16)
    for (int i = 0; i <= N; i++) {
        v[i] = i < READ ? p[i] : 0;
    }
    CKCI_K_UNROLL(16)
    for (int i = 0; i < N; i++) {
#if defined(__HIP_DEVICE_COMPILE__)
        w[i] = __builtin_amdgcn_alignbit(v[i + 1], v[i], shift);
#elif defined(__CUDA_ARCH__)
        asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(w[i]) : "r"(v[i]), "r"(v[i + 1]), "r"(shift));
#else
        w[i] = (uint32_t)(((uint64_t)v[i + 1] << 32 | v[i]) >> shift);
#endif
    }
}

/* c[0] and c[1], in registers beside each other where one instruction multiplies two (gfx90a and later). */
CKCI_K_FN void ckci_k_depth_beside(float *c)
{
#if defined(__HIP_DEVICE_COMPILE__) && defined(__GFX9__)
    typedef float two __attribute__((ext_vector_type(2)));
    two v = {c[0], c[1]};
    asm volatile("" : "+v"(v));
    c[0] = v.x;
    c[1] = v.y;
#else
    (void)c;
#endif
}

/* Sheets: planes (channels first) that are small, or bands of their rows, in LDS as they lie in memory, so
   that memory is read and written in whole lines whatever the width, stride or padding. */
template <class S> struct ckci_k_sheet {
    typedef typename S::T T;
    enum { THREADS = CKCI_DEPTH_SHEET_THREADS };
    enum { FRONT = 32 }; /* what a window reads before the first number is in LDS, too */
#if defined(__HIP_DEVICE_COMPILE__)
    enum { EIGHTS = 1 }; /* see numbers */
#else
    enum { EIGHTS = 0 };
#endif

    struct lds {
        alignas(16) unsigned char pool[CKCI_DEPTH_SHEET_BYTES];
    };

    /* Rows from `from` on of planes from `first` on, of a tensor. */
    static CKCI_K_MEMBER unsigned char *memory(unsigned char *tensor, int64_t first, const int32_t *size,
                                               int32_t from)
    {
        return ckci_k_global(tensor) + (first * size[0] + from) * (size[1] * (int32_t)S::SIZE);
    }

    /* AMD: planes begin with a whole 16 bytes in LDS wherever they do in memory, and so far from each other
       that threads which follow each other read and write different banks. */
    static CKCI_K_MEMBER bool spread(const ckci_gpu_depth &p)
    {
        (void)p;
#if defined(__HIP_DEVICE_COMPILE__)
        return true;
#elif defined(__CUDACC__)
        return false;
#else
        return p.sheet.slack < 0;
#endif
    }

    /* Where they lie in LDS, `at` the room for them: as in memory modulo 16. */
    static CKCI_K_MEMBER int32_t slip(const unsigned char *memory)
    {
        return (int32_t)((uintptr_t)memory & 15);
    }
    static CKCI_K_MEMBER int32_t slip(const ckci_gpu_depth &p, const unsigned char *memory)
    {
        return spread(p) ? 0 : slip(memory);
    }

#if !defined(__CUDACC__)
    /* Copies of planes that are spread: `bytes` bytes each, `apart` apart in memory and `room` in LDS, which
       begin with a whole 16 bytes in LDS and anywhere in memory; what is read goes on to whole 16 bytes, but
       not at the end of the tensor, where they go by numbers. The last 16 bytes that are written overlap
       those before. Several are under way. */
    template <bool OUT>
    static CKCI_K_MEMBER void place(unsigned char *at, unsigned char *memory, int32_t planes, int32_t bytes,
                                    int64_t apart, int32_t room, ckci_divisor by, const unsigned char *end)
    {
        enum { SEVERAL = 2, B = 16 };
        const int32_t d = (int32_t)by.d, all = planes * d, t = ckci_k_again((int32_t)threadIdx.x);
        const int32_t plane = ckci_k_divide(t, by),
                      on = ckci_k_divide(THREADS, by); /* planes from copy to copy */
        int32_t c = (t - plane * d) * B, near = plane * room;
        /* bytes of a plane that are left for a whole copy */
        const int64_t room_after = OUT ? bytes : end - (memory + (planes - 1) * apart + bytes);
        const int32_t least = room_after < B ? +B : 1;
        unsigned char *far = memory + plane * apart;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < all; e += SEVERAL * THREADS) {
            ckci_k_piece v[SEVERAL];
            unsigned char *out[SEVERAL];
            int32_t in[SEVERAL]; /* < 0: there is nothing to store */
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                const int32_t left = e + k * THREADS < all ? bytes - c : 0;
                const bool whole = left >= least, over = OUT && left < B;
                const int32_t i = over ? bytes - B : c;
                out[k] = far + i;
                in[k] = whole ? near + i : -1;
                if (!whole) {
                    CKCI_K_UNROLL(1)
                    for (int32_t b = 0; b < left; b += S::SIZE) {
                        ckci_k_vec<S, 1> one;
                        if constexpr (OUT) {
                            one.load(at + near + c + b);
                            one.store(far + c + b);
                        } else {
                            one.load(far + c + b);
                            one.store(at + near + c + b);
                        }
                    }
                } else if constexpr (!OUT) {
                    v[k] = *(const ckci_k_loose_piece *)(far + i);
                } else if (over) {
                    uint32_t w[4];
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < 4; j++) {
                        ckci_k_vec<S, 1> low, high;
                        low.load(at + near + i + j * 4);
                        w[j] = low.w[0];
                        if constexpr (S::SIZE == 2) {
                            high.load(at + near + i + j * 4 + 2);
                            w[j] |= high.w[0] << 16;
                        }
                    }
                    const ckci_k_piece last = {w[0], w[1], w[2], w[3]};
                    v[k] = last;
                } else {
                    v[k] = *(const ckci_k_piece *)(at + near + i);
                }
                c += (THREADS - on * d) * B;
                near += on * room;
                far += on * apart;
                if (c >= d * B) {
                    c -= d * B;
                    near += room;
                    far += apart;
                }
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        *(ckci_k_loose_piece *)out[k] = v[k];
                    } else {
                        *(ckci_k_piece *)(at + in[k]) = v[k];
                    }
                }
            }
        }
    }
#endif

    /* Copies between LDS and `planes` pieces of memory of `bytes` bytes, `apart` apart there and `room` apart
       in LDS, the same modulo 16. An aligned piece of 16 bytes, of which there are at most by.d each, is a
       copy. What is read is whole pieces, with numbers of neighbours for which there is room beside a plane,
       but not at the ends of the tensor (begin, end); there, and in what is written, they go by numbers.
       ALIGNED: planes begin and end with pieces. Several are under way. */
    template <bool OUT, bool ALIGNED>
    static CKCI_K_MEMBER void move(unsigned char *at, unsigned char *memory, int32_t planes, int32_t bytes,
                                   int64_t apart, int32_t room, ckci_divisor by, const unsigned char *begin,
                                   const unsigned char *end)
    {
        enum { SEVERAL = 2, B = 16 };
        const int32_t d = (int32_t)by.d, all = planes * d, t = ckci_k_again((int32_t)threadIdx.x);
        const int32_t plane = ckci_k_divide(t, by),
                      on = ckci_k_divide(THREADS, by); /* planes from copy to copy */
        int32_t c = (t - plane * d) * B, near = plane * room + B;
        at -= B; /* so that no place is negative */
        /* a piece is whole from there on, and with so many bytes of its plane */
        const int32_t before = OUT || memory - begin < B ? 0 : 1 - B;
        const int32_t least = OUT || end - (memory + (planes - 1) * apart + bytes) < B ? +B : 1;
        unsigned char *far = memory + plane * apart;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < all; e += SEVERAL * THREADS) {
            ckci_k_vec<ckci_k_s_half, B / 2> v[SEVERAL];
            unsigned char *out[SEVERAL];
            int32_t in[SEVERAL]; /* < 0: there is nothing to store */
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                const int32_t i = ALIGNED ? c : c - slip(far); /* < 0: the piece begins before the plane */
                const int32_t left = e + k * THREADS < all ? bytes - i : 0;
                const bool whole = ALIGNED ? left >= B : i >= before && left >= least;
                out[k] = far + i;
                in[k] = whole ? near + i : -1;
#if defined(__CUDA_ARCH__)
                if constexpr (!OUT) {
                    if (whole) {
                        ckci_k_copy_async<B>(at + near + i, far + i, true);
                    }
                    in[k] = -1;
                }
#endif
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        v[k].load(at + near + i);
                    } else {
                        v[k].load(far + i);
                    }
                }
                CKCI_K_UNROLL(1)
                for (int32_t b = i < 0 ? -i : 0; !whole && b < B && b < left; b += S::SIZE) {
                    ckci_k_vec<S, 1> one;
                    if constexpr (OUT) {
                        one.load(at + near + i + b);
                        one.store(far + i + b);
                    } else {
                        one.load(far + i + b);
                        one.store(at + near + i + b);
                    }
                }
                c += (THREADS - on * d) * B;
                near += on * room;
                far += on * apart;
                if (c >= d * B) {
                    c -= d * B;
                    near += room;
                    far += apart;
                }
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        v[k].store(out[k]);
                    } else {
                        v[k].store(at + in[k]);
                    }
                }
            }
        }
    }

    /* `rows` rows of each of `planes` planes of a tensor; one piece where a block takes whole ones. */
    template <bool OUT>
    static CKCI_K_MEMBER void rows(const ckci_gpu_depth &p, unsigned char *tensor, unsigned char *at,
                                   unsigned char *memory, int32_t planes, const int32_t *size, int32_t rows,
                                   int32_t room, ckci_divisor by)
    {
        const int32_t row = size[1] * (int32_t)S::SIZE;
        const bool one = !spread(p) && p.sheet.bands == 1;
        const int32_t pieces = one ? 1 : planes, bytes = (one ? planes * size[0] : rows) * row;
        const int64_t apart = (int64_t)size[0] * row;
        const unsigned char *begin = ckci_k_global(tensor);
        const unsigned char *end = begin + (int64_t)p.n * p.g * apart;
#if !defined(__CUDACC__)
        if (spread(p)) {
            place<OUT>(at, memory, pieces, bytes, apart, room, by, end);
            return;
        }
#endif
        if (p.sheet.slack == 0) {
            move<OUT, true>(at, memory, pieces, bytes, apart, room, by, begin, end);
        } else {
            move<OUT, false>(at, memory, pieces, bytes, apart, room, by, begin, end);
        }
    }

#if defined(__HIP_DEVICE_COMPILE__)
    /* N words of LDS from `from` on, 8 bytes at a time, without the first one (ODD). */
    template <int N, int ODD> static CKCI_K_MEMBER void eights(const unsigned char *from, uint32_t *w)
    {
        CKCI_K_UNROLL(16)
        for (int i = -ODD; i < N; i += 2) {
            uint64_t two = *(const uint64_t *)(from + (i + ODD) * 4);
            if (i < 0 || i + 1 == N) {
                asm("" : "+v"(two)); /* or one of them is loaded, which takes as long */
            }
            if (i >= 0) {
                w[i] = (uint32_t)two;
            }
            if (i + 1 < N) {
                w[i + 1] = (uint32_t)(two >> 32);
            }
        }
    }
#endif

    /* N numbers of a row, two halves to a word; those that exist, as masks. STEP: bytes from thread to
       thread. On AMD where they are 8, a load of 8 aligned bytes takes LDS no longer than one of 4, and rows
       of all planes begin at the same place modulo 8. */
    template <int N, int STEP> struct numbers {
        enum { WORDS = S::SIZE == 4 ? N : (N + 1) / 2, WIDE = EIGHTS && STEP == 8 };
        const unsigned char *at; /* the first number of the row that comes; WIDE: of the first row, aligned */
        int32_t pitch, half; /* bytes from row to row; at is 2 past a whole word; WIDE: bytes from at on */
        uint32_t mask[WORDS];

        /* first: among the numbers of a row, of which `length` exist. */
        CKCI_K_MEMBER void begin(const unsigned char *pool, int32_t offset, int32_t first, int32_t length,
                                 int32_t bytes)
        {
            if constexpr (WIDE) {
                half = ckci_k_same(offset & 7);
                at = pool + offset - half;
            } else {
                at = pool + offset;
                half = offset & 2;
            }
            pitch = bytes;
            CKCI_K_UNROLL(16)
            for (int i = 0; i < WORDS; i++) {
                mask[i] = 0;
            }
            CKCI_K_UNROLL(16)
            for (int i = 0; i < N; i++) {
                const bool exists = (uint32_t)(first + i) < (uint32_t)length;
                if constexpr (S::SIZE == 4) {
                    mask[i] = exists ? UINT32_MAX : 0;
                } else {
                    mask[i / 2] |= exists ? 0xffffu << i % 2 * 16 : 0;
                }
            }
        }

        CKCI_K_MEMBER void next(int32_t rows = 1)
        {
            if constexpr (WIDE) {
                half += rows * pitch;
            } else {
                at += rows * pitch;
                half ^= rows * pitch & 2;
            }
        }

#if defined(__HIP_DEVICE_COMPILE__)
        /* WIDE: words from the 8 bytes `along` on or (ODD) half of them later; halves only if they exist. */
        template <bool PAIRS, int ODD> CKCI_K_MEMBER void words(int32_t along, uint32_t *w) const
        {
            enum { MORE = S::SIZE == 2 && !PAIRS && N % 2 == 0 };
            w[WORDS] = 0;
            eights<WORDS + MORE, ODD>(at + along, w);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < WORDS && S::SIZE == 2; i++) {
                if constexpr (!PAIRS) {
                    w[i] = __builtin_amdgcn_alignbit(w[i + 1], w[i], (half & 2) * 8);
                }
                w[i] &= mask[i];
            }
        }
#endif

        /* PAIRS: a load for two numbers; ANYWHERE: words of halves are put together from two; ODD: WIDE rows
           are expected to begin 4 bytes after whole 8 ones. */
        template <bool BF16, bool PAIRS, bool ANYWHERE, int ODD = 0> CKCI_K_MEMBER void load(T *v) const
        {
            if constexpr (WIDE) {
#if defined(__HIP_DEVICE_COMPILE__)
                uint32_t w[WORDS + 1];
                if (__builtin_expect((half & 4) == ODD * 4, 1)) {
                    words<PAIRS, ODD>(half & ~7, w);
                } else {
                    words<PAIRS, 1 - ODD>(ckci_k_afresh(half & ~7), w);
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i < WORDS; i++) {
                    if constexpr (S::SIZE == 4) {
                        const uint32_t one = w[i] & mask[i];
                        memcpy(&v[i], &one, 4);
                    } else if (i * 2 + 1 < N) {
                        S::template widen<BF16>(w[i], v + i * 2);
                    } else {
                        v[i * 2] = S::template widen<BF16>(w[i]);
                    }
                }
#endif
            } else if constexpr (S::SIZE == 2 && !PAIRS && !ANYWHERE) {
                CKCI_K_UNROLL(16)
                for (int i = 0; i < N; i++) {
                    ckci_k_vec<S, 1> raw;
                    raw.load(at + i * (int)S::SIZE);
                    v[i] = S::template widen<BF16>(raw.w[0] & mask[i / 2] >> i % 2 * 16);
                }
            } else if constexpr (S::SIZE == 2) {
                uint32_t w[WORDS];
                if constexpr (PAIRS) {
                    CKCI_K_UNROLL(16)
                    for (int i = 0; i < WORDS; i++) {
                        w[i] = ((const uint32_t *)at)[i];
                    }
                } else {
                    ckci_k_depth_words<WORDS, WORDS + 1 - N % 2>((const uint32_t *)(at - half),
                                                                 (uint32_t)half * 8, w);
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i < N; i += 2) {
                    if (i + 1 < N) {
                        S::template widen<BF16>(w[i / 2] & mask[i / 2], v + i);
                    } else {
                        v[i] = S::template widen<BF16>(w[i / 2] & mask[i / 2]);
                    }
                }
            } else {
                constexpr int W = PAIRS ? 2 : 1;
                static_assert(N % W == 0, "whole pairs");
                CKCI_K_UNROLL(16)
                for (int i = 0; i < N / W; i++) {
                    ckci_k_vec<S, W> raw;
                    raw.load(at + i * W * (int)S::SIZE);
                    CKCI_K_UNROLL(2)
                    for (int k = 0; k < W; k++) {
                        raw.w[k] &= mask[i * W + k];
                    }
                    raw.template widen<BF16>(v + i * W);
                }
            }
        }
    };

#if defined(__HIP_DEVICE_COMPILE__)
    /* Numbers of 8 bytes, of which those that are wanted exist. PAIRS: as below. whole: all of them or none,
       aligned. Else words, first that at `at` and then that which is `other` bytes after it: half of the
       threads are LATE, begin with the second one, so that those 16 apart write different banks. */
    template <bool BF16, bool PAIRS>
    static CKCI_K_MEMBER void store_eight(unsigned char *at, int32_t other, bool late, uint32_t wanted,
                                          bool whole, const T *v)
    {
        enum { N = 8 / S::SIZE };
        ckci_k_vec<S, N> raw;
        raw.template narrow<BF16>(v);
        uint32_t low = raw.w[0], high = raw.w[1];
        if constexpr (S::SIZE == 2) { /* else four products go together, and more moves with them */
            low = (uint32_t)ckci_k_lane_afresh((int32_t)low);
            high = (uint32_t)ckci_k_lane_afresh((int32_t)high);
        }
        if (whole) {
            if (wanted) {
                *(uint64_t *)at = low | (uint64_t)high << 32;
            }
            return;
        }
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const uint32_t w = late == (i == 0) ? high : low, some = wanted >> i * (N / 2);
            unsigned char *to = i ? at + other : at;
            if constexpr (S::SIZE == 4 || PAIRS) {
                if (some & 1) {
                    *(uint32_t *)to = w;
                }
            } else {
                if (some & 1) {
                    *(uint16_t *)to = (uint16_t)w;
                }
                if (some & 2) {
                    *(uint16_t *)(to + 2) = (uint16_t)(w >> 16);
                }
            }
        }
    }
#endif

    /* N numbers, of which those that are wanted exist. PAIRS: a store for two (both exist, or neither). */
    template <bool BF16, bool PAIRS, int N>
    static CKCI_K_MEMBER void store(unsigned char *at, uint32_t wanted, const T *v)
    {
        constexpr int W = PAIRS || (S::SIZE == 2 && N % 2 == 0) ? 2 : 1; /* rounded together */
        CKCI_K_UNROLL(4)
        for (int i = 0; i < N; i += W) {
            ckci_k_vec<S, W> raw;
            raw.template narrow<BF16>(v + i);
            if constexpr (PAIRS || W == 1) {
                if (wanted >> i & 1) {
                    raw.store(at + i * (int)S::SIZE);
                }
            } else {
                CKCI_K_UNROLL(2)
                for (int k = 0; k < 2; k++) {
                    ckci_k_vec<S, 1> one;
                    one.w[0] = raw.w[0] >> k * 16;
                    if (wanted >> (i + k) & 1) {
                        one.store(at + (i + k) * (int)S::SIZE);
                    }
                }
            }
        }
    }
};

/* Stride 1 or 2, dilation 1. BACK: the gradient of stride 2; that of stride 1 is a convolution with the
   filter turned round. A block owns `high` rows of `count` planes; a thread owns XO neighbouring columns of
   one of them and walks down the rows that are read: each is added to the sums of the outputs that it belongs
   to, which lie in registers. Results go to LDS, too, and from there to memory. */
template <class S, int F, int STRIDE, bool BACK> struct ckci_k_depth_sheet {
    typedef typename S::T T;
    typedef ckci_k_sheet<S> sheet;
    typedef typename sheet::lds lds;
    enum { HALF = (F + 1) / 2, XO = CKCI_DEPTH_SHEET_COLUMNS(S::SIZE, STRIDE, BACK, 0) };
    enum { SUMS = BACK || STRIDE == 1 ? F : +HALF };
    /* a window begins at an even column where pairs are loaded */
    enum { SLIP = STRIDE == 1 && !(sheet::EIGHTS && S::SIZE == 4) ? (F - 1) / 2 % 2 : 0 };
    enum { WINDOW = BACK ? +HALF : (XO - 1) * STRIDE + F };
    enum { LOADED = STRIDE == 1 ? (SLIP + WINDOW + 1) / 2 * 2 : +WINDOW };
    enum { ODD = (((F - 1) / 2 + SLIP) * S::SIZE + 3) / 4 % 2 }; /* with the usual padding */
    enum { STEP = (BACK ? 1 : XO * STRIDE) * S::SIZE, STORED = XO * S::SIZE };

    /* The first row that is read for output row r, and one past the last. */
    static CKCI_K_MEMBER int32_t first_row(const ckci_gpu_depth_sheet &s, int32_t r)
    {
        return BACK ? (r + s.pad[0] - (F - 1)) >> 1 : r * STRIDE - s.pad[0];
    }
    static CKCI_K_MEMBER int32_t end_row(const ckci_gpu_depth_sheet &s, int32_t r)
    {
        return BACK ? ((r + s.pad[0]) >> 1) + 1 : r * STRIDE - s.pad[0] + F;
    }

    struct columns {
        typename sheet::template numbers<LOADED, STEP> window;
        unsigned char *to;   /* of the output row that comes */
        int32_t pitch_out;   /* bytes */
        int32_t row, length; /* the row that comes; rows that exist, or that the band needs */
        uint32_t wanted;     /* outputs that exist */
        const T *number;     /* the epilogue's of the channel, in LDS */
#if defined(__HIP_DEVICE_COMPILE__)
        int32_t other; /* see store_eight */
        bool whole, late;
#endif
        T w[F * F];
    };

    /* What row y of the filter adds to output o of a thread. */
    static CKCI_K_MEMBER T row(const columns &a, const T *v, int y, int o, T x)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < F; i++) {
            if (!BACK || i % 2 == o) {
                x = ckci_k_fma(v[BACK ? HALF - 1 - i / 2 : SLIP + o * STRIDE + i], a.w[y * F + i], x);
            }
        }
        return x;
    }

    /* The epilogue of XO sums. The residual lies where they will be written. */
    template <bool BF16, bool PAIRS>
    static CKCI_K_MEMBER void finish(const ckci_gpu_target &o, const columns &a, T (&x)[XO])
    {
        ckci_k_depth_scale<1>(o, a.number, x);
        if (o.residual > 0) {
            constexpr int W = PAIRS ? 2 : 1;
            const unsigned char *at = a.to;
#if defined(__HIP_DEVICE_COMPILE__)
            at += STORED == 8 && a.late ? a.other : 0;
#endif
            T d[XO];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < XO; i += W) {
                ckci_k_vec<S, W> raw;
                raw.load(at + i * (int)S::SIZE);
                if (S::SIZE == 2 && W == 1) { /* clang 19 joins such loads: bits of one stay in another */
                    raw.w[0] = (uint32_t)ckci_k_lane_afresh((int32_t)raw.w[0]);
                }
                raw.template widen<BF16>(d + i);
            }
            ckci_k_add_numbers(o, o.gate, d, x);
        }
        ckci_k_limit_line(o, x);
    }

    template <bool BF16, bool PAIRS>
    static CKCI_K_MEMBER void write(const ckci_gpu_depth &p, columns &a, const T *sums)
    {
        T c[XO];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < XO; i++) {
            c[i] = sums[i];
        }
        if (p.sheet.acts) {
            finish<BF16, PAIRS>(p.o, a, c);
        }
        if constexpr (sheet::EIGHTS && STORED == 8) {
#if defined(__HIP_DEVICE_COMPILE__)
            sheet::template store_eight<BF16, PAIRS>(a.to, a.other, a.late, a.wanted, a.whole, c);
#endif
        } else {
            sheet::template store<BF16, PAIRS, XO>(a.to, a.wanted, c);
        }
        a.to += a.pitch_out;
    }

    /* A row of inputs: sums move on by MOVE rows, those of row k (of COUNT) take row FIRST + k * STEP of the
       filter. Padding, where it may come (not EXISTS), is zeros. */
    template <bool BF16, bool PAIRS, bool EXISTS, int MOVE, int FIRST, int COUNT, int STEP>
    static CKCI_K_MEMBER void take(columns &a, T *c)
    {
        T v[LOADED];
        if (EXISTS || (uint32_t)a.row < (uint32_t)a.length) { /* the same for all threads */
            a.window.template load<BF16, PAIRS, STRIDE == 1, ODD>(v);
        } else {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < LOADED; i++) {
                v[i] = 0;
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < COUNT; i++) {
            CKCI_K_UNROLL(4)
            for (int o = 0; o < XO; o++) {
                c[i * XO + o] =
                    row(a, v, FIRST + i * STEP, o, i + MOVE < COUNT ? c[(i + MOVE) % COUNT * XO + o] : (T)0);
            }
        }
        a.row++;
        a.window.next();
    }

    /* `rows` output rows. BACK: two at a time, from `before` rows before the first one on. */
    template <bool BF16, bool PAIRS>
    static CKCI_K_MEMBER void walk(const ckci_gpu_depth &p, columns &a, int32_t rows, int32_t before)
    {
        T c[SUMS * XO];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < SUMS * XO; i++) {
            c[i] = 0;
        }
        if constexpr (BACK) {
            CKCI_K_UNROLL(1)
            for (int32_t y = -before; y < rows; y += 2) {
                take<BF16, PAIRS, false, 2, 0, F, 1>(a, c);
                if (y >= 0) {
                    write<BF16, PAIRS>(p, a, c);
                }
                if (y >= -1 && y + 1 < rows) {
                    write<BF16, PAIRS>(p, a, c + XO);
                }
            }
        } else if constexpr (STRIDE == 1) {
            const int32_t lead = a.row < 0 ? -a.row : 0; /* rows of padding: before them sums are zero */
            int32_t y = 1 - F + lead;
            const int32_t end = y + a.length - a.row - lead < rows ? y + a.length - a.row - lead : rows;
            a.window.next(lead);
            CKCI_K_UNROLL(1)
            for (; y < end; y++) {
                take<BF16, PAIRS, true, 1, F - 1, F, -1>(a, c);
                if constexpr (S::SIZE == 4) {
                    ckci_k_depth_beside(c);
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(p, a, c);
                }
            }
            CKCI_K_UNROLL(1)
            for (; y < rows; y++) { /* after them, they are complete */
                CKCI_K_UNROLL(32)
                for (int i = 0; i < F * XO; i++) {
                    c[i] = i + XO < F * XO ? c[(i + XO) % (F * XO)] : (T)0;
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(p, a, c);
                }
            }
        } else {
            CKCI_K_UNROLL(1)
            for (int32_t y = 1 - HALF; y < rows; y++) {
                take<BF16, PAIRS, false, 1, 2 * (HALF - 1), HALF, -2>(a, c);
                if (y >= 0) {
                    write<BF16, PAIRS>(p, a, c);
                }
                take<BF16, PAIRS, false, 0, 2 * (HALF - 1) - 1, HALF - 1, -2>(a, c + XO);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const ckci_gpu_depth_sheet &s = p.sheet;
        const int32_t t = (int32_t)threadIdx.x, tile = ckci_k_divide((int32_t)blockIdx.x, s.by_bands);
        const int32_t first = tile * s.count, y = ((int32_t)blockIdx.x - tile * s.bands) * s.high;
        const int32_t planes = s.planes - first < s.count ? s.planes - first : s.count;
        const int32_t rows = s.out[0] - y < s.high ? s.out[0] - y : s.high;
        const int32_t top = first_row(s, y);
        int32_t from = 0, to = s.in[0];
        if (s.bands > 1) {
            const int32_t end = end_row(s, y + rows - 1);
            from = top < 0 ? 0 : top;
            to = end < to ? end : to;
        }
        unsigned char *memory = sheet::memory(p.o.t.p, first, s.out, y);
        unsigned char *out = m.pool + s.o_at + sheet::slip(p, memory);
        int32_t in = 0;
        CKCI_K_UNROLL(1)
        for (int32_t j = s.acts && p.o.residual > 0; j >= 0; j--) { /* the code of copies stands once */
            unsigned char *tensor = j ? p.o.d[p.o.residual - 1].p : p.a.p;
            const int32_t *size = j ? s.out : s.in;
            unsigned char *of = sheet::memory(tensor, first, size, j ? y : from);
            in = (int32_t)sheet::FRONT + sheet::slip(p, of);
            sheet::template rows<false>(p, tensor, j ? out : m.pool + in, of, planes, size,
                                        j ? rows : to - from, j ? s.o_room : s.a_room, j ? s.by_o : s.by_a);
        }
        ckci_k_copies_end();
        T *w = (T *)(m.pool + s.w_at);
        T *numbers = w + planes * (F * F);
        ckci_k_depth_taps taps = ckci_k_depth_find_taps<1, F, F * F>(p, !BACK && p.dim[2].gather_back);
        taps.first = first;
        taps.by_g = s.by_g;
        ckci_k_depth_stage<T, true, sheet::THREADS>(taps, w, planes * F * F);
        if (s.acts && t < planes) {
            const int32_t all = first + t;
            ckci_k_depth_numbers(p.o, all - ckci_k_divide(all, s.by_g) * p.g, numbers + 2 * t);
        }
        ckci_k_copies_wait<0>();
        __syncthreads();
        const int32_t wide = (int32_t)s.by_wide.d;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < planes * wide; e += sheet::THREADS) {
            const int32_t plane = ckci_k_divide(e, s.by_wide), i = e - plane * wide;
            /* BACK: outputs of both phases that read the same numbers */
            const int32_t x = BACK ? (i + s.pad[1] / 2) * 2 - s.pad[1] : i * XO;
            const int32_t left = BACK ? i + s.pad[1] / 2 - (HALF - 1) : x * STRIDE - s.pad[1] - SLIP;
            const int32_t pitch = s.in[1] * (int32_t)S::SIZE;
            columns a;
            a.window.begin(m.pool, in + plane * s.a_room + (top - from) * pitch + left * (int32_t)S::SIZE,
                           left, s.in[1], pitch);
            a.pitch_out = s.out[1] * (int32_t)S::SIZE;
            a.to = out + plane * s.o_room + x * (int32_t)S::SIZE;
            a.number = numbers + 2 * plane;
            a.row = top;
            a.length = to; /* stride 2 takes a row more, which no output needs */
            a.wanted = 0;
            CKCI_K_UNROLL(4)
            for (int k = 0; k < XO; k++) {
                a.wanted |= (uint32_t)((uint32_t)(x + k) < (uint32_t)s.out[1]) << k;
            }
#if defined(__HIP_DEVICE_COMPILE__)
            a.whole = (a.pitch_out | (BACK ? s.pad[1] % 2 * 4 : 0)) % 8 == 0;
            a.late = !a.whole && (t & 16);
            a.other = 4;
            if (STORED == 8 && a.late) {
                a.to += 4;
                a.other = -4;
                a.wanted = (a.wanted >> XO / 2 | a.wanted << XO / 2) & ((1u << XO) - 1);
            }
#endif
            CKCI_K_UNROLL(64)
            for (int k = 0; k < F * F; k++) {
                a.w[k] = w[plane * (F * F) + k];
            }
            const int32_t before = BACK ? y + s.pad[0] - 2 * top : 0;
            constexpr bool HALVES = S::SIZE == 2, TWO = STRIDE == 1;
            if (TWO && s.pairs) {
                if (HALVES && CKCI_K_BF16(p.bf16)) {
                    walk<HALVES, TWO>(p, a, rows, before);
                } else {
                    walk<false, TWO>(p, a, rows, before);
                }
            } else if (HALVES && CKCI_K_BF16(p.bf16)) {
                walk<HALVES, false>(p, a, rows, before);
            } else {
                walk<false, false>(p, a, rows, before);
            }
        }
        __syncthreads();
        sheet::template rows<true>(p, p.o.t.p, out, memory, planes, s.out, rows, s.o_room, s.by_o);
    }
};

template <class S, int F, int STRIDE, bool BACK>
struct ckci_k_resident<ckci_k_depth_sheet<S, F, STRIDE, BACK>> {
    enum { BLOCKS = F == 3 ? 7 : F == 5 ? 5 : 4 };
};
