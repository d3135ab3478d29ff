// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations, as schedulers write them: start and done. Any op can be asynchronous in a computation that
// wraps it, and some natively:
//
//   %s = ((f32[4]), f32[8], u32[]) async-start(%x), calls=%wrapped         %r = f32[8] async-done(%s)
//   %s = (f32[4], f32[8]) all-gather-start(%x), dimensions={0}, …          %r = f32[8] all-gather-done(%s)
//   %s = (f32[4], f32[4], u32[]) copy-start(%x)                            %r = f32[4] copy-done(%s)
//
// Evaluation computes the result at the start. make_synchronous (passes) replaces the pair by the synchronous op.
#include <algorithm>

#include "collective_evaluation.h"
#include "row_support.h"
#include "tessera/ops/async.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

// Start and done, and the element of the start's tuple that is the result; -1 if it is the start's complete value.
struct Pair {
  const OpDef* start;
  const OpDef* done;
  int result;
  const OpDef* synchronous;  // the synchronous op; call for async-start, which calls its computation
};
constexpr Pair kPairs[] = {
    {&kAsyncStart, &kAsyncDone, 1, &kCall},
    {&kAllGatherStart, &kAllGatherDone, 1, &kAllGather},
    {&kAllReduceStart, &kAllReduceDone, -1, &kAllReduce},
    {&kCollectivePermuteStart, &kCollectivePermuteDone, 1, &kCollectivePermute},
    {&kCopyStart, &kCopyDone, 0, &kCopy},
};

const Pair& pair_of(const OpDef& op) {
  for (const Pair& pair : kPairs)
    if (pair.start == &op || pair.done == &op) return pair;
  throw InternalError("not half of a pair");
}

// The type of the result within the type of a start.
const Type& result_in(const OpView& view, const Type& started) {
  const int which = pair_of(view.op).result;
  if (which < 0) return started;
  require(started.is_tuple() && isize(started.elements()) > which, "the start's value must be a tuple, got {}",
          started);
  return at(started.elements(), which);
}

Type one_or_tuple(const std::vector<Type>& types) { return types.size() == 1 ? types.front() : Type::tuple(types); }

Type infer_done(const OpView& view) { return declared_or(view, result_in(view, view.operands[0])); }
Literal evaluate_done(const EvalContext& context) {
  const int which = pair_of(context.view.op).result;
  return which < 0 ? context.operands[0] : at(context.operands[0].elements(), which);
}

Type infer_async_start(const OpView& view) {
  require(view.called.size() == 1, "needs one computation, got {}", view.called.size());
  const auto parameters = view.called[0]->parameter_types();
  require(parameters == view.operands, "the operands do not match the parameters of %{}", view.called[0]->name);
  const Type& result = result_in(view, view.result);
  require(result == view.called[0]->root_type(), "%{} returns {}, but {} is declared", view.called[0]->name,
          view.called[0]->root_type(), result);
  require(view.result.elements()[0] == Type::tuple(view.operands),
          "the declared operands {} differ from the actual ones", view.result.elements()[0]);
  return view.result;
}
Literal evaluate_async_start(const EvalContext& context) {
  Literal out(context.view.result);
  std::vector<Literal> elements = out.elements();
  elements[0] = Literal::tuple({context.operands.begin(), context.operands.end()});
  elements[1] = context.call(0, elements[0].elements());
  return Literal::tuple(std::move(elements));
}
Type infer_update(const OpView& view) { return declared_or(view, view.operands[0]); }
Literal evaluate_update(const EvalContext& context) { return context.operands[0]; }

Type infer_copy_start(const OpView& view) {
  require(view.result.is_tuple() && view.result.elements().size() == 3 &&
              view.result.elements()[0] == view.operands[0] && view.result.elements()[1] == view.operands[0],
          "returns (copy, operand, context), but {} is declared", view.result);
  return view.result;
}
Literal evaluate_copy_start(const EvalContext& context) {
  return Literal::tuple({context.operands[0], context.operands[0], Literal(context.view.result.elements()[2])});
}

// ---- collectives ---------------------------------------------------------------------------------------------------

// The view of the synchronous op.
OpView synchronous_view(const OpView& view) {
  OpView synchronous{synchronous_op(view.op), view.operands, Type(), view.attributes, view.called};
  synchronous.result = result_in(view, view.result);
  return synchronous;
}

Type infer_started(const OpView& view) {
  const OpView synchronous = synchronous_view(view);
  const Type result = synchronous.op.infer(synchronous);
  if (pair_of(view.op).result < 0) return declared_or(view, result);
  require(result == synchronous.result, "the operation returns {}, but {} is declared", result, synchronous.result);
  require(view.result.elements()[0] == one_or_tuple(view.operands),
          "the declared operand {} differs from the actual one", view.result.elements()[0]);
  return view.result;
}

std::vector<Literal> evaluate_started(const CollectiveContext& context) {
  const OpView synchronous = synchronous_view(context.view);
  auto results = synchronous.op.evaluate_collective({synchronous, context.operands, context.call});
  if (pair_of(context.view.op).result < 0) return results;
  for (std::size_t d = 0; d < results.size(); ++d) {
    std::vector<Literal> elements = Literal(context.view.result).elements();
    const auto& operands = context.operands[d];
    if (operands.empty()) continue;
    elements[0] = operands.size() == 1 ? operands[0] : Literal::tuple(operands);
    elements[1] = std::move(results[d]);
    results[d] = Literal::tuple(std::move(elements));
  }
  return results;
}

OpDef collective_start(std::string_view name) {
  OpDef row;
  row.name = name;
  row.min_operands = 1;
  row.max_operands = -1;
  row.role = Role::kCollective;
  row.listed_devices = listed_devices;
  row.parse = parse_attributes<CollectiveAttributes>;
  row.infer = infer_started;
  row.type_inferable = false;
  row.evaluate_collective = evaluate_started;
  row.flops = no_flops;
  return row;
}

OpDef plain(std::string_view name, Type (*infer)(const OpView&), Literal (*evaluate)(const EvalContext&),
            int operands) {
  OpDef row;
  row.name = name;
  row.min_operands = operands < 0 ? 0 : operands;
  row.max_operands = operands;
  row.infer = infer;
  row.evaluate = evaluate;
  row.flops = no_flops;
  return row;
}
OpDef done(std::string_view name) { return plain(name, infer_done, evaluate_done, 1); }
OpDef calling(OpDef row) {
  row.called = {"calls"};
  return row;
}
OpDef declared(OpDef row) {
  row.type_inferable = false;
  return row;
}

}  // namespace

const OpDef kAsyncStart = declared(calling(plain("async-start", infer_async_start, evaluate_async_start, -1)));
const OpDef kAsyncUpdate = calling(plain("async-update", infer_update, evaluate_update, 1));
const OpDef kAsyncDone = calling(done("async-done"));
const OpDef kCopyStart = declared(plain("copy-start", infer_copy_start, evaluate_copy_start, 1));
const OpDef kCopyDone = done("copy-done");
const OpDef kAllGatherStart = collective_start("all-gather-start");
const OpDef kAllGatherDone = done("all-gather-done");
const OpDef kAllReduceStart = [] {
  OpDef row = collective_start("all-reduce-start");
  row.called = {"to_apply"};
  return row;
}();
const OpDef kAllReduceDone = done("all-reduce-done");
const OpDef kCollectivePermuteStart = [] {
  OpDef row = collective_start("collective-permute-start");
  row.parse = parse_attributes<PermuteAttributes>;
  return row;
}();
const OpDef kCollectivePermuteDone = done("collective-permute-done");

}  // namespace rows

AsyncHalf async_half(const OpDef& op) {
  if (&op == &rows::kAsyncUpdate) return AsyncHalf::kUpdate;
  for (const auto& pair : rows::kPairs) {
    if (pair.start == &op) return AsyncHalf::kStart;
    if (pair.done == &op) return AsyncHalf::kDone;
  }
  return AsyncHalf::kNeither;
}

const OpDef& synchronous_op(const OpDef& start) { return *rows::pair_of(start).synchronous; }

const OpDef& start_op(const OpDef& synchronous) {
  for (const auto& pair : rows::kPairs)
    if (pair.synchronous == &synchronous) return *pair.start;
  return rows::kAsyncStart;
}

const OpDef& done_op(const OpDef& start) { return *rows::pair_of(start).done; }

int async_result(const OpDef& start) { return rows::pair_of(start).result; }

}  // namespace tessera
