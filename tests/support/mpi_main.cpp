// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>

namespace tessera::testing {
namespace {

std::optional<Communicator> the_world;

class RankListener final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& info) override {
    test_ = fmt::format("{}.{}", info.test_suite_name(), info.name());
  }
  // GoogleTest holds a lock here: asking it for the current test would wait forever.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::string text = fmt::format("{}:{}: in {}: {}", result.file_name() != nullptr ? result.file_name() : "",
                                         result.line_number(), test_, result.message());
    if (result.fatally_failed()) world().abort(text);
    if (world().rank() != 0) std::fprintf(stderr, "rank %d: %s\n", world().rank(), text.c_str());
  }
  std::string test_ = "set-up";
};

// Returns 1 if a test failed on any rank.
int failed_anywhere(int failed_here) {
  std::int32_t failed = failed_here;
  auto bytes = std::as_writable_bytes(std::span(&failed, 1));
  world().group().all_reduce(bytes, bytes, DType::kS32, Reduction::kMax);
  return failed;
}

}  // namespace

Communicator& world() { return *the_world; }

}  // namespace tessera::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tessera::testing::the_world.emplace(tessera::make_world(argc, argv));
  auto& world = tessera::testing::world();
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new tessera::testing::RankListener);
  int failed = 1;
  tessera::guard_main(world, [&] { failed = tessera::testing::failed_anywhere(RUN_ALL_TESTS()); });
  world.finalize();
  return failed;
}
