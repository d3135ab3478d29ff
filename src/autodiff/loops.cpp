// SPDX-License-Identifier: Apache-2.0
// The gradient of a while loop whose trip count n is known. A first loop runs the body again. Before each iteration it
// stores the elements of the state that the gradient of the body reads ([n, ..] for each element that changes). A
// second loop visits the iterations in reverse order:
//   d_state = gradient of the body at state j with respect to its state, for j = n-1 … 0
// Both loops count from 0 to n, so their trip counts are known and they have gradients too.
#include "tessera/ops/loops.h"
#include "loop_support.h"
#include "reverse_pass.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {
namespace {

struct Loop {
  ComputationRef body;
  std::vector<Type> elements;  // of the state
  std::vector<bool> varies;    // an element that does not vary is passed on unchanged
  std::vector<bool> has_gradient;
  std::int64_t trips = 0;

  [[nodiscard]] int count() const { return isize(elements); }
};

Loop loop_of(ReversePass& pass, const Instruction& instruction) {
  Builder& outer = pass.builder();
  const Program& program = outer.program().program();
  const auto trips = known_trip_count(program, outer.computation(), instruction);
  Loop loop{at(program.computations, instruction.called[1]), {}, {}, {}, 0};
  require(trips.has_value(),
          "needs a known trip count (a counter with constant start, step and limit): use fori_loop or scan in place of "
          "while_loop; body %{}",
          loop.body->name);
  loop.trips = *trips;
  const bool is_tuple = (*loop.body)[loop.body->root].op->role == Role::kTuple;
  require(is_tuple, "needs a body whose root is a tuple; body %{}", loop.body->name);
  loop.elements = instruction.type.elements();
  for (int e = 0; e < loop.count(); ++e) {
    require(at(loop.elements, e).is_array(), "needs a state that is a flat tuple of arrays, got {}", instruction.type);
    loop.varies.push_back(!passes_on(*loop.body, e));
    loop.has_gradient.push_back(has_float_leaf(at(loop.elements, e)));
  }
  return loop;
}

// The gradient of the body: takes the elements of the state, and a gradient for each float element of the next state.
// The root is a tuple with a gradient for each float element of the state.
struct BodyGradient {
  Computation computation;
  std::vector<bool> reads;  // the elements of the state that the gradients depend on
};

std::vector<bool> read_parameters(const Computation& computation) {
  std::vector<bool> needed(computation.instructions.size(), false);
  needed.back() = true;
  for (Id id = computation.size() - 1; id >= 0; --id) {
    if (!at(needed, id)) continue;
    const Instruction& instruction = computation[id];
    if (reads_tuple(computation, instruction)) {
      at(needed, element_read(computation, instruction)) = true;
    } else {
      for (const Id operand : instruction.operands) at(needed, operand) = true;
    }
  }
  std::vector<bool> out;
  for (const Id parameter : computation.parameters) out.push_back(at(needed, parameter));
  return out;
}

BodyGradient body_gradient(Builder& outer, const Loop& loop) {
  Builder inner = outer.program().computation(loop.body->name + ".gradient");
  std::vector<Value> state;
  for (const Type& type : loop.elements) state.push_back(ops::parameter(inner, isize(state), type));
  LeafGradients arriving(state.size());
  int number = loop.count();
  for (int e = 0; e < loop.count(); ++e)
    if (at(loop.has_gradient, e)) at(arriving, e) = ops::parameter(inner, number++, at(loop.elements, e));
  const Value before = ops::tuple(inner, state);
  const auto flowing = differentiate(inner, inlined(inner, *loop.body, {before}), arriving, {before}).front();
  std::vector<Value> results;
  for (int e = 0; e < loop.count(); ++e)
    if (at(loop.has_gradient, e))
      results.push_back(at(flowing, e).is_null() ? ops::full(inner, at(loop.elements, e), 0) : at(flowing, e));
  const Value root = ops::tuple(inner, results);
  BodyGradient out{std::move(inner).finish(root), {}};
  out.reads = read_parameters(out.computation);
  return out;
}

Type history_type(const Loop& loop, int e) {
  Dims dims = at(loop.elements, e).dims();
  dims.insert(dims.begin(), loop.trips);
  return Type::array(at(loop.elements, e).dtype(), std::move(dims));
}

// Returns the state before each iteration, for the elements that vary and that `gradient` reads. The other entries are
// null.
std::vector<Value> histories(Builder& outer, const Loop& loop, const BodyGradient& gradient, Value init) {
  std::vector<Value> start;
  for (int e = 0; e < loop.count(); ++e) start.push_back(ops::get_tuple_element(init, e));
  std::vector<int> kept;
  for (int e = 0; e < loop.count(); ++e) {
    if (!at(loop.varies, e) || !at(gradient.reads, e)) continue;
    kept.push_back(e);
    start.push_back(ops::full(outer, history_type(loop, e), 0));
  }
  std::vector<Value> out(static_cast<std::size_t>(loop.count()));
  if (kept.empty()) return out;
  const auto run = ops::counted_while(
      outer, loop.body->name + ".history", loop.trips, start, [&](Value round, const std::vector<Value>& now) {
        const std::vector<Value> state(now.begin(), now.begin() + loop.count());
        std::vector<Value> next =
            ops::elements_of(inlined(*round.builder, *loop.body, {ops::tuple(*round.builder, state)}));
        for (int k = 0; k < isize(kept); ++k)
          next.push_back(ops::with_row_at(at(now, loop.count() + k), at(state, at(kept, k)), round));
        return next;
      });
  for (int k = 0; k < isize(kept); ++k) at(out, at(kept, k)) = at(run, loop.count() + k);
  return out;
}

// Visits the iterations in reverse order. The state is (gradients of float elements, histories or invariant elements).
LeafGradients walk_back(Builder& outer, const Loop& loop, Value init, const LeafGradients& d_results) {
  const BodyGradient gradient = body_gradient(outer, loop);
  const auto kept = histories(outer, loop, gradient, init);
  std::vector<Value> start;
  std::vector<int> floats;
  for (int e = 0; e < loop.count(); ++e) {
    if (!at(loop.has_gradient, e)) continue;
    floats.push_back(e);
    start.push_back(at(d_results, e).is_null() ? ops::full(outer, at(loop.elements, e), 0) : at(d_results, e));
  }
  for (int e = 0; e < loop.count(); ++e)
    if (at(gradient.reads, e)) start.push_back(at(loop.varies, e) ? at(kept, e) : ops::get_tuple_element(init, e));
  const auto run = ops::counted_while(
      outer, loop.body->name + ".gradient", loop.trips, start, [&](Value round, const std::vector<Value>& now) {
        Builder& inner = *round.builder;
        const Value last = ops::scalar(inner, DType::kS32, static_cast<double>(loop.trips - 1));
        const Value iteration = ops::subtract(last, round);
        const auto first_saved = now.begin() + isize(floats);
        auto saved = first_saved;
        std::vector<Value> arguments;
        for (int e = 0; e < loop.count(); ++e) {
          if (!at(gradient.reads, e)) {
            arguments.push_back(ops::full(inner, at(loop.elements, e), 0));
          } else {
            const Value value = *saved++;
            arguments.push_back(at(loop.varies, e) ? ops::row_at(value, iteration) : value);
          }
        }
        arguments.insert(arguments.end(), now.begin(), first_saved);
        std::vector<Value> next = ops::elements_of(inlined(inner, gradient.computation, arguments));
        next.insert(next.end(), first_saved, now.end());
        return next;
      });
  LeafGradients out(static_cast<std::size_t>(loop.count()));
  for (int k = 0; k < isize(floats); ++k) at(out, at(floats, k)) = at(run, k);
  return out;
}

}  // namespace

void step_while(ReversePass& pass, const Instruction& instruction, const LeafGradients& d_results) {
  const Loop loop = loop_of(pass, instruction);
  const Id init = instruction.operands[0];
  if (loop.trips == 0) return pass.arrive_leaves(init, d_results);
  pass.arrive_leaves(init, walk_back(pass.builder(), loop, pass.value_for_backward(init), d_results));
}

}  // namespace tessera::autodiff
