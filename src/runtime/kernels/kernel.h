// SPDX-License-Identifier: Apache-2.0
// The interface between the executor and the code that runs an instruction: prepared once for its types, then run on
// raw pointers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

struct KernelArgs {
  std::span<const std::byte* const> in;  // one for each leaf of the operands
  std::span<std::byte* const> out;       // one for each leaf of the result; null for unused leaves
  std::byte* workspace = nullptr;        // at least workspace_bytes()
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelArgs& args) const = 0;
  /// Returns the memory that the kernel needs while it runs. The plan allocates it; kernels allocate nothing.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }
};
using KernelRef = std::unique_ptr<Kernel>;

/// How to read each operand; none: complete and row-major. Only dot, attention, broadcast, transpose, slice and reverse get
/// views.
struct OperandViews : std::vector<std::optional<View>> {
  std::optional<View> result;  // how to write the result; only for dot
  bool accumulates = false;    // only for dot: the result is added to one more input
};

/// Returns the fast kernel of an op for these types, or null if there is none.
KernelRef make_kernel(const OpView& view, const OperandViews& views);
/// Wraps the reference evaluation of the op in the same interface. `device` is the number of this rank among
/// `device_count`.
KernelRef make_reference_kernel(const Program& program, const Instruction& instruction, const OpView& view,
                                std::int64_t device, std::int64_t device_count);

// The functions that make_kernel() tries. Each returns null if it does not support the op or the types.
KernelRef make_copy(const OpView& view, const OperandViews& views);  // broadcast, transpose, slice, reverse
KernelRef make_iota(const OpView& view, const OperandViews& views);
KernelRef make_pad(const OpView& view, const OperandViews& views);
KernelRef make_concatenate(const OpView& view, const OperandViews& views);
KernelRef make_dynamic_slice(const OpView& view, const OperandViews& views);
KernelRef make_dynamic_update_slice(const OpView& view, const OperandViews& views);
KernelRef make_gather(const OpView& view, const OperandViews& views);
KernelRef make_scatter(const OpView& view, const OperandViews& views);
KernelRef make_reduce(const OpView& view, const OperandViews& views);
KernelRef make_dot(const OpView& view, const OperandViews& views);
KernelRef make_attention(const OpView& view, const OperandViews& views);  // and attention-backward
KernelRef make_convolution(const OpView& view, const OperandViews& views);
KernelRef make_reduce_window(const OpView& view, const OperandViews& views);
/// The kernel of a reduce-window that is a cumulative reduction; null for any other.
KernelRef make_running_reduction(const OpView& view, Reduction reduction);
KernelRef make_sort(const OpView& view, const OperandViews& views);
KernelRef make_topk(const OpView& view, const OperandViews& views);
KernelRef make_select_and_scatter(const OpView& view, const OperandViews& views);

}  // namespace tessera
