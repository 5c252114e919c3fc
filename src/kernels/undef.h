/*------------------------------------------------------------------------------------------------------------
  >>k-undef
  The kernels' macros end here, but for those that the implementation undefines itself (>>undef). They are for
  kernels.hip.h alone: nothing in ckconv.h behind it reads them, and no program is to see them.
  tests/test_tags.sh fails where a macro is left, or named here in vain.
*/
#pragma once

#undef CKCI_K_APART
#undef CKCI_K_BF16
#undef CKCI_K_ARGS
#undef CKCI_K_BOUNDS
#undef CKCI_K_BUFFERS
#undef CKCI_K_FN
#undef CKCI_K_KERNEL
#undef CKCI_K_LDS
#undef CKCI_K_MEMBER
#undef CKCI_K_MFMA
#undef CKCI_K_MMA
#undef CKCI_K_PARAM
#undef CKCI_K_PRAGMA
#undef CKCI_K_DIES
#undef CKCI_K_ROW_KNOWN
#undef CKCI_K_ROW_DIES
#undef CKCI_K_ROW_UNIT
#undef CKCI_K_SUM32
#undef CKCI_K_SUM8
#undef CKCI_K_SUMS_128
#undef CKCI_K_SUMS_32
#undef CKCI_K_SUMS_64
#undef CKCI_K_SUMS_96
#undef CKCI_K_TURNED
#undef CKCI_K_UNIT
#undef CKCI_K_UNIT_NONE
#undef CKCI_K_UNIT_CDNA1
#undef CKCI_K_UNIT_CDNA2
#undef CKCI_K_UNIT_CDNA3
#undef CKCI_K_UNIT_CDNA4
#undef CKCI_K_UNIT_RDNA3
#undef CKCI_K_UNIT_RDNA4
#undef CKCI_K_UNIT_GFX125
#undef CKCI_K_UNIT_MMA
#undef CKCI_K_UNIT_WGMMA
#undef CKCI_K_UNROLL
#undef CKCI_K_UNROLL_SOME
#undef CKCI_K_WGMMA
#undef CKCI_K_WGMMA_ASM
#undef CKCI_K_WMMA
#undef CKCI_K_WMMA12
#undef CKCI_K_WMMA32
#undef CKCI_K_MMA_ASM
#undef CKCI_K_XF32
