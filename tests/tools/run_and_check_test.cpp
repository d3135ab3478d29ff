// SPDX-License-Identifier: Apache-2.0
// `tessera check` and `tessera run` on the command line: options, results and messages.
#include "support/sanitizers.h"
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

TEST_F(TesseraCommand, CheckAcceptsTheOptionsOfPartition) {
  const std::string annotated =
      "mlp.hlo --mesh data=2,model=2 --annotate x=data,- --annotate w=-,model --annotate v=model,- ";
  for (const std::string how : {"--async", "--bf16-axes model", "--int8-axes model,data", "--fewer-collectives",
                                "--disable-passes combine-collectives", "--memory-bound 0"}) {
    ASSERT_EQ(run("partition " + annotated + how + " -o " + path("p.hlo")).code, 0) << how;
    const std::string stats = run("stats " + path("p.hlo")).out;
    const auto total = stats.substr(stats.find("total_collective_bytes") + 22);
    const std::string bytes =
        total.substr(total.find_first_not_of(' '), total.find('\n') - total.find_first_not_of(' '));
    for (const std::string engine : {"reference", "lowered", "runtime"}) {
      const auto out = run(fmt::format("check {}{} --engine {}", annotated, how, engine));
      EXPECT_EQ(out.code, 0) << how << " " << engine << "\n" << out.out << out.error;
      EXPECT_NE(out.out.find(fmt::format(", {} bytes received per device", bytes)), std::string::npos)
          << how << "\n"
          << out.out << stats;
    }
  }
  EXPECT_EQ(run("check " + annotated + "--bf16-axes modle").code, 1);
}

// Only large operands are compressed, so the error bounds of other results do not change.
TEST_F(TesseraCommand, CheckAllowsTheRoundingOfCompressedCollectives) {
  const auto module = file("wide.hlo", R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[96,64] parameter(0), sharding={devices=[1,2]<=[2]}
  w = f32[64,96] parameter(1), sharding={devices=[2,1]<=[2]}
  ROOT y = f32[96,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
})");
  const auto plain = run("check " + module);
  EXPECT_EQ(plain.code, 0) << plain.out;
  for (const std::string how : {"--bf16-axes _0", "--int8-axes _0"})
    for (const std::string engine : {"reference", "lowered", "runtime"}) {
      const auto out = run(fmt::format("check {} {} --engine {}", module, how, engine));
      EXPECT_EQ(out.code, 0) << how << " " << engine << "\n" << out.out << out.error;
      const auto bytes = [](const std::string& text) { return text.substr(text.find("collective")); };
      EXPECT_NE(bytes(out.out), bytes(plain.out)) << "nothing was compressed";
    }
}

TEST_F(TesseraCommand, CheckNamesLoopsThatTheTripLimitStopped) {
  const auto loop = file("loop.hlo", R"(HloModule m, num_partitions=2
%more (s: (s32[], f32[6])) -> pred[] {
  %s = (s32[], f32[6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %limit = s32[] constant(20)
  ROOT %go = pred[] compare(%i, %limit), direction=LT
}
%round (s: (s32[], f32[6])) -> (s32[], f32[6]) {
  %s = (s32[], f32[6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[6] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %y = f32[6] sine(%x)
  ROOT %out = (s32[], f32[6]) tuple(%next, %y)
}
ENTRY %main (x: f32[6]) -> (s32[], f32[6]) {
  %x = f32[6] parameter(0), sharding={devices=[2]<=[2]}
  %zero = s32[] constant(0)
  %init = (s32[], f32[6]) tuple(%zero, %x)
  ROOT %end = (s32[], f32[6]) while(%init), condition=%more, body=%round
})");
  const auto complete = run("check " + loop);
  EXPECT_EQ(complete.code, 0) << complete.error;
  EXPECT_EQ(complete.out.find("trip limit"), std::string::npos) << complete.out;
  const auto stopped = run("check " + loop + " --trip-limit 7 --json " + path("c.json"));
  EXPECT_EQ(stopped.code, 0) << stopped.error;
  EXPECT_NE(
      stopped.out.find("stopped after 7 rounds (the trip limit) and compared there: while %end, global program\n"),
      std::string::npos)
      << stopped.out;
  EXPECT_NE(stopped.out.find(", partitioned program\n"), std::string::npos) << stopped.out;
  EXPECT_NE(content(path("c.json")).find("\"trip_limit\": 7"), std::string::npos);
  EXPECT_NE(content(path("c.json")).find("\"while %end, global program\""), std::string::npos);
  const auto runtime = run("check " + loop + " --trip-limit 7 --engine runtime");
  EXPECT_EQ(runtime.code, 1);
  EXPECT_EQ(runtime.error, "tessera check: while %end: still running after 7 rounds, the trip limit\n");
}

TEST_F(TesseraCommand, CheckRunsAnUnknownCustomCallEquallyOnBothEngines) {
  const auto call = file("call.hlo", R"(HloModule m, num_partitions=2
ENTRY %main (x: f32[6]) -> f32[6] {
  %x = f32[6] parameter(0), sharding={devices=[2]<=[2]}
  ROOT %y = f32[6] custom-call(%x), custom_call_target="mystery"
})");
  for (const std::string engine : {"reference", "lowered", "runtime"}) {
    const auto out = run(fmt::format("check {} --engine {}", call, engine));
    EXPECT_EQ(out.code, 0) << engine << ": " << out.out << out.error;
  }
}

TEST_F(TesseraCommand, UnreducedValuesAreDrawnAndRunAsPartialValues) {
  allow_mpirun();
  const auto program =
      file("unreduced.hlo",
           "HloModule m, num_partitions=2\nENTRY e {\n  a = s32[3] parameter(0), sharding={unreduced}\n"
           "  ROOT r = s32[3] negate(a), sharding={unreduced}\n}\n");
  const auto drawn = run("print " + program + " --sharding a");
  EXPECT_NE(drawn.out.find("unreduced over _0: every device of a group holds a partial value"), std::string::npos)
      << drawn.out;
  const std::string two = fmt::format("{} -n 2", TESSERA_MPIEXEC);
  const auto ranks = run("run " + program, two);
  EXPECT_EQ(ranks.code, 0) << ranks.error;
  EXPECT_EQ(ranks.out, run("run " + program + " --engine reference", two).out) << "the results are sums";
  EXPECT_NE(ranks.error.find("note: parameter %a is unreduced over _0: the first device of each group gets the value"),
            std::string::npos)
      << ranks.error;
  EXPECT_NE(ranks.error.find("note: result is unreduced over _0: shown reduced"), std::string::npos) << ranks.error;
}

TEST_F(TesseraCommand, RunEvaluatesTheDefinitionsOfTheOpsOnRequest) {
  const auto fast = run("run sum.hlo");
  const auto reference = run("run sum.hlo --engine reference");
  EXPECT_EQ(reference.code, 0) << reference.error;
  EXPECT_EQ(reference.out, fast.out);
  EXPECT_EQ(run("run sum.hlo --engine referense").code, 2);
}

TEST_F(TesseraCommand, TheReferenceEngineRunsProgramsForManyDevicesOnOneRank) {
  allow_mpirun();
  const auto module = file("four.hlo", R"(HloModule m, num_partitions=4
ENTRY e {
  x = s32[6,4] parameter(0), sharding={devices=[2,2]<=[4]}
  ROOT y = s32[6,4] negate(x), sharding={devices=[4,1]<=[4]}
})");
  const auto alone = run("run " + module + " --engine reference");
  EXPECT_EQ(alone.code, 0) << alone.error;
  EXPECT_EQ(alone.error,
            "note: the program for 4 devices was evaluated on one device; its shardings have no effect here\n");
  EXPECT_EQ(run("run " + module + " --mesh a=2,b=2 --annotate x=b,- --engine reference").out, alone.out);
  const auto ranks = run("run " + module, fmt::format("{} -n 4", TESSERA_MPIEXEC));
  EXPECT_EQ(ranks.code, 0) << ranks.error;
  EXPECT_EQ(ranks.out, alone.out);
  const auto three = run("run " + module + " --engine reference", fmt::format("{} -n 3", TESSERA_MPIEXEC));
  EXPECT_EQ(three.out, alone.out) << "each rank evaluates the same";
  EXPECT_EQ(three.error, alone.error) << "one rank says so";
}

TEST_F(TesseraCommand, RunReadsStandardInputOnceForAllRanks) {
  allow_mpirun();
  const std::string two = fmt::format("{} -n 2", TESSERA_MPIEXEC);
  const std::string options = " --mesh data=2 --annotate x=data,-";
  const auto piped = run("run -" + options + " <sum.hlo", two);
  EXPECT_EQ(piped.code, 0) << piped.error;
  EXPECT_EQ(piped.out, run("run sum.hlo" + options, two).out);
  const auto empty = run("run -" + options + " </dev/null", two);
  EXPECT_EQ(empty.code, 1);
  EXPECT_NE(empty.error.find("<stdin>: the text is empty"), std::string::npos) << empty.error;
}

TEST_F(TesseraCommand, RunRefusesInputsThatDifferBetweenRanks) {
  allow_mpirun();
  const auto parts = [&](const std::string& first, const std::string& second) {
    const std::string program = fmt::format("'{}' run sum.hlo --mesh data=2 --annotate x=data,-", TESSERA_COMMAND);
    return fmt::format("{} -n 1 {} {} : -n 1 {} {} #", TESSERA_MPIEXEC, program, first, program, second);
  };
  const auto seeds = run("", parts("--seed 1", "--seed 2"));
  EXPECT_NE(seeds.code, 0) << seeds.out;
  EXPECT_NE(
      seeds.error.find("parameter %x s32[7,5] is not the same on all ranks: rank 1 has a different value than rank 0"),
      std::string::npos)
      << seeds.error;
  EXPECT_EQ(seeds.out, "");
  EXPECT_EQ(run("", parts("--seed 3", "--seed 3")).code, 0);
  EXPECT_EQ(run("", "TESSERA_CHECK_INPUTS=0 " + parts("--seed 1", "--seed 2")).code, 0);
}

TEST_F(TesseraCommand, RunRefusesProgramsThatDifferBetweenRanks) {
  allow_mpirun();
  const auto other = file("other.hlo", R"(HloModule sum
ENTRY e {
  x = s32[7,5] parameter(0)
  dead = s32[7,5] add(x, x)
  zero = s32[] constant(0)
  ROOT y = s32[7,5] negate(x)
})");
  for (const std::string engine : {"runtime", "reference"}) {
    const auto part = [&](const std::string& program) {
      return fmt::format("'{}' run {} --engine {}", TESSERA_COMMAND, program, engine);
    };
    const auto mixed = run("", fmt::format("{} -n 1 {} : -n 1 {} #", TESSERA_MPIEXEC, part("sum.hlo"), part(other)));
    EXPECT_NE(mixed.code, 0) << mixed.out;
    EXPECT_EQ(mixed.out, "");
    EXPECT_NE(mixed.error.find("the program is not the same on all ranks: rank 1 has another program than rank 0"),
              std::string::npos)
        << mixed.error;
  }
}

TEST_F(TesseraCommand, RunNamesThePurposeOfAFailedAllocation) {
  allow_mpirun();
  const auto module = file("huge.hlo", R"(HloModule huge
ENTRY e {
  x = f32[70368744177664] iota(), iota_dimension=0
  ROOT y = f32[70368744177664] negate(x)
})");
  const auto outcome = run("run " + module, fmt::format("{} -n 2", TESSERA_MPIEXEC));
  EXPECT_NE(outcome.code, 0);
  const std::string text =
      ": tessera run: out of memory: cannot allocate 256.00TB (281474976710656 bytes) for the array "
      "f32[70368744177664]; this rank has ";
  // The ranks print one message, unless one of them fails more than a second after the other.
  const bool names_ranks = outcome.error.find("all 2 ranks" + text) != std::string::npos ||
                           outcome.error.find("rank 0 of 2" + text) != std::string::npos ||
                           outcome.error.find("rank 1 of 2" + text) != std::string::npos;
  EXPECT_TRUE(names_ranks) << outcome.error;
  EXPECT_NE(outcome.error.find("; the machine has "), std::string::npos) << outcome.error;
}

// mimalloc's operators new end the process without a message, and its malloc promises more memory than there is.
TEST_F(TesseraCommand, MemoryThatRunsOutIsAnErrorWithAMessage) {
  if (testing::kIsSanitized) GTEST_SKIP() << "sanitizers need terabytes of addresses";
  const auto module = file("large.hlo", R"(HloModule large
ENTRY e {
  x = f32[1000000000] iota(), iota_dimension=0
  y = f32[1000000000] negate(x)
  ROOT z = f32[1000000000] add(x, y)
})");
  for (const std::string verb : {"check", "run --engine reference"}) {
    const auto outcome = run(verb + " " + module, "ulimit -v 3000000;");
    EXPECT_EQ(outcome.code, 1) << outcome.error;
    EXPECT_NE(outcome.error.find("out of memory"), std::string::npos) << outcome.error;
  }
  const auto more_than_the_machine_has = file("huge.hlo", R"(HloModule huge
ENTRY e {
  x = f32[1099511627776] iota(), iota_dimension=0
  ROOT y = f32[1099511627776] negate(x)
})");
  const auto outcome = run("check " + more_than_the_machine_has);
  EXPECT_EQ(outcome.code, 1) << outcome.error;
  EXPECT_NE(outcome.error.find("out of memory: cannot allocate "), std::string::npos) << outcome.error;
}

TEST_F(TesseraCommand, RunShowsAResultOfOneDevice) {
  const auto module = file("maximal.hlo", R"(HloModule maximal
ENTRY e {
  x = f32[4] parameter(0), sharding={maximal device=1}
  ROOT y = f32[4] negate(x), sharding={maximal device=2}
})");
  const auto expected = run("run " + module + " --engine reference");
  EXPECT_EQ(expected.code, 0) << expected.error;
  const auto three = run("run " + module + " --virtual-ranks 3");
  EXPECT_EQ(three.code, 0) << three.error;
  EXPECT_EQ(three.out, expected.out);
}

TEST_F(TesseraCommand, WarningsOfATextAppearOnceForAllVirtualRanks) {
  const auto module = file("signature.hlo", R"(HloModule signature
%e (a: f32[3]) -> f32[3] {
  %a = f32[3] parameter(0)
  ROOT %b = f32[3] negate(%a)
}
ENTRY %main (x: f32[3], y: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  ROOT %c = f32[3] call(%x), to_apply=%e
})");
  const auto outcome = run("run " + module + " --virtual-ranks 3");
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  const auto first = outcome.error.find("lists the parameters");
  EXPECT_NE(first, std::string::npos) << outcome.error;
  EXPECT_EQ(outcome.error.find("lists the parameters", first + 1), std::string::npos) << outcome.error;
}

TEST_F(TesseraCommand, RunGivesTheSameResultsOnOneRankAndOnTwo) {
  allow_mpirun();
  const auto one = run("run sum.hlo --outputs " + path("out.safetensors"));
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_TRUE(one.out.starts_with("result.0: s32[7,5] sum ")) << one.out;
  const auto two = run("run sum.hlo --mesh data=2 --annotate x=data,-", fmt::format("{} -n 2", TESSERA_MPIEXEC));
  EXPECT_EQ(two.code, 0) << two.error;
  EXPECT_EQ(two.out, one.out);
  const auto wrong = run("run sum.hlo --inputs " + path("out.safetensors"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.error.find("has no tensor \"x\""), std::string::npos) << wrong.error;
}

}  // namespace
}  // namespace tessera::command_tests
