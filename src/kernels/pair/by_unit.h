/*------------------------------------------------------------------------------------------------------------
  >>k-pair-by-unit
  The pair kernels with the unit of the target; where there is none they are empty, and no plan takes them.
  Each stands in the table for f16 and for bf16, so that a build with one of them compiles half. What NVIDIA
  alone can hold in LDS (wide, strips) is empty elsewhere.
*/
#pragma once
#include "kernels/unit/mfma.h"
#include "kernels/unit/wmma.h"
#include "kernels/pair/strips.h"

template <template <class> class Nvidia, template <class> class Amd>
struct ckci_k_pair_by_unit : ckci_k_by_unit<Amd<ckci_k_mfma>, Amd<ckci_k_wmma<11>>, Amd<ckci_k_wmma<12>>,
                                            Nvidia<ckci_k_mma>, Nvidia<ckci_k_mma_groups>> {
};

template <class E> struct ckci_k_pair_bodies {
    template <class U> using point_nvidia = ckci_k_pair_tiles<E, U, 64, CKCI_PAIR_POINT_NVIDIA>;
    template <class U> using point_amd = ckci_k_pair_tiles<E, U, 64, CKCI_PAIR_POINT_AMD>;
    template <class U> using depth_nvidia = ckci_k_pair_depth_tiles<E, U, 128, 256, 128>;
    template <class U> using depth_amd = ckci_k_pair_depth_tiles<E, U, 64, 256, 128>;
    typedef ckci_k_pair_by_unit<point_nvidia, point_amd> point;
    typedef ckci_k_pair_by_unit<depth_nvidia, depth_amd> depth;
    template <class> using none_amd = ckci_k_nothing;
    template <class U> using wide_nvidia = ckci_k_pair_depth_tiles<E, U, 128, 512, 256>;
    typedef ckci_k_pair_by_unit<wide_nvidia, none_amd> wide;
    template <class U> using strips_nvidia = ckci_k_pair_strips_tiles<E, U>;
    typedef ckci_k_pair_by_unit<strips_nvidia, none_amd> strips;
};

template <class E> struct ckci_k_pair_matrix : ckci_k_pair_bodies<E>::point {
};
template <class E> struct ckci_k_pair_depth : ckci_k_pair_bodies<E>::depth {
};
template <class E> struct ckci_k_pair_depth_wide : ckci_k_pair_bodies<E>::wide {
};
template <class E> struct ckci_k_pair_strips : ckci_k_pair_bodies<E>::strips {
};
template <class E> struct ckci_k_resident<ckci_k_pair_depth_wide<E>> {
    enum { BLOCKS = 1 };
};
template <class E> struct ckci_k_resident<ckci_k_pair_strips<E>> {
    enum { BLOCKS = 1 };
};
template <class E> struct ckci_k_resident<ckci_k_pair_matrix<E>> {
    enum { BLOCKS = 2 };
};
template <class E> struct ckci_k_resident<ckci_k_pair_depth<E>> {
    enum { BLOCKS = 2 };
};
