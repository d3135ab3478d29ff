// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_samples.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

ComputationId scaled_sine(ProgramBuilder& program, std::string name, double factor, const Type& type) {
  Builder b = program.computation(std::move(name));
  const Value x = ops::parameter(b, 0, type);
  const Value root = ops::multiply(ops::sin(x), ops::full(b, type, factor));
  return program.add(std::move(b), root);
}

void add_calls(std::vector<Sample>& out) {
  out.push_back({.op = "call",
                 .operands = {{f64(3, 5)}},
                 .build =
                     [](Builder& b, const Values& v) {
                       return ops::call(b, {v[0]}, scaled_sine(b.program(), "callee", 2, v[0].type()));
                     },
                 .splits = false});
  for (const bool by_pred : {true, false})
    out.push_back({.op = "conditional",
                   .label = by_pred ? "pred" : "s32",
                   .operands = {{by_pred ? pred() : s32(), 0, 2}, {f64(3)}, {f64(3)}},
                   .build =
                       [=](Builder& b, const Values& v) {
                         Values branches{v[1], v[2]};
                         std::vector<ComputationId> callees{scaled_sine(b.program(), "first", 2, f64(3)),
                                                            scaled_sine(b.program(), "second", 3, f64(3))};
                         if (!by_pred) {
                           branches.push_back(v[1]);
                           callees.push_back(scaled_sine(b.program(), "third", 5, f64(3)));
                         }
                         return ops::conditional(v[0], branches, callees);
                       },
                   .splits = false});
}

// Five iterations of x = sin(x) * w, where w is part of the state.
void add_loops(std::vector<Sample>& out) {
  out.push_back({.op = "while",
                 .operands = {{f64(3)}, {f64(3)}},
                 .build =
                     [](Builder& b, const Values& v) {
                       const Value init = ops::tuple(b, {ops::scalar(b, DType::kS32, 0), v[0], v[1]});
                       Builder condition = b.program().computation("condition");
                       const Value state = ops::parameter(condition, 0, init.type());
                       const Value goes_on =
                           ops::compare(ops::get_tuple_element(state, 0), ops::scalar(condition, DType::kS32, 5),
                                        CompareDirection::kLt);
                       const auto condition_id = b.program().add(std::move(condition), goes_on);
                       Builder body = b.program().computation("body");
                       const Value now = ops::parameter(body, 0, init.type());
                       const Value w = ops::get_tuple_element(now, 2);
                       const Value next = ops::multiply(ops::sin(ops::get_tuple_element(now, 1)), w);
                       const Value counter =
                           ops::add(ops::get_tuple_element(now, 0), ops::scalar(body, DType::kS32, 1));
                       const Value after = ops::tuple(body, {counter, next, w});
                       return ops::while_loop(init, condition_id, b.program().add(std::move(body), after));
                     },
                 .splits = false});
}

void add_custom_calls(std::vector<Sample>& out) {
  out.push_back(
      {.op = "custom-call",
       .label = "Sharding",
       .operands = {{f64(3, 5)}},
       .build = [](Builder& b, const Values& v) { return ops::custom_call(b, "Sharding", {v[0]}, v[0].type()); },
       .takes_anything = true});
  out.push_back({.op = "custom-call",
                 .label = "unknown",
                 .operands = {{f32(3, 5)}, {s32(2)}},
                 .build =
                     [](Builder& b, const Values& v) {
                       return ops::custom_call(b, "Mystery", {v[0], v[1]}, Type::tuple({f32(7), pred(2)}));
                     },
                 .takes_anything = true});
}

void add_collectives(std::vector<Sample>& out) {
  const ReplicaGroups all{{{0}}};
  const auto one_device = [&](std::string op, const auto& build) {
    out.push_back(
        {.op = std::move(op), .operands = {{f32(4, 3)}}, .build = build, .splits = false, .takes_anything = true});
  };
  one_device("all-gather", [=](Builder&, const Values& v) { return ops::all_gather(v[0], 0, all, 1); });
  one_device("reduce-scatter",
             [=](Builder&, const Values& v) { return ops::reduce_scatter(v[0], 0, Reduction::kSum, all, 1); });
  one_device("all-reduce", [=](Builder&, const Values& v) { return ops::all_reduce(v[0], Reduction::kMax, all, 1); });
  one_device("all-to-all", [=](Builder&, const Values& v) { return ops::all_to_all(v[0], 0, all, 1); });
  one_device("collective-permute", [](Builder&, const Values& v) {
    return ops::collective_permute(v[0], SourceTargetPairs{{{0, 0}}}, 1);
  });
  one_device("collective-broadcast", [=](Builder& b, const Values& v) {
    CollectiveAttributes attributes;
    attributes.replica_groups = all;
    return b.emit(op_table().get("collective-broadcast"), {v[0]}, make_attributes(attributes));
  });
  out.push_back({.op = "ragged-all-to-all",
                 .operands = {{f32(5, 3)}, {f32(7, 3)}, {s32(1), 0, 3}, {s32(1), 0, 3}, {s32(1), 0, 3}, {s32(1), 0, 3}},
                 .build =
                     [=](Builder& b, const Values& v) {
                       CollectiveAttributes attributes;
                       attributes.replica_groups = all;
                       return b.emit(op_table().get("ragged-all-to-all"), v, make_attributes(attributes),
                                     {.type = v[1].type()});
                     },
                 .splits = false,
                 .takes_anything = true});
}

}  // namespace

std::vector<Sample> control_samples() {
  std::vector<Sample> out;
  add_calls(out);
  add_loops(out);
  add_custom_calls(out);
  add_collectives(out);
  return out;
}

}  // namespace tessera::conformance
