// SPDX-License-Identifier: Apache-2.0
//   %f = f32[64,512] move-to-host(%x)        writes x to a file of the host: the result uses no memory
//   %y = f32[64,512] move-to-device(%f)      reads it back
//
// Lowering inserts both for values that a memory budget excludes from memory. The ops are not ops of HLO. In its place,
// XLA has custom calls with the targets MoveToHost and MoveToDevice.
#include "tessera/ops/host_memory.h"

#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

Type infer_move(const OpView& view) { return declared_or(view, array_operand(view, 0)); }
Literal evaluate_move(const EvalContext& context) { return context.operands[0]; }
std::vector<Value> gradient_move(GradientContext& c) { return {c.d_result()}; }

Value move_to_host_in_hlo(const OpView& view, const std::vector<Value>& operands) {
  return ops::custom_call(*operands[0].builder, "MoveToHost", operands, view.result);
}
Value move_to_device_in_hlo(const OpView& view, const std::vector<Value>& operands) {
  return ops::custom_call(*operands[0].builder, "MoveToDevice", operands, view.result);
}

OpDef move_row(std::string_view name, FileTransfer transfer) {
  return {.name = name,
          .min_operands = 1,
          .max_operands = 1,
          .materializes = transfer == FileTransfer::kRead,
          .file_transfer = transfer,
          .infer = infer_move,
          .evaluate = evaluate_move,
          .gradient_kind = GradientKind::kFunction,
          .gradient = gradient_move,
          .factors = elementwise_factors,
          .linearity = passes_all,
          .hlo_form = transfer == FileTransfer::kWrite ? move_to_host_in_hlo : move_to_device_in_hlo,
          .flops = no_flops};
}

}  // namespace

const OpDef kMoveToHost = move_row("move-to-host", FileTransfer::kWrite);
const OpDef kMoveToDevice = move_row("move-to-device", FileTransfer::kRead);

}  // namespace rows

Value ops::move_to_host(Value x) { return x.builder->emit(rows::kMoveToHost, {x}); }
Value ops::move_to_device(Value x) { return x.builder->emit(rows::kMoveToDevice, {x}); }

}  // namespace tessera
