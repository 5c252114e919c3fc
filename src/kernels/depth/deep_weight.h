/*------------------------------------------------------------------------------------------------------------
  >>k-depth-deep-weight
  bwd_weight of what deep computes: 3 x 3 x 3, channels last. Blocks walk along planes as there, dout beside
  the inputs; a thread has all 27 sums of its channels in registers for all of its block. The sums of a
  block's threads are folded in fixed order (>>k-depth-weight) into a part of its own.
*/
#pragma once
#include "kernels/depth/deep.h"
#include "kernels/depth/weight.h"

/* bwd_weight of 3 x 3 x 3: tiles walk along dimension 0 as those of ckci_k_depth_deep, dout beside them. A
   thread has all 27 sums of V channels in registers, for all pieces of its block, which are `parts` apart:
   each of its three rows of inputs meets the last three planes of a strip of dout, as in
   ckci_k_depth_down_weight. */
template <class S, bool ASYNC> struct ckci_k_depth_deep_weight_by {
    typedef typename S::T T;
    enum { F = 3, V = 4 / S::SIZE, XO = CKCI_DEPTH_DEEP_STRIP(S::SIZE, 1), WINDOW = XO + F - 1 };
    typedef ckci_k_depth_deep_source<S, ASYNC> source;
    typedef ckci_k_depth_rows<1, ASYNC, 8192, ASYNC ? 8 : 4, !ASYNC> source_out;
    static_assert(XO * 256 * 4 <= 8192, "all strips of a block");

    struct lds {
        union {
            struct {
                typename source::lds inputs;
                typename source_out::lds douts;
            };
            ckci_k_depth_sums<T, V, F * F * F, !ASYNC> sums;
        };
    };

    /* Plane r of a piece with `planes` of dout: the newest is in place r % F = TURN. Planes of dout that the
       piece does not have meet nothing. */
    template <int TURN>
    static CKCI_K_MEMBER void multiply(T *c, const T *d, const unsigned char *from, int32_t pitch,
                                       int32_t rows, int32_t r, int32_t planes, int32_t bf16)
    {
        CKCI_K_UNROLL(4)
        for (int y = 0; y < F; y++) {
            T v[WINDOW * V];
            ckci_k_depth_line<WINDOW, S, V>(from + y * rows, pitch, 0, v, bf16);
            CKCI_K_UNROLL(4)
            for (int z = 0; z < F; z++) {
                if (r - z >= 0 && r - z < planes) {
                    const T *left = d + (TURN + F - z) % F * XO * V;
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < XO; i++) {
                        CKCI_K_UNROLL(4)
                        for (int x = 0; x < F; x++) {
                            CKCI_K_UNROLL(4)
                            for (int l = 0; l < V; l++) {
                                T &sum = c[((z * F + y) * F + x) * V + l];
                                sum = ckci_k_fma(left[i * V + l], v[(i + x) * V + l], sum);
                            }
                        }
                    }
                }
            }
        }
    }

    /* State of a walk along a piece. */
    struct walk {
        source inputs;
        source_out douts;
        int32_t z, first;       /* the first plane of inputs, of dout */
        int32_t planes, r;      /* of dout; the one that comes */
        int32_t read, read_out; /* its stages */
        int32_t at, at_out;     /* of this thread in a stage */
        int32_t a_step, b_step, vec, rows;

        CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, int32_t plane)
        {
            inputs.push(m.inputs, p, p.b.p, b_step, p.dim[0].read_len, z + plane, plane < planes + F - 1,
                        vec);
            douts.push(m.douts, p, p.a.p, a_step, p.dim[0].length, first + plane, plane < planes, vec);
            source::commit();
        }
    };

    /* What plane r of a thread's strip adds. Its dout takes place `turn`, which is TURN or a later one. */
    template <int TURN>
    static CKCI_K_MEMBER void add(const ckci_gpu_depth &args, const lds &m, const walk &w, T *c, T *d,
                                  int32_t turn)
    {
        if constexpr (TURN < F - 1) {
            if (turn > TURN) {
                add<TURN + 1>(args, m, w, c, d, turn);
                return;
            }
        }
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t pitch = p.lanes_c * 4;
        if (w.r < w.planes) {
            ckci_k_depth_line<XO, S, V>(m.douts.stage + w.read_out + w.at_out, pitch, 0, d + TURN * XO * V,
                                        p.bf16);
        }
        if ((uint32_t)(w.z + w.r) < (uint32_t)p.dim[0].read_len) {
            multiply<TURN>(c, d, m.inputs.stage + w.read + w.at, pitch, w.rows, w.r, w.planes, p.bf16);
        }
    }

    static CKCI_K_MEMBER void piece(const ckci_gpu_depth &args, lds &m, T *c, int32_t index, int32_t base)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x, pitch = p.lanes_c * 4;
        const ckci_k_depth_spot own = ckci_k_depth_find_tile<XO, !ASYNC>(p, t, index);
        const bool active = own.active && base + own.lane * V < p.g;
        __syncthreads(); /* the piece before */
        if (t < CKCI_DEPTH_DOWN_POSITIONS) {
            const int32_t length[2] = {p.dim[1].read_len, p.dim[2].read_len};
            const int32_t out[2] = {p.dim[1].length, p.dim[2].length};
            m.inputs.at[t] = ckci_k_depth_in_tile<S>(p.b, p.by_pitch, base, own.n, own.y - p.dim[1].pad,
                                                     own.x - p.dim[2].pad, length, t);
            m.douts.at[t] = ckci_k_depth_in_tile<S>(p.a, p.by_wide, base, own.n, own.y, own.x, out, t);
        }
        __syncthreads();
        walk w;
        w.vec = p.a_vec;
        w.inputs.start(m.inputs, p, w.vec, p.pieces, (p.g - base) * (int32_t)S::SIZE);
        w.douts.start(m.douts, p, w.vec, p.lanes_p * XO * (int32_t)p.by_pieces.d,
                      (p.g - base) * (int32_t)S::SIZE);
        w.z = own.z - p.dim[0].pad;
        w.first = own.z;
        w.planes = own.rows;
        w.read = w.read_out = 0;
        w.a_step = (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        w.b_step = (int32_t)p.b.stride[3] * (int32_t)S::SIZE;
        w.rows = p.pitch * pitch;
        w.at = (own.row * p.pitch + own.strip * XO) * pitch + own.lane * 4;
        w.at_out = (own.row * p.strips + own.strip) * XO * pitch + own.lane * 4;
        T d[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            d[i] = 0;
        }
        int32_t turn = 0;
        CKCI_K_UNROLL(1)
        for (w.r = 1 - source::STAGES; w.r < w.planes + F - 1; w.r++) {
            if (w.r >= 0) {
                if constexpr (!ASYNC) {
                    __syncthreads(); /* the plane before */
                }
                w.inputs.settle(m.inputs, w.vec);
                w.douts.settle(m.douts, w.vec);
                source::arrive();
            }
            w.push(m, ckci_k_late(p), w.r + source::STAGES - 1);
            if (w.r < 0) {
                continue;
            }
            if (active) {
                add<0>(p, m, w, c, d, turn);
            }
            turn = turn == F - 1 ? 0 : turn + 1;
            w.read = w.read == source::LAST ? 0 : w.read + source::STAGE;
            w.read_out = w.read == 0 ? 0 : w.read_out + source_out::STAGE;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c * V;
        T c[F * F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = part; i < p.all; i += p.parts) {
            piece(p, m, c, i, base);
        }
        int32_t lane;
        const int32_t slot = ckci_k_depth_slot<!ASYNC>(p, t, lane);
        const int32_t channel = base + lane * V;
        ckci_k_depth_member w = {slot, lane, 0, channel, part, 0, 0, 0, slot < p.lanes_p && channel < p.g};
        ckci_k_depth_fold<S, T, V, F, F, F, !ASYNC>(p, m.sums, c, w, false);
    }
};

template <class S>
struct ckci_k_depth_deep_weight
    : ckci_k_by_vendor<ckci_k_depth_deep_weight_by<S, true>, ckci_k_depth_deep_weight_by<S, false>> {
};

template <class S> struct ckci_k_resident<ckci_k_depth_deep_weight<S>> {
    enum { BLOCKS = 2 };
};
