// SPDX-License-Identifier: Apache-2.0
// The exact text, line and column of errors in malformed HLO.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_program(text, op_table(), {"in.hlo"});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Returns the error for an instruction on line 3 of a module with parameters x: f32[4], y: f32[3], p: pred[].
std::string error_of_line(const std::string& line) {
  return error_of("HloModule m\nENTRY e { x = f32[4] parameter(0) y = f32[3] parameter(1) p = pred[] parameter(2)\n" +
                  line + "\n}");
}

TEST(ProgramTextErrors, NameTheColumnAndShowTheLine) {
  EXPECT_EQ(error_of("HloModule m\n\nENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] add(x, z)\n}"),
            "in.hlo:5:21: unknown value %z; did you mean \"x\"?\n"
            "    y = f32[2] add(x, z)\n"
            "                      ^");
}

struct Case {
  const char* text;
  const char* error;  // up to the first line break
};
class LineErrors : public ::testing::TestWithParam<Case> {};
TEST_P(LineErrors, HaveTheExpectedText) {
  const auto error = error_of_line(GetParam().text);
  EXPECT_EQ(error.substr(0, error.find('\n')), GetParam().error) << error;
}
INSTANTIATE_TEST_SUITE_P(
    ProgramTextErrors, LineErrors,
    ::testing::Values(
        Case{"z = f32[4] ad(x, x)", "in.hlo:3:12: unknown op \"ad\"; did you mean \"add\"?"},
        Case{"z = f32[4] add(x)", "in.hlo:3:12: add: takes 2 operands, got 1"},
        Case{"z = f32[5] add(x, x)", "in.hlo:3:12: add: the text declares f32[5], but the operands give f32[4]"},
        Case{"z = f32[4] add(x, x", "in.hlo:4:1: expected \")\" after the operands of add, got \"}\""},
        Case{"z = f32[4 add(x, x)", "in.hlo:3:11: expected \"]\" after the sizes, got \"add\""},
        Case{"z = f31[4] add(x, x)", "in.hlo:3:5: unknown element type \"f31\"; did you mean \"f32\"?"},
        Case{"z = f32[-4] add(x, x)", "in.hlo:3:9: a size may not be negative"},
        Case{"z = f32[<=4] add(x, x)", "in.hlo:3:9: sizes that are known only at run time are not supported"},
        Case{"z = f32[4]{1} negate(x)", "in.hlo:3:12: the layout must order the 1 dims, got {1}"},
        Case{"x = f32[4] negate(x)", "in.hlo:3:1: a second %x in this computation"},
        Case{"z = f32[4] negate(z)", "in.hlo:3:19: unknown value %z; did you mean \"p\"?"},
        Case{"z = f32[4] negate(f32[5] x)", "in.hlo:3:19: operand %x is f32[4], but the text declares f32[5]"},
        Case{"z = f32[4] negate(x), sharding={replicatd}",
             "in.hlo:3:23: sharding: unknown kind of sharding \"replicatd\"; did you mean \"replicated\"? at column 2 "
             "of {replicatd}"},
        Case{"z = f32[4] negate(x), sharding={devices=[2,2]<=[4]}",
             "in.hlo:3:23: sharding {devices=[2,2]<=[4]} has 2 dims, f32[4] has 1"},
        Case{"z = f32[4] negate(x), sharding={{replicated}, {replicated}}",
             "in.hlo:3:23: 2 shardings for the 1 leaves of f32[4]"},
        Case{"z = f32[4] negate(x), metadata={op_name=\"a", "in.hlo:3:41: this string is never closed"},
        Case{"z = f32[4] negate(x), a={1,(2}", "in.hlo:3:30: expected \")\", got \"}\""},
        Case{"z = f32[4] negate(x), a=1, a=2", "in.hlo:3:28: attribute a occurs twice"},
        Case{"z = f32[4] negate(x), a", "in.hlo:4:1: expected \"=\" after a, got \"}\""},
        Case{"z = f32[4] negate(x), control-predecessors={q}", "in.hlo:3:23: unknown value %q; did you mean \"p\"?"},
        Case{"z = f32[] reduce(x, x), dimensions={0}, to_apply=add",
             "in.hlo:3:41: unknown computation %add; computations come before their users"},
        Case{"z = f32[4] broadcast(x), dimensions={a}",
             "in.hlo:3:12: broadcast: attribute dimensions: expected an integer, got \"a\""},
        Case{"z = parameter(3)", "in.hlo:3:5: parameter needs a type before it"},
        Case{"z = f32[4] parameter(x)", "in.hlo:3:22: expected a number between the parentheses, got \"x\""},
        Case{"z = f32[4] parameter(0)", "in.hlo:3:12: a second parameter(0)"},
        Case{"z = f32[4] parameter(9)", "in.hlo:3:12: parameter(9) in a computation of 4 parameters"},
        Case{"z = f32[3] constant({1, 2})", "in.hlo:3:21: dim 0 has 2 elements, its size is 3"},
        Case{"z = f32[1] constant({1, 2})", "in.hlo:3:24: dim 0 has more than its 1 elements"},
        Case{"z = s8[] constant(300)", "in.hlo:3:19: 300 does not fit s8"},
        Case{"z = u8[] constant(-1)", "in.hlo:3:19: -1 does not fit u8"},
        Case{"z = f16[] constant(70000)", "in.hlo:3:20: 70000 does not fit f16"},
        Case{"z = pred[] constant(tru)", "in.hlo:3:21: expected true or false, got \"tru\""},
        Case{"ROOT z = f32[4] negate(x) ROOT w = f32[4] negate(x)", "in.hlo:3:32: a second ROOT in this computation"},
        Case{"/* z", "in.hlo:3:1: this comment is never closed"},
        Case{"= f32[]", "in.hlo:3:1: expected an instruction or \"}\", got \"=\""}));

TEST(ProgramTextErrors, ShowTheOperandsThatAnOpDoesNotAccept) {
  const auto error = error_of_line("  z = f32[4] add(x, y)");
  EXPECT_TRUE(error.starts_with("in.hlo:3:14: add: ")) << error;
  EXPECT_NE(error.find("\n  lhs  %x: f32[4]\n  rhs  %y: f32[3]\n    z = f32[4] add(x, y)\n               ^"),
            std::string::npos)
      << error;
}

// Texts whose sizes overflow 64 bits cause an error, and no allocation.
TEST(ProgramTextErrors, OfSizesThatOverflow64Bits) {
  const auto reason = [](const std::string& line) {
    const auto error = error_of_line(line);
    return error.substr(0, error.find('\n'));
  };
  EXPECT_EQ(reason("z = f32[1099511627776,1099511627776] parameter(3)"),
            "in.hlo:3:5: f32[1099511627776,1099511627776]: more than 2^60 bytes, the most that an array may have (a "
            "size of 0 is "
            "taken as 1)");
  EXPECT_EQ(reason("c = f32[] constant(0) z = f32[3] pad(x, c), padding=9223372036854775807_9223372036854775807"),
            "in.hlo:3:34: pad: dim 0: padding 9223372036854775807_9223372036854775807_0 is larger than 2^60, the most "
            "that a dim "
            "may have");
  EXPECT_EQ(
      reason(
          "z = f32[8] all-gather(x), dimensions={0}, replica_groups=[4294967296,4294967296]<=[4294967296,4294967296]"),
      "in.hlo:3:12: all-gather: attribute replica_groups: groups over more than 2^20 devices: [4294967296,4294967296]");
  EXPECT_EQ(reason("z = s8[1152921504606846976] parameter(3) ROOT t = f32[] custom-call(z, z, z, z, z), "
                   "custom_call_target=\"t\""),
            "in.hlo:3:57: custom-call: the operands together have more than 2^62 bytes");
}

TEST(ProgramTextErrors, OfModuleHeadersAndComputations) {
  const auto first_line = [](std::string_view text) {
    const auto error = error_of(text);
    return error.substr(0, error.find('\n'));
  };
  EXPECT_EQ(first_line(""), "in.hlo: the text is empty; an HLO module begins with `HloModule` and its name");
  EXPECT_EQ(first_line(" // x\n"),
            "in.hlo: the text has only blanks and comments; an HLO module begins with `HloModule` and its name");
  EXPECT_EQ(first_line("\x7f\xff"), "in.hlo:1:1: expected HloModule and the name of the module, got the byte 0x7f");
  EXPECT_EQ(first_line("HloModule"), "in.hlo:1:10: expected the name of the module, got the end of the text");
  EXPECT_EQ(first_line("HloModule m"), "in.hlo:1:12: expected a computation, got the end of the text");
  EXPECT_EQ(first_line("HloModule m ENTRY e { }"), "in.hlo:1:19: computation %e has no instructions");
  EXPECT_EQ(first_line("HloModule m, num_partitions=0\nENTRY e { x = f32[] parameter(0) }"),
            "in.hlo:1:14: num_partitions must be between 1 and 2^20, got 0");
  EXPECT_EQ(first_line("HloModule m, num_partitions=2, num_partitions=2"),
            "in.hlo:1:32: attribute num_partitions occurs twice");
  EXPECT_EQ(first_line("HloModule m\nENTRY e { x = f32[] parameter(0) }\nENTRY f { x = f32[] parameter(0) }"),
            "in.hlo:3:1: a second ENTRY computation");
  EXPECT_EQ(
      first_line("HloModule m\nENTRY e { x = f32[] parameter(0) }\nHloModule n\nENTRY e { x = f32[] parameter(0) }"),
      "in.hlo:3:1: a second HloModule; give one file for each module");
  EXPECT_EQ(first_line("HloModule m\ne { x = f32[] parameter(0) }\ne { x = f32[] parameter(0) }"),
            "in.hlo:3:1: a second computation %e");
  EXPECT_EQ(first_line("HloModule m\nENTRY e { x = f32[] parameter(0)"),
            "in.hlo:2:33: expected an instruction or \"}\", got the end of the text");
  EXPECT_EQ(
      first_line("HloModule m\nENTRY e {\n  x = f32[6] parameter(0), sharding={devices=[2]<=[2]\n  ROOT n = f32[6] "
                 "negate(x) }\n"),
      "in.hlo:3:3: the computation %e is never closed, and this instruction continues after the end of its line: is a "
      "brace in it left open?");
  EXPECT_EQ(first_line("HloModule m\nENTRY e (x: f32[]) -> f32[3] { x = f32[] parameter(0) }"),
            "in.hlo:2:23: the result is listed as f32[3], the root %x is f32[]");
  EXPECT_EQ(
      first_line("HloModule m, entry_computation_layout={(f32[2]{0})->f32[]}\nENTRY e { x = f32[] parameter(0) }"),
      "in.hlo:1:14: entry_computation_layout gives parameter 0 as f32[2], the entry computation %e as f32[]");
  EXPECT_EQ(first_line("HloModule m, input_output_alias={ {1}: (0, {}) }\nENTRY e { x = f32[] parameter(0) }"),
            "in.hlo:1:14: input_output_alias names output {1}, which is not an array of f32[]");
  const auto alias_error = [&](const std::string& aliases) {
    return first_line(
        "HloModule m, input_output_alias={ " + aliases +
        " }\nENTRY e { x = f32[2] parameter(0) y = f32[3] parameter(1) ROOT t = (f32[2], f32[2]) tuple(x, x) }");
  };
  EXPECT_EQ(alias_error("{}: (0, {})"),
            "in.hlo:1:14: input_output_alias names output {}, which is not an array of (f32[2], f32[2])");
  EXPECT_EQ(alias_error("{0}: (2, {})"),
            "in.hlo:1:14: input_output_alias names parameter 2, the entry computation has 2");
  EXPECT_EQ(alias_error("{0}: (0, {1})"),
            "in.hlo:1:14: input_output_alias names index {1} of parameter 0, which is not an array of f32[2]");
  EXPECT_EQ(
      alias_error("{0}: (1, {})"),
      "in.hlo:1:14: input_output_alias of output {0}, f32[2], and index {} of parameter 1, f32[3]: the types differ");
  EXPECT_EQ(alias_error("{0}: (0, {}), {0}: (0, {})"), "in.hlo:1:14: input_output_alias names output {0} twice");
  EXPECT_EQ(alias_error("{0}: (0, {}), {1}: (0, {})"),
            "in.hlo:1:14: input_output_alias names index {} of parameter 0 twice");
  EXPECT_EQ(
      first_line("HloModule m, num_partitions=4\nENTRY e { x = f32[4] parameter(0), sharding={devices=[2]<=[2]} }"),
      "in.hlo:2:36: this sharding is over 2 devices, the module over 4");
  EXPECT_EQ(
      first_line("HloModule m, num_partitions=4\nENTRY e { x = f32[4] parameter(0), sharding={maximal device=4} }"),
      "in.hlo:2:36: device 4 in a module over 4 devices");
}

// Of programs that state neither partitions nor replicas, only a run knows the number of devices.
TEST(ProgramTextErrors, ACollectiveNamesOnlyDevicesOfTheProgram) {
  const auto with = [](const std::string& counts, const std::string& collective) {
    const auto error =
        error_of("HloModule m" + counts + "\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s " +
                 "= f32[] add(a, b) }\nf { y = f32[4] parameter(0)\n  ROOT r = f32[4] " + collective +
                 " }\nENTRY e { x = f32[4] parameter(0) ROOT c = f32[4] call(x), to_apply=f }");
    return error.substr(0, error.find('\n'));
  };
  const auto sum = [](const std::string& groups) {
    return "all-reduce(y), channel_id=1, replica_groups=" + groups + ", use_global_device_ids=true, to_apply=add";
  };
  const auto permute = [](const std::string& pairs) {
    return "collective-permute(y), channel_id=1, source_target_pairs=" + pairs;
  };
  EXPECT_EQ(with(", num_partitions=4", sum("{{0,9},{1,3}}")),
            "in.hlo: all-reduce %r names device 9 in replica_groups={{0,9},{1,3}}, but the program is for 4 devices, "
            "numbered from 0");
  EXPECT_EQ(with(", num_partitions=4", permute("{{0,1},{3,4}}")),
            "in.hlo: collective-permute %r names device 4 in source_target_pairs={{0,1},{3,4}}, but the program is for "
            "4 devices, numbered from 0");
  EXPECT_NE(with("", permute("{{-1,2}}")).find("a device number is negative: {{-1,2}}"), std::string::npos);
  EXPECT_NE(with(", num_partitions=4", sum("[2,4]<=[8]")).find("names device 4 in replica_groups=[2,4]<=[8]"),
            std::string::npos);
  EXPECT_EQ(with(", num_partitions=4", sum("[2,2]<=[4]")), "no error");
  EXPECT_EQ(with(", num_partitions=2, replica_count=2", sum("{{0,3},{1,2}}")), "no error");
  EXPECT_NE(with(", num_partitions=2, replica_count=2", sum("{{0,4},{1,2}}")).find("for 4 devices"), std::string::npos);
  EXPECT_EQ(with("", sum("{{0,9},{1,3}}")), "no error");
}

TEST(ProgramTextErrors, TheVerifierRefusesDevicesThatDoNotExist) {
  Program program = parse_program(
      "HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT r = f32[8] all-gather(x), channel_id=1, "
      "replica_groups={{0,9}}, use_global_device_ids=true, dimensions={0} }",
      op_table());
  EXPECT_NO_THROW(verify(program));
  program.num_partitions = 10;
  EXPECT_NO_THROW(verify(program));
  program.num_partitions = 9;
  EXPECT_THROW(verify(program), InternalError);
}

TEST(ProgramTextErrors, DeepNestingIsAnErrorNotAnOverflow) {
  std::string deep = "HloModule m\nENTRY e { x = ";
  for (int i = 0; i < 100'000; ++i) deep += '(';
  EXPECT_NE(error_of(deep).find("types nested deeper than 100"), std::string::npos);
  deep = "HloModule m\nENTRY e { x = f32[] parameter(0) y = f32[] ";
  for (int i = 0; i < 100'000; ++i) deep += "negate(";
  EXPECT_NE(error_of(deep).find("instructions nested deeper than 100"), std::string::npos);
}

TEST(ProgramTextErrors, AbsurdSizesAreErrors) {
  EXPECT_TRUE(error_of_line("z = f32[99999999999,99999999999] negate(x)")
                  .starts_with("in.hlo:3:5: f32[99999999999,99999999999]: more than 2^60 bytes"));
  EXPECT_TRUE(error_of_line("z = f64[4611686018427387904] negate(x)")
                  .starts_with("in.hlo:3:5: f64[4611686018427387904]: more than 2^60 bytes"));
  EXPECT_EQ(error_of_line("z = f32[18446744073709551616] negate(x)").substr(0, 46),
            "in.hlo:3:9: a size does not fit 64 bits\n  z = ");
  std::string dims = "1";
  for (int i = 0; i < 100; ++i) dims += ",1";
  EXPECT_NE(error_of_line("z = f32[" + dims + "] negate(x)").find("more than 100 dims"), std::string::npos);
  EXPECT_NE(error_of_line("z = f32[1000000000000] constant({1})").find("the literal does not have the elements of"),
            std::string::npos);
  const std::string opcode(1'000'000, 'q');
  const auto error = error_of_line("z = f32[4] " + opcode + "(x)");
  EXPECT_LT(error.size(), 2000U);
  EXPECT_NE(error.find("in.hlo:3:12: an op's name of 1000000 letters"), std::string::npos);
}

TEST(ProgramTextErrors, AnUnknownOpWithoutASimilarNameDoesNotListAllOps) {
  const auto error = error_of_line("z = f32[4] frobnicate_twice(x)");
  EXPECT_TRUE(error.starts_with("in.hlo:3:12: unknown op \"frobnicate_twice\"; none of the ")) << error;
}

TEST(ProgramTextErrors, OpsOfHloThatTheTableLacksAreReportedAsMissing) {
  for (const std::string op : {"dynamic-reshape", "set-dimension-size"}) {
    const auto error = error_of_line("z = f32[4] " + op + "(x)");
    EXPECT_EQ(
        error.substr(0, error.find('\n')),
        "in.hlo:3:12: HLO op \"" + op + "\" is not supported yet; a dump from before optimization has fewer such ops");
  }
}

TEST(ProgramTextErrors, UnprintableBytesAreReplaced) {
  EXPECT_EQ(error_of("HloModule m\nENTRY e {\x1b[31m \xff\xc3\xa9"),
            "in.hlo:2:10: expected an instruction or \"}\", got the byte 0x1b\n"
            "  ENTRY e {?[31m ?\xc3\xa9\n"
            "           ^");
  EXPECT_EQ(error_of("HloModule m\nENTRY \xc3\xa9 {"),
            "in.hlo:2:7: expected a computation, got \"\xc3\xa9\"\n"
            "  ENTRY \xc3\xa9 {\n"
            "        ^");
}

TEST(ProgramTextErrors, LongLinesAreShortenedAroundTheCaret) {
  const auto error =
      error_of_line("z = f32[4] negate(x), a=\"" + std::string(5000, 'a') + "\", b b" + std::string(5000, 'c'));
  EXPECT_LT(error.size(), 600U);
  EXPECT_NE(error.find("…"), std::string::npos);
}

}  // namespace
}  // namespace tessera
