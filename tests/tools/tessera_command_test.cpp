// SPDX-License-Identifier: Apache-2.0
// The command line: output, messages and exit codes. TESSERA_UPDATE_GOLDEN=1 rewrites the golden files.
#include <algorithm>

#include "tessera/sharding/machine.h"
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

TEST_F(TesseraCommand, HelpSucceedsAndAMissingVerbIsAUsageError) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("--help").out.find("Exit codes: 0: success; 1: the input is wrong, or output cannot be written; 2: the "
                                   "command line is wrong;\n3: a difference was found, or no layout fits into the "
                                   "memory.\n"),
            std::string::npos);
  EXPECT_EQ(run("").code, 2);
  for (const std::string verb : {"partition", "optimize", "stats", "check", "run", "print"}) {
    const auto help = run(verb + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(help.out.starts_with("tessera " + verb + ": ")) << help.out;
  }
}

TEST_F(TesseraCommand, VersionNamesTheBuildAndTheMpiLibrary) {
  const auto version = run("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.out.starts_with("tessera   " TESSERA_VERSION "\ncompiler  ")) << version.out;
  EXPECT_NE(version.out.find("\nMPI       "), std::string::npos) << version.out;
  EXPECT_EQ(std::count(version.out.begin(), version.out.end(), '\n'), 3) << version.out;
  EXPECT_NE(run("--help").out.find("`tessera --version`"), std::string::npos);
}

TEST_F(TesseraCommand, UnknownNamesGetTheNearestOne) {
  const auto verb = run("partitoin x");
  EXPECT_EQ(verb.code, 2);
  EXPECT_EQ(verb.error, "tessera: unknown verb \"partitoin\"; did you mean \"partition\"?\ntry `tessera --help`\n");
  const auto option = run("partition mlp.hlo --anotate x=data");
  EXPECT_EQ(option.code, 2);
  EXPECT_EQ(
      option.error,
      "tessera partition: unknown option --anotate; did you mean \"--annotate\"?\ntry `tessera partition --help`\n");
  const auto value = run("partition mlp.hlo --mesh data=2 --annotate xx=data,-");
  EXPECT_EQ(value.code, 1);
  EXPECT_EQ(value.error, "tessera partition: no value of main is named \"xx\"; did you mean \"x\"?\n");
}

TEST_F(TesseraCommand, UsageErrorsExitWith2) {
  EXPECT_EQ(
      run("print").error,
      "tessera print: an input is missing: a file of HLO text, or - for standard input\ntry `tessera print --help`\n");
  EXPECT_EQ(run("print a.hlo b.hlo").code, 2);
  EXPECT_EQ(run("partition mlp.hlo --mesh").error,
            "tessera partition: --mesh needs AXIS=SIZE,..\ntry `tessera partition --help`\n");
  EXPECT_EQ(
      run("partition mlp.hlo --num-partitions many").error,
      "tessera partition: --num-partitions takes a number from 1 to 1048576, got \"many\"\ntry `tessera partition "
      "--help`\n");
  EXPECT_EQ(run("partition mlp.hlo --explain=yes").code, 2);
  EXPECT_EQ(run("check mlp.hlo --engine fast").code, 2);
}

TEST_F(TesseraCommand, WrongInputsExitWith1AndOneMessage) {
  EXPECT_EQ(run("print nothing.hlo").error, "tessera print: cannot read nothing.hlo: No such file or directory\n");
  const auto wrong = run("print " + file("bad.hlo", "HloModule m\nENTRY e { x = f32[2] parametr(0) }\n"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.error, fmt::format("tessera print: {}:2:22: unknown op \"parametr\"; did you mean \"parameter\"?\n"
                                     "  ENTRY e {{ x = f32[2] parametr(0) }}\n                       ^\n",
                                     path("bad.hlo")));
  EXPECT_EQ(run("partition mlp.hlo --annotate x=data,-").error,
            "tessera partition: --annotate needs a mesh, such as --mesh data=2,model=2\n");
}

TEST_F(TesseraCommand, PrintReadsItsOwnOutputFromStandardInput) {
  const auto once = run("print mlp.hlo");
  EXPECT_EQ(once.code, 0);
  expect_golden("mlp.print.hlo", once.out);
  EXPECT_EQ(run("print - <'" + file("again.hlo", once.out) + "'").out, once.out);
}

TEST_F(TesseraCommand, PartitionPrintsOneAllReduceForAMegatronMlp) {
  const auto out = run(std::string("partition --for-xla ") + kMegatron + "-o " + path("p.hlo") + " --explain --json " +
                       path("s.json"));
  EXPECT_EQ(out.code, 0) << out.error;
  expect_golden("mlp.partitioned.hlo", content(path("p.hlo")));
  expect_golden("mlp.explained.txt", out.out);
  EXPECT_NE(content(path("s.json")).find("\"milliseconds\": "), std::string::npos);
  EXPECT_EQ(out.error, "");
}

TEST_F(TesseraCommand, PropagationChoosesTheShardingsOfOpenResultsAndParameters) {
  const std::string spec = "partition mlp.hlo --mesh data=2,model=2 --annotate x=data,- --annotate w=-,model ";
  const auto local = [&](const std::string& more) {
    const std::string text = run(spec + more).out;
    return text.substr(0, text.find('\n'));
  };
  EXPECT_NE(local("").find("->f32[6,4]"), std::string::npos) << local("");  // y is replicated
  EXPECT_EQ(local("--open-results").find("->f32[6,4]"), std::string::npos) << local("--open-results");
  EXPECT_EQ(local("--open-results"), local("--annotate y=?,?"));
  EXPECT_NE(local("--open-results"), local("--open-results --open-parameters"));
}

TEST_F(TesseraCommand, PartitioningTwiceIsAnErrorAndAClashOfCountsToo) {
  EXPECT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("p.hlo")).code, 0);
  const auto twice = run("partition " + path("p.hlo"));
  EXPECT_EQ(twice.code, 1);
  EXPECT_NE(twice.error.find("already partitioned"), std::string::npos) << twice.error;
  const auto clash = run("partition " + path("p.hlo") + " --num-partitions 4");
  EXPECT_EQ(clash.code, 1);
  EXPECT_NE(clash.error.find(": the module is for 6 partitions, but 4 were requested\n"), std::string::npos)
      << clash.error;
}

TEST_F(TesseraCommand, StatsCountsTheBytesThatOneDeviceReceives) {
  ASSERT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("p.hlo")).code, 0);
  const auto table = run("stats " + path("p.hlo"));
  EXPECT_EQ(table.code, 0) << table.error;
  expect_golden("mlp.stats.txt", table.out);
  const auto json = run("stats --json - " + path("p.hlo"));
  EXPECT_NE(json.out.find("\"num_partitions\": 6"), std::string::npos) << json.out;
  EXPECT_EQ(json.out.find("milliseconds"), std::string::npos);
}

TEST_F(TesseraCommand, CheckPassesOnBothEngines) {
  for (const std::string engine : {"reference", "runtime"}) {
    const auto out = run(fmt::format("check {}--engine {} --json {}", kMegatron, engine, path("c.json")));
    EXPECT_EQ(out.code, 0) << engine << out.out << out.error;
    EXPECT_TRUE(out.out.starts_with("passed: ")) << out.out;
    EXPECT_NE(content(path("c.json")).find("\"passed\": true"), std::string::npos);
  }
}

TEST_F(TesseraCommand, ATopologySelectsByTimeAndReportsIt) {
  const auto program = file("m.hlo", R"(HloModule m
ENTRY %main (x: f32[8,16]) -> f32[8,16] {
  %x = f32[8,16] parameter(0)
  ROOT %y = f32[8,16] negate(%x)
})");
  const std::string partition = fmt::format("partition {} --mesh a=2,b=4 --annotate x=a+b,- --explain --json {} -o {}",
                                            program, path("s.json"), path("p.hlo"));
  const auto plain = run(partition);
  EXPECT_EQ(plain.code, 0) << plain.error;
  EXPECT_TRUE(plain.out.ends_with("1 collective, 448 bytes received per device\n")) << plain.out;
  EXPECT_EQ(content(path("s.json")).find("modelled"), std::string::npos);
  const auto slow = file("slow.json", R"({"axes": {"a": {"gigabytes_per_second": 1}}})");
  const auto timed = run(partition + " --topology " + slow);
  EXPECT_EQ(timed.code, 0) << timed.error;
  EXPECT_NE(timed.out.find(" over a: 64 bytes received per device, 6.4e-05 ms modelled\n"), std::string::npos)
      << timed.out;
  EXPECT_TRUE(timed.out.ends_with("3 collectives, 496 bytes received per device, 0.0001072 ms modelled\n"))
      << timed.out;
  EXPECT_NE(content(path("s.json")).find("\"modelled_milliseconds\": 0.0001072"), std::string::npos);
  const auto wrong = run(partition + " --topology " + file("wrong.json", R"({"axes": {"rack": {}}})"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.error, "tessera partition: the topology names the axis \"rack\", which no mesh has; known: a, b\n");
}

TEST_F(TesseraCommand, AMachineModelsTheTimeOfAStep) {
  const auto program = file("m.hlo", R"(HloModule m
ENTRY %main (x: f32[64,128], w: f32[128,192]) -> f32[64,192] {
  %x = f32[64,128] parameter(0)
  %w = f32[128,192] parameter(1)
  ROOT %y = f32[64,192] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  const auto machine = file("machine.json", R"({"name": "toy", "memory_gigabytes_per_second": 1e9,
    "gigaflops": {"f32": {"wide_product": 1, "narrow_product": 0.5, "other": 0.25}},
    "links": {"other": {"latency_us": 1000, "gigabytes_per_second": 1}}})");
  const auto stats = run(fmt::format("stats {} --machine {} --json {}", program, machine, path("s.json")));
  EXPECT_EQ(stats.code, 0) << stats.error;
  // 2 * 64 * 128 * 192 operations at 1 GFLOP/s.
  EXPECT_NE(stats.out.find("3.14573 ms modelled on toy\n"), std::string::npos) << stats.out;
  // The contraction is sharded by two: half of the work, then an all-reduce of 49,152 bytes in two messages.
  const auto summed =
      run(fmt::format("partition {} --mesh k=2 --annotate x=-,k --annotate w=k,- --machine {} --json {}", program,
                      machine, path("p.json")));
  EXPECT_EQ(summed.code, 0) << summed.error;
  EXPECT_NE(content(path("p.json")).find("\"modelled_milliseconds\": 2.049152"), std::string::npos)
      << content(path("p.json"));
  EXPECT_NE(content(path("p.json")).find("\"modelled_step_milliseconds\": 3.62"), std::string::npos)
      << content(path("p.json"));
  const auto unknown = run(fmt::format("stats {} --machine tpu-v44", program));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.error.find("there is no machine profile \"tpu-v44\""), std::string::npos) << unknown.error;
  EXPECT_NE(unknown.error.find("tpu-v4\""), std::string::npos) << unknown.error;
}

TEST_F(TesseraCommand, CalibrateWritesAProfileThatStatsReads) {
  const auto program = file("m.hlo", "HloModule m\nENTRY e {\n  ROOT x = f32[64] parameter(0)\n}\n");
  const auto measured =
      run(fmt::format("calibrate {} --virtual-ranks 6 --mesh a=2,b=3 --milliseconds 1 --name here", path("m.json")));
  EXPECT_EQ(measured.code, 0) << measured.error;
  const MachineModel machine = MachineModel::load(path("m.json"));
  EXPECT_EQ(machine.name(), "here");
  EXPECT_TRUE(machine.memory_bytes().has_value());
  EXPECT_GT(machine.links().link("a").latency_seconds, 0);
  EXPECT_EQ(machine.links().other(), slower(machine.links().link("a"), machine.links().link("b")));
  const auto stats = run(fmt::format("stats {} --machine {}", program, path("m.json")));
  EXPECT_EQ(stats.code, 0) << stats.error;
  EXPECT_NE(stats.out.find(" ms modelled on here\n"), std::string::npos) << stats.out;
  const auto wrong = run(fmt::format("calibrate {} --virtual-ranks 2 --mesh a=3 --milliseconds 1", path("n.json")));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.error.find("3"), std::string::npos) << wrong.error;
}

TEST_F(TesseraCommand, UnknownAttributesAreKeptWithOneWarning) {
  const auto program = file("m.hlo",
                            "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n"
                            "  y = f32[4] reverse(x), dimensions={0}, metadta={a}, operand_precision={high}\n"
                            "  ROOT z = f32[4] reverse(y), dimensions={0}, metadta={b}, sharrding={replicated}\n}\n");
  const auto run_of = run("print " + program);
  EXPECT_EQ(run_of.code, 0);
  EXPECT_EQ(run_of.error,
            fmt::format("warning: {0}:4:42: reverse has no attribute metadta, it is kept unchanged; did you "
                        "mean \"metadata\"?\n"
                        "warning: {0}:5:60: reverse has no attribute sharrding, it is kept unchanged; did "
                        "you mean \"sharding\"?\n",
                        program));
  EXPECT_NE(run_of.out.find("metadta={b}, sharrding={replicated}"), std::string::npos) << run_of.out;
  const auto empty =
      run("print " + file("n.hlo", "HloModule m\nENTRY e { ROOT x = f32[4] parameter(0), sharding= }\n"));
  EXPECT_EQ(empty.code, 1);
  EXPECT_NE(empty.error.find("expected the value of the attribute, got \"}\""), std::string::npos) << empty.error;
}

TEST_F(TesseraCommand, PrintDrawsTheShardingOfAValue) {
  const auto drawn = run("print mlp.hlo --mesh data=2 --annotate x=data,- --sharding x");
  EXPECT_EQ(drawn.code, 0) << drawn.error;
  EXPECT_NE(drawn.out.find("{data,-}\n┌────────────┐\n│            │\n│     0      │\n"), std::string::npos)
      << drawn.out;
  const auto svg = run("print mlp.hlo --mesh data=2 --annotate x=data,- --sharding x --svg -");
  EXPECT_TRUE(svg.out.starts_with("<svg xmlns=")) << svg.out;
  const auto wrong = run("print mlp.hlo --mesh data=2 --sharding y_");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.error.find("is named \"y_\""), std::string::npos) << wrong.error;
  EXPECT_EQ(run("print mlp.hlo --svg -").code, 2);
}

TEST_F(TesseraCommand, APictureOfAPartitionedFileIsRefused) {
  ASSERT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("local.hlo")).code, 0);
  const auto drawn = run("print " + path("local.hlo") + " --sharding x");
  EXPECT_EQ(drawn.code, 1);
  EXPECT_EQ(drawn.out, "");
  EXPECT_NE(drawn.error.find("mlp is a per-device program, but drawings show complete values on all devices"),
            std::string::npos)
      << drawn.error;
}

TEST_F(TesseraCommand, DumpsOfAProgramAreInOneFolder) {
  allow_mpirun();
  const auto folders = [&](const std::string& name) {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(path(name))) out.push_back(entry.path().filename().string());
    return out;
  };
  ASSERT_EQ(run(std::string("partition ") + kMegatron + "--explain -o " + path("p.hlo"),
                "env TESSERA_DUMP_DIR=" + path("partitioned"))
                .code,
            0);
  EXPECT_EQ(folders("partitioned").size(), 1U) << "attempts are dumped too";
  ASSERT_EQ(run("run mlp.hlo --mesh data=2 --annotate x=data,-",
                fmt::format("env TESSERA_DUMP_DIR={} {} -n 2", path("ran"), TESSERA_MPIEXEC))
                .code,
            0);
  ASSERT_EQ(folders("ran").size(), 1U);
  EXPECT_TRUE(fs::exists(path("ran/" + folders("ran").front() + "/partition/00-input.hlo")));
  EXPECT_TRUE(fs::exists(path("ran/" + folders("ran").front() + "/run/program.hlo")));
}

TEST_F(TesseraCommand, OutputsThatCannotBeWrittenAreFoundBeforeAnythingRuns) {
  const auto refused = run("run sum.hlo --outputs " + path("no/such/folder/y.safetensors"));
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.out, "") << "it ran";
  EXPECT_NE(refused.error.find("tessera run: cannot write " + path("no/such/folder/y.safetensors")), std::string::npos)
      << refused.error;
  ASSERT_EQ(run("run sum.hlo --outputs " + path("y.safetensors")).code, 0);
  EXPECT_FALSE(content(path("y.safetensors")).empty());
  const auto unreadable = run("run no_such.hlo --outputs " + path("z.safetensors"));
  EXPECT_EQ(unreadable.code, 1);
  EXPECT_FALSE(fs::exists(path("z.safetensors"))) << "nothing was made of it";
}

TEST_F(TesseraCommand, AxesWithoutShardingsAreNoted) {
  const auto out = run("partition mlp.hlo --mesh data=2,model=2,spare=2 --annotate x=data,- -o " + path("p.hlo"));
  EXPECT_EQ(
      out.error,
      "note: nothing is sharded over model, spare of mesh<data=2, model=2, spare=2>: devices along them do the same "
      "work\n");
  EXPECT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("p.hlo")).error, "");
}

TEST_F(TesseraCommand, BytesOfALoopStateTheirIterations) {
  const auto module = file("loop.hlo", R"(HloModule m, num_partitions=2
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
more { s = (s32[], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(7)
  ROOT go = pred[] compare(i, n), direction=LT }
round { s = (s32[], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[6] get-tuple-element(s), index=1 one = s32[] constant(1) next = s32[] add(i, one)
  r = f32[6] sort(x), dimensions={0}, to_apply=less
  ROOT out = (s32[], f32[6]) tuple(next, r) }
ENTRY e { x = f32[6] parameter(0), sharding={devices=[2]<=[2]} zero = s32[] constant(0)
  init = (s32[], f32[6]) tuple(zero, x) end = (s32[], f32[6]) while(init), condition=more, body=round
  ROOT y = f32[6] get-tuple-element(end), index=1, sharding={devices=[2]<=[2]} })");
  const auto out = run("partition " + module + " --explain -o " + path("p.hlo"));
  ASSERT_EQ(out.code, 0) << out.error;
  EXPECT_NE(out.out.find(" bytes received per device in 7 rounds\n"), std::string::npos) << out.out;
  EXPECT_NE(out.out.find(" %round/"), std::string::npos) << "a collective of the loop";
  const auto stats = run("stats " + path("p.hlo"));
  EXPECT_NE(stats.out.find("  run "), std::string::npos) << stats.out;
}

TEST_F(TesseraCommand, NamesOfRemovedShardingMarksAreStillAccepted) {
  const std::string module = file("marks.hlo", R"(HloModule m, num_partitions=4
ENTRY e {
  a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
  c = f32[8,8] tanh(a)
  s1 = f32[8,8] custom-call(c), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
  s2 = f32[8,8] custom-call(s1), custom_call_target="Sharding", sharding={replicated}, backend_config="unspecified_dims=[0,1]"
  ROOT d = f32[8,8] negate(s2)
})");
  EXPECT_TRUE(run("print " + module + " --sharding s1").out.starts_with("%s1: f32[8,8] {-,_0}"));
  EXPECT_TRUE(run("print " + module + " --sharding s2").out.starts_with("%s1: f32[8,8] {-,_0}"));
  const auto annotated = run("print " + module + " --mesh x=4 --annotate s2=-,x --sharding s2");
  EXPECT_TRUE(annotated.out.starts_with("%s2: f32[8,8] {-,x}")) << annotated.out << annotated.error;
}

TEST_F(TesseraCommand, ErrorsAtARegionBorderHaveItsLocationAndARemedy) {
  const auto module = [](const char* mark, const char* local) {
    return fmt::format(R"(HloModule m, num_partitions=8
ENTRY e {{
  a = f32[8,8] parameter(0)
  s = f32[8,8] custom-call(a), custom_call_target="Sharding"{}
  m = f32[{}] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  ROOT r = f32[8,8] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={{devices=[8,1]<=[8]}}
}})",
                       mark, local);
  };
  const auto sizes = run("partition " + file("m.hlo", module(", sharding={devices=[8,1]<=[8]}", "2,8")));
  EXPECT_EQ(sizes.error.substr(0, sizes.error.find('\n')),
            "tessera partition: " + path("m.hlo") +
                ":5:3: %m: f32[8,8] sharded as {_0,-} is f32[1,8] per device, but the region declares f32[2,8]");
  const auto vague = run("partition " + file("m.hlo", module("", "2,8")));
  EXPECT_TRUE(vague.error.starts_with("tessera partition: " + path("m.hlo") + ":5:3: %m: enters a region as f32[2,8]"))
      << vague.error;
  EXPECT_NE(vague.error.find("annotate %s\n"), std::string::npos) << vague.error;
}

TEST_F(TesseraCommand, UnknownEnvironmentVariablesCauseAWarning) {
  const std::string warning =
      "warning: unknown environment variable TESSERA_DUMPDIR; did you mean \"TESSERA_DUMP_DIR\"?\n";
  EXPECT_EQ(run("print mlp.hlo", "env TESSERA_DUMPDIR=x").error, warning);
  allow_mpirun();
  EXPECT_EQ(run("run sum.hlo --mesh data=2", fmt::format("env TESSERA_DUMPDIR=x {} -n 2", TESSERA_MPIEXEC)).error,
            warning);
}

TEST_F(TesseraCommand, OptimizeCombinesCollectivesWithoutChangingResults) {
  const auto optimized = run("optimize collectives.hlo -o " + path("o.hlo") + " --json -");
  EXPECT_EQ(optimized.code, 0) << optimized.error;
  EXPECT_NE(optimized.out.find("\"total_collective_bytes\": 994"), std::string::npos) << optimized.out;
  for (const std::string op : {"all-reduce", "all-gather", "reduce-scatter", "collective-permute"})
    EXPECT_NE(content(path("o.hlo")).find(fmt::format("%{0}.combined = ", op)), std::string::npos) << op;
  EXPECT_EQ(run("stats " + path("o.hlo") + " --json -").out, optimized.out);
  allow_mpirun();
  const std::string launch = fmt::format("{} -n 4", TESSERA_MPIEXEC);
  const auto before = run("run collectives.hlo", launch);
  EXPECT_EQ(before.code, 0) << before.error;
  EXPECT_EQ(run("run " + path("o.hlo"), launch).out, before.out);
}

TEST_F(TesseraCommand, OptimizeRefusesGlobalPrograms) {
  const auto refused = run("optimize marked.hlo");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.error.find("this is a global program (%y of main has a sharding); run `tessera partition` first"),
            std::string::npos)
      << refused.error;
  EXPECT_EQ(run("partition marked.hlo -o " + path("p.hlo")).code, 0);
  EXPECT_EQ(run("optimize " + path("p.hlo") + " -o " + path("o.hlo")).code, 0);
}

TEST_F(TesseraCommand, PassesAreSkippedByName) {
  const auto stats_without = [&](const std::string& passes) {
    EXPECT_EQ(run("optimize collectives.hlo -o " + path("o.hlo") + " " + passes).code, 0);
    return run("stats " + path("o.hlo")).out;
  };
  EXPECT_NE(stats_without("").find("all-reduce                1 "), std::string::npos);
  EXPECT_NE(stats_without("--disable-passes share-gathers,combine-collectives").find("all-reduce                2 "),
            std::string::npos);
  EXPECT_NE(stats_without("--memory-bound 100").find("all-reduce                2 "), std::string::npos);
  const auto wrong = run("optimize collectives.hlo --disable-passes combine-colectives");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.error.find("passes that can be skipped: "), std::string::npos) << wrong.error;
  EXPECT_NE(wrong.error.find("combine-collectives"), std::string::npos) << wrong.error;
}

}  // namespace
}  // namespace tessera::command_tests
