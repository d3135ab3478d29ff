// SPDX-License-Identifier: Apache-2.0
// How the executor sees what runs an instruction: prepared once for its types, then run over raw pointers.
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
  std::span<const std::byte* const> in;  // one per leaf of the operands
  std::span<std::byte* const> out;       // one per leaf of the result; null where no one reads it
  std::byte* workspace = nullptr;        // workspace_bytes() at least
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelArgs& args) const = 0;
  /// Memory it needs while it runs: what the plan knows, and all that it takes.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }
};
using KernelRef = std::unique_ptr<Kernel>;

/// One per operand: how to read it; none = whole and row-major. Only dot, broadcast, transpose, slice and reverse get views.
struct OperandViews : std::vector<std::optional<View>> {
  std::optional<View> result;  // how to write the result; only a dot gets one
  bool accumulates = false;    // only of a dot: the result is added to one more input
};

/// The fast kernel of an op for these types, or null where there is none.
KernelRef make_kernel(const OpView& view, const OperandViews& views);
/// The op row's reference evaluation behind the same interface. `device` is this rank's place among `device_count`.
KernelRef make_reference_kernel(const Program& program, const Instruction& instruction, const OpView& view,
                                std::int64_t device, std::int64_t device_count);

// The makers behind make_kernel; each returns null for what it does not take.
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
KernelRef make_convolution(const OpView& view, const OperandViews& views);
KernelRef make_reduce_window(const OpView& view, const OperandViews& views);
KernelRef make_select_and_scatter(const OpView& view, const OperandViews& views);

}  // namespace tessera
