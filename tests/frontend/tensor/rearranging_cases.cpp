// SPDX-License-Identifier: Apache-2.0
// Cases of functions that repeat elements, take diagonals and windows, and multiply vectors and matrices by their names in
// PyTorch.
#include "frontend/tensor/function_cases.h"
#include "tessera/frontend/tensor/windows.h"

namespace tessera::testing {
namespace {

using Inputs = const std::vector<Tensor>&;

}  // namespace

std::vector<FunctionCase> rearranging_cases() {
  std::vector<FunctionCase> out;
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  add("repeat", {{5, 3}}, [](Inputs x) { return x[0].repeat(2, 1, 3) * x[0].tile(3); });
  add("repeat_interleave", {{5, 3}}, [](Inputs x) { return x[0].repeat_interleave(2, 0) * repeat(x[0], {2, 1}); });
  add("repeat_interleave_all", {{5, 3}}, [](Inputs x) { return repeat_interleave(x[0], 3); });
  add("repeat_interleave_counts", {{4, 3}}, [](Inputs x) {
    return repeat_interleave(x[0], Tensor::from({2, 0, 3, 1}, {4}), {.dim = 0, .size = 7, .fill_value = 5});
  });
  add("unbind", {{5, 3}}, [](Inputs x) {
    const auto columns = x[0].unbind(1);
    return columns[0] * columns[2] + unbind(x[0])[4].sum() * columns[1];
  });
  add("meshgrid", {{5}, {3}, {2}}, [](Inputs x) {
    const auto plain = meshgrid({x[0], x[1], x[2]});
    const auto exchanged = meshgrid({x[0], x[1], x[2]}, GridIndexing::kXy);
    return plain[0] * plain[1] + plain[2] * (exchanged[0] * exchanged[1]).transpose(0, 1);
  });
  add("diagonal", {{5, 7}, {7, 2, 5}},
      [](Inputs x) { return diagonal(x[0]) * x[0].diagonal(2) + diagonal(x[1], 1, 2, 0) + x[1].diagonal(0, 0, -1); });
  add("diag", {{5}, {5, 7}}, [](Inputs x) { return diag(x[0], -2) + diag(diag(x[1], 1)).sum() + x[0].diag(2); });
  add("diag_embed", {{2, 5}},
      [](Inputs x) { return diag_embed(x[0], 1) + 2.0 * x[0].diag_embed(-1, 2, 0).permute(1, 2, 0); });
  add("trace", {{5, 7}}, [](Inputs x) { return trace(x[0]) * x[0].t().trace(); });
  add("movedim", {{5, 3, 2}}, [](Inputs x) {
    return movedim(x[0], 0, -1) * x[0].movedim({2, 1}, {1, 0}) + swapaxes(x[0], 0, 1).swapaxes(1, 2);
  });
  add("unfold", {{5, 7}}, [](Inputs x) {
    return x[0].unfold(1, 3, 2).sum(0) + unfold(x[0].t(), 0, 2, 2).select(1, 4).sum() * x[0].unfold(1, 3, 2)[3];
  });
  add("free_shapes", {{5, 1, 3}}, [](Inputs x) {
    const Tensor flat = squeeze(unsqueeze(reshape(x[0], {3, -1}), 1));
    return view(flat, {5, 3}) * broadcast_to(squeeze(x[0], 1), {2, 5, 3}) * x[0].squeeze();
  });
  add("padded", {{5, 3}}, [](Inputs x) { return x[0].pad(1, 2, -1, 4).flip(0); });
  add("outer", {{5}, {3}}, [](Inputs x) { return outer(x[0], x[1]) * x[1].outer(x[0]).t(); });
  add("bmm", {{2, 5, 3}, {2, 3, 4}}, [](Inputs x) { return bmm(x[0], x[1]); });
  add("addmm", {{4}, {5, 3}, {3, 4}},
      [](Inputs x) { return addmm(x[0], x[1], x[2], {.beta = 0.5, .alpha = -2}) * x[0].addmm(x[1], x[2]); });
  add("baddbmm", {{2, 1, 4}, {2, 5, 3}, {2, 3, 4}},
      [](Inputs x) { return baddbmm(x[0], x[1], x[2], {.alpha = 3}) + x[0].baddbmm(x[1], x[2], {.beta = 0}); });
  add("linear", {{5, 3}, {4, 3}, {4}}, [](Inputs x) { return linear(x[0], x[1], x[2]) * linear(x[0], x[1]); });
  add("tensordot", {{5, 3, 4}, {3, 4, 2}, {4, 5}}, [](Inputs x) {
    return tensordot(x[0], x[1]) * tensordot(x[0], x[2], {2, 0}, {0, -1}).sum();
  });
  add("kron", {{5, 3}, {2}}, [](Inputs x) { return kron(x[0], x[1]) + kron(x[1], x[0]).t().reshape(5, 6); });
  add("pad_modes", {{5, 7}}, [](Inputs x) {
    return pad(x[0], {3, 1, 0, 2}, PadMode::kReflect) * pad(x[0], {1, 3, 2, 0}, PadMode::kReplicate) *
           pad(x[0], {2, 2, 1, 1}, PadMode::kCircular) * pad(x[0], {5, -1, 3, -1}, PadMode::kConstant, 0.5);
  });
  add("unfold_images", {{2, 3, 5, 4}}, [](Inputs x) {
    return unfold(x[0], {2, 3}, {.dilation = {2, 1}, .padding = {1, 0}, .stride = {1, 2}});
  });
  add("fold_images", {{2, 18, 5}}, [](Inputs x) {
    return fold(x[0], {5, 4}, {2, 3}, {.dilation = {2, 1}, .padding = {1, 0}, .stride = {1, 2}});
  });
  add("names_of_shapes", {{5, 6}}, [](Inputs x) {
    return x[0].unflatten(-1, {2, -1}).clone() * x[0].mT().T().view_as(x[0].reshape(5, 2, 3)) +
           x[0][0].expand_as(x[0]).contiguous().reshape_as(x[0].reshape(5, 2, 3));
  });
  add("heaviside", {{5, 3}, {3}}, [](Inputs x) { return heaviside(where(x[0] > 0.5, 0.0, x[0]), x[1]) * x[0]; });
  add("bincount", {{7}}, [](Inputs x) {
    return bincount(Tensor::from({1, 4, 1, 0, 9, 4, -1}, {7}), {.size = 5, .weights = square(x[0])});
  });
  return out;
}

}  // namespace tessera::testing
