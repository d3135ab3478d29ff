// SPDX-License-Identifier: Apache-2.0
#include "elimination.h"

#include <algorithm>

namespace tessera::solver {
namespace {

std::size_t size_at(int index) { return static_cast<std::size_t>(index); }

std::size_t position_in(const std::vector<int>& list, int value) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), value) - list.begin());
}

// std::min_element keeps the compiler from using vectors.
double least_of(const double* values, std::size_t count) {
  constexpr std::size_t kLanes = 4;
  double lanes[kLanes] = {values[0], values[0], values[0], values[0]};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k) lanes[k] = values[i + k] < lanes[k] ? values[i + k] : lanes[k];
  for (; i < count; ++i) lanes[0] = values[i] < lanes[0] ? values[i] : lanes[0];
  return std::min(std::min(lanes[0], lanes[1]), std::min(lanes[2], lanes[3]));
}

}  // namespace

Elimination::Elimination(const Model& model, const std::vector<int>& variables, Places& places, std::size_t largest,
                         std::uint64_t seed)
    : model_(model) {
  for (std::size_t i = 0; i < variables.size(); ++i) places.of[size_at(variables[i])] = static_cast<int>(i);
  EliminationOrder found = find_order(model, variables, places, largest, seed);
  for (const int v : variables) places.of[size_at(v)] = -1;
  for (const int i : found.held) held_.push_back(variables[size_at(i)]);
  for (const int i : found.order) free_.push_back(variables[size_at(i)]);

  Places& rank = places;  // of the steps
  for (std::size_t i = 0; i < free_.size(); ++i) rank.of[size_at(free_[i])] = static_cast<int>(i);
  steps_.resize(free_.size());
  std::vector<std::vector<std::size_t>> children(free_.size());
  std::size_t total = 0;
  std::size_t widest = 1;
  for (std::size_t i = 0; i < free_.size(); ++i) {
    Step& step = steps_[i];
    step.variable = free_[i];
    step.count = size_at(model.size[size_at(step.variable)]);
    for (const int place : found.scopes[i]) step.scope.push_back(variables[size_at(place)]);
    std::sort(step.scope.begin(), step.scope.end(),
              [&](int x, int y) { return rank.of[size_at(x)] < rank.of[size_at(y)]; });
    add_edges(step, rank, static_cast<int>(i));
    add_tables(step, children[i]);
    for (const int v : step.scope) step.entries *= size_at(model.size[size_at(v)]);
    step.table = total;
    total += step.entries;
    widest = std::max(widest, step.count);
    work_ += static_cast<std::int64_t>(
        step.count * (step.entries * (step.factors.size() + 1) + step.constants.size() + step.outside.size()));
    if (!step.scope.empty()) children[size_at(rank.of[size_at(step.scope[0])])].push_back(i);
  }
  for (const int v : free_) rank.of[size_at(v)] = -1;
  tables_.resize(total);
  row_.resize(widest);
  sum_.resize(widest);
}

void Elimination::add_factor(Step& step, Factor factor) {
  const bool is_constant =
      std::all_of(factor.strides.begin(), factor.strides.end(), [](std::size_t n) { return n == 0; });
  (is_constant ? step.constants : step.factors).push_back(std::move(factor));
}

void Elimination::add_edges(Step& step, const Places& rank, int mine) {
  for (const int e : model_.edges_of[size_at(step.variable)]) {
    const ModelEdge& edge = model_.edges[size_at(e)];
    const int other = edge.a == step.variable ? edge.b : edge.a;
    const int place = rank.of[size_at(other)];
    if (place < 0) {
      step.outside.push_back(e);
    } else if (place > mine) {
      Factor factor{.matrix = model_.row(edge, other, 0), .strides = std::vector<std::size_t>(step.scope.size(), 0)};
      factor.strides[position_in(step.scope, other)] = step.count;
      add_factor(step, std::move(factor));
    }
  }
}

void Elimination::add_tables(Step& step, const std::vector<std::size_t>& children) {
  for (const std::size_t child : children) {
    const Step& from = steps_[child];
    Factor factor{.table = from.table, .strides = std::vector<std::size_t>(step.scope.size(), 0)};
    std::size_t stride = step.count;  // the innermost variable of its table is that of the step
    for (std::size_t k = 1; k < from.scope.size(); ++k) {
      factor.strides[position_in(step.scope, from.scope[k])] = stride;
      stride *= size_at(model_.size[size_at(from.scope[k])]);
    }
    add_factor(step, std::move(factor));
  }
}

// The costs of the step's variable that depend on nothing that is eliminated later.
void Elimination::start_row(const Step& step, const std::vector<double>& costs, const Choices& choices) {
  const double* own = costs.data() + model_.offset[size_at(step.variable)];
  std::copy(own, own + step.count, row_.begin());
  const auto add = [&](const double* row) {
    for (std::size_t i = 0; i < step.count; ++i) row_[i] += row[i];
  };
  for (const int e : step.outside) {
    const ModelEdge& edge = model_.edges[size_at(e)];
    const int other = edge.a == step.variable ? edge.b : edge.a;
    add(model_.row(edge, other, choices[size_at(other)]));
  }
  for (const Factor& factor : step.constants) add(start_of(factor));
}

void Elimination::fill_table(const Step& step, const std::vector<double>& costs, const Choices& choices) {
  start_row(step, costs, choices);
  const std::size_t count = step.count;
  rows_.clear();
  for (const Factor& factor : step.factors) rows_.push_back(start_of(factor));
  index_.assign(step.scope.size(), 0);
  double* out = tables_.data() + step.table;
  for (std::size_t entry = 0; entry < step.entries; ++entry) {
    const double* sum = row_.data();
    for (std::size_t f = 0; f < rows_.size(); ++f) {
      const double* row = rows_[f];
      for (std::size_t i = 0; i < count; ++i) sum_[i] = sum[i] + row[i];
      sum = sum_.data();
    }
    out[entry] = least_of(sum, count);
    for (std::size_t k = 0; k < index_.size(); ++k) {
      const bool wraps = ++index_[k] == size_at(model_.size[size_at(step.scope[k])]);
      for (std::size_t f = 0; f < rows_.size(); ++f) {
        const auto stride = static_cast<std::ptrdiff_t>(step.factors[f].strides[k]);
        rows_[f] += wraps ? -stride * static_cast<std::ptrdiff_t>(index_[k] - 1) : stride;
      }
      if (!wraps) break;
      index_[k] = 0;
    }
  }
}

void Elimination::minimize(const std::vector<double>& costs, Choices& choices) {
  for (const Step& step : steps_) fill_table(step, costs, choices);
  for (auto it = steps_.rbegin(); it != steps_.rend(); ++it) {
    const Step& step = *it;
    start_row(step, costs, choices);
    for (const Factor& factor : step.factors) {
      const double* row = start_of(factor);
      for (std::size_t k = 0; k < step.scope.size(); ++k)
        row += factor.strides[k] * size_at(choices[size_at(step.scope[k])]);
      for (std::size_t i = 0; i < step.count; ++i) row_[i] += row[i];
    }
    const auto end = row_.begin() + static_cast<std::ptrdiff_t>(step.count);
    choices[size_at(step.variable)] = static_cast<int>(std::min_element(row_.begin(), end) - row_.begin());
  }
}

}  // namespace tessera::solver
