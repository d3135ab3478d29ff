// SPDX-License-Identifier: Apache-2.0
#include "message_passing.h"

#include <algorithm>
#include <limits>

namespace tessera::solver {
namespace {

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }
int other_end(const ModelEdge& edge, int v) { return edge.a == v ? edge.b : edge.a; }

}  // namespace

MessagePassing::MessagePassing(const Model& model) : model_(model) {
  int widest = 1;
  std::size_t total = 0;
  for (const ModelEdge& edge : model.edges) {
    const int a = model.size[index_of(edge.a)];
    const int b = model.size[index_of(edge.b)];
    offset_.push_back(total);
    total += index_of(std::max(a, b));
    work_ += 2 * static_cast<std::int64_t>(a) * b;
  }
  messages_.assign(total, 0);
  for (int v = 0; v < model.count(); ++v) {
    widest = std::max(widest, model.size[index_of(v)]);
    int before = 0;
    const auto& edges = model.edges_of[index_of(v)];
    for (const int e : edges) before += static_cast<int>(other_end(model.edges[index_of(e)], v) < v);
    share_.push_back(1.0 / std::max({1, before, static_cast<int>(edges.size()) - before}));
  }
  belief_.resize(index_of(widest));
  buffer_.resize(index_of(widest));
}

// Replaces the message of the edge, which is over the choices of `from`, by one over those of the other end. Returns
// what was subtracted to make its least entry 0.
double MessagePassing::send(const ModelEdge& edge, int from, double share) {
  const int to = other_end(edge, from);
  const auto rows = index_of(model_.size[index_of(from)]);
  const auto columns = index_of(model_.size[index_of(to)]);
  double* message = messages_.data() + offset_[static_cast<std::size_t>(&edge - model_.edges.data())];
  for (std::size_t i = 0; i < rows; ++i) buffer_[i] = share * belief_[i] - message[i];
  const double* row = model_.row(edge, from, 0);
  std::fill(message, message + columns, std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < rows; ++i, row += columns) {
    const double base = buffer_[i];
    for (std::size_t j = 0; j < columns; ++j) message[j] = std::min(message[j], base + row[j]);
  }
  const double least = *std::min_element(message, message + columns);
  for (std::size_t j = 0; j < columns; ++j) message[j] -= least;
  return least;
}

double MessagePassing::visit(int v, bool forward, const std::vector<double>& costs) {
  const auto count = index_of(model_.size[index_of(v)]);
  const double* own = costs.data() + model_.offset[index_of(v)];
  std::copy(own, own + count, belief_.begin());
  for (const int e : model_.edges_of[index_of(v)]) {
    const double* message = messages_.data() + offset_[index_of(e)];
    for (std::size_t i = 0; i < count; ++i) belief_[i] += message[i];
  }
  double bound = 0;
  if (!forward) {
    bound = *std::min_element(belief_.begin(), belief_.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < count; ++i) belief_[i] -= bound;
  }
  for (const int e : model_.edges_of[index_of(v)]) {
    const ModelEdge& edge = model_.edges[index_of(e)];
    if ((other_end(edge, v) > v) == forward) bound += send(edge, v, share_[index_of(v)]);
  }
  return bound;
}

// Before the messages to later variables are sent: the choice that fits the choices made so far and the messages of
// the later variables.
void MessagePassing::choose(int v, const std::vector<double>& costs, Choices& choices) {
  const auto count = index_of(model_.size[index_of(v)]);
  const double* own = costs.data() + model_.offset[index_of(v)];
  std::copy(own, own + count, belief_.begin());
  for (const int e : model_.edges_of[index_of(v)]) {
    const ModelEdge& edge = model_.edges[index_of(e)];
    const int other = other_end(edge, v);
    const double* row =
        other < v ? model_.row(edge, other, choices[index_of(other)]) : messages_.data() + offset_[index_of(e)];
    for (std::size_t i = 0; i < count; ++i) belief_[i] += row[i];
  }
  const auto end = belief_.begin() + static_cast<std::ptrdiff_t>(count);
  choices[index_of(v)] = static_cast<int>(std::min_element(belief_.begin(), end) - belief_.begin());
}

double MessagePassing::pass(const std::vector<double>& costs, Choices& choices) {
  for (int v = 0; v < model_.count(); ++v) {
    choose(v, costs, choices);
    visit(v, true, costs);
  }
  double bound = 0;
  for (int v = model_.count() - 1; v >= 0; --v) bound += visit(v, false, costs);
  return bound;
}

}  // namespace tessera::solver
