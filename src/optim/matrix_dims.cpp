// SPDX-License-Identifier: Apache-2.0
#include "matrix_dims.h"

#include <numeric>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::optim {
namespace {

// For each dim of the parameter in files, the dims in memory: consecutive dims with the same number of elements. If the
// dims in memory do not subdivide those in files, each dim is one of its own.
std::vector<std::vector<int>> exported_groups(const Tensor& parameter) {
  const std::vector<int> own = own_dims(parameter);
  std::vector<std::vector<int>> out;
  std::size_t next = 0;
  for (const std::int64_t size : parameter.impl().exported_dims) {
    std::vector<int> group;
    std::int64_t count = 1;
    while (next < own.size() && (count < size || group.empty())) {
      count *= parameter.dim(own[next]);
      group.push_back(own[next++]);
    }
    if (count != size) {
      next = 0;
      break;
    }
    out.push_back(std::move(group));
  }
  if (next == own.size() && !out.empty()) return out;
  out.clear();
  for (const int d : own) out.push_back({d});
  return out;
}

}  // namespace

std::vector<int> own_dims(const Tensor& parameter) {
  const int first = parameter.impl().stack_count > 0 ? 1 : 0;
  std::vector<int> out(static_cast<std::size_t>(parameter.ndim() - first));
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::optional<MatrixDims> matrix_dims(const Tensor& parameter) {
  auto groups = exported_groups(parameter);
  if (groups.size() < 2) return std::nullopt;
  MatrixDims out;
  if (parameter.impl().stack_count > 0) out.batch.push_back(0);
  for (std::size_t i = 0; i + 2 < groups.size(); ++i)
    out.batch.insert(out.batch.end(), groups[i].begin(), groups[i].end());
  out.rows = std::move(groups[groups.size() - 2]);
  out.columns = std::move(groups.back());
  return out;
}

bool is_matrix(const Tensor& parameter) { return exported_groups(parameter).size() == 2; }

}  // namespace tessera::optim
