/*------------------------------------------------------------------------------------------------------------
  >>core-target
  The one table of architectures. Planner, kernels, runtime and tests read it; nothing else knows a name. A
  row is all that is known of one before a device is asked: vendor, matrix unit, wave, LDS, dies. A name
  without a row is planned with portable kernels, so that new GPUs run before they are known. A second table
  has what devices do in a second, for the costs of gpu/costs.h and for roofs.
*/
#pragma once
#include "core/platform.h"

/* One row for each architecture holds all that host, kernels and tests know of it: name, vendor, matrix
   unit, threads of a wave, compute units of a typical device, bytes of LDS that one block may ask for
   (NVIDIA: with the opt-in, as in its table of compute capabilities), dies that take blocks in turns, each
   with an L2 cache of its own (AMD's XCDs). A name without a row gets the portable kernels. */
#define CKCI_ARCHITECTURES(X)                                                                                \
    X(gfx900, AMD, NONE, 64, 64, 65536, 1)                                                                   \
    X(gfx906, AMD, NONE, 64, 60, 65536, 1)                                                                   \
    X(gfx908, AMD, CDNA1, 64, 120, 65536, 1)                                                                 \
    X(gfx90a, AMD, CDNA2, 64, 104, 65536, 1)                                                                 \
    X(gfx90c, AMD, NONE, 64, 8, 65536, 1)                                                                    \
    X(gfx940, AMD, CDNA3, 64, 228, 65536, 6)                                                                 \
    X(gfx941, AMD, CDNA3, 64, 304, 65536, 8)                                                                 \
    X(gfx942, AMD, CDNA3, 64, 304, 65536, 8)                                                                 \
    X(gfx950, AMD, CDNA4, 64, 256, 163840, 8)                                                                \
    X(gfx1010, AMD, NONE, 32, 40, 65536, 1)                                                                  \
    X(gfx1011, AMD, NONE, 32, 36, 65536, 1)                                                                  \
    X(gfx1012, AMD, NONE, 32, 22, 65536, 1)                                                                  \
    X(gfx1013, AMD, NONE, 32, 24, 65536, 1)                                                                  \
    X(gfx1030, AMD, NONE, 32, 80, 65536, 1)                                                                  \
    X(gfx1031, AMD, NONE, 32, 40, 65536, 1)                                                                  \
    X(gfx1032, AMD, NONE, 32, 32, 65536, 1)                                                                  \
    X(gfx1033, AMD, NONE, 32, 8, 65536, 1)                                                                   \
    X(gfx1034, AMD, NONE, 32, 16, 65536, 1)                                                                  \
    X(gfx1035, AMD, NONE, 32, 12, 65536, 1)                                                                  \
    X(gfx1036, AMD, NONE, 32, 2, 65536, 1)                                                                   \
    X(gfx1100, AMD, RDNA3, 32, 96, 65536, 1)                                                                 \
    X(gfx1101, AMD, RDNA3, 32, 60, 65536, 1)                                                                 \
    X(gfx1102, AMD, RDNA3, 32, 32, 65536, 1)                                                                 \
    X(gfx1103, AMD, RDNA3, 32, 12, 65536, 1)                                                                 \
    X(gfx1150, AMD, RDNA3, 32, 16, 65536, 1)                                                                 \
    X(gfx1151, AMD, RDNA3, 32, 40, 65536, 1)                                                                 \
    X(gfx1152, AMD, RDNA3, 32, 8, 65536, 1)                                                                  \
    X(gfx1153, AMD, RDNA3, 32, 2, 65536, 1)                                                                  \
    X(gfx1200, AMD, RDNA4, 32, 32, 65536, 1)                                                                 \
    X(gfx1201, AMD, RDNA4, 32, 64, 65536, 1)                                                                 \
    X(gfx1250, AMD, GFX125, 32, 256, 327680, 1)                                                              \
    X(gfx1251, AMD, GFX125, 32, 256, 327680, 1)                                                              \
    X(sm_70, NVIDIA, NONE, 32, 80, 98304, 1)                                                                 \
    X(sm_75, NVIDIA, NONE, 32, 68, 65536, 1)                                                                 \
    X(sm_80, NVIDIA, MMA, 32, 108, 166912, 1)                                                                \
    X(sm_86, NVIDIA, MMA, 32, 84, 101376, 1)                                                                 \
    X(sm_87, NVIDIA, MMA, 32, 16, 166912, 1)                                                                 \
    X(sm_89, NVIDIA, MMA, 32, 128, 101376, 1)                                                                \
    X(sm_90, NVIDIA, WGMMA, 32, 132, 232448, 1)                                                              \
    X(sm_100, NVIDIA, MMA, 32, 148, 232448, 1)                                                               \
    X(sm_103, NVIDIA, MMA, 32, 148, 232448, 1)                                                               \
    X(sm_110, NVIDIA, MMA, 32, 20, 232448, 1)                                                                \
    X(sm_120, NVIDIA, MMA, 32, 170, 101376, 1)                                                               \
    X(sm_121, NVIDIA, MMA, 32, 48, 101376, 1)

/* Devices, of each architecture the one that ckconv_device_named describes first: architecture, name,
   compute units, MHz (boost), GB/s of memory, bytes of LDS that a unit reads in a clock, and multiply-adds
   that a unit does in a clock: f32 outside the matrix unit (with two in an instruction where there are
   such), and on it f16 and bf16, bytes (i8, fp8), f32 and f64, dense, with f32 sums; 0: none. Where from:
   READ, all of it but LDS from pages of vendors or reviewers that were looked up for this table; UNITS, the
   units from AMD's table of GPU specifications (rocm.docs.amd.com; RDNA 3.5: from reviewers, and the names
   from LLVM's processors and TheRock's targets), the rest from data sheets and ISA documents by heart; HEART,
   all of it so, and the first to doubt; GUESS, bandwidth as announced, the rest, which is not published, as
   the device before has it. */
#define CKCI_FIGURES(X)                                                                                      \
    X(gfx900, RadeonInstinctMI25, 64, 1500, 484, 128, 64, 0, 0, 0, 0, UNITS)                                 \
    X(gfx906, InstinctMI50, 60, 1725, 1024, 128, 64, 0, 0, 0, 0, UNITS)                                      \
    X(gfx908, InstinctMI100, 120, 1502, 1229, 128, 64, 512, 512, 128, 0, UNITS)                              \
    X(gfx90a, InstinctMI210, 104, 1700, 1638, 128, 128, 512, 512, 128, 128, UNITS)                           \
    X(gfx90a, InstinctMI250X_half, 110, 1700, 1638, 128, 128, 512, 512, 128, 128, UNITS)                     \
    X(gfx90c, RadeonVega8, 8, 2000, 51, 128, 64, 0, 0, 0, 0, HEART)                                          \
    X(gfx940, InstinctMI300A, 228, 2100, 5300, 128, 128, 1024, 2048, 128, 128, UNITS)                        \
    X(gfx941, InstinctMI300X, 304, 2100, 5300, 128, 128, 1024, 2048, 128, 128, UNITS)                        \
    X(gfx942, InstinctMI300X, 304, 2100, 5300, 128, 128, 1024, 2048, 128, 128, READ)                         \
    X(gfx942, InstinctMI300A, 228, 2100, 5300, 128, 128, 1024, 2048, 128, 128, UNITS)                        \
    X(gfx950, InstinctMI355X, 256, 2400, 8000, 256, 128, 2048, 4096, 128, 64, READ)                          \
    X(gfx1010, RadeonRX5700XT, 40, 1905, 448, 128, 64, 0, 0, 0, 0, HEART)                                    \
    X(gfx1011, RadeonProV520, 36, 1600, 512, 128, 64, 0, 0, 0, 0, HEART)                                     \
    X(gfx1012, RadeonRX5500XT, 22, 1845, 224, 128, 64, 0, 0, 0, 0, HEART)                                    \
    X(gfx1013, BC250, 24, 2000, 448, 128, 64, 0, 0, 0, 0, HEART)                                             \
    X(gfx1030, RadeonRX6900XT, 80, 2250, 512, 128, 64, 0, 0, 0, 0, HEART)                                    \
    X(gfx1030, RadeonRX6800, 60, 2105, 512, 128, 64, 0, 0, 0, 0, HEART)                                      \
    X(gfx1031, RadeonRX6700XT, 40, 2581, 384, 128, 64, 0, 0, 0, 0, HEART)                                    \
    X(gfx1032, RadeonRX6600XT, 32, 2589, 256, 128, 64, 0, 0, 0, 0, HEART)                                    \
    X(gfx1033, VanGogh, 8, 1600, 88, 128, 64, 0, 0, 0, 0, HEART)                                             \
    X(gfx1034, RadeonRX6500XT, 16, 2815, 144, 128, 64, 0, 0, 0, 0, HEART)                                    \
    X(gfx1035, Radeon680M, 12, 2400, 102, 128, 64, 0, 0, 0, 0, HEART)                                        \
    X(gfx1036, Radeon610M, 2, 2200, 83, 128, 64, 0, 0, 0, 0, HEART)                                          \
    X(gfx1100, RadeonRX7900XTX, 96, 2500, 960, 128, 128, 256, 256, 0, 0, READ)                               \
    X(gfx1100, RadeonRX7900XT, 84, 2400, 800, 128, 128, 256, 256, 0, 0, READ)                                \
    X(gfx1100, RadeonRX7900GRE, 80, 2245, 576, 128, 128, 256, 256, 0, 0, HEART)                              \
    X(gfx1101, RadeonRX7800XT, 60, 2430, 624, 128, 128, 256, 256, 0, 0, HEART)                               \
    X(gfx1101, RadeonRX7700XT, 54, 2544, 432, 128, 128, 256, 256, 0, 0, HEART)                               \
    X(gfx1102, RadeonRX7600, 32, 2655, 288, 128, 128, 256, 256, 0, 0, HEART)                                 \
    X(gfx1103, Radeon780M, 12, 2700, 120, 128, 128, 256, 256, 0, 0, HEART)                                   \
    X(gfx1150, Radeon890M, 16, 2900, 120, 128, 128, 256, 256, 0, 0, UNITS)                                   \
    X(gfx1151, Radeon8060S, 40, 2900, 256, 128, 128, 256, 256, 0, 0, READ)                                   \
    X(gfx1152, Radeon860M, 8, 3000, 128, 128, 128, 256, 256, 0, 0, UNITS)                                    \
    X(gfx1152, Radeon840M, 4, 2900, 128, 128, 128, 256, 256, 0, 0, UNITS)                                    \
    X(gfx1153, Radeon820M, 2, 2800, 128, 128, 128, 256, 256, 0, 0, UNITS)                                    \
    X(gfx1200, RadeonRX9060XT, 32, 3130, 320, 128, 128, 512, 1024, 0, 0, READ)                               \
    X(gfx1201, RadeonRX9070XT, 64, 2970, 640, 128, 128, 512, 1024, 0, 0, READ)                               \
    X(gfx1201, RadeonRX9070, 56, 2520, 640, 128, 128, 512, 1024, 0, 0, HEART)                                \
    X(gfx1250, InstinctMI455X, 256, 2400, 19600, 256, 128, 2048, 4096, 0, 64, GUESS)                         \
    X(gfx1251, gfx1251, 256, 2400, 19600, 256, 128, 2048, 4096, 0, 64, GUESS)                                \
    X(sm_70, V100, 80, 1530, 900, 128, 64, 512, 0, 0, 0, HEART)                                              \
    X(sm_75, RTX2080Ti, 68, 1545, 616, 64, 64, 512, 1024, 0, 0, HEART)                                       \
    X(sm_80, A100, 108, 1410, 1555, 128, 64, 1024, 2048, 0, 64, HEART)                                       \
    X(sm_86, RTXA6000, 84, 1800, 768, 128, 128, 512, 1024, 0, 0, HEART)                                      \
    X(sm_87, Orin, 16, 1300, 205, 128, 128, 1024, 2048, 0, 0, HEART)                                         \
    X(sm_89, RTX4090, 128, 2520, 1008, 128, 128, 256, 1024, 0, 0, HEART)                                     \
    X(sm_90, H100, 132, 1830, 3350, 128, 128, 2048, 4096, 0, 128, HEART)                                     \
    X(sm_100, B200, 148, 1850, 8000, 128, 128, 4096, 8192, 0, 64, HEART)                                     \
    X(sm_103, B300, 148, 1850, 8000, 128, 128, 4096, 8192, 0, 0, HEART)                                      \
    X(sm_110, Thor, 20, 1575, 273, 128, 128, 2048, 4096, 0, 0, HEART)                                        \
    X(sm_120, RTX5090, 170, 2407, 1792, 128, 128, 256, 1024, 0, 0, HEART)                                    \
    X(sm_121, GB10, 48, 2500, 273, 128, 128, 256, 1024, 0, 0, HEART)

/* Matrix units by the instructions that they have. CDNA: MFMA, f64 from the second on, xf32 on the third
   alone. RDNA: WMMA, with operands twice as large on the third. GFX125: WMMA of twice as many places. WGMMA:
   mma.sync, and groups of waves where it was compiled for them. */
enum {
    CKCI_UNIT_NONE = 0,
    CKCI_UNIT_CDNA1 = 1,
    CKCI_UNIT_CDNA2 = 2,
    CKCI_UNIT_CDNA3 = 3,
    CKCI_UNIT_CDNA4 = 4,
    CKCI_UNIT_RDNA3 = 5,
    CKCI_UNIT_RDNA4 = 6,
    CKCI_UNIT_MMA = 7,
    CKCI_UNIT_WGMMA = 8,
    CKCI_UNIT_GFX125 = 9
};

typedef struct ckci_architecture {
    char name[8]; /* with zeros to its end */
    int32_t kind; /* CKCONV_DEVICE_... */
    int32_t unit, wave, units, lds, dies;
} ckci_architecture;

enum { CKCI_FIGURES_READ = 1, CKCI_FIGURES_UNITS = 2, CKCI_FIGURES_HEART = 3, CKCI_FIGURES_GUESS = 4 };

typedef struct ckci_figures {
    char arch[8]; /* with zeros to its end */
    const char *name;
    int32_t units, mhz, gbytes, lds;           /* of LDS: bytes per clock and unit */
    int32_t vector, half, byte, single, twice; /* multiply-adds per clock and unit; twice: f64 */
    int32_t source;                            /* CKCI_FIGURES_... */
} ckci_figures;

CKCI_FN const ckci_figures *ckci_all_figures(size_t *count)
{
#define CKCI_ROW(ARCH, NAME, UNITS, MHZ, GBYTES, LDS, VECTOR, HALF, BYTE, SINGLE, TWICE, SOURCE)             \
    {#ARCH, #NAME, UNITS, MHZ, GBYTES, LDS, VECTOR, HALF, BYTE, SINGLE, TWICE, CKCI_FIGURES_##SOURCE},
    static const ckci_figures table[] = {CKCI_FIGURES(CKCI_ROW)};
#undef CKCI_ROW
    *count = sizeof table / sizeof table[0];
    return table;
}

CKCI_FN const ckci_architecture *ckci_architectures(size_t *count)
{
#define CKCI_ROW(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, DIES)                                                 \
    {#NAME, CKCONV_DEVICE_##VENDOR, CKCI_UNIT_##UNIT, WAVE, UNITS, LDS, DIES},
    static const ckci_architecture table[] = {CKCI_ARCHITECTURES(CKCI_ROW)};
#undef CKCI_ROW
    *count = sizeof table / sizeof table[0];
    return table;
}

/* The length of a name without its features: "gfx942:sramecc+:xnack-" is gfx942, sm_90a is sm_90, sm_100f is
   sm_100. */
CKCI_FN size_t ckci_architecture_length(const char *arch)
{
    size_t length = strcspn(arch, ":");
    char last = length > 4 && memcmp(arch, "sm_", 3) == 0 ? arch[length - 1] : '0';
    return last == 'a' || last == 'f' ? length - 1 : length;
}

/* The row of a name, features or not; NULL: it has none. */
CKCI_FN const ckci_architecture *ckci_find_architecture(const char *arch)
{
    char name[8] = "";
    size_t length = ckci_architecture_length(arch), count;
    const ckci_architecture *row = ckci_architectures(&count);
    if (length >= sizeof name) {
        return NULL;
    }
    memcpy(name, arch, length);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(row[i].name, name, sizeof name) == 0) {
            return &row[i];
        }
    }
    return NULL;
}

/* Figures of the device of that architecture whose number of units is nearest; NULL: there are none. */
CKCI_FN const ckci_figures *ckci_find_figures(const char *arch, int32_t units)
{
    const ckci_architecture *row = ckci_find_architecture(arch);
    size_t count;
    const ckci_figures *f = ckci_all_figures(&count), *best = NULL;
    for (size_t i = 0; row && i < count; i++) {
        if (memcmp(f[i].arch, row->name, sizeof row->name) == 0 &&
            (!best || abs(f[i].units - units) < abs(best->units - units))) {
            best = &f[i];
        }
    }
    return best;
}

/* The vendor whose name it can be: "gfx" and a number of three digits or more, the last two of them
   hexadecimal; "sm_" and a decimal number of two or more. CKCONV_DEVICE_CPU: nobody's. */
CKCI_FN int32_t ckci_architecture_vendor(const char *arch)
{
    size_t length = ckci_architecture_length(arch), digits = length > 3 ? length - 3 : 0;
    if (digits >= 3 && memcmp(arch, "gfx", 3) == 0 && strspn(arch + 3, "0123456789") + 2 >= digits &&
        strspn(arch + 3, "0123456789abcdef") >= digits) {
        return CKCONV_DEVICE_AMD;
    }
    if (digits >= 2 && memcmp(arch, "sm_", 3) == 0 && strspn(arch + 3, "0123456789") >= digits) {
        return CKCONV_DEVICE_NVIDIA;
    }
    return CKCONV_DEVICE_CPU;
}

/* Threads of a wave for a vendor's name without a row: 64 up to gfx9, whose numbers have three digits. */
CKCI_FN int32_t ckci_architecture_wave(const char *arch)
{
    int amd = ckci_architecture_vendor(arch) == CKCONV_DEVICE_AMD;
    return amd && ckci_architecture_length(arch) == strlen("gfx900") ? 64 : 32;
}
