// SPDX-License-Identifier: Apache-2.0
// Attention over blocks of rows and keys, without complete scores: FlashAttention-2 (Dao, 2023). Causal blocks without
// visible keys are skipped.
#include "kernels/simd/attention_backward.h"
#include "kernels/simd/attention_few_rows.h"
#include "kernels/simd/attention_forward.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class Math, class Element>
void run_forward(const AttentionArgs& args) {
  using Few = FewRows<Element, typename Math::Sum>;
  if (Few::takes(args)) return Few(args, args.workspace).run();
  [[maybe_unused]] const typename Math::Registers registers;
  Forward<Math, Element>(args, args.workspace).run();
}
template <class Math, class Element>
void run_backward(const AttentionArgs& args) {
  [[maybe_unused]] const typename Math::Registers registers;
  Backward<Math, Element>(args, args.workspace).run();
}
template <class Math, class Element>
std::int64_t forward_bytes(const AttentionArgs& args) {
  using Few = FewRows<Element, typename Math::Sum>;
  return Few::takes(args) ? Few(args, nullptr).bytes() : Forward<Math, Element>(args, nullptr).bytes();
}
template <class Math, class Element>
AttentionFunctions functions_of() {
  return {run_forward<Math, Element>, run_backward<Math, Element>, forward_bytes<Math, Element>,
          [](const AttentionArgs& args) { return Backward<Math, Element>(args, nullptr).bytes(); }};
}

}  // namespace

AttentionFunctions attention_functions(DType dtype) {
#if defined(__AMX_BF16__)
  return dtype == DType::kBF16 ? functions_of<AmxWords, BFloat16>() : AttentionFunctions{};
#elif defined(__AVX512BF16__)
  return dtype == DType::kBF16 ? functions_of<PairWords, BFloat16>() : AttentionFunctions{};
#else
  switch (dtype) {
    case DType::kF32: return functions_of<PlainWords<float>, float>();
    case DType::kF64: return functions_of<PlainWords<double>, double>();
    case DType::kBF16: return functions_of<PlainWords<float>, BFloat16>();
    case DType::kF16: return functions_of<PlainWords<float>, Float16>();
    default: return {};
  }
#endif
}

}  // namespace tessera::kernels::TESSERA_ISA
