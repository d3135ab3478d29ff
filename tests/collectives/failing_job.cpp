// SPDX-License-Identifier: Apache-2.0
// A job that fails in the way that its argument specifies. failures.sh runs it and checks the result.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/collectives/time_limit.h"
#include "tessera/collectives/world.h"

namespace {

using namespace tessera;

void all_reduce(ProcessGroup& group, std::size_t count, const std::string& label) {
  std::vector<float> x(count, 1.0F);
  const auto bytes = std::as_writable_bytes(std::span(x));
  group.all_reduce(bytes, bytes, DType::kF32, Reduction::kSum, {17, label});
}

// Fails while a started collective is pending, before the ranks wait for it.
void run_started(Communicator& world, const std::string& how) {
  const bool is_last = world.rank() == world.size() - 1;
  std::vector<float> x(how == "started-size" && is_last ? 99999 : 100000, 1.0F);
  const auto bytes = std::as_writable_bytes(std::span(x));
  const auto pending =
      world.group().start_all_reduce(bytes, bytes, DType::kF32, Reduction::kSum, {17, "all_reduce %17 over {data}"});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (how == "started-throw" && is_last) fail("out of paper");
  if (how == "started-kill" && is_last) raise(SIGKILL);
  pending->wait();
  all_reduce(world.group(), 1000, "all_reduce %18 over {data}");
  std::printf("rank %d is through\n", world.rank());
}

void sleep_for_milliseconds(int count) { std::this_thread::sleep_for(std::chrono::milliseconds(count)); }

// Rank 0 waits for rank 1, which waits for rank 2, which computes.
void run_chain(Communicator& world) {
  const auto first = world.group().split({{0, 1}, {2}}, "{model}");
  const auto second = world.group().split({{0}, {1, 2}}, "{data}");
  if (world.rank() == 2) {
    world.group().works_on("runs %dot.3 (dot), step 12 of 40 of train_step");
    sleep_for_milliseconds(8000);
  }
  float x = 1;
  const auto bytes = std::as_writable_bytes(std::span(&x, 1));
  if (world.rank() == 1) sleep_for_milliseconds(700);  // so that the timeout of rank 0 expires first
  if (world.rank() > 0) second->permute(bytes, bytes, {{0, 1}, {1, 0}}, {9, "permute %9 over {data}"});
  if (world.rank() < 2) all_reduce(*first, 1000, "all_reduce %17 over {model}");
}

// The last rank arrives later than the others allow.
void run_limited(Communicator& world) {
  const TimeLimit limit(std::chrono::seconds(1));
  if (world.rank() == world.size() - 1) sleep_for_milliseconds(6000);
  world.group().barrier({0, "rendezvous \"saving\""});
}

// Runs until it is ended from outside.
void run_forever(Communicator& world) {
  const char* started = std::getenv("TESSERA_TEST_LINK_DOWN");  // namespaces.sh waits for this file
  for (int round = 0;; ++round) {
    all_reduce(world.group(), 100000, "all_reduce %17 over {data}");
    if (round == 20 && world.rank() == 0 && started != nullptr) std::ofstream(started).put('\n');
    sleep_for_milliseconds(10);
  }
}

void run(Communicator& world, const std::string& how) {
  auto& group = world.group();
  const int last = world.size() - 1;
  all_reduce(group, 1000, "all_reduce %1 over {data}");
  if (how == "chain") return run_chain(world);
  if (how == "forever") return run_forever(world);
  if (how == "limited") return run_limited(world);
  if (how == "busy") sleep_for_milliseconds(2500);  // on all ranks
  if (how.starts_with("started")) return run_started(world, how);
  if (how == "throw" && world.rank() == last) fail("out of paper");
  if (how == "numbers") fail("{} bytes are missing", 100 + world.rank());
  if (how == "named") fail("rank 2 on host x cannot read t");
  if (how == "kill" && world.rank() == last) raise(SIGKILL);
  if (how == "stop" && world.rank() == last) raise(SIGSTOP);
  if (how == "finish" && world.rank() == last) return;
  if (how == "late" && world.rank() == last) sleep_for_milliseconds(4000);
  if (how == "kind" && world.rank() == last) return group.barrier({17, "barrier %9"});
  all_reduce(group, how == "size" && world.rank() == last ? 999 : 1000, "all_reduce %17 over {data}");
  std::printf("rank %d is through\n", world.rank());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (how == "stop-early" && rank != nullptr && std::string_view(rank) == "1") raise(SIGSTOP);
  Communicator world = make_world(argc, argv);
  if (how == "uncaught") {
    if (world.rank() == 0) fail("nobody catches this");
    world.group().barrier();
  }
  return guard_main(world, [&] { run(world, how); });
}
