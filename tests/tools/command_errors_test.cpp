// SPDX-License-Identifier: Apache-2.0
// The errors of the command for wrong input, and its exit codes: one message, no crash.
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

// The arguments, and the message after "tessera VERB: ".
struct Wrong {
  const char* arguments;
  int code;
  const char* error;
};

class CommandErrors : public TesseraCommand {
 protected:
  void expect(const Wrong& wrong) const {
    const std::string arguments = wrong.arguments;
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, wrong.code) << arguments << "\n" << outcome.error;
    EXPECT_EQ(outcome.out, "") << arguments;
    const std::string prefix = "tessera " + arguments.substr(0, arguments.find(' ')) + ": ";
    const std::string help = wrong.code == 2 ? "try `" + prefix.substr(0, prefix.size() - 2) + " --help`\n" : "";
    EXPECT_EQ(outcome.error, prefix + wrong.error + "\n" + help) << arguments;
  }
};

TEST_F(CommandErrors, OfFilesAndStandardInput) {
  expect({"print no/such.hlo", 1, "cannot read no/such.hlo: No such file or directory"});
  expect({"stats .", 1, "cannot read .: Is a directory"});
  expect({"check /dev/null", 1, "/dev/null: the text is empty; an HLO module begins with `HloModule` and its name"});
  expect({"run - </dev/null", 1, "<stdin>: the text is empty; an HLO module begins with `HloModule` and its name"});
  expect({"print mlp.hlo -o no/such/out.hlo", 1, "cannot write no/such/out.hlo: No such file or directory"});
}

TEST_F(CommandErrors, OfBytesThatAreNotText) {
  std::string garbage =
      "\x7f"
      "ELF\x02\x01\x01";
  for (int i = 0; i < 5000; ++i) garbage += static_cast<char>(i * 37 % 256);
  const auto outcome = run("print " + file("garbage", garbage));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(outcome.error.starts_with(fmt::format(
      "tessera print: {}:1:1: expected HloModule and the name of the module, got the byte 0x7f\n", path("garbage"))));
  for (const char c : outcome.error) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
}

TEST_F(CommandErrors, OfSerializedProgramsNameTheirForm) {
  const std::string how =
      "; tessera reads HLO text: in JAX print jax.jit(f).lower(x).compiler_ir(\"hlo\").as_hlo_text(), elsewhere set "
      "XLA_FLAGS=\"--xla_dump_to=FOLDER --xla_dump_hlo_as_text\"\n";
  // An HloModuleProto (name, entry_computation_name, computations, id), and an HloProto that contains it.
  const std::string module =
      std::string("\x0a\x04main\x12\x01") + "e" + std::string("\x1a\x03\x0a\x01") + "e" + "\x28\x01";
  const std::string proto = std::string("\x0a") + static_cast<char>(module.size()) + module;
  const std::string long_module = module + std::string("\x1a\xd0\x0f", 3) + std::string(100, 'x');  // of 2000 bytes
  for (const std::string& content : {module, proto, long_module})
    EXPECT_EQ(run("print " + file("m.pb", content)).error,
              fmt::format("tessera print: {}: the file is a serialized protocol buffer (HloModuleProto or HloProto){}",
                          path("m.pb"), how));
  EXPECT_EQ(run("print " + file("m.mlirbc", "ML\xefR\x01MLIR")).error,
            fmt::format("tessera print: {}: the file is MLIR bytecode (StableHLO){}", path("m.mlirbc"), how));
  EXPECT_EQ(run("print " + file("text.hlo", "\nHloModule m\nENTRY e { ROOT x = f32[] parameter(0) }")).code, 0);
}

TEST_F(CommandErrors, OfTruncatedTexts) {
  const std::string text = content(fs::path(TESSERA_DATA) / "mlp.hlo");
  int refused = 0;
  for (std::size_t size = 0; size < text.size(); size += 97) {
    const auto outcome = run("print " + file("cut.hlo", text.substr(0, size)));
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.code << " for the first " << size << " bytes";
    refused += outcome.code;
  }
  EXPECT_GT(refused, 2);
}

TEST_F(CommandErrors, OfOptionsThatAreGivenTwice) {
  expect({"run mlp.hlo --seed 1 --seed 2", 2, "--seed is given twice, with 1 and 2; give it once"});
  expect({"partition mlp.hlo --mesh data=2 -o a.hlo -o b.hlo", 2,
          "-o is given twice, with a.hlo and b.hlo; give it once"});
  expect({"partition mlp.hlo --mesh data=2 --mesh data=3", 2,
          "--mesh is given twice, with data=2 and data=3; give it once"});
  expect({"partition mlp.hlo --mesh data=2 -o x --json ./x", 2,
          "-o and --json both write to ./x; give them different files"});
  expect({"stats mlp.hlo --json - --json a.json", 2, "--json is given twice, with - and a.json; give it once"});
}

TEST_F(CommandErrors, OfMeshesAndAnnotations) {
  expect({"partition mlp.hlo --mesh data=2,model", 2,
          "--mesh: mesh \"data=2,model\": expected axis=size, as in data=2, got \"model\""});
  expect({"partition mlp.hlo --mesh data=99999999999", 2,
          "--mesh: mesh \"data=99999999999\" has 99999999999 devices, more than 2^20"});
  expect({"partition mlp.hlo --mesh data=0", 2,
          "--mesh: mesh \"data=0\": size of axis \"data\" must be a positive number or -1, got \"0\""});
  expect({"partition mlp.hlo --mesh data=-1", 2,
          "--mesh: mesh \"data=-1\": -1 needs the number of devices, which is not given"});
  expect(
      {"partition mlp.hlo --mesh data+x=2", 2,
       "--mesh: mesh \"data+x=2\": an axis cannot be named \"data+x\": '+' means something else in partition specs"});
  expect({"partition mlp.hlo -o --mesh data=2", 2, "-o needs OUT.hlo"});
  expect({"partition mlp.hlo --mesh data=2,data=2", 2, "--mesh: mesh axis \"data\" is named twice"});
  expect({"partition mlp.hlo --mesh data=2,model=2 --num-partitions 8", 2,
          "--mesh: mesh \"data=2,model=2\" has 4 devices; its axes must multiply to 8, the number of devices (ranks)"});
  expect({"partition mlp.hlo --mesh data=-1,model=3 --num-partitions 8", 2,
          "--mesh: mesh \"data=-1,model=3\": 8 devices are not a multiple of 3, the product of the other axes"});
  expect({"partition mlp.hlo --annotate x=data,-", 1, "--annotate needs a mesh, such as --mesh data=2,model=2"});
  expect({"partition mlp.hlo --mesh data=2 --annotate w1=data,-", 1,
          "no value of main is named \"w1\"; did you mean \"w\"?"});
  expect({"partition mlp.hlo --mesh data=2 --annotate main/xx=data,-", 1,
          "no value of main is named \"xx\"; did you mean \"x\"?"});
  expect({"partition mlp.hlo --mesh data=2 --annotate mian/x=data,-", 1,
          "no computation is named \"mian\"; did you mean \"main\"?"});
  expect({"partition mlp.hlo --mesh data=2 --annotate x=dat,-", 1,
          "partition spec {dat,-}: mesh has no axis \"dat\"; axes are data; did you mean \"data\"?\n  %x: f32[6,4]"});
  expect({"partition mlp.hlo --mesh data=2 --annotate x=data", 1,
          "partition spec {data} has 1 entry, the tensor has 2 dims; give one entry per dim\n  "
          "%x: f32[6,4]"});
  expect({"partition mlp.hlo --mesh data=2 --annotate x=data,-,-", 1,
          "partition spec {data,-,-} has 3 entries, the tensor has 2 dims; give one entry per dim\n  %x: f32[6,4]"});
  expect({"partition mlp.hlo --mesh data=2 --annotate x=data,data", 1,
          "partition spec {data,data} uses axis \"data\" of mesh<data=2> twice; an axis may shard only one dim\n  %x: "
          "f32[6,4]"});
  expect({"partition mlp.hlo --mesh data=2 --annotate x", 2, "--annotate takes NAME=data,-,model, got \"x\""});
}

// An option whose value is a file: the command line may be right, so that the exit code is 1.
TEST_F(CommandErrors, OfValuesOfOptionsNameTheOption) {
  const std::string machine =
      "there is no machine profile \"cpu-nod\": give a file that `tessera calibrate` wrote, or "
      "a preset; did you mean \"cpu-node\"?";
  for (const char* verb : {"partition", "check", "stats", "optimize", "plan"})
    expect({(verb + std::string(" no.hlo --machine cpu-nod")).c_str(), 2, ("--machine: " + machine).c_str()});
  for (const char* verb : {"partition", "check", "stats", "optimize"})
    expect({(verb + std::string(" no.hlo --machine no/node.json")).c_str(), 1,
            "--machine: cannot read no/node.json: No such file or directory"});
  expect({"plan no.json --memory 12QB", 2, "--memory=12QB: must be a size such as 2GB or 1.5GiB"});
  expect({"partition no.hlo --auto --memory 0", 2, "--memory takes a size of at least 1 byte, got \"0\""});
  expect({"plan no.json --config-overrides n_head", 2, "--config-overrides: \"n_head\" must have the form key=value"});
  const auto optimizer = run("plan no.json --optim foo");
  EXPECT_EQ(optimizer.code, 2);
  EXPECT_TRUE(optimizer.error.starts_with("tessera plan: --optim: ")) << optimizer.error;
  expect({"partition no.hlo --bf16-axes a,b --int8-axes b", 2,
          "--int8-axes: axis \"b\" is listed for compression to bf16 and to int8; choose one"});
  expect({"calibrate out.json --mesh q", 2, "--mesh: mesh \"q\": expected axis=size, as in data=2, got \"q\""});
  expect({"calibrate out.json --virtual-ranks 2 --mesh a=3", 2,
          "--mesh: mesh \"a=3\" has 3 devices; its axes must multiply to 2, the number of devices (ranks)"});
  expect({"run no.hlo --engine reference --virtual-ranks 2", 2,
          "--engine reference evaluates the program on one rank; leave out --virtual-ranks"});
  expect({"tokenize no.txt -o no.tokens --tokenizer byts", 2,
          "--tokenizer: \"byts\" is neither bytes, nor bpe:N, nor a file"});
}

// These are reported before anything is read: the input files do not exist.
TEST_F(CommandErrors, OfValuesOfOptionsComeFirst) {
  expect({"partition no.hlo --max-bytes few", 2, "--max-bytes takes a number of at least 0, got \"few\""});
  expect({"partition no.hlo --memory-bound=-1", 2, "--memory-bound takes a number of at least 0, got \"-1\""});
  expect({"partition no.hlo --num-partitions 9999999", 2,
          "--num-partitions takes a number from 1 to 1048576, got \"9999999\""});
  expect({"optimize no.hlo --memory-bound 1.5", 2, "--memory-bound takes a number of at least 0, got \"1.5\""});
  expect({"stats no.hlo --num-partitions 0", 2, "--num-partitions takes a number from 1 to 1048576, got \"0\""});
  expect({"check no.hlo --trip-limit 0", 2, "--trip-limit takes a number of at least 1, got \"0\""});
  expect({"check no.hlo --engine fast", 2, "--engine takes one of reference, lowered, runtime, got \"fast\""});
  expect({"run no.hlo --mesh data", 2, "--mesh: mesh \"data\": expected axis=size, as in data=2, got \"data\""});
  expect({"run no.hlo --virtual-ranks 0", 2, "--virtual-ranks takes a number from 1 to 4096, got \"0\""});
  expect({"run no.hlo --virtual-ranks 3 --mesh data=2", 2,
          "--mesh: mesh \"data=2\" has 2 devices; its axes must multiply to 3, the number of devices (ranks)"});
  expect({"print no.hlo --svg x.svg", 2, "--svg draws the value of --sharding NAME"});
  expect({"print no.hlo --sharding x --sharding y --svg x.svg", 2, "--svg draws one value; give --sharding once"});
  for (const char* words : {"partition", "check", "optimize", "partition --bf16-axes a,b --int8-axes c"}) {
    const auto outcome = run(fmt::format("{} no.hlo --disable-passes combine-colectives", words));
    EXPECT_EQ(outcome.code, 2) << outcome.error;
    EXPECT_NE(outcome.error.find("--disable-passes: there is no pass \"combine-colectives\" to skip in"),
              std::string::npos)
        << outcome.error;
  }
  expect({"partition no.hlo --topology no.json", 1, "--topology: cannot read no.json: No such file or directory"});
  expect(
      {"partition no.hlo --explain-json no/such/e.json", 1, "cannot write no/such/e.json: No such file or directory"});
}

TEST_F(CommandErrors, OfOutputThatCannotBeWritten) {
  for (const std::string& arguments : std::vector<std::string>{
           "--help", "--version", "partition --help", "print mlp.hlo", "partition mlp.hlo", "stats mlp.hlo",
           "stats mlp.hlo --json -", "check mlp.hlo", "run mlp.hlo", "run mlp.hlo --virtual-ranks 2"}) {
    const auto outcome = run(arguments + " >/dev/full");
    EXPECT_EQ(outcome.code, 1) << arguments;
    EXPECT_NE(outcome.error.find("cannot write to standard output"), std::string::npos) << arguments << outcome.error;
  }
  for (const std::string& arguments :
       std::vector<std::string>{"print mlp.hlo -o /dev/full", "stats mlp.hlo --json /dev/full",
                                "partition mlp.hlo --explain-json /dev/full", "run mlp.hlo --outputs /dev/full"}) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments;
    EXPECT_NE(outcome.error.find("cannot write /dev/full: No space left on device"), std::string::npos)
        << arguments << outcome.error;
  }
}

TEST_F(CommandErrors, OfModulesForAnotherNumberOfDevices) {
  const auto module = file("two.hlo",
                           "HloModule two, num_partitions=2\n"
                           "ENTRY e { ROOT x = f32[4] parameter(0), sharding={devices=[2]<=[2]} }\n");
  EXPECT_EQ(run("partition " + module + " --num-partitions 3").error,
            fmt::format("tessera partition: {}:1:16: the module is for 2 partitions, but 3 were requested\n"
                        "  HloModule two, num_partitions=2\n                 ^\n",
                        module));
  const auto alone = run("run " + module);
  EXPECT_EQ(
      alone.error,
      fmt::format("tessera run: {} is for 2 partitions, but this job has 1 rank; start it with mpirun -np 2, or give "
                  "--virtual-ranks 2, or give --engine reference, which needs one rank\n",
                  module));
  EXPECT_EQ(alone.code, 1);
}

TEST_F(CommandErrors, NoteProgramsWithoutShardings) {
  const std::string note =
      "note: nothing is sharded: each of the 2 devices computes the complete program; --annotate NAME=AXES,.. shards a "
      "value\n";
  EXPECT_EQ(run("partition mlp.hlo --mesh data=2").error, note);
  EXPECT_TRUE(run("check mlp.hlo --mesh data=2").out.ends_with(note));
  EXPECT_EQ(run("partition mlp.hlo --mesh data=2 --annotate x=data,-").error, "");
  EXPECT_EQ(run("partition mlp.hlo").error, "");
}

TEST_F(CommandErrors, OfPartitionedInputPartitionedAgain) {
  ASSERT_EQ(run("partition mlp.hlo --mesh data=2 --annotate x=data,- -o " + path("p.hlo")).code, 0);
  expect({("partition " + path("p.hlo")).c_str(), 1,
          "mlp is already partitioned (it carries the partitioner's mark); give the global program instead"});
  expect({("check " + path("p.hlo")).c_str(), 1,
          "mlp is a per-device program; give the global program that it comes from, with the same --mesh and "
          "--annotate (check partitions it itself)"});
}

TEST_F(CommandErrors, OfUnsupportedTypesNameTheOpAndItsLocation) {
  const auto module = file("powers.hlo", R"(HloModule powers
ENTRY main {
  x = f8e8m0fnu[8,3] parameter(0)
  i = s32[2,1] constant({{1},{5}})
  ROOT y = f8e8m0fnu[2,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
})");
  const auto outcome = run("check " + module + " --mesh a=2 --annotate x=a,-");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(outcome.error.starts_with(fmt::format(
      "tessera check: {}:5:8: %y: gather: f8e8m0fnu has no zero, so a sum of it cannot be partial, as in ", module)))
      << outcome.error;
}

TEST_F(CommandErrors, AFailedCheckExitsWith3) {
  // In f64 the sum in order is -1, and that of its halves is 0. Floats may differ by rounding, but integers must be
  // equal.
  const auto module = file("order.hlo", R"(HloModule order, num_partitions=2
add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT s = f64[] add(a, b) }
ENTRY main {
  c = f64[4] constant({1e17, 1, -1e17, 1}), sharding={devices=[2]<=[2]}
  z = f64[] constant(0)
  x = f64[4] parameter(0), sharding={devices=[2]<=[2]}
  zeros = f64[4] subtract(x, x)
  n = f64[4] subtract(zeros, c)
  s = f64[] reduce(n, z), dimensions={0}, to_apply=add
  ROOT k = s32[] convert(s)
})");
  const auto outcome = run("check " + module);
  EXPECT_EQ(outcome.code, 3) << outcome.out << outcome.error;
  EXPECT_NE(outcome.out.find("FAILED: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("result 0 s32[] at []: expected -1, got 0"), std::string::npos) << outcome.out;
}

TEST_F(CommandErrors, UnderMpirunAreReportedOnce) {
  allow_mpirun();
  const std::string launch = fmt::format("{} -n 3", TESSERA_MPIEXEC);
  const auto count = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (auto place = text.find(part); place != std::string::npos; place = text.find(part, place + 1)) ++n;
    return n;
  };
  const auto flag = run("run mlp.hlo --mehs data=3", launch);
  EXPECT_EQ(flag.code, 2) << flag.error;
  EXPECT_EQ(count(flag.error, "tessera run: unknown option --mehs; did you mean \"--mesh\"?"), 1) << flag.error;
  const auto missing = run("run no/such.hlo", launch);
  EXPECT_EQ(missing.code, 1) << missing.error;
  EXPECT_EQ(count(missing.error, "No such file or directory"), 1) << missing.error;
  const auto mesh = run("run mlp.hlo --mesh data=2", launch);
  EXPECT_EQ(mesh.code, 1) << mesh.error;
  // A warning about the text, which all ranks read, is also printed once.
  const auto odd = run("run " + file("odd.hlo",
                                     "HloModule m\nENTRY e { x = f32[3] parameter(0)\n"
                                     "  ROOT y = f32[3] negate(x), colour={red} }\n"),
                       launch);
  EXPECT_EQ(odd.code, 0) << odd.error;
  EXPECT_EQ(count(odd.error, "negate has no attribute colour"), 1) << odd.error;
  EXPECT_EQ(count(mesh.error, "tessera run: mesh \"data=2\" has 2 devices; its axes must multiply to 3"), 1)
      << mesh.error;
}

}  // namespace
}  // namespace tessera::command_tests
