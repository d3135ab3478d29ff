// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "matrix_dims.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {
namespace {

constexpr int kMostSteps = 99;

std::int64_t product_of(const Tensor& x, const std::vector<int>& dims) {
  std::int64_t out = 1;
  for (const int d : dims) out *= x.dim(d);
  return out;
}

double rate_factor(MuonRateRule rule, double rows, double columns) {
  switch (rule) {
    case MuonRateRule::kOriginal: return std::sqrt(std::max(1.0, rows / columns));
    case MuonRateRule::kMatchRmsAdamW: return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonRateRule::kSpectralUnclamped: return std::sqrt(rows / columns);
  }
  return 1;
}

}  // namespace

MuonRateRule muon_rate_rule_from_name(std::string_view name) {
  if (name == "original") return MuonRateRule::kOriginal;
  if (name == "match_rms_adamw") return MuonRateRule::kMatchRmsAdamW;
  if (name == "spectral_unclamped") return MuonRateRule::kSpectralUnclamped;
  fail("unknown adjust_lr_fn {}{}", name, suggest_name(name, {"original", "match_rms_adamw", "spectral_unclamped"}));
}

bool Muon::accepts(const Tensor& parameter) { return is_matrix(parameter); }

Muon::Muon(std::vector<Tensor> parameters, const MuonOptions& options)
    : Muon(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

Muon::Muon(std::vector<ParameterGroup> groups, const MuonOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  for (const Tensor& parameter : Optimizer::parameters())
    require(accepts(parameter), "Muon updates matrices, but {} is {}; give it to AdamW, see CombinedOptimizer",
            parameter.name(), parameter.type());
  require(options.momentum >= 0 && options.momentum < 1, "momentum must be in [0, 1), got {}", options.momentum);
  require(options.ns_steps >= 0 && options.ns_steps <= kMostSteps, "ns_steps must be in [0, {}], got {}", kMostSteps,
          options.ns_steps);
  momentum_ = &make_state("momentum_buffer", {.format = options.state_format});
}

// x [..., rows, columns] with rows <= columns: x = a x + (b (x x^T) + c (x x^T)^2) x in each step.
Tensor Muon::orthogonalized(const Tensor& matrix) const {
  const bool is_tall = matrix.dim(-2) > matrix.dim(-1);
  const DType dtype = options_.ns_dtype.value_or(matrix.dtype());
  const auto [a, b, c] = options_.ns_coefficients;
  Tensor x = (is_tall ? matrix.t() : matrix).to(dtype);
  const Tensor norm = sqrt(sum(square(x.to(matrix.dtype())), {.dims = {-2, -1}, .keep_dims = true}));
  x = x / maximum(norm.to(dtype), options_.epsilon);
  for (int i = 0; i < options_.ns_steps; ++i) {
    const Tensor gram = matmul(x, x.t());
    x = x * a + matmul(gram * b + matmul(gram, gram) * c, x);
  }
  return (is_tall ? x.t() : x).to(matrix.dtype());
}

Tensor Muon::update(const Update& update) {
  const double kept = options_.momentum;
  const MatrixDims dims = *matrix_dims(update.parameter);
  const std::int64_t rows = product_of(update.parameter, dims.rows);
  const std::int64_t columns = product_of(update.parameter, dims.columns);
  const Tensor momentum = momentum_->read(update.index) * kept + update.gradient * (1 - kept);
  write(*momentum_, update, momentum);
  const Tensor direction = options_.nesterov ? update.gradient * (1 - kept) + momentum * kept : momentum;
  Dims matrix = dims.batch.empty() ? Dims{} : Dims{update.parameter.dim(0)};
  matrix.push_back(rows);
  matrix.push_back(columns);
  const Tensor change = orthogonalized(direction.reshape(std::move(matrix))).reshape(update.parameter.dims());
  Tensor value = update.value;
  if (update.weight_decay != 0) value = value * (1.0 - rate(update) * update.weight_decay);
  const double factor = rate_factor(options_.adjust_lr_fn, static_cast<double>(rows), static_cast<double>(columns));
  return value - change * (rate(update) * factor);
}

}  // namespace tessera::optim
