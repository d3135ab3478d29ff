// SPDX-License-Identifier: Apache-2.0
// The kernel table of one instruction set.
#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {

const KernelSet& kernel_set() {
  static const KernelSet kSet = [] {
    KernelSet out;
    add_unary(out);
    add_binary(out);
    add_convert(out);
    add_reduce(out);
    add_counter(out);
    add_gemm(out);
    add_sgemm(out);
    add_few_rows(out);
    add_pointwise(out);
    add_winograd(out);
    return out;
  }();
  return kSet;
}

}  // namespace tessera::kernels::TESSERA_ISA
