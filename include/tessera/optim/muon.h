// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

/// The factor of the learning rate for a matrix of `rows` x `columns`.
enum class MuonRateRule : std::uint8_t {
  kOriginal,           // sqrt(max(1, rows / columns))
  kMatchRmsAdamW,      // 0.2 sqrt(max(rows, columns))
  kSpectralUnclamped,  // sqrt(rows / columns)
};
/// Reads one of PyTorch's values of adjust_lr_fn: original, match_rms_adamw or spectral_unclamped. The error contains
/// the nearest name.
MuonRateRule muon_rate_rule_from_name(std::string_view name);

struct MuonOptions {
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients{3.4445, -4.775, 2.0315};
  double epsilon = 1e-7;  // the least norm by which a matrix is divided
  int ns_steps = 5;
  MuonRateRule adjust_lr_fn = MuonRateRule::kOriginal;
  std::optional<DType> ns_dtype{};  // of the iteration; nullopt: that of the update. PyTorch uses bf16
  StateFormat state_format = StateFormat::kFull;
};
/// Muon (Jordan et al., 2024) as torch.optim.Muon: m = momentum m + (1 - momentum) g. The update is approximately the
/// orthogonal matrix that is nearest to m, or with nesterov to momentum m + (1 - momentum) g. A Newton-Schulz iteration
/// computes it from the global matrix, for every sharding. Error for parameters that are not matrices; they need
/// another optimizer (CombinedOptimizer).
class Muon : public Optimizer {
 public:
  Muon(std::vector<Tensor> parameters, const MuonOptions& options);
  Muon(std::vector<ParameterGroup> groups, const MuonOptions& options);
  /// True if the parameter is a matrix, or a stack of matrices, which are updated one by one.
  static bool accepts(const Tensor& parameter);

 protected:
  Tensor update(const Update& update) override;

 private:
  [[nodiscard]] Tensor orthogonalized(const Tensor& matrix) const;
  MuonOptions options_;
  StateQuantity* momentum_ = nullptr;
};

}  // namespace tessera::optim
