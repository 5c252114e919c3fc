#pragma once
/*  (licence text at the end of this file)

DO THIS
    Copy ckconv.h and, for a GPU, kernels.hip.h next to your sources (or only the one file that `make single`
    merges them into). In exactly one C or C++ file write

        #define CKCONV_IMPLEMENTATION
        #include "ckconv.h"

    Everywhere else include ckconv.h alone. Build that file with
        cc -O3 -fopenmp yourfile.c -lm                                      CPU only (OpenMP is optional)
        hipcc -x hip -std=c++17 -O3 --offload-arch=gfx942 -c yourfile.c     AMD GPUs, and the CPU
        nvcc -x cu -std=c++17 -O3 -arch=sm_90a -c yourfile.c                NVIDIA GPUs (here an H100; a: all
                                                                            that it has), and the CPU
    with -O2 or -O3, never -O0: that is 5 to 13 times slower, and nothing tells. docs/ has a guide, numerics,
    performance, porting and platforms; examples/ has programs.

WHAT IT DOES
    fwd, bwd_data, bwd_weight   convolution and its two gradients; 1D, 2D, 3D; dense, grouped, depthwise;
                                stride, dilation, different pads on both sides; bwd_weight may give the
                                gradient of a bias, too, or it alone
    conv_conv_fwd               any convolution -> scale, shift, activation -> a second (1x1) convolution,
                                with the tensor in between kept on chip
    groupnorm_fwd, _bwd         group normalisation with an optional fused activation, and its gradients;
                                gamma and beta for all images or for each (adaptive group norm)
    transform                   layout and type conversion of a tensor
    Element operations (relu, silu, gelu, clamp, ...) are fused on every operand, and epilogues with up to
    four extra tensors (bias, residual, bilinear, ...) on the result.

LIMITS
    - Matrix units compute f16, bf16, fp8, f32 as bf16 or bf16x3, i8, tf32 and f64 on
      CDNA (f64 from gfx90a on) and NVIDIA, f32 on CDNA; the rest uses multiply-adds.
    - GPU kernels take less than 2^30 in each dimension (pads, stride and dilation included), positions
      (batch x space), taps x channels and G*K*C, and pointers that are aligned to an element; AMD GPUs launch
      less than 2^32 threads. Problems beyond that are refused with a reason. Tensors may pass 2^31 elements.
    - Types: f64, f32 (tf32, bf16 or bf16x3 arithmetic on request), f16, bf16, fp8 (four formats), i8. See
      >>types.
    - i8 sums are 32-bit: past 131071 products of the largest magnitude they wrap modulo 2^32, everywhere
      alike.
    - A tensor may have 2^62 bytes at most. Sizes and strides are int64 and every product is checked.
    - Written tensors with explicit strides need strides that nest (see ckconv_tensor).
    - Macros of yours that are in capital letters may have any name but CKC...; those in lower case must not
      be names of members or parameters here, of C's library, or of local variables of the implementation:
      define them behind the header (docs/platforms.md says which do no harm).
    - NaN payloads are not kept. Subnormals are honoured, but instances with the bf16 instructions of AVX-512
      (..._avx512_bf16) take those below 2^-126 as zeros.

BUILD SWITCHES (define them before the implementation; none but the first changes a declaration)
    CKCONV_API              how functions are declared, wherever this is read (extern): dllexport, visibility
    CKCONV_STATIC           all functions static: several copies in one program
    CKCONV_REQUIRE_GPU      #error unless a GPU compiler reads the implementation
    CKCONV_STACK_BYTES      16384 to 65536 (65536): what runs without workspace may take of a thread's stack,
                            a small workspace included, and group norms always; calls take up to 56 KiB beside
                            it
    CKCONV_NO_SIMD          portable vectors only: no run-time choice of AVX2 or AVX-512 code
    What these drop is not compiled, on CPU and GPU; calls that need it answer CKCONV_ERR_UNSUPPORTED and the
    name of the switch, never with a slow kernel. ckconv_build_text() tells what is left.
    CKCONV_NO_F64           drop f64 tensors
    CKCONV_NO_F32           drop f32 tensors as what is read: those that are written, D and parameters stay
    CKCONV_NO_F16           drop f16 tensors
    CKCONV_NO_BF16          drop bf16 tensors, and bf16 and bf16x3 arithmetic
    CKCONV_NO_I8            drop i8 and i32 tensors
    CKCONV_NO_FP8           drop the four fp8 formats
    CKCONV_NO_FWD           drop fwd (conv_conv_fwd stays)
    CKCONV_NO_BWD_DATA      drop bwd_data, which also is the transposed convolution
    CKCONV_NO_BWD_WEIGHT    drop bwd_weight
    CKCONV_NO_CONV_CONV     drop conv_conv_fwd
    CKCONV_NO_GROUPNORM     drop groupnorm_fwd and groupnorm_bwd
    CKCONV_NO_TRANSFORM     drop transforms of layout and type
    CKCONV_NO_CHANNELS_FIRST  drop tensors whose channels do not lie side by side (D and transforms stay);
                            with up to 4 per group on both sides (k, c), those of groups must, too
    CKCONV_NO_DEPTHWISE     drop convolutions with up to 4 channels per group on both sides (k, c)
    CKCONV_NO_CPU           drop the CPU engine; ref stays
    CKCONV_ONLY_F16         positive, as are _F64, _F32, _BF16, _I8, _FP8: drop all types but those so named
    CKCONV_ONLY_FWD         and _BWD_DATA, _BWD_WEIGHT, _CONV_CONV, _GROUPNORM, _TRANSFORM: of operations
    CKCONV_ONLY_CHANNELS_LAST  the same as CKCONV_NO_CHANNELS_FIRST
    CKCONV_PART             1 to 4: only these kernels, 0: the rest. Five objects of one file, compiled side
                            by side with all other switches alike, are what one is without it.

HELLO CONV
    ckconv_conv_desc d;  memset(&d, 0, sizeof d);          // zero means default
    d.ndim = 2;  d.n = 8;  d.k = 64;  d.c = 32;             // batch, output channels, input channels
    d.filter[0] = d.filter[1] = 3;  d.input[0] = d.input[1] = 28;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
    ckconv_error err;
    // no workspace: may be 2.5 times slower in the mean
    if (ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_OK) { puts(err.text); }
    // in [N,H,W,C], wei [K,Y,X,C], out [N,H,W,K], all float. Set d.in.dtype and d.in.layout for others.

PLAN, WORKSPACE, RUN
    One call works, with or without a workspace, which may cost 2.5 times the time in the mean. In a training
    loop plan once and run often:
        ckconv_plan plan;  ckconv_args a;
        ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, NULL, NULL, &err);      // no allocation, no GPU needed
        void *ws = malloc(plan.workspace_bytes);                               // exact; one for all plans
        memset(&a, 0, sizeof a);  a.in = x;  a.dout = dy;  a.dwei = dw;
        ckconv_run(&plan, &a, ws, plan.workspace_bytes, NULL, &err);
    A plan is a plain struct: copy it, keep it, no destroy. ckconv_plan_describe tells what will run and why.
    options.max_workspace = -1 asks for a plan without workspace; it exists for every operation and may be
    slower.

NUMERICS AND DETERMINISM
    - The `ref` engine (naive loops, double accumulation) is the specification; every engine is tested against
      it.
    - Sums are kept in f32 at least (f64 for f64, int32 for i8). Results are rounded once, to nearest even;
      f16 overflows to infinity, fp8 saturates. No Winograd, no reduced precision unless the description asks.
    - Same plan, same inputs, same header version: the same bits, for any number of threads. Split reductions
      go through workspace and are added in a fixed order. Plans made for different device facts may differ,
      and so may pointers of which one is aligned to less than 16 bytes (CPU: not to an element).
    - Padding counts as zeros: an infinite weight or gradient may meet it as 0 * infinity = NaN. So may an
      infinite input in depthwise bwd_weight, which makes its weight gradients NaN instead of infinite.
    - A matrix unit computes small groups side by side, with zeros for their products with each other: an
      infinity or NaN of one group may make NaN of its neighbours. In first layers numbers beside a
      window (bwd_data: dout's, bwd_weight: in's) meet zeros, too. Depthwise with large filters of f16 and
      bf16 is a product with bands of zeros there: one makes NaN of results beside those that meet it.
    - Outputs and workspace need no zeroing; every output element is written, and nothing between strided
      ones.
    - Group norm statistics on a GPU are one pass over values less one of the slab's, its first one; of f64
      tensors the one between the others of first, middle and last: where that lies far from most, inv_std
      of f64 tensors has about 10 right digits instead of 15. Slabs of equal values have y = act(beta).
    - A saved mean is rounded. Where that shifts xhat by more than a few units (|mean| * inv_std is above 8),
      groupnorm_bwd computes the mean again: it reads x once more.
    - -ffast-math and -Ofast, and gcc's -fassociative-math and -ffinite-math-only alone, change no result: gcc
      and clang compile the implementation without them, for AMD GPUs too. (clang does not tell of its
      -funsafe-math-optimizations alone.) What they set for the whole program remains: linked by
      gcc with -ffast-math it takes subnormals of f32 and f64 for zeros (not those of f16). nvcc's
      --use_fast_math does that to f32 in kernels, and its inverses and roots may be off by a unit or two.
      Other compilers' flags of this kind are not tested.

THREADS AND STREAMS
    No mutable global state: every function may be called from any thread at any time. A plan may be shared by
    threads; a workspace may not be in use twice at once. On the CPU a call returns when its work is done and
    the stream is ignored. OpenMP threads are used when the compiler was told so (-fopenmp); options.threads
    limits them. On a GPU a call returns when its kernels are queued on the stream; it allocates nothing,
    waits for nothing and may be captured in a graph. The plan's GPU must be the current one.

ERRORS
    Every function that can fail returns a status and fills the optional ckconv_error with one line that names
    the argument, the value and what is allowed. A call that fails has written nothing; only after
    CKCONV_ERR_LAUNCH, when the GPU's runtime refused a kernel after others of the same call, outputs are
    undefined. Nothing here ever prints, exits, allocates or changes the current device (except
    ckconv_device_open and ckconv_device_alloc, which say so).

TESTED ON
    gcc 12, clang 14; C99, C11, C++11, C++17; x86-64 with and without AVX2 and AVX-512; Linux. NVIDIA H100
    and H200 (nvcc 13). AMD: compiled for gfx90a, gfx942, gfx950, gfx1030, gfx1100, gfx1151, gfx1201 and
    gfx1250 and, but for gfx1030, gfx1151 and gfx1250, executed by an emulator.

TAGS (search for them; behind the API one for each file of the project's src/: >>cpu-gather is cpu/gather.h)
    >>head      version, linkage                     >>core-platform   implementation, feature tests
    >>types     status, types, layouts               >>ref             naive engine, the specification
    >>desc      descriptions and plan                >>cpu-vector      fast engine
    >>api       plan, run, one call                  >>gpu-args        arguments and launches of kernels
    >>ref-api   the specification                    >>plan-instances  selection of an instance
    >>util-api  names, tensors, device helpers       >>device-runtime  CPU and GPU facts, memory, timers
                                                     >>plan-run        the API's definitions
                                                     >>license
*/

/*------------------------------------------------------------------------------------------------------------
  >>head
*/
#include <stddef.h>
#include <stdint.h>

#define CKCONV_VERSION_MAJOR 0
#define CKCONV_VERSION_MINOR 1
#define CKCONV_VERSION_PATCH 0
#define CKCONV_VERSION (CKCONV_VERSION_MAJOR * 10000 + CKCONV_VERSION_MINOR * 100 + CKCONV_VERSION_PATCH)

#ifdef CKCONV_STATIC
#undef CKCONV_API
#if defined(__GNUC__) || defined(__clang__)
#define CKCONV_API static __attribute__((__unused__))
#else
#define CKCONV_API static
#endif
#elif !defined(CKCONV_API)
#define CKCONV_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*------------------------------------------------------------------------------------------------------------
  >>types
  Enumerations are int32_t constants, so that structs have one size everywhere and an unknown value is an
  ordinary error instead of undefined behaviour. 0 always means "default" or "none".
*/
typedef int32_t ckconv_status;
enum {
    CKCONV_OK = 0,
    CKCONV_ERR_ARGUMENT = 1,       /* a value of the description or an argument is not allowed */
    CKCONV_ERR_NULL = 2,           /* a required pointer is NULL */
    CKCONV_ERR_OVERFLOW = 3,       /* a size does not fit */
    CKCONV_ERR_WORKSPACE = 4,      /* workspace or options.max_workspace is smaller than what is needed */
    CKCONV_ERR_UNSUPPORTED = 5,    /* legal, but the chosen instance or this build cannot do it */
    CKCONV_ERR_PLAN = 6,           /* not a plan of this header version */
    CKCONV_ERR_NO_DEVICE_CODE = 7, /* GPU asked for, but this build holds no GPU code */
    CKCONV_ERR_NO_DEVICE = 8,      /* no such GPU */
    CKCONV_ERR_WRONG_DEVICE = 9,   /* the current device (or CPU) is not the one of the plan */
    CKCONV_ERR_LAUNCH = 10,        /* the GPU runtime refused a launch or a copy; outputs are undefined */
    CKCONV_ERR_MEMORY = 11,        /* the device helper found no memory */
    CKCONV_ERR_ALIAS = 12          /* a written tensor overlaps another argument */
};

/* What went wrong, in one line. Optional everywhere (NULL). text is "" after success. */
typedef struct ckconv_error {
    ckconv_status status;
    char text[252];
} ckconv_error;

typedef int32_t ckconv_op;
enum {
    CKCONV_FWD = 1,
    CKCONV_BWD_DATA = 2,
    CKCONV_BWD_WEIGHT = 3,
    CKCONV_CONV_CONV_FWD = 4,
    CKCONV_GROUPNORM_FWD = 5,
    CKCONV_GROUPNORM_BWD = 6
};

/* Storage types, and three that exist only as compute types.

   name                  in, wei, out                              compute                     accumulate
   f64                   f64                                       f64                         f64
   f32                   f32                                       f32; tf32, bf16, bf16x3     f32
   f16                   f16                                       f16; any fp8 per operand    f32
   bf16                  bf16                                      bf16                        f32
   bf16, f32 weight      bf16, f32, bf16                           bf16                        f32
   fp8 / bf8             any fp8; out may be f16, bf16, f32        that of each tensor         f32
   i8                    i8                                        i8                          int32

   The tensor that is written (out, dX, dW) may be wider: f32 of f16 and bf16, f16, bf16 or f32 of fp8, i32 of
   i8. What is not said takes its type from in, also where in is what bwd_data writes.

   bf16x3 keeps two bf16 terms of each f32 operand (16 significant bits); an engine may leave out the product
   of the two small terms. */
typedef int32_t ckconv_dtype;
enum {
    CKCONV_F64 = 1,
    CKCONV_F32 = 2,
    CKCONV_F16 = 3,
    CKCONV_BF16 = 4,
    CKCONV_F8E4M3 = 5,     /* OCP: bias 7, no infinity, largest 448 */
    CKCONV_F8E5M2 = 6,     /* OCP: bias 15, infinity, largest finite 57344 */
    CKCONV_F8E4M3FNUZ = 7, /* bias 8, one NaN (0x80), no -0, largest 240 */
    CKCONV_F8E5M2FNUZ = 8, /* bias 16, one NaN (0x80), no -0, largest 57344 */
    CKCONV_I8 = 9,
    CKCONV_I32 = 10,   /* written tensor of an i8 problem only */
    CKCONV_TF32 = 11,  /* compute only: f32 rounded to 10 mantissa bits (xf32 on AMD) */
    CKCONV_BF16X3 = 12 /* compute only */
};

/* Memory order, outermost first, last index contiguous. Names are the 2D ones whatever ndim is; the spatial
   part is W, HW or DHW (X, YX, ZYX). NHWGC has the bytes of plain NHWC with G*C channels, NGCHW those of
   NCHW. */
typedef int32_t ckconv_layout;
enum {
    CKCONV_NHWGC = 1, /* default of in; out's is that of in */
    CKCONV_GNHWC = 2,
    CKCONV_NGCHW = 3,
    CKCONV_NHWGK = 1, /* the same three under the names that the output has */
    CKCONV_GNHWK = 2,
    CKCONV_NGKHW = 3,
    CKCONV_GKYXC = 4, /* default of wei */
    CKCONV_GKCYX = 5,
    CKCONV_CHANNEL = 6, /* D tensors only: a vector of G*C entries, broadcast over the rest (a bias) */
    CKCONV_STRIDED = 7  /* the strides are given */
};

/* Element operations. x is a value that is read, or the accumulator of the written tensor; D0..D3 are the
   description's extra tensors at the written position. Parameters are literal: 0 is 0; those that a kind does
   not name must be 0.
   Sums and products are f32 (f64 for f64). sigmoid(x) = 1 / (1 + exp(-x)). */
typedef int32_t ckconv_element;
enum {
    CKCONV_PASS = 0,
    CKCONV_SCALE = 1,               /* alpha * x */
    CKCONV_RELU = 2,                /* max(x, 0); NaN stays NaN */
    CKCONV_CLAMP = 3,               /* min(max(x, alpha), beta); NaN stays NaN; needs alpha <= beta */
    CKCONV_SIGMOID = 4,             /* sigmoid(x) */
    CKCONV_SILU = 5,                /* x * sigmoid(x) */
    CKCONV_GELU = 6,                /* x/2 * (1 + erf(x / sqrt 2)) */
    CKCONV_TANH = 7,                /* tanh(x) */
    CKCONV_LEAKY_RELU = 8,          /* x < 0 ? alpha * x : x */
    CKCONV_HARDSIGMOID = 9,         /* min(max(x + 3, 0), 6) / 6 */
    CKCONV_HARDSWISH = 10,          /* x * hardsigmoid(x) */
    CKCONV_BILINEAR = 16,           /* alpha * x + beta * D0            from here: written tensor only */
    CKCONV_SCALE_ADD = 17,          /* alpha * x + D0 */
    CKCONV_BIAS = 18,               /* x + D0 */
    CKCONV_BIAS_RELU = 19,          /* max(x + D0, 0) */
    CKCONV_BIAS_RESIDUAL_RELU = 20, /* max(x + D0 + D1, 0) */
    CKCONV_ADD = 21,                /* x + D0 + ... all num_d tensors, in this order */
    CKCONV_ADD_RELU = 22,           /* max of that and 0 */
    CKCONV_BIAS_SILU = 23,          /* silu(x + D0) */
    CKCONV_BIAS_GELU = 24,          /* gelu(x + D0) */
    CKCONV_BIAS_RELU_ADD = 25,      /* max(x + D0, 0) + D1 */
    CKCONV_SCALE_SHIFT = 26,      /* x * D0 + D1: a folded or frozen batch norm, if both are CKCONV_CHANNEL */
    CKCONV_SCALE_SHIFT_RELU = 27, /* max of that and 0 */
    CKCONV_ACCUMULATE = 28,       /* x + what the written tensor holds, without a D tensor: out +=, dwei += */
    /* gradients of activations: x is the gradient of f(z), the result that of z */
    CKCONV_RELU_BWD = 32,    /* D0 <= 0 ? 0 : x; D0: z or relu(z) */
    CKCONV_CLAMP_BWD = 33,   /* D0 <= alpha or D0 >= beta ? 0 : x; D0: z or clamp(z) */
    CKCONV_SIGMOID_BWD = 34, /* x * D0 * (1 - D0); D0: sigmoid(z) */
    CKCONV_SILU_BWD = 35,    /* x * s * (1 + D0 * (1 - s)), s = sigmoid(D0); D0: z */
    CKCONV_GELU_BWD = 36     /* x * ((1 + erf(D0 / sqrt 2)) / 2 + D0 * exp(-D0^2 / 2) / sqrt(2 pi)); D0: z */
};

typedef int32_t ckconv_engine;
enum {
    CKCONV_ENGINE_AUTO = 0, /* gpu for the facts of a GPU, else cpu */
    CKCONV_ENGINE_REF = 1,  /* the specification: naive loops on the host */
    CKCONV_ENGINE_CPU = 2,
    CKCONV_ENGINE_GPU = 3
};

/* How an instance computes. options.instance takes an instance's name or one of these families' names. */
typedef int32_t ckconv_family;
enum {
    CKCONV_FAMILY_REF = 1,          /* "ref" */
    CKCONV_FAMILY_SINGLE_STAGE = 2, /* "single_stage": implicit GEMM, each output computed by one owner */
    CKCONV_FAMILY_TWO_STAGE = 3, /* "two_stage": split reduction through workspace, then a fixed-order sum */
    CKCONV_FAMILY_DIRECT = 4,    /* "direct": depthwise and small groups */
    CKCONV_FAMILY_FUSED = 5,     /* "fused": conv_conv_fwd with the intermediate on chip */
    CKCONV_FAMILY_UNFUSED = 6,   /* "unfused": two steps through workspace */
    CKCONV_FAMILY_GROUPNORM = 7, /* "groupnorm" */
    CKCONV_FAMILY_VECTOR = 8,    /* "vector" ("dl"): GPU tiles on FMA and dot instructions */
    CKCONV_FAMILY_MFMA = 9,      /* "mfma" */
    CKCONV_FAMILY_WMMA = 10,     /* "wmma" */
    CKCONV_FAMILY_MMA = 11       /* "mma": NVIDIA mma.sync and wgmma */
};

/*------------------------------------------------------------------------------------------------------------
  >>desc
  Plain structs; all zero is the default. memset or = {0} first: reserved members must be zero, which
  catches an uninitialised struct.
*/

/* One tensor: type and place of its elements.
   stride is read only with layout CKCONV_STRIDED: in elements, in logical order {G, N, C, spatial...} for in
   and like tensors, {G, N, K, spatial...} for out, {G, K, C, filter...} for wei, spatial outermost (z, y, x)
   first; entries past 3 + ndim must be 0. Strides are positive; a D tensor may also have 0 (broadcast).
   Strides of a written tensor must nest: sorted by size, each reaches past all elements that the smaller ones
   address. Strides of in are not those of out, whose layout must be given beside them. */
typedef struct ckconv_tensor {
    ckconv_dtype dtype;   /* 0: in f32; wei, out as in; D as the written tensor */
    ckconv_layout layout; /* 0: in NHWGC; out as in; wei GKYXC, whatever in has; D as the written tensor */
    int64_t stride[6];
} ckconv_tensor;

/* An element operation with its parameters (>>types). */
typedef struct ckconv_element_op {
    ckconv_element kind;
    int32_t reserved;
    double alpha, beta;
} ckconv_element_op;

/* A convolution and its gradients: out[g,n,k,o] = sum over c, t of in[g,n,c,o*stride + t*dilation - pad_lo] *
   wei[g,k,c,t] (cross-correlation), o = (input + pad_lo + pad_hi - (filter-1)*dilation - 1) / stride + 1.
   k and c count channels PER GROUP: in has g*c channels, out g*k. Spatial arrays are z,y,x: outermost first,
   and only the first ndim entries are read. Two tensors are read and one is written, by the operation:
   fwd in, wei -> out; bwd_data out, wei -> in; bwd_weight in, out -> wei.
   bwd_weight may also write dbias[g*k] = sum over n and positions of op_out(dout): of the numbers that dwei
   multiplies, but before they are rounded to compute_out. With op_wei CKCONV_ACCUMULATE, dbias is added to
   what it holds, too; other operations of op_wei do not touch it. */
typedef struct ckconv_conv_desc {
    int32_t ndim;        /* 1, 2 or 3 */
    int32_t num_d;       /* D tensors that the written tensor's epilogue reads, 0..4 */
    int64_t g;           /* groups; 0: 1 */
    int64_t n;           /* batch; 0 is an empty batch */
    int64_t k, c;        /* output and input channels per group */
    int64_t filter[3];   /* taps */
    int64_t input[3];    /* spatial size of in */
    int64_t stride[3];   /* 0: 1 */
    int64_t dilation[3]; /* 0: 1 (dense taps, as PyTorch counts) */
    int64_t pad_lo[3];   /* zeros before, may exceed the filter */
    int64_t pad_hi[3];   /* zeros after */
    ckconv_tensor in, wei, out;
    ckconv_dtype compute_in, compute_wei, compute_out; /* what a read tensor is rounded to; 0: see >>types.
                                                          The written tensor's entry is not used */
    ckconv_dtype dbias; /* bwd_weight: type of the bias gradient that is written beside dwei, f32 or that of
                           wei or out (f64: f64, i8: i32, i8); 0: none. Other operations do not use it */
    /* on a read tensor: before that rounding, never on padding; on the written tensor: the epilogue, on the
       finished sum, everywhere */
    ckconv_element_op op_in, op_wei, op_out;
    ckconv_tensor d[4]; /* logical order of the written tensor */
} ckconv_conv_desc;

/* Two convolutions, the first one's result kept on chip: mid = act(conv0(in) * scale + shift), rounded once
   to conv0's compute type; out = conv1(mid). scale and shift are optional vectors of g*k entries (f32; f64
   for f64), given at run time. The second convolution mixes all g*k channels of mid, or 1/g1 of them: wei1 is
   [g1, k1, g*k/g1, filter1]; g*k must be divisible by g1. */
typedef struct ckconv_conv_conv_desc {
    ckconv_conv_desc conv0; /* conv0.out is mid: dtype 0 or that of in, layout 0: as in; op_out is the
                               activation (no D) */
    int64_t g1;             /* groups of the second convolution; 0: 1 */
    int64_t k1;             /* its output channels per group */
    int64_t filter1[3];     /* 0: 1. A filter above 1 runs as two convolutions through workspace */
    int64_t stride1[3];     /* 0: 1 */
    int64_t dilation1[3];   /* 0: 1 */
    int64_t pad_lo1[3], pad_hi1[3];
    ckconv_tensor wei1, out;   /* dtype 0: as conv0.wei, as in; layout 0: GKYXC, as in */
    ckconv_dtype compute_wei1; /* 0: as conv0.compute_wei when the weights have one type */
    int32_t num_d;             /* D tensors of out's epilogue */
    ckconv_element_op op_wei1, op_out;
    ckconv_tensor d[4];
} ckconv_conv_conv_desc;

/* Group normalisation over the c channels and all positions of each (n, g):
   y = act((x - mean) * inv_std * gamma + beta), inv_std = 1 / sqrt(variance + eps), variance biased.
   c counts channels PER GROUP: gamma and beta have g*c entries, mean and inv_std are [n, g].
   in is x, out is y (and dy), din is dx. Statistics are f32 (f64 for f64).
   g = 1 is layer norm over channels and positions, c = 1 instance norm.
   With param_per_image, gamma and beta are [n, g*c], dense, and so are dgamma and dbeta, which are then sums
   over positions alone (adaptive group norm). Diffusion models' norm(x) * (1 + scale) + shift, where norm has
   w and b of its own, is gamma = w * (1 + scale), beta = b * (1 + scale) + shift. */
typedef struct ckconv_groupnorm_desc {
    int32_t ndim;               /* 1, 2 or 3 */
    ckconv_dtype param_dtype;   /* gamma, beta, dgamma, dbeta; 0: as in */
    int64_t g;                  /* groups; 0: 1 */
    int64_t n;                  /* batch; 0 is an empty batch */
    int64_t c;                  /* channels per group */
    int64_t input[3];           /* spatial size */
    double eps;                 /* above 0; PyTorch's default is 1e-5 */
    ckconv_tensor in, out, din; /* f64, f32, f16, bf16; out and din default to in's type and layout */
    ckconv_element act;         /* CKCONV_PASS, _RELU, _SIGMOID, _SILU or _GELU */
    int32_t param_per_image;    /* 0: gamma, beta and their gradients are [g*c]; 1: [n, g*c] */
    int32_t reserved[2];
} ckconv_groupnorm_desc;

/* Facts about a device, all that planning knows of it. Fill it with ckconv_device_cpu, ckconv_device_gpu or
   ckconv_device_named, or by hand. */
typedef struct ckconv_device {
    int32_t kind;          /* 0: CPU, 1: AMD GPU, 2: NVIDIA GPU */
    int32_t ordinal;       /* GPU number */
    char arch[16];         /* "x86_64", "gfx942", "sm_90", ... */
    int32_t threads;       /* CPU: threads to plan for; 0: 1 */
    int32_t features;      /* CPU: CKCONV_CPU_... that may be used; GPU: 0 or CKCONV_GPU_NO_SM90A */
    int32_t wave_size;     /* GPU: 32 or 64 */
    int32_t compute_units; /* GPU */
    int32_t lds_bytes;     /* GPU: LDS (shared memory) per block, 48 KiB or more */
    float costs[5];        /* GPU: corrections of modelled times, factors by CKCONV_COST_...; 0: 1 */
    int32_t reserved[2];
} ckconv_device;
/* What a time is spent on: a launch, bytes through memory, multiply-adds outside the matrix unit and on it,
   and what blocks take to begin and end. */
enum {
    CKCONV_COST_LAUNCH = 0,
    CKCONV_COST_BYTES = 1,
    CKCONV_COST_FMA = 2,
    CKCONV_COST_MATRIX = 3,
    CKCONV_COST_ROUND = 4,
    CKCONV_COSTS = 5
};
enum { CKCONV_DEVICE_CPU = 0, CKCONV_DEVICE_AMD = 1, CKCONV_DEVICE_NVIDIA = 2 };
enum {
    CKCONV_CPU_AVX2 = 1,        /* with FMA */
    CKCONV_CPU_AVX512 = 2,      /* F, with FMA */
    CKCONV_CPU_AVX512_BF16 = 4, /* its dot products; with CKCONV_CPU_AVX512 */
    CKCONV_GPU_NO_SM90A = 8     /* sm_90: kernels were compiled for sm_90 or before, not for sm_90a */
};

/* What the caller wants of the planner. NULL or all zero: the best plan for the device. */
typedef struct ckconv_options {
    ckconv_engine engine;
    int32_t threads;       /* CPU threads; 0: the device's */
    const char *instance;  /* an instance's or a family's name; NULL: planner's choice */
    int64_t max_workspace; /* bytes; 0: no limit, -1: none at all */
    int32_t split_k;       /* bwd_weight: parts of the reduction, or as many as there can be; 0: planner's
                              choice. Elsewhere 0 or 1: planner's choice (few positions) */
    int32_t reserved[3];
} ckconv_options;

/* A chosen way to compute one problem. Plain data: copy and keep it. Treat it as read-only; these members are
   meant to be read. */
typedef struct ckconv_plan {
    uint32_t magic, version;
    ckconv_op op;
    ckconv_engine engine;
    int32_t instance;        /* index for ckconv_instance_... */
    int32_t split_k;         /* parts of the reduction, 1: not split, 0: blocks share it (TMA) */
    int64_t workspace_bytes; /* exact; 0: pass NULL */
    int64_t grid[3];         /* GPU: blocks; CPU: {work items, 1, 1} */
    int32_t block[3];        /* GPU: threads; CPU: {threads, 1, 1} */
    int32_t launches;        /* kernels (CPU: parallel loops) per run, with all of groupnorm_bwd's results and
                                saved statistics (else up to two more); a copy of mid may take one more */
    int64_t flop, bytes;     /* 2 per multiply-add; each tensor once */
    ckconv_device device;
    int64_t tune[15]; /* private: what the planner was told and chose */
    uint64_t seal;    /* private: a number of all other members; a run refuses a plan that was changed */
    union {
        ckconv_conv_desc conv; /* the description with all defaults filled in */
        ckconv_conv_conv_desc conv_conv;
        ckconv_groupnorm_desc groupnorm;
    } u;
} ckconv_plan;

/* The tensors of a run, all in one struct for all operations; the rest stays NULL. Pointers may have any
   alignment on the CPU, that of an element on a GPU.
     fwd             in wei -> out
     bwd_data        dout wei -> din
     bwd_weight      in dout -> dwei [dbias]   dbias if the description has it; dwei and in may then be NULL
     conv_conv_fwd   in wei wei1 [scale shift] -> out [mid]
     groupnorm_fwd   in [gamma beta] -> out [mean inv_std]
     groupnorm_bwd   in dout [gamma beta saved_mean saved_inv_std] -> [din] [dgamma] [dbeta], at least one
   A missing gamma is all 1, a missing beta all 0. Missing saved statistics are computed again; give both or
   none. */
typedef struct ckconv_args {
    const void *in, *wei, *dout;
    const void *d[4];
    const void *wei1, *scale, *shift;
    const void *gamma, *beta, *saved_mean, *saved_inv_std;
    void *out, *din, *dwei, *mid;
    void *mean, *inv_std, *dgamma, *dbeta;
    void *dbias;
} ckconv_args;

/* One tensor of a plan, resolved: what it would take to allocate, fill or print it. */
typedef struct ckconv_tensor_info {
    ckconv_dtype dtype;
    ckconv_layout layout;
    int32_t rank; /* entries in use below: 3 + ndim for in, wei, out; fewer for vectors */
    int32_t written;
    int64_t length[6]; /* logical order, as ckconv_tensor.stride */
    int64_t stride[6];
    int64_t count; /* elements */
    int64_t bytes; /* from the first element to past the last one: what to allocate */
} ckconv_tensor_info;

/* Which tensor, for ckconv_plan_tensor. */
enum {
    CKCONV_TENSOR_IN = 0, /* in or din of a convolution; x of a group norm */
    CKCONV_TENSOR_WEI = 1,
    CKCONV_TENSOR_OUT = 2, /* out or dout */
    CKCONV_TENSOR_D0 = 3,  /* D0..D3: 3..6 */
    CKCONV_TENSOR_WEI1 = 7,
    CKCONV_TENSOR_MID = 8,
    CKCONV_TENSOR_CHANNEL = 9, /* scale, shift; gamma, beta, dgamma, dbeta: [G, C]; those of each
                                  image (param_per_image): [N, G, C] */
    CKCONV_TENSOR_STAT = 10,   /* mean, inv_std: [N, G] */
    CKCONV_TENSOR_DIN = 11,    /* dx of a group norm */
    CKCONV_TENSOR_DBIAS = 12   /* dbias: [G, K] */
};

/* One kernel launch: grid x 1 x 1 blocks of block x 1 x 1 threads, one struct by value as argument. */
typedef struct ckconv_launch {
    const char *kernel; /* its plain C name */
    int64_t grid;
    int32_t block;
    int32_t cluster; /* blocks of a thread block cluster (NVIDIA); 1: no clusters */
    int32_t reserved;
    int32_t arg_bytes;
    unsigned char arg[4096];
} ckconv_launch;

/* One line of a tuner's result: enough to make the same plan again. */
typedef struct ckconv_choice {
    int32_t instance; /* index */
    int32_t split_k;
    double seconds; /* median */
    int64_t workspace_bytes;
} ckconv_choice;

/*------------------------------------------------------------------------------------------------------------
  >>api
  Threads: all functions may be called at any time from any thread. None keeps a pointer after it returned,
  except that GPU work still reads and writes its tensors until the stream has reached it.
*/

/* Choose how to compute a problem. op: CKCONV_FWD, CKCONV_BWD_DATA or CKCONV_BWD_WEIGHT.
   options, device: NULL for the defaults (the current GPU in a GPU build that finds one, else this CPU).
   Fills *plan, or leaves it with magic 0 on an error; a run of that names the error once more. Pure: no
   device is touched when device is given. */
CKCONV_API ckconv_status ckconv_plan_conv(ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *desc,
                                          const ckconv_options *options, const ckconv_device *device,
                                          ckconv_error *err);
CKCONV_API ckconv_status ckconv_plan_conv_conv(ckconv_plan *plan, const ckconv_conv_conv_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err);
/* op: CKCONV_GROUPNORM_FWD or CKCONV_GROUPNORM_BWD */
CKCONV_API ckconv_status ckconv_plan_groupnorm(ckconv_plan *plan, ckconv_op op,
                                               const ckconv_groupnorm_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err);

/* The problem and device of `base`, planned again with other options. plan may be base. */
CKCONV_API ckconv_status ckconv_plan_again(ckconv_plan *plan, const ckconv_plan *base,
                                           const ckconv_options *options, ckconv_error *err);

/* Run a plan. workspace: plan->workspace_bytes at least, any alignment; contents need no preparation and are
   garbage afterwards. stream: hipStream_t or cudaStream_t of a GPU plan, else ignored.
   Errors leave every output untouched, but for CKCONV_ERR_LAUNCH: when the runtime refuses the second of
   several kernels, outputs are undefined. Deterministic (see the top comment). */
CKCONV_API ckconv_status ckconv_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                    size_t workspace_bytes, void *stream, ckconv_error *err);

/* The kernels that ckconv_run would launch for a GPU plan, in order: what a profiler, an emulator or a
   graph of one's own needs. The first `capacity` go to launches, the number of all of them to *count. No GPU
   is needed and none touched; pointers of args are only copied. */
CKCONV_API ckconv_status ckconv_plan_launches(const ckconv_plan *plan, const ckconv_args *args,
                                              void *workspace, size_t workspace_bytes,
                                              ckconv_launch *launches, int32_t capacity, int32_t *count,
                                              ckconv_error *err);

/* What will run and why, as text (one paragraph, no newline at its end), cut to `size` bytes; also how much
   workspace the plan would take without options.max_workspace, and a GPU's kernels by name, for tensors that
   are aligned. Returns the full length, as snprintf does. */
CKCONV_API size_t ckconv_plan_describe(const ckconv_plan *plan, char *text, size_t size);

/* Shape, strides, bytes of one tensor of a plan (CKCONV_TENSOR_...). */
CKCONV_API ckconv_status ckconv_plan_tensor(const ckconv_plan *plan, int32_t which, ckconv_tensor_info *info,
                                            ckconv_error *err);

/* One call: plan with the defaults for at most workspace_bytes of workspace (NULL, 0 is fine) and run. */
CKCONV_API ckconv_status ckconv_fwd(const ckconv_conv_desc *desc, const void *in, const void *wei, void *out,
                                    void *workspace, size_t workspace_bytes, void *stream, ckconv_error *err);
CKCONV_API ckconv_status ckconv_bwd_data(const ckconv_conv_desc *desc, void *din, const void *wei,
                                         const void *dout, void *workspace, size_t workspace_bytes,
                                         void *stream, ckconv_error *err);
CKCONV_API ckconv_status ckconv_bwd_weight(const ckconv_conv_desc *desc, const void *in, void *dwei,
                                           const void *dout, void *workspace, size_t workspace_bytes,
                                           void *stream, ckconv_error *err);
/* dbias alone; desc->dbias 0: f32 (f64 of f64, i32 of i8). */
CKCONV_API ckconv_status ckconv_bwd_bias(const ckconv_conv_desc *desc, const void *dout, void *dbias,
                                         void *workspace, size_t workspace_bytes, void *stream,
                                         ckconv_error *err);
CKCONV_API ckconv_status ckconv_conv_conv_fwd(const ckconv_conv_conv_desc *desc, const void *in,
                                              const void *wei0, const void *wei1, void *out, void *workspace,
                                              size_t workspace_bytes, void *stream, ckconv_error *err);
/* mean, inv_std: NULL when not wanted */
CKCONV_API ckconv_status ckconv_groupnorm_fwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, void *out, void *mean,
                                              void *inv_std, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err);
/* mean, inv_std: what groupnorm_fwd saved for the same x, or NULL: a mean that its type makes too coarse is
   computed again. beta is read only with an activation.
   dx = inv_std * (gamma*dy' - a - xhat*b) with a, b the means over (n, g) of gamma*dy' and gamma*dy'*xhat;
   dgamma = sum over n and positions of dy'*xhat, dbeta = that of dy' (with desc->param_per_image, of each n:
   over positions); dy' = dy * act'(xhat*gamma + beta), act' as in CKCONV_RELU_BWD, ... (>>types). */
CKCONV_API ckconv_status ckconv_groupnorm_bwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, const void *dout,
                                              const void *mean, const void *inv_std, void *din, void *dgamma,
                                              void *dbeta, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err);

/* Instances: every way to compute something, known by name. An index is stable within one header version. */
CKCONV_API int32_t ckconv_instance_count(void);
CKCONV_API const char *ckconv_instance_name(int32_t index);       /* NULL past the end */
CKCONV_API ckconv_engine ckconv_instance_engine(int32_t index);   /* 0 past the end */
CKCONV_API ckconv_family ckconv_instance_family(int32_t index);   /* 0 past the end */
CKCONV_API int ckconv_instance_does(int32_t index, ckconv_op op); /* 1: belongs to this operation */
/* CKCONV_OK if the instance can compute the problem of `base` on its device, else the reason. */
CKCONV_API ckconv_status ckconv_instance_supports(int32_t index, const ckconv_plan *base, ckconv_error *err);
/* Name of a family, NULL for an unknown value. */
CKCONV_API const char *ckconv_family_name(ckconv_family family);

/* Time every instance that supports the problem of `base` (one warm-up, then `repeats` runs each, 1 to 64)
   and write up to `capacity` choices, fastest first. Outputs in args are overwritten. Each instance is
   planned for the workspace given, which may be NULL, 0. Returns CKCONV_OK and the number of choices in
   *count. */
CKCONV_API ckconv_status ckconv_tune(const ckconv_plan *base, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, void *stream, int32_t repeats,
                                     ckconv_choice *choices, int32_t capacity, int32_t *count,
                                     ckconv_error *err);
/* Corrections of a device's modelled times as text, one line each: "# comment", or a name (launch, bytes,
   fma, matrix, round) and a factor from 1/64 to 64; and back, where names without a line become 0.
   `ckconv find --fit` writes it from measured times. An error names the line. to_text returns the full
   length, as snprintf does. */
CKCONV_API size_t ckconv_costs_to_text(const ckconv_device *device, char *text, size_t size);
CKCONV_API ckconv_status ckconv_costs_from_text(ckconv_device *device, const char *text, ckconv_error *err);
/* The time that the planner expects of a run, as it compared this plan with others: from figures and, on an
   H100, measurements; a guess elsewhere, the better for corrections. -1: engine ref, or no plan. */
CKCONV_API double ckconv_plan_seconds(const ckconv_plan *plan);
/* The plan of a choice. */
CKCONV_API ckconv_status ckconv_plan_choice(ckconv_plan *plan, const ckconv_plan *base,
                                            const ckconv_choice *choice, ckconv_error *err);
/* A choice as one line of text that a file can keep, and back. The line names the instance, so it survives a
   new header version or is refused. to_text returns the full length, as snprintf does. */
CKCONV_API size_t ckconv_choice_to_text(const ckconv_choice *choice, char *text, size_t size);
CKCONV_API ckconv_status ckconv_choice_from_text(ckconv_choice *choice, const char *text, ckconv_error *err);

/* Convert layout and type of one tensor on the host: every element of src, read once, rounded once.
   ndim 1..3; length in logical order (3 + ndim entries); both descriptions may be strided. dtype 0: f32. */
CKCONV_API ckconv_status ckconv_transform(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc,
                                          const void *src, const ckconv_tensor *dst_desc, void *dst,
                                          void *stream, ckconv_error *err);
/* The same where the device of these facts has src and dst: on the stream of the current GPU, without
   waiting, or on the host for CPU facts. */
CKCONV_API ckconv_status ckconv_device_transform(const ckconv_device *device, int32_t ndim,
                                                 const int64_t *length, const ckconv_tensor *src_desc,
                                                 const void *src, const ckconv_tensor *dst_desc, void *dst,
                                                 void *stream, ckconv_error *err);

/*------------------------------------------------------------------------------------------------------------
  >>ref-api
  The specification, on host pointers, with the same descriptions: each is plan + run with CKCONV_ENGINE_REF.
  Slow by intent. No workspace.
*/
CKCONV_API ckconv_status ckconv_ref_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                         ckconv_error *err);
CKCONV_API ckconv_status ckconv_ref_conv_conv(const ckconv_conv_conv_desc *desc, const ckconv_args *args,
                                              ckconv_error *err);
CKCONV_API ckconv_status ckconv_ref_groupnorm(ckconv_op op, const ckconv_groupnorm_desc *desc,
                                              const ckconv_args *args, ckconv_error *err);

/*------------------------------------------------------------------------------------------------------------
  >>util-api
*/
CKCONV_API int32_t ckconv_version(void);                         /* CKCONV_VERSION of the implementation */
CKCONV_API const char *ckconv_status_text(ckconv_status status); /* a few words; never NULL */
/* What the build switches left: "types f64 ...; operations fwd ...; layouts channels_last ...; engines ref
   ...", one line. */
CKCONV_API const char *ckconv_build_text(void);

/* Names as the command line spells them ("f16", "NHWGC", "bwd_weight", "silu"). NULL for unknown values, 0
   for unknown names; element and engine, whose 0 has a name ("pass", "auto"), answer -1. */
CKCONV_API const char *ckconv_dtype_name(ckconv_dtype dtype);
CKCONV_API ckconv_dtype ckconv_dtype_from_name(const char *name);
CKCONV_API const char *ckconv_layout_name(ckconv_layout layout);
CKCONV_API ckconv_layout ckconv_layout_from_name(const char *name); /* also the K names and 1D, 3D forms */
CKCONV_API const char *ckconv_op_name(ckconv_op op);
CKCONV_API ckconv_op ckconv_op_from_name(const char *name);
CKCONV_API const char *ckconv_element_name(ckconv_element kind);
CKCONV_API ckconv_element ckconv_element_from_name(const char *name);
CKCONV_API const char *ckconv_engine_name(ckconv_engine engine);
CKCONV_API ckconv_engine ckconv_engine_from_name(const char *name);

CKCONV_API size_t ckconv_dtype_size(ckconv_dtype dtype); /* bytes of one element; 0 for compute-only types */
/* Values <-> storage, `count` packed elements. Rounds to nearest even; fp8 saturates, i8 and i32 round and
   saturate (NaN to 0). Unknown types: nothing happens. */
CKCONV_API void ckconv_from_double(ckconv_dtype dtype, const double *src, void *dst, size_t count);
CKCONV_API void ckconv_to_double(ckconv_dtype dtype, const void *src, double *dst, size_t count);
/* Output size of a convolution, out[0..ndim). Only sizes are looked at. */
CKCONV_API ckconv_status ckconv_conv_output(const ckconv_conv_desc *desc, int64_t *out, ckconv_error *err);

/* Facts: of this CPU (threads as OpenMP would use), of GPU `ordinal`, of an architecture by name ("gfx942",
   "sm_90", "x86_64"; features as in "gfx942:xnack-" and "sm_90a" are left out; typical figures, for planning
   without the device; cautious ones, and no matrix unit, for gfx... and sm_... names that this version does
   not know). Of an NVIDIA GPU those of the newest architecture, up to its own,
   that nvcc compiled for: that code runs there. *device is all zero on an error. */
CKCONV_API void ckconv_device_cpu(ckconv_device *device);
CKCONV_API ckconv_status ckconv_device_gpu(int32_t ordinal, ckconv_device *device, ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_named(const char *arch, ckconv_device *device, ckconv_error *err);
CKCONV_API int32_t ckconv_device_count(void); /* GPUs; 0 without device code */
/* What a report about a GPU should say: its name, target, clocks, memory, the versions of driver and runtime
   and the compiler of its kernels; empty for a CPU. Returns the full length, as snprintf does. */
CKCONV_API size_t ckconv_device_text(const ckconv_device *device, char *text, size_t size);

/* Memory and time of a GPU for programs that include no HIP or CUDA header. For CPU facts they use the host's
   malloc and memcpy, so that one program serves both. open makes the device current; alloc, copy, fill, free
   and synchronise act on the current device. alloc returns NULL and says why. */
CKCONV_API ckconv_status ckconv_device_open(const ckconv_device *device, ckconv_error *err);
CKCONV_API void *ckconv_device_alloc(const ckconv_device *device, size_t bytes, ckconv_error *err);
CKCONV_API void ckconv_device_free(const ckconv_device *device, void *memory);
CKCONV_API ckconv_status ckconv_device_upload(const ckconv_device *device, void *dst, const void *src,
                                              size_t bytes, ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_download(const ckconv_device *device, void *dst, const void *src,
                                                size_t bytes, ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_fill(const ckconv_device *device, void *dst, int value, size_t bytes,
                                            ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_synchronise(const ckconv_device *device, ckconv_error *err);
/* The time between two points of a stream: create, then start and stop as often as wanted; seconds waits for
   the last stop and gives what lies between, or -1 when that could not be measured (an error of the kernels,
   too); destroy frees the events. */
typedef struct ckconv_timer {
    void *from, *to; /* GPU events */
    double cpu_from, cpu_to;
} ckconv_timer;
CKCONV_API ckconv_status ckconv_timer_create(const ckconv_device *device, ckconv_timer *timer,
                                             ckconv_error *err);
CKCONV_API void ckconv_timer_start(const ckconv_device *device, ckconv_timer *timer, void *stream);
CKCONV_API void ckconv_timer_stop(const ckconv_device *device, ckconv_timer *timer, void *stream);
CKCONV_API double ckconv_timer_seconds(const ckconv_device *device, ckconv_timer *timer);
CKCONV_API void ckconv_timer_destroy(const ckconv_device *device, ckconv_timer *timer);

#ifdef __cplusplus
}
#endif
