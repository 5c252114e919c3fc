/* ckconv.h - v0.1.0 - convolutions and group norms for CNN training: one header, C99 API, AMD, NVIDIA, CPU
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_H
#define CKCONV_H
#include "api.h"
#endif /* CKCONV_H */

/* Stop here if you only need the API. */
#ifdef CKCONV_IMPLEMENTATION
#ifndef CKCONV_IMPLEMENTED
#define CKCONV_IMPLEMENTED

#include "hide.h"

#include "core/switches.h"
#include "core/platform.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "core/base.h"
#include "core/math.h"
#include "core/element.h"
#include "core/tensor.h"
#include "core/target.h"

#include "gpu/args.h"
#include "gpu/table.h"
#include "device/code.h"

#if !CKCI_PART
#include "core/ops.h"
#include "core/names.h"
#include "core/check.h"
#include "core/axes.h"
#include "core/layout.h"
#include "core/parallel.h"
#include "core/problem.h"
#include "core/mean.h"

#include "ref/ref.h"

#if CKCI_HAS_CPU
#include "cpu/vector.h"
#include "cpu/micro.h"
#include "cpu/isa.h"
#include "cpu/view.h"
#include "cpu/patch.h"
#include "cpu/gather.h"
#include "cpu/weight.h"
#include "cpu/direct.h"
#include "cpu/along.h"
#include "cpu/direct_weight.h"
#include "cpu/along_weight.h"
#include "cpu/turn.h"
#include "cpu/bias.h"
#include "cpu/pair.h"
#include "cpu/norm_vector.h"
#include "cpu/norm.h"
#include "cpu/undef.h"
#endif /* CKCI_HAS_CPU */

#include "gpu/costs.h"
#include "gpu/conv.h"
#include "gpu/bias.h"
#include "gpu/move.h"
#include "gpu/depth_forms.h"
#include "gpu/depth.h"
#include "gpu/depth_matrix.h"
#include "gpu/phases.h"
#include "gpu/matrix.h"
#include "gpu/matrix_gather.h"
#include "gpu/packs.h"
#include "gpu/near.h"
#include "gpu/stem.h"
#include "gpu/pointwise.h"
#include "gpu/tma.h"
#include "gpu/matrix_weight.h"
#include "gpu/sums.h"
#include "gpu/tile.h"
#include "gpu/pixel.h"
#include "gpu/sections.h"
#include "gpu/patches.h"
#include "gpu/sample.h"
#include "gpu/im2col.h"
#include "gpu/norm.h"
#include "gpu/pair.h"

#include "plan/instances.h"
#include "plan/select.h"
#include "plan/tensors.h"

#include "device/runtime.h"

#include "plan/run.h"
#include "plan/describe.h"
#include "plan/calls.h"
#include "plan/tune.h"
#include "plan/costs.h"
#include "plan/transform.h"
#endif /* !CKCI_PART */

#ifdef __cplusplus
}
#endif

#include "undef.h"
#include "show.h"
#endif /* CKCONV_IMPLEMENTED */
#endif /* CKCONV_IMPLEMENTATION */


/*------------------------------------------------------------------------------------------------------------
  >>license
  MIT License

  Copyright (c) 2026 the ckconv authors

  Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
  documentation files (the "Software"), to deal in the Software without restriction, including without
  limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
  the Software, and to permit persons to whom the Software is furnished to do so, subject to the following
  conditions:

  The above copyright notice and this permission notice shall be included in all copies or substantial
  portions of the Software.

  THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
  LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
  EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN
  AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE
  OR OTHER DEALINGS IN THE SOFTWARE.
*/
