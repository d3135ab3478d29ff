// SPDX-License-Identifier: Apache-2.0
// Executes any op by its reference evaluation on literals, which is slow.
#include <cstring>

#include "kernels/kernel.h"
#include "tessera/ops/evaluate.h"

namespace tessera {
namespace {

void copy_leaves(const Literal& value, std::span<std::byte* const> out) {
  std::size_t i = 0;
  for (const Literal& leaf : value.leaves()) {
    std::byte* to = out[i++];
    if (to != nullptr && !leaf.bytes().empty()) std::memcpy(to, leaf.bytes().data(), leaf.bytes().size());
  }
}

// Returns a literal of `type` from pointers to its leaves.
Literal gather_leaves(const Type& type, std::span<const std::byte* const> in, std::size_t& next) {
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (const Type& element : type.elements()) elements.push_back(gather_leaves(element, in, next));
    return Literal::tuple(std::move(elements));
  }
  Literal out(type);
  const std::byte* from = in[next++];
  if (type.is_array() && !out.bytes().empty()) std::memcpy(out.mutable_bytes().data(), from, out.bytes().size());
  return out;
}

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const Program& program, const Instruction& instruction, OpView view, std::int64_t device,
                  std::int64_t device_count)
      : view_(std::move(view)), device_(device), device_count_(device_count) {
    for (const ComputationId id : instruction.called) {
      callees_.push_back(program);
      callees_.back().entry = id;
    }
  }
  void run(const KernelArgs& args) const override {
    std::vector<Literal> operands;
    std::size_t next = 0;
    for (const Type& type : view_.operands) operands.push_back(gather_leaves(type, args.in, next));
    const auto call = [&](int which, const std::vector<Literal>& arguments) {
      EvaluateOptions options;
      options.partition = device_;
      return evaluate(at(callees_, which), arguments, options);
    };
    copy_leaves(view_.op.evaluate({view_, operands, call, device_, device_count_}), args.out);
  }

 private:
  OpView view_;
  std::int64_t device_;
  std::int64_t device_count_;
  std::vector<Program> callees_;  // for each called computation, a program with it as the entry
};

}  // namespace

KernelRef make_reference_kernel(const Program& program, const Instruction& instruction, const OpView& view,
                                std::int64_t device, std::int64_t device_count) {
  if (view.op.evaluate == nullptr) return nullptr;
  return std::make_unique<ReferenceKernel>(program, instruction, view, device, device_count);
}

}  // namespace tessera
