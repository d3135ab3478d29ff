// SPDX-License-Identifier: Apache-2.0
// Calls of a compiled function: with repeated arguments or variables as arguments, with calls that fail, and in several
// worlds.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/temporary_folder.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using testing::error_of;
using Tensors = std::vector<Tensor>;

// ---- arguments that are one tensor, or a variable ------------------------------------------------------------------------

Tensor pair_of(float value) { return Tensor::from<float>({2}, {value, value}); }

TEST(CompiledCalls, AnArgumentMayRepeat) {
  const FreshRank rank;
  int traced = 0;
  CompiledFunction f = compile([&](const Tensors& in) {
    ++traced;
    return Tensors{in[0] * 10.0 + in[1], in[1]};
  });
  const Tensor x = pair_of(1);
  const Tensor y = pair_of(2);
  EXPECT_EQ(f({x, x}).front().to_vector<float>(), (std::vector<float>{11, 11}));
  EXPECT_EQ(f({x, y}).front().to_vector<float>(), (std::vector<float>{12, 12}));
  EXPECT_EQ(f({y, x}).front().to_vector<float>(), (std::vector<float>{21, 21}));
  EXPECT_TRUE(same_variable(f({y, x}).back(), x));
  EXPECT_TRUE(same_variable(f({y, y}).back(), y));
  EXPECT_EQ(f({y, y}).front().to_vector<float>(), (std::vector<float>{22, 22}));
  EXPECT_EQ(traced, 1);
}

TEST(CompiledCalls, AnArgumentMayBeAVariableThatTheFunctionUses) {
  const FreshRank rank;
  int traced = 0;
  Tensor w = variable<float>({2}, {3, 3});
  Tensor same = variable<float>({2}, {0, 0});
  const Tensor three = pair_of(3) * 1.0;
  mark_step();
  w.assign(three);
  same.assign(three);  // both hold the value
  CompiledFunction g = compile([&](const Tensors& in) {
    ++traced;
    return Tensors{in[0] * 10.0 + w + same};
  });
  EXPECT_EQ(g({w}).front().to_vector<float>(), (std::vector<float>{36, 36}));
  EXPECT_EQ(g({pair_of(1)}).front().to_vector<float>(), (std::vector<float>{16, 16}));
  EXPECT_EQ(g({w}).front().to_vector<float>(), (std::vector<float>{36, 36}));
  w.assign(pair_of(4));
  EXPECT_EQ(g({pair_of(1)}).front().to_vector<float>(), (std::vector<float>{17, 17}));
  EXPECT_EQ(g({w}).front().to_vector<float>(), (std::vector<float>{47, 47}));
  EXPECT_EQ(traced, 1);
}

TEST(CompiledCalls, AnArgumentMayBeAVariableThatTheFunctionAssigns) {
  const FreshRank rank;
  int traced = 0;
  Tensor w = variable<float>({2}, {1, 2});
  CompiledFunction add = compile([&](const Tensors& in) {
    ++traced;
    const Tensor sum = stored_tensor(w) + in[0];
    w.assign(sum);
    return Tensors{in[1] * 1.0};
  });
  const Tensor x = pair_of(5);
  EXPECT_EQ(add({x, x}).front().to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{6, 7}));
  EXPECT_EQ(add({x, x}).front().to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{11, 12}));
  EXPECT_EQ(add({stored_tensor(w), x}).front().to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{22, 24})) << "the memory of an input that is also an argument";
  EXPECT_EQ(add({x, stored_tensor(w)}).front().to_vector<float>(), (std::vector<float>{22, 24}))
      << "the value at the call";
  EXPECT_EQ(add({w, x}).front().to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{54, 58}));
  const Tensor kept = stored_tensor(w);
  EXPECT_EQ(add({x, x}).front().to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{59, 63}));
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{54, 58}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(traced, 2) << "once more for a variable that an argument, read after the assignment, may be";
}

TEST(CompiledCalls, ReadingAnAssignedVariableThroughAnArgumentIsAnError) {
  const FreshRank rank;
  Tensor w = variable<float>({1}, {1});
  w.set_name("w");
  CompiledFunction read_late = compile([&](const Tensors& in) {
    w.assign(stored_tensor(w) + 1.0);
    return Tensors{in[0] * 10.0};
  });
  const std::string message =
      "compile: the variable w is also an argument; the function assigns one and then reads the other";
  EXPECT_EQ(read_late({variable<float>({1}, {5})}).front().item(), 50);
  EXPECT_NE(error_of([&] { read_late({w}); }).find(message), std::string::npos);
  EXPECT_EQ(w.item(), 2) << "the failed call assigned nothing";
  EXPECT_EQ(read_late({variable<float>({1}, {6})}).front().item(), 60);
  EXPECT_EQ(w.item(), 3);
}

TEST(CompiledCalls, MayAssignItsArguments) {
  const FreshRank rank;
  int traced = 0;
  CompiledFunction grow = compile([&](const Tensors& in) {
    ++traced;
    Tensor to = in[0];
    to.assign(stored_tensor(to) + in[1]);
    return Tensors{};
  });
  Tensor a = variable<float>({2}, {1, 2});
  Tensor b = variable<float>({2}, {10, 20});
  const Tensor kept = stored_tensor(b);
  const Tensor x = pair_of(1);
  grow({a, x});
  grow({b, x});
  grow({a, b});
  grow({a, x});
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{14, 25}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{11, 21}));
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{10, 20}));
  EXPECT_EQ(traced, 1);
  grow({a, a});
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{28, 50}));
}

TEST(CompiledCalls, AssignsArgumentsAndHostDataAtEachCall) {
  const FreshRank rank;
  Tensor last = variable<float>({2}, {0, 0});
  Tensor count = variable<float>({1}, {0});
  CompiledFunction f = compile([&](const Tensors& in) {
    last.assign(in[0]);
    count.assign(Tensor::from<float>({1}, {7}));
    return Tensors{in[0] * 2.0};
  });
  for (const float value : {1.F, 2.F, 3.F}) {
    EXPECT_EQ(f({pair_of(value)}).front().to_vector<float>(), (std::vector<float>{2 * value, 2 * value}));
    EXPECT_EQ(last.to_vector<float>(), (std::vector<float>{value, value}));
    EXPECT_EQ(count.item(), 7);
    count.assign(Tensor::from<float>({1}, {0}));
  }
}

// In lazy steps, a gradient flows to a variable through each of its uses.
TEST(CompiledCalls, GradientsFlowToVariablesAmongTheArguments) {
  const FreshRank rank;
  int traced = 0;
  Tensor w = variable<float>({1}, {3});
  CompiledFunction slope = compile([&](const Tensors& in) {
    ++traced;
    sum(in[0] * in[1] * w).backward();
    const Tensor out = w.grad() * 1.0;
    const Tensor first = in[0].grad().is_null() ? Tensor::full(out.type(), 0) : in[0].grad() * 1.0;
    for (Tensor tensor : {in[0], in[1], w}) tensor.zero_grad();
    return Tensors{out, first};
  });
  const auto slopes = [&](const Tensor& a, const Tensor& b) {
    const Tensors out = slope({a, b});
    return std::vector<double>{out[0].item(), out[1].item()};
  };
  const Tensor two = Tensor::from<float>({1}, {2});
  const Tensor five = Tensor::from<float>({1}, {5});
  EXPECT_EQ(slopes(two, two), (std::vector<double>{4, 0}));
  EXPECT_EQ(slopes(two, five), (std::vector<double>{10, 0}));
  EXPECT_EQ(traced, 1) << "numbers that take no gradient";
  const Tensor u = variable<float>({1}, {4});
  const Tensor v = variable<float>({1}, {6});
  EXPECT_EQ(slopes(u, two), (std::vector<double>{8, 6}));
  EXPECT_EQ(slopes(v, five), (std::vector<double>{30, 15}));
  EXPECT_EQ(traced, 2) << "any variable";
  EXPECT_EQ(slopes(u, v), (std::vector<double>{24, 18}));
  EXPECT_EQ(slopes(u, u), (std::vector<double>{16, 24})) << "d/du of 3 u u";
  EXPECT_EQ(slopes(w, two), (std::vector<double>{12, 12})) << "d/dw of 2 w w";
  EXPECT_EQ(slopes(w, w), (std::vector<double>{27, 27}));
  EXPECT_EQ(slopes(v, v), (std::vector<double>{36, 36}));
  EXPECT_EQ(traced, 6);
}

TEST(CompiledCalls, AnArgumentMayBeMarkedForOneUse) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    set_default_mesh(mesh);
    int traced = 0;
    CompiledFunction f = compile([&](const Tensors& in) {
      ++traced;
      mark_sharding(in[0], mesh, {"data"});
      return Tensors{in[0] * 10.0 + in[1]};
    });
    const Tensor x = pair_of(1);
    const Tensor y = pair_of(2);
    EXPECT_EQ(f({x, x}).front().to_vector<float>(), (std::vector<float>{11, 11}));
    EXPECT_EQ(f({x, y}).front().to_vector<float>(), (std::vector<float>{12, 12}));
    EXPECT_EQ(f({y, y}).front().to_vector<float>(), (std::vector<float>{22, 22}));
    EXPECT_EQ(f({y, x}).front().to_vector<float>(), (std::vector<float>{21, 21}));
    EXPECT_EQ(traced, 1);
  });
}

// ---- calls that fail ------------------------------------------------------------------------------------------------------

TEST(CompiledCalls, AFailedCallHasNoEffect) {
  const auto run = [](const std::vector<int>& failing) {
    const FreshRank rank;
    manual_seed(3);
    bool broken = false;
    Tensor w = variable<float>({2}, {3, 5});
    w.set_name("w");
    optim::AdamW optimizer({w}, {.learning_rate = 0.05});
    CompiledFunction step = compile([&](const Tensors& in) {
      const Tensor loss = sum(dropout(in[0] * square(w), 0.5));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return Tensors{loss * Tensor::scalar(DType::kF32, [&] {
                       require(!broken, "no rate today");
                       return 2.0;
                     })};
    });
    std::vector<float> out;
    for (int i = 0; i < 5; ++i) {
      if (std::find(failing.begin(), failing.end(), i) != failing.end()) {
        broken = true;
        for (int again = 0; again < 2; ++again)
          EXPECT_NE(error_of([&] { step({pair_of(7)}); }).find("no rate today"), std::string::npos);
        broken = false;
      }
      out.push_back(step({pair_of(static_cast<float>(i))}).front().to_vector<float>().front());
      for (const float value : w.to_vector<float>()) out.push_back(value);
    }
    EXPECT_EQ(optimizer.step_count(), 5);
    return out;
  };
  const auto expected = run({});
  EXPECT_EQ(run({1}), expected);
  EXPECT_EQ(run({2, 3}), expected);
  EXPECT_EQ(run({0}), expected) << "while it is traced";
}

// More memory than a process can address.
Tensor huge() { return Tensor::zeros(Type::array(DType::kF32, {std::int64_t{1} << 46})); }

TEST(CompiledCalls, VariablesKeepTheirValuesIfACallRunsOutOfMemory) {
  const FreshRank rank;
  Tensor w = variable<float>({2}, {3, 5});
  const auto update = [&](bool needs_much) {
    return compile([&w, needs_much](const Tensors& in) {
      w.assign(w + in[0]);
      return needs_much ? Tensors{huge()} : Tensors{};
    });
  };
  CompiledFunction good = update(false);
  CompiledFunction bad = update(true);
  for (int i = 0; i < 2; ++i) {
    good({pair_of(1)});
    const std::string text = error_of([&] { bad({pair_of(7)}); });
    EXPECT_NE(text.find("out of memory: cannot allocate "), std::string::npos) << text;
    EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{4.0F + static_cast<float>(i), 6.0F + static_cast<float>(i)}));
  }
}

TEST(CompiledCalls, ATensorThatSharesTheDataOfAnAssignedArgumentKeepsItsValue) {
  const FreshRank rank;
  Tensor w = variable<float>({2}, {3, 5});
  CompiledFunction f = compile([](const Tensors& in) {
    Tensor first = in[0];
    const Tensor out = in[1] * 10.0;
    first.assign(first + 1.0);
    return Tensors{out};
  });
  for (int i = 0; i < 3; ++i) {
    const Tensor same = w.detach();
    mark_step();
    EXPECT_EQ(f({w, same}).front().to_vector<float>().front(), 30.0F + 10.0F * static_cast<float>(i));
    EXPECT_EQ(same.to_vector<float>().front(), 3.0F + static_cast<float>(i));
  }
}

TEST(CompiledCalls, MayBeCalledAfterAShardingWasChangedAndRestored) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    set_default_mesh(mesh);
    Tensor w = variable<float>({2}, {1, 2});
    w.set_name("w");
    CompiledFunction f = compile([&](const Tensors& in) { return Tensors{in[0] * 10.0 + w}; });
    EXPECT_EQ(f({pair_of(1)}).front().to_vector<float>(), (std::vector<float>{11, 12}));
    mark_sharding(w, mesh, {"data"});
    EXPECT_EQ(error_of([&] { f({pair_of(2)}); }),
              "compile: the sharding of w is {data}, but was {-} when the function was traced");
    clear_sharding(w);
    mark_step();
    EXPECT_EQ(f({pair_of(3)}).front().to_vector<float>(), (std::vector<float>{31, 32}));
  });
}

TEST(CompiledCalls, MayBeCalledAfterRanksPassedDifferentArguments) {
  on_ranks(2, [](int rank) {
    Tensor w = variable<float>({2}, {1, 2});
    CompiledFunction f = compile([&](const Tensors& in) { return Tensors{in[0] * 10.0 + w}; });
    EXPECT_EQ(f({pair_of(1)}).front().to_vector<float>(), (std::vector<float>{11, 12}));
    EXPECT_NE(error_of([&] { f({pair_of(static_cast<float>(rank))}); }).find("is not the same on all ranks"),
              std::string::npos);
    EXPECT_EQ(f({pair_of(3)}).front().to_vector<float>(), (std::vector<float>{31, 32}));
  });
}

// ---- worlds ---------------------------------------------------------------------------------------------------------------

TEST(CompiledCalls, RunInTheWorldThatIsJoined) {
  run_virtual_ranks(4, [](ProcessGroup& world) {
    const Tensor two = Tensor::from<float>({2}, {2, 2});
    CompiledFunction half = compile([&](const Tensors& in) { return Tensors{in[0] * 0.5}; });
    join_world(world);
    EXPECT_EQ(half({two}).front().to_vector<float>(), (std::vector<float>{1, 1}));
    for (const auto& [groups, name] : std::vector<std::pair<std::vector<std::vector<int>>, std::string>>{
             {{{0, 1}, {2, 3}}, "rows"}, {{{0, 2}, {1, 3}}, "columns"}}) {
      join_world(world.split(groups, name));
      for (int i = 0; i < 1 + (name == "rows" ? world.rank() / 2 : world.rank() % 2); ++i) {
        EXPECT_EQ(half({two}).front().to_vector<float>(), (std::vector<float>{1, 1}));
        const Tensor lazy = two + 1.0;
        mark_step();
        EXPECT_EQ(lazy.to_vector<float>(), (std::vector<float>{3, 3}));
      }
      join_world(world);
      EXPECT_EQ(half({two}).front().to_vector<float>(), (std::vector<float>{1, 1}));
      const Tensor lazy = two + 1.0;
      mark_step();
      EXPECT_EQ(lazy.to_vector<float>(), (std::vector<float>{3, 3}));
    }
  });
}

}  // namespace
}  // namespace tessera
