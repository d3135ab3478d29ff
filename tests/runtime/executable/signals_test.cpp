// SPDX-License-Identifier: Apache-2.0
// Signals that arrive while a program runs.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <ctime>

#include <sys/time.h>
#include <unistd.h>

#include "runtime/close.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

using testing::random_arguments;
using testing::read;

std::atomic<pid_t> computing_thread{0};
std::atomic<int> handled{0};
std::atomic<int> handled_by_the_computing_thread{0};

extern "C" void count_signal(int) {
  ++handled;
  if (gettid() == computing_thread) ++handled_by_the_computing_thread;
}

// While oneDNN multiplies f32 matrices with AVX-512, a handler in the same thread would overwrite the heap.
TEST(Signals, HandlersDoNotRunInTheThreadThatMultipliesMatrices) {
  const Program program = read(R"(HloModule product
ENTRY %main (a: f32[384,512], b: f32[512,128]) -> f32[384,128] {
  %a = f32[384,512] parameter(0)
  %b = f32[512,128] parameter(1)
  ROOT %c = f32[384,128] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  const auto world = make_single_rank_world();
  const auto expected = run_program(program, *world, random_arguments(program, 1));
  computing_thread = gettid();
  std::signal(SIGALRM, count_signal);
  const itimerval every_fifth_of_a_millisecond{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &every_fifth_of_a_millisecond, nullptr);
  const std::time_t end = std::time(nullptr) + 20;
  while (handled < 500 && std::time(nullptr) < end)
    ASSERT_TRUE(testing::close(run_program(program, *world, random_arguments(program, 1)), expected));
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  EXPECT_GT(handled, 0);  // a busy machine handles fewer than 500 in this time
  EXPECT_EQ(handled_by_the_computing_thread, 0);
}

}  // namespace
}  // namespace tessera
