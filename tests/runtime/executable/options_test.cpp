// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/options.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/cpus.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string message_of(void (*f)()) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Options, ReadTheEnvironmentOverTheirDefaults) {
  ::setenv("TESSERA_NUM_THREADS", "3", 1);
  ::setenv("TESSERA_SKIP_PASSES", "a,b", 1);
  const Options given;
  ::unsetenv("TESSERA_NUM_THREADS");
  ::unsetenv("TESSERA_SKIP_PASSES");
  EXPECT_EQ(given.integer("TESSERA_NUM_THREADS"), 3);
  EXPECT_EQ(given.list("TESSERA_SKIP_PASSES"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(given.str(), "TESSERA_NUM_THREADS=3 TESSERA_SKIP_PASSES=a,b");
  EXPECT_EQ(Options().text("PJRT_DEVICE"), "CPU");
}

TEST(Options, AnEmptyEnvironmentVariableIsNotSet) {
  constexpr const char* kNames[] = {"PJRT_DEVICE",   "TESSERA_NUM_THREADS", "TESSERA_FUSE",
                                    "TESSERA_ASYNC", "TESSERA_DUMP_DIR",    "XLA_METRICS_PERCENTILES"};
  for (const char* name : kNames) ::setenv(name, "", 1);
  const std::string error = message_of([] { (void)Options(); });
  const Options given = error.empty() ? Options() : options();
  for (const char* name : kNames) ::unsetenv(name);
  EXPECT_EQ(error, "");
  const Options expected;
  for (const char* name : kNames) EXPECT_EQ(given.text(name), expected.text(name)) << name;
  EXPECT_EQ(given.integer("TESSERA_NUM_THREADS"), 1);
  EXPECT_TRUE(given.flag("TESSERA_FUSE"));
}

TEST(Options, ErrorsNameTheWrongValue) {
  EXPECT_EQ(message_of([] { Options().set("TESSERA_NUM_THREADS", "many"); }),
            "TESSERA_NUM_THREADS=many: must be an integer (compute threads of a rank)");
  EXPECT_EQ(message_of([] { Options().set("TESSERA_NUM_THREADS", "0"); }),
            "TESSERA_NUM_THREADS=0: must be at least 1 (compute threads of a rank)");
  EXPECT_EQ(message_of([] { Options().set("TESSERA_NUM_THREADS", "100000"); }),
            "TESSERA_NUM_THREADS=100000: must be at most 1024 (compute threads of a rank)");
  EXPECT_EQ(message_of([] { Options().set("TESSERA_ASYNC", "2"); }),
            "TESSERA_ASYNC=2: unknown value; known: auto, 0, 1 (1 runs a step while the next one is traced, 0 does "
            "not; auto: 1 if the node has a further core for each rank)");
  EXPECT_EQ(message_of([] { Options().set("TESSERA_NUM_THREAD", "1"); }),
            "unknown option TESSERA_NUM_THREAD; did you mean \"TESSERA_NUM_THREADS\"?");
}

TEST(Options, UnknownEnvironmentVariablesAreFound) {
  ::setenv("TESSERA_DUMPDIR", "x", 1);
  const auto lines = unknown_variables();  // may include variables of the environment in which the tests run
  ::unsetenv("TESSERA_DUMPDIR");
  EXPECT_EQ(std::count(lines.begin(), lines.end(),
                       "unknown environment variable TESSERA_DUMPDIR; did you mean \"TESSERA_DUMP_DIR\"?"),
            1);
}

TEST(Options, EveryRowHasADescription) {
  for (const OptionRow& row : Options::table()) EXPECT_FALSE(row.meaning.empty()) << row.name;
}

TEST(UsableCpus, AreThoseThatTheThreadMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cpu_count(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpu_count(), 1) << "as a rank that mpirun binds to a core";
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace tessera
