// SPDX-License-Identifier: Apache-2.0
// Each source file of a kernel set fills in its part of the table.
#pragma once

#include "kernels/simd/kernel_set.h"

namespace tessera::kernels::TESSERA_ISA {

void add_unary(KernelSet& set);
void add_binary(KernelSet& set);
void add_convert(KernelSet& set);
void add_reduce(KernelSet& set);
void add_counter(KernelSet& set);
void add_gemm(KernelSet& set);
void add_sgemm(KernelSet& set);
void add_few_rows(KernelSet& set);
void add_pointwise(KernelSet& set);
void add_winograd(KernelSet& set);

namespace {
template <class F>
void for_each_dtype(F&& f) {
  f.template operator()<bool>();
  f.template operator()<std::int8_t>();
  f.template operator()<std::int16_t>();
  f.template operator()<std::int32_t>();
  f.template operator()<std::int64_t>();
  f.template operator()<std::uint8_t>();
  f.template operator()<std::uint16_t>();
  f.template operator()<std::uint32_t>();
  f.template operator()<std::uint64_t>();
  f.template operator()<Float16>();
  f.template operator()<BFloat16>();
  f.template operator()<float>();
  f.template operator()<double>();
}
}  // namespace

}  // namespace tessera::kernels::TESSERA_ISA
