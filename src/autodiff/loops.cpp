// SPDX-License-Identifier: Apache-2.0
// The gradient of a while loop whose trip count n is known. A first loop runs the body again and stores the state
// before each iteration ([n, ..] for each element that changes). A second loop visits the iterations in reverse order:
//   d_state = gradient of the body at state j with respect to its state, for j = n-1 … 0
#include "reverse_pass.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
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

// Returns true if element e of the root is get-tuple-element e of the parameter.
bool is_invariant(const Computation& body, int e) {
  const Instruction& next = body[at(body[body.root].operands, e)];
  return next.op->role == Role::kGetTupleElement && body[next.operands[0]].op->role == Role::kParameter &&
         attributes_as<IndexAttributes>(next.attributes).index == e;
}

Loop loop_of(ReversePass& pass, const Instruction& instruction) {
  Builder& outer = pass.builder();
  const Program& program = outer.program().program();
  const auto trips = known_trip_count(program, outer.computation(), instruction);
  Loop loop{at(program.computations, instruction.called[1]), {}, {}, {}, 0};
  require(trips.has_value(),
          "needs a known trip count (a counter with constant start, step and limit): use fori_loop or scan in place of "
          "while_loop; if this is a scan or a fori_loop, it has two derivatives: for more, unroll it (.unroll = its "
          "length); body %{}",
          loop.body->name);
  loop.trips = *trips;
  const bool is_tuple = (*loop.body)[loop.body->root].op->role == Role::kTuple;
  require(is_tuple, "needs a body whose root is a tuple; body %{}", loop.body->name);
  loop.elements = instruction.type.elements();
  for (int e = 0; e < loop.count(); ++e) {
    require(at(loop.elements, e).is_array(), "needs a state that is a flat tuple of arrays, got {}", instruction.type);
    loop.varies.push_back(!is_invariant(*loop.body, e));
    loop.has_gradient.push_back(has_float_leaf(at(loop.elements, e)));
  }
  return loop;
}

Type history_type(const Loop& loop, int e) {
  Dims dims = at(loop.elements, e).dims();
  dims.insert(dims.begin(), loop.trips);
  return Type::array(at(loop.elements, e).dtype(), std::move(dims));
}

// Returns (index, 0, 0, …): the position of iteration `index` in a history.
std::vector<Value> history_place(Value index, const Type& element) {
  std::vector<Value> out{index};
  for (int d = 0; d < element.ndim(); ++d) out.push_back(ops::scalar(*index.builder, DType::kS32, 0));
  return out;
}

Dims one_round(const Type& element) {
  Dims dims = element.dims();
  dims.insert(dims.begin(), 1);
  return dims;
}

// Emits a while loop over `init`, whose element 0 is the counter. The loop runs while `counter direction limit` holds.
// `body` maps elements to elements.
template <class Body>
Value counted_loop(Builder& outer, const std::string& name, const std::vector<Value>& init, CompareDirection direction,
                   std::int64_t limit, Body&& body) {
  const Value state = ops::tuple(outer, init);
  const Type type = state.type();
  Builder condition = outer.program().computation(name + ".condition");
  const Value counter = ops::get_tuple_element(ops::parameter(condition, 0, type), 0);
  const Value goes_on =
      ops::compare(counter, ops::scalar(condition, DType::kS32, static_cast<double>(limit)), direction);
  const ComputationId condition_id = outer.program().add(std::move(condition), goes_on);
  Builder inner = outer.program().computation(name);
  const Value parameter = ops::parameter(inner, 0, type);
  std::vector<Value> elements;
  for (int i = 0; i < isize(init); ++i) elements.push_back(ops::get_tuple_element(parameter, i));
  const Value next = ops::tuple(inner, body(inner, elements));
  const ComputationId body_id = outer.program().add(std::move(inner), next);
  return ops::while_loop(state, condition_id, body_id);
}

// Returns the state before each iteration, for the elements that vary. The entries of the other elements are null.
std::vector<Value> histories(Builder& outer, const Loop& loop, Value init) {
  std::vector<Value> start{ops::scalar(outer, DType::kS32, 0)};
  for (int e = 0; e < loop.count(); ++e) start.push_back(ops::get_tuple_element(init, e));
  std::vector<int> kept;
  for (int e = 0; e < loop.count(); ++e) {
    if (!at(loop.varies, e)) continue;
    kept.push_back(e);
    start.push_back(ops::full(outer, history_type(loop, e), 0));
  }
  const Value run =
      counted_loop(outer, loop.body->name + ".history", start, CompareDirection::kLt, loop.trips,
                   [&](Builder& inner, const std::vector<Value>& now) {
                     const std::vector<Value> state(now.begin() + 1, now.begin() + 1 + loop.count());
                     const Value after = inlined(inner, *loop.body, {ops::tuple(inner, state)});
                     std::vector<Value> next{ops::add(now[0], ops::scalar(inner, DType::kS32, 1))};
                     for (int e = 0; e < loop.count(); ++e) next.push_back(ops::get_tuple_element(after, e));
                     for (int k = 0; k < isize(kept); ++k) {
                       const Type& element = at(loop.elements, at(kept, k));
                       next.push_back(ops::dynamic_update_slice(
                           at(now, 1 + loop.count() + k), ops::reshape(at(state, at(kept, k)), one_round(element)),
                           history_place(now[0], element)));
                     }
                     return next;
                   });
  std::vector<Value> out(static_cast<std::size_t>(loop.count()));
  for (int k = 0; k < isize(kept); ++k) at(out, at(kept, k)) = ops::get_tuple_element(run, 1 + loop.count() + k);
  return out;
}

// Visits the iterations in reverse order. The state is (j, gradients of float elements, histories or invariant
// elements).
LeafGradients walk_back(Builder& outer, const Loop& loop, Value init, const LeafGradients& d_results) {
  const auto kept = histories(outer, loop, init);
  std::vector<Value> start{ops::scalar(outer, DType::kS32, static_cast<double>(loop.trips - 1))};
  std::vector<int> floats;
  for (int e = 0; e < loop.count(); ++e) {
    if (!at(loop.has_gradient, e)) continue;
    floats.push_back(e);
    start.push_back(at(d_results, e).is_null() ? ops::full(outer, at(loop.elements, e), 0) : at(d_results, e));
  }
  for (int e = 0; e < loop.count(); ++e)
    start.push_back(at(loop.varies, e) ? at(kept, e) : ops::get_tuple_element(init, e));
  const int first_saved = 1 + isize(floats);
  const Value run = counted_loop(
      outer, loop.body->name + ".gradient", start, CompareDirection::kGe, 0,
      [&](Builder& inner, const std::vector<Value>& now) {
        std::vector<Value> state;
        for (int e = 0; e < loop.count(); ++e) {
          const Type& element = at(loop.elements, e);
          const Value saved = at(now, first_saved + e);
          state.push_back(!at(loop.varies, e) ? saved
                                              : ops::reshape(ops::dynamic_slice(saved, history_place(now[0], element),
                                                                                one_round(element)),
                                                             element.dims()));
        }
        LeafGradients arriving(state.size());
        for (int k = 0; k < isize(floats); ++k) at(arriving, at(floats, k)) = at(now, 1 + k);
        const Value before = ops::tuple(inner, state);
        const auto flowing = differentiate(inner, inlined(inner, *loop.body, {before}), arriving, {before}).front();
        std::vector<Value> next{ops::subtract(now[0], ops::scalar(inner, DType::kS32, 1))};
        for (const int e : floats)
          next.push_back(at(flowing, e).is_null() ? ops::full(inner, at(loop.elements, e), 0) : at(flowing, e));
        for (int e = 0; e < loop.count(); ++e) next.push_back(at(now, first_saved + e));
        return next;
      });
  LeafGradients out(static_cast<std::size_t>(loop.count()));
  for (int k = 0; k < isize(floats); ++k) at(out, at(floats, k)) = ops::get_tuple_element(run, 1 + k);
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
