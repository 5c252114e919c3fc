/*------------------------------------------------------------------------------------------------------------
  >>core-target
  The one table of architectures. Planner, kernels, runtime and tests read it; nothing else knows a name. A
  row is all that is known of one before a device is asked: vendor, matrix unit, wave, LDS, quirks of its
  compilers. A name without a row is planned with portable kernels, so that new GPUs run before they are
  known.
*/
#pragma once
#include "core/platform.h"

/* One row for each architecture holds all that host, kernels and tests know of it: name, vendor, matrix
   unit, threads of a wave, compute units of a typical device, bytes of LDS that one block may ask for
   (NVIDIA: with the opt-in, as in its table of compute capabilities), quirk. A name without a row gets the
   portable kernels. */
#define CKCI_ARCHITECTURES(X)                                                                                \
    X(gfx900, AMD, NONE, 64, 64, 65536, NONE)                                                                \
    X(gfx906, AMD, NONE, 64, 60, 65536, NONE)                                                                \
    X(gfx908, AMD, CDNA1, 64, 120, 65536, NONE)                                                              \
    X(gfx90a, AMD, CDNA2, 64, 104, 65536, NONE)                                                              \
    X(gfx90c, AMD, NONE, 64, 8, 65536, NONE)                                                                 \
    X(gfx940, AMD, CDNA3, 64, 228, 65536, NONE)                                                              \
    X(gfx941, AMD, CDNA3, 64, 304, 65536, NONE)                                                              \
    X(gfx942, AMD, CDNA3, 64, 304, 65536, NONE)                                                              \
    X(gfx950, AMD, CDNA4, 64, 256, 163840, NO_256)                                                           \
    X(gfx1010, AMD, NONE, 32, 40, 65536, NONE)                                                               \
    X(gfx1011, AMD, NONE, 32, 36, 65536, NONE)                                                               \
    X(gfx1012, AMD, NONE, 32, 22, 65536, NONE)                                                               \
    X(gfx1013, AMD, NONE, 32, 24, 65536, NONE)                                                               \
    X(gfx1030, AMD, NONE, 32, 80, 65536, NONE)                                                               \
    X(gfx1031, AMD, NONE, 32, 40, 65536, NONE)                                                               \
    X(gfx1032, AMD, NONE, 32, 32, 65536, NONE)                                                               \
    X(gfx1033, AMD, NONE, 32, 8, 65536, NONE)                                                                \
    X(gfx1034, AMD, NONE, 32, 16, 65536, NONE)                                                               \
    X(gfx1035, AMD, NONE, 32, 12, 65536, NONE)                                                               \
    X(gfx1036, AMD, NONE, 32, 2, 65536, NONE)                                                                \
    X(gfx1100, AMD, RDNA3, 32, 96, 65536, NONE)                                                              \
    X(gfx1101, AMD, RDNA3, 32, 60, 65536, NONE)                                                              \
    X(gfx1102, AMD, RDNA3, 32, 32, 65536, NONE)                                                              \
    X(gfx1103, AMD, RDNA3, 32, 12, 65536, NONE)                                                              \
    X(gfx1150, AMD, RDNA3, 32, 16, 65536, NONE)                                                              \
    X(gfx1151, AMD, RDNA3, 32, 40, 65536, NONE)                                                              \
    X(gfx1152, AMD, RDNA3, 32, 8, 65536, NONE)                                                               \
    X(gfx1153, AMD, RDNA3, 32, 4, 65536, NONE)                                                               \
    X(gfx1200, AMD, RDNA4, 32, 32, 65536, NONE)                                                              \
    X(gfx1201, AMD, RDNA4, 32, 64, 65536, NONE)                                                              \
    X(gfx1250, AMD, GFX125, 32, 256, 327680, NONE)                                                           \
    X(gfx1251, AMD, GFX125, 32, 256, 327680, NONE)                                                           \
    X(sm_70, NVIDIA, NONE, 32, 80, 98304, NONE)                                                              \
    X(sm_75, NVIDIA, NONE, 32, 68, 65536, NONE)                                                              \
    X(sm_80, NVIDIA, MMA, 32, 108, 166912, NONE)                                                             \
    X(sm_86, NVIDIA, MMA, 32, 84, 101376, NONE)                                                              \
    X(sm_87, NVIDIA, MMA, 32, 16, 166912, NONE)                                                              \
    X(sm_89, NVIDIA, MMA, 32, 128, 101376, NONE)                                                             \
    X(sm_90, NVIDIA, WGMMA, 32, 132, 232448, NONE)                                                           \
    X(sm_100, NVIDIA, MMA, 32, 148, 232448, NONE)                                                            \
    X(sm_103, NVIDIA, MMA, 32, 148, 232448, NONE)                                                            \
    X(sm_110, NVIDIA, MMA, 32, 20, 232448, NONE)                                                             \
    X(sm_120, NVIDIA, MMA, 32, 170, 101376, NONE)                                                            \
    X(sm_121, NVIDIA, MMA, 32, 48, 101376, NONE)

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
enum {
    CKCI_QUIRK_NONE = 0,
    CKCI_QUIRK_NO_256 = 1 /* compilers move the sums of tiles of 256 x 256 between registers: left out */
};

typedef struct ckci_architecture {
    char name[8]; /* with zeros to its end */
    int32_t kind; /* CKCONV_DEVICE_... */
    int32_t unit, wave, units, lds, quirk;
} ckci_architecture;

CKCI_FN const ckci_architecture *ckci_architectures(size_t *count)
{
#define CKCI_ROW(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, QUIRK)                                                \
    {#NAME, CKCONV_DEVICE_##VENDOR, CKCI_UNIT_##UNIT, WAVE, UNITS, LDS, CKCI_QUIRK_##QUIRK},
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
