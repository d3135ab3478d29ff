// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tessera/autodiff/gradients.h"
#include "tessera/ir/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

NotesRef unit_notes(const std::string& unit, bool recompute) {
  auto notes = std::make_shared<Notes>();
  notes->frontend_attributes = {{"tessera.unit", unit}};
  if (recompute) notes->frontend_attributes.emplace_back("tessera.recompute", "true");
  return notes;
}

Value unshard(Value parameter, const std::string& unit, const Mesh& mesh) {
  const Value gathered = ops::sharding_mark(parameter, Sharding::replicated(mesh, parameter.type().ndim()));
  parameter.builder->set_notes(gathered, unit_notes(unit, true));
  return gathered;
}

// Two units, tanh(x w0) then (.. w1^T). Each weight is unsharded in its unit.
Program two_units() {
  const Mesh mesh({{"fsdp", 2}});
  const auto stored = make_sharding(Sharding::from_spec(mesh, {"fsdp", nullptr}, 2));
  ProgramBuilder program("two_units");
  Builder main = program.computation("main");
  program.program().meshes = {mesh};
  program.program().num_partitions = 2;
  const Type square = Type::array(DType::kF32, {4, 4});
  const Value x = ops::parameter(main, 0, square, "x");
  const Value w0 = ops::parameter(main, 1, square, "w0", stored);
  const Value w1 = ops::parameter(main, 2, square, "w1", stored);
  main.default_notes = unit_notes("a", false);
  const Value hidden = ops::tanh(ops::matmul(x, unshard(w0, "a", mesh)));
  main.default_notes = unit_notes("b", false);
  const Value out = ops::matmul(hidden, ops::transpose(unshard(w1, "b", mesh), {1, 0}));
  main.default_notes = nullptr;
  const Value loss = ops::reduce(out, Reduction::kSum, {0, 1});
  const auto all = gradients(main, loss, {x, w0, w1});
  const auto entry = program.add(std::move(main), ops::tuple(*x.builder, all));
  return program.finish(entry);
}

std::vector<const Instruction*> marked(const Computation& main, std::string_view key, std::string_view value) {
  std::vector<const Instruction*> out;
  for (const Instruction& instruction : main.instructions)
    if (const auto* text = instruction.frontend_attribute(key); text != nullptr && *text == value)
      out.push_back(&instruction);
  return out;
}

// Returns true if `to` depends on `from` through operands.
bool uses(const Computation& main, Id to, Id from) {
  if (to == from) return true;
  for (const Id operand : main[to].operands)
    if (uses(main, operand, from)) return true;
  return false;
}

TEST(Recompute, EachUnshardIsIssuedAgainOncePerUnitAndValue) {
  const Program program = two_units();
  verify(program);
  const auto again = marked(program.entry_computation(), "tessera.phase", "backward");
  // w0, w1 and the transpose of w1.
  EXPECT_EQ(again.size(), 3U);
  const auto unshards = marked(program.entry_computation(), "tessera.recompute", "true");
  EXPECT_EQ(unshards.size(), 4U);
}

TEST(Recompute, NoUnshardedValueIsKeptFromForwardToBackward) {
  const Program program = two_units();
  const Computation& main = program.entry_computation();
  const auto users = main.users();
  Id loss = -1;  // the forward pass ends here
  for (Id id = 0; id < main.size(); ++id)
    if (main[id].type == Type::scalar(DType::kF32) && main[id].op->name == "reduce" && loss < 0) loss = id;
  ASSERT_GE(loss, 0);
  for (Id id = 0; id < loss; ++id) {
    if (main[id].frontend_attribute("tessera.recompute") == nullptr) continue;
    for (const Id user : at(users, id)) {
      EXPECT_LT(user, loss);
      for (const Id second : at(users, user))
        if (main[user].op->name == "transpose") {
          EXPECT_LT(second, loss) << "a value made of the weight alone outlives it";
        }
    }
  }
}

// Returns the unshard of `unit` that the backward pass issued.
Id second_issue(const Computation& main, std::string_view unit) {
  for (Id id = 0; id < main.size(); ++id)
    if (main[id].frontend_attribute("tessera.recompute") != nullptr &&
        main[id].frontend_attribute("tessera.phase") != nullptr && *main[id].frontend_attribute("tessera.unit") == unit)
      return id;
  return -1;
}

TEST(Recompute, TheSecondIssueWaitsForTheUnitsFirstGradient) {
  const Program program = two_units();
  const Computation& main = program.entry_computation();
  const Id a = second_issue(main, "a");
  const Id b = second_issue(main, "b");
  ASSERT_GE(a, 0);
  ASSERT_GE(b, 0);
  const Instruction& element = main[main[a].operands[0]];
  ASSERT_EQ(element.op->name, "get-tuple-element");
  ASSERT_EQ(main[element.operands[0]].op->role, Role::kOptBarrier);
  // The first gradient of unit a comes through the weight of unit b, so the gather of a cannot start before that of b.
  EXPECT_TRUE(uses(main, a, b));
  EXPECT_FALSE(uses(main, b, a));
}

TEST(Recompute, TheGradientOfAnUnshardGoesToTheStorageSharding) {
  const Program program = two_units();
  const Computation& main = program.entry_computation();
  const Instruction& results = main[main.root];
  for (const std::size_t which : {1U, 2U}) {
    const Instruction& gradient = main[results.operands[which]];
    ASSERT_TRUE(gradient.sharding);
    EXPECT_EQ(gradient.sharding->front().str(), "{fsdp,-}");
    EXPECT_EQ(gradient.frontend_attribute("tessera.recompute"), nullptr);
  }
  EXPECT_FALSE(main[results.operands[0]].sharding) << "a gradient gets no sharding of itself";
}

// A barrier in front of a broadcast constant would need memory for its elements from the forward to the backward pass.
TEST(Recompute, NoBroadcastConstantPassesABarrier) {
  ProgramBuilder program("region");
  Builder main = program.computation("main");
  const Type square = Type::array(DType::kF32, {4, 4});
  const Value x = ops::parameter(main, 0, square, "x");
  auto notes = std::make_shared<Notes>();
  notes->frontend_attributes = {{std::string(kCheckpointAttribute), "0"}};
  main.default_notes = notes;
  const Value half = ops::full(main, square, 0.5);
  const Value hidden = ops::multiply(ops::tanh(ops::multiply(x, half)), half);
  const Value out = ops::tanh(hidden);
  main.default_notes = nullptr;
  const auto all = gradients(main, ops::reduce(out, Reduction::kSum, {0, 1}), {x});
  const auto entry = program.add(std::move(main), ops::tuple(*x.builder, all));
  const Program made = program.finish(entry);
  const Computation& computation = made.entry_computation();
  int barriers = 0;
  for (const Instruction& instruction : computation.instructions) {
    if (instruction.op->name != "opt-barrier") continue;
    ++barriers;
    for (const Id tied : computation[instruction.operands.front()].operands)
      EXPECT_NE(computation[tied].op->name, "broadcast");
  }
  EXPECT_EQ(barriers, 1) << "x waits for the gradient";
}

}  // namespace
}  // namespace tessera
