// SPDX-License-Identifier: Apache-2.0
// A check must find faults even in narrow types, and must not report rounding errors, however much a program amplifies
// them.
#include "tessera/partitioner/check/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/base/files.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

Program program_of_three(const std::string& body) {
  return parse_program("HloModule m, num_partitions=3\n" + body, op_table());
}

// Evaluates in the element types of the program, as a runtime does.
std::vector<Literal> run_in_own_types(const Program& program, const std::vector<std::vector<Literal>>& arguments) {
  return evaluate_lockstep(program, arguments);
}

CheckReport check_against(const Program& program, const Program& other, const RunDevices& run) {
  return check_partitioned(program, partition(other, {.keep_shardings = !run}), {.run = run});
}

const std::string kColumns = "sharding={devices=[1,3]<=[3]}";

// Each of the layers amplifies the difference that the previous one has.
std::string chaotic(int layers) {
  std::string text =
      "ENTRY main { w = f32[7,7] parameter(0), sharding={devices=[3,1]<=[3]} h0 = f32[4,7] parameter(1), " + kColumns +
      " c = f32[] constant(2) f = f32[4,7] broadcast(c), dimensions={}\n";
  for (int i = 0; i < layers; ++i)
    text += fmt::format(
        "d{0} = f32[4,7] dot(h{0}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} s{0} = f32[4,7] "
        "multiply(d{0}, f) h{1} = f32[4,7] tanh(s{0})\n",
        i, i + 1);
  return text + fmt::format("ROOT r = f32[4,7] copy(h{}) }}", layers);
}

TEST(Check, AmplifiedRoundingErrorsAreNoFault) {
  const Program program = program_of_three(chaotic(40));
  for (const RunDevices& run : {RunDevices(), RunDevices(run_in_own_types)}) {
    const CheckReport report = check_against(program, program, run);
    EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
    EXPECT_GT(report.worst, 0) << "the sums have one order on both sides, and the test shows nothing";
  }
}

// The factor is a fraction of integers, so that no constant of either program is rounded.
std::string scaled(const std::string& dtype, int factor, int divisor) {
  return fmt::format(
      "ENTRY main {{ x = {0}[5,9] parameter(0), {1} w = {0}[9,6] parameter(1)\n"
      "d = {0}[5,6] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
      "c = {0}[] constant({2}) f = {0}[5,6] broadcast(c), dimensions={{}} m = {0}[5,6] multiply(d, f)\n"
      "n = {0}[] constant({3}) g = {0}[5,6] broadcast(n), dimensions={{}} ROOT r = {0}[5,6] divide(m, g) }}",
      dtype, kColumns, factor, divisor);
}

TEST(Check, NarrowTypesHideNoFault) {
  for (const std::string dtype : {"bf16", "f16", "f32"}) {
    const Program program = program_of_three(scaled(dtype, 2, 2));
    EXPECT_TRUE(check_against(program, program, {}).passed) << dtype;
    EXPECT_TRUE(check_against(program, program, run_in_own_types).passed) << dtype;
    EXPECT_FALSE(check_against(program, program_of_three(scaled(dtype, 129, 128)), {}).passed) << dtype;
    EXPECT_FALSE(check_against(program, program_of_three(scaled(dtype, 4, 2)), run_in_own_types).passed) << dtype;
  }
}

// The check compares lowering and the runtime with the evaluation of the original program, so it finds a wrong rewrite.
TEST(Check, RewritesOfThePartitionedProgramAreChecked) {
  const Program program = program_of_three(scaled("f32", 2, 2));
  const auto wrong = [](const Program&) { return partition(program_of_three(scaled("f32", 129, 128))).program; };
  const auto right = [](const Program& p) { return lower(p, 3, LoweringOptions::from_environment()); };
  EXPECT_TRUE(check_partition(program, {.rewrite = right}).passed);
  EXPECT_FALSE(check_partition(program, {.rewrite = wrong}).passed);
  const RunDevices run_wrong = [](const Program&, const std::vector<std::vector<Literal>>& arguments) {
    return evaluate_lockstep(partition(program_of_three(scaled("f32", 4, 2))).program, arguments);
  };
  EXPECT_FALSE(check_partition(program, {.run = run_wrong}).passed);
}

TEST(Check, IntegersOfFewBitsAreNotAllZero) {
  const auto text = [](const std::string& dtype, const char* op) {
    return fmt::format(
        "ENTRY main {{ x = {0}[5,9] parameter(0), {1} w = s32[5,9] convert(x) ROOT r = s32[5,9] {2}(w, w) }}", dtype,
        kColumns, op);
  };
  for (const std::string dtype : {"s4", "u4", "s2", "u2"}) {
    const Program program = program_of_three(text(dtype, "add"));
    EXPECT_TRUE(check_against(program, program, {}).passed) << dtype;
    EXPECT_FALSE(check_against(program, program_of_three(text(dtype, "multiply")), {}).passed) << dtype;
  }
}

TEST(Check, ReportsContainTheTypesOfTheModule) {
  const CheckReport report =
      check_against(program_of_three(scaled("bf16", 2, 2)), program_of_three(scaled("bf16", 6, 2)), {});
  ASSERT_FALSE(report.failures.empty());
  EXPECT_TRUE(report.failures.front().starts_with("result 0 bf16[5,6] at [")) << report.failures.front();
}

// The partitioned program has tanh(2) as an f32 constant. The check may allow its rounding error, but nothing larger.
TEST(Check, ComputedConstantsAreRounded) {
  const auto text = [](int scale) {
    return fmt::format(
        "ENTRY main {{ x = f32[5,9] parameter(0), {} c = f32[] constant(2) t = f32[] tanh(c) s = f32[] constant({}) "
        "n = f32[] constant(4) q = f32[] divide(s, n) u = f32[] multiply(t, q) f = f32[5,9] broadcast(u), "
        "dimensions={{}} "
        "ROOT r = f32[5,9] multiply(x, f) }}",
        kColumns, scale);
  };
  EXPECT_TRUE(check_against(program_of_three(text(5)), program_of_three(text(5)), {}).passed);
  EXPECT_FALSE(check_against(program_of_three(text(5)), program_of_three(text(4)), {}).passed);
}

// Bit operations see the bits of the module's types: a sign bit, and a number that is built from random bits.
TEST(Check, BitsAreThoseOfTheModulesTypes) {
  const Program program = program_of_three(
      "ENTRY main { x = f32[5,9] parameter(0), " + kColumns +
      " b = u32[5,9] bitcast-convert(x) m = u32[] constant(2147483647)\n"
      "ms = u32[5,9] broadcast(m), dimensions={} a = u32[5,9] and(b, ms) y = f32[5,9] bitcast-convert(a)\n"
      "o = u32[] constant(1065353216) os = u32[5,9] broadcast(o), dimensions={} i = u32[5,9] iota(), iota_dimension=1\n"
      "u = u32[5,9] or(i, os) z = f32[5,9] bitcast-convert(u) s = f32[5,9] multiply(y, z)\n"
      "ROOT t = (f32[5,9], u32[5,9]) tuple(s, a) }");
  const CheckReport report = check_against(program, program, {});
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  EXPECT_EQ(report.worst, 0);
}

// ---- ill-conditioned results ---------------------------------------------------------------------------------------------

// Attention with biases, its gradient, and a step of AdamW on the three biases, whose new values are the results 1, 4
// and 7. Adding a constant to all keys does not change the softmax, so the exact gradient of the key bias is 0.
Program attention_step(const std::string& file) {
  const std::string path = std::string(TESSERA_CHECKED_PROGRAMS) + "/" + file;
  return parse_program(read_file(path), op_table(), {.file_name = path});
}

bool is_of_the_keys_bias(const std::string& element) {
  return element.starts_with("result 4 ") || element.starts_with("result 5 ") || element.starts_with("result 6 ");
}

TEST(Check, NoiseDividedByNoiseIsIllConditionedAndNoFault) {
  const Program program = attention_step("attention_adamw.hlo");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const CheckReport report = check_partition(program, {.seed = seed, .run = nullptr});
    EXPECT_TRUE(report.passed) << "seed " << seed << "\n" << fmt::format("{}", fmt::join(report.failures, "\n"));
    EXPECT_FALSE(report.ill_conditioned.empty()) << "seed " << seed;
    for (const std::string& element : report.ill_conditioned) EXPECT_TRUE(is_of_the_keys_bias(element)) << element;
    EXPECT_TRUE(check_partition(program, {.seed = seed, .run = run_in_own_types}).passed) << "seed " << seed;
  }
}

// The square root of the second moment is that of -1e-34 (NaN) or of an exact 0.
TEST(Check, NegativeHyperparametersAreNoFault) {
  const Program program = attention_step("attention_adamw_inputs.hlo");
  int ill_conditioned = 0;
  for (const std::uint64_t seed : {0, 5, 16, 47}) {
    const CheckReport report = check_partition(program, {.seed = seed, .run = nullptr});
    EXPECT_TRUE(report.passed) << "seed " << seed << "\n" << fmt::format("{}", fmt::join(report.failures, "\n"));
    for (const std::string& element : report.ill_conditioned) EXPECT_TRUE(is_of_the_keys_bias(element)) << element;
    ill_conditioned += report.ill_conditioned.empty() ? 0 : 1;
  }
  EXPECT_EQ(ill_conditioned, 2) << "seeds 16 and 47";
}

TEST(Check, FaultsNextToAnIllConditionedResultAreFound) {
  const std::string path = std::string(TESSERA_CHECKED_PROGRAMS) + "/attention_adamw.hlo";
  const std::string text = read_file(path);
  const std::pair<std::string, std::string> faults[] = {
      {"nbq = f32[8] subtract(bq, luq)", "nbq = f32[8] add(bq, luq)"},
      {"nbv = f32[8] subtract(bv, luv)", "nbv = f32[8] subtract(bv, upv)"},
      {"dS = f32[4,6,6] multiply(P, df)", "dS = f32[4,6,6] multiply(dP, df)"},
      {"ob2 = f32[] constant(0.001)", "ob2 = f32[] constant(0.0011)"},
      {"nbk = f32[8] subtract(bk, luk)", "nbk = f32[8] subtract(bv, luk)"},
      {"mhv = f32[8] divide(nmv, cb1_v)", "mhv = f32[8] divide(nmk, cb1_v)"}};
  for (const auto& [right, wrong] : faults) {
    std::string other = text;
    ASSERT_NE(other.find(right), std::string::npos) << right;
    other.replace(other.find(right), right.size(), wrong);
    const CheckReport report =
        check_against(attention_step("attention_adamw.hlo"), parse_program(other, op_table()), {});
    EXPECT_FALSE(report.passed) << wrong;
  }
}

// Compares two sums that are equal except for rounding errors.
TEST(Check, IntegersThatFollowFromNoiseAreIllConditioned) {
  const auto program = [](const std::string& results) {
    return program_of_three(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "ENTRY main { x = f32[5,9] parameter(0), " +
        kColumns +
        " z = f32[] constant(0) t = f32[] constant(3)\n"
        "e = f32[5,9] exponential(x) ts = f32[5,9] broadcast(t), dimensions={} y = f32[5,9] multiply(e, ts)\n"
        "a = f32[5] reduce(e, z), dimensions={1}, to_apply=add b = f32[5] reduce(y, z), dimensions={1}, to_apply=add\n"
        "u = f32[5] broadcast(t), dimensions={} c = f32[5] multiply(a, u) p = pred[5] compare(b, c), direction=GT\n"
        "i = s32[5] convert(p) ROOT r = (s32[5], f32[5]) tuple(" +
        results + ") }");
  };
  const Program right = program("i, a");
  int ill_conditioned = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const CheckReport report = check_partition(right, {.seed = seed, .run = nullptr});
    EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
    for (const std::string& element : report.ill_conditioned) EXPECT_TRUE(element.starts_with("result 0 ")) << element;
    ill_conditioned += report.ill_conditioned.empty() ? 0 : 1;
  }
  EXPECT_GT(ill_conditioned, 0);
  EXPECT_FALSE(check_against(right, program("i, b"), {}).passed);
}

// Values outside the range that other roundings give are faults, also if the result is an integer.
TEST(Check, IllConditionedIntegersStayWithinTheirRange) {
  const auto program = [](int offset) {
    return program_of_three(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "ENTRY main { q = f32[66,64] parameter(0), sharding={devices=[3,1]<=[3]} z = f32[] constant(0)\n"
        "n = f32[] constant(66) s = f32[64] reduce(q, z), dimensions={0}, to_apply=add\n"
        "nn = f32[64] broadcast(n), dimensions={} mean = f32[64] divide(s, nn)\n"
        "mb = f32[66,64] broadcast(mean), dimensions={1} c = f32[66,64] subtract(q, mb)\n"
        "g = f32[64] reduce(c, z), dimensions={0}, to_apply=add sg = f32[64] sign(g) i = s32[64] convert(sg)\n"
        "k = s32[] constant(" +
        fmt::format("{}", offset) + ") kb = s32[64] broadcast(k), dimensions={} ROOT o = s32[64] add(i, kb) }");
  };
  const CheckReport right = check_against(program(5), program(5), run_in_own_types);
  EXPECT_TRUE(right.passed) << fmt::format("{}", fmt::join(right.failures, "\n"));
  EXPECT_FALSE(right.ill_conditioned.empty());
  EXPECT_FALSE(check_against(program(5), program(1000005), run_in_own_types).passed);
  EXPECT_FALSE(check_against(program(5), program(15), run_in_own_types).passed);
}

// The index of the largest of numbers that are 0 except for rounding errors, and the sum of the rows with these
// indices. The sums of f32 numbers are exact in double precision, so there are no errors, and no fault may be explained
// by them.
TEST(Check, ExactSumsAreNotIllConditioned) {
  const auto program = [](const char* total) {
    return program_of_three(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "arg { v = f32[] parameter(0) i = s32[] parameter(1) w = f32[] parameter(2) j = s32[] parameter(3)\n"
        "ge = pred[] compare(v, w), direction=GE mv = f32[] select(ge, v, w) mi = s32[] select(ge, i, j)\n"
        "ROOT t = (f32[], s32[]) tuple(mv, mi) }\n"
        "ENTRY main { q = f32[30,30] parameter(0), sharding={devices=[3,1]<=[3]} e = f32[99,8] parameter(1),\n"
        "sharding={devices=[3,1]<=[3]} z = f32[] constant(0) low = f32[] constant(-inf) zi = s32[] constant(0)\n"
        "i = s32[30,30] iota(), iota_dimension=1 s = f32[30] reduce(q, z), dimensions={0}, to_apply=add\n"
        "sb = f32[30,30] broadcast(s), dimensions={1} q2 = f32[30,30] add(q, sb) q3 = f32[30,30] subtract(q2, q)\n"
        "q4 = f32[30,30] subtract(q3, sb)\n"
        "am = (f32[30], s32[30]) reduce(q4, i, low, zi), dimensions={1}, to_apply=arg\n"
        "idx = s32[30] get-tuple-element(am), index=1 ii = s32[30,1] reshape(idx)\n"
        "rows = f32[30,8] gather(e, ii), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},\n"
        "index_vector_dim=1, slice_sizes={1,8} col = f32[8] reduce(rows, z), dimensions={0}, to_apply=add\n"
        "neg = f32[8] negate(col) ROOT o = (s32[30], f32[8]) tuple(idx, " +
        std::string(total) + ") }");
  };
  const CheckReport right = check_against(program("col"), program("col"), {});
  EXPECT_TRUE(right.passed) << fmt::format("{}", fmt::join(right.failures, "\n"));
  EXPECT_FALSE(check_against(program("col"), program("neg"), {}).passed);
  EXPECT_TRUE(check_against(program("col"), program("col"), run_in_own_types).passed);
}

// A gradient whose exact value is 0 may be exactly 0 in one order of the sum, and then divides 0 by 0.
TEST(Check, NoiseMayBeExactlyZero) {
  const auto program = [](const std::string& type) {
    const auto of = [&](const char* dims) { return type + "[" + dims + "]"; };
    return program_of_three(
        "add { a = " + of("") + " parameter(0) b = " + of("") + " parameter(1) ROOT s = " + of("") +
        " add(a, b) }\nENTRY main { q = " + of("66,64") + " parameter(0), sharding={devices=[3,1]<=[3]} b = " +
        of("64") + " parameter(1) z = " + of("") + " constant(0) n = " + of("") + " constant(66)\ns = " + of("64") +
        " reduce(q, z), dimensions={0}, to_apply=add nn = " + of("64") + " broadcast(n), dimensions={} mean = " +
        of("64") + " divide(s, nn)\nmb = " + of("66,64") + " broadcast(mean), dimensions={1} c = " + of("66,64") +
        " subtract(q, mb)\ng = " + of("64") + " reduce(c, z), dimensions={0}, to_apply=add g2 = " + of("64") +
        " multiply(g, g) r = " + of("64") + " sqrt(g2) u = " + of("64") + " divide(g, r)\nnb = " + of("64") +
        " subtract(b, u) l = " + of("64") + " log(r) v = " + of("64") + " rsqrt(g)\nROOT o = (" + of("64") + ", " +
        of("64") + ", " + of("64") + ") tuple(nb, l, v) }");
  };
  int ill_conditioned = 0;
  for (const std::string type : {"f32", "bf16"})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const CheckReport report = check_partition(program(type), {.seed = seed, .run = run_in_own_types});
      EXPECT_TRUE(report.passed) << type << ", seed " << seed << "\n"
                                 << fmt::format("{}", fmt::join(report.failures, "\n"));
      ill_conditioned += report.ill_conditioned.empty() ? 0 : 1;
    }
  EXPECT_GE(ill_conditioned, 8);
}

// Sums of large numbers of both signs have a larger error than their results.
TEST(Check, SmallSumsAreRoundedLikeTheirPartialSums) {
  const auto program = [](const std::string& tail) {
    return program_of_three(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "ENTRY main { x = f32[97,5] parameter(0), sharding={devices=[3,1]<=[3]}\n"
        "w = f32[97] parameter(1), sharding={devices=[3]<=[3]} z = f32[] constant(0)\n"
        "c = f32[5] reduce(x, z), dimensions={0}, to_apply=add r = f32[97,5] reverse(x), dimensions={0}\n"
        "d = f32[5] reduce(r, z), dimensions={0}, to_apply=add n = f32[5] subtract(c, d)\n" +
        tail + " }");
  };
  int ill_conditioned = 0;
  for (const std::string tail : {"m = f32[5] multiply(n, n) ROOT y = f32[5] rsqrt(m)", "ROOT y = f32[5] log(n)",
                                 "k = f32[] constant(1e12) kb = f32[5] broadcast(k), dimensions={} m = f32[5] "
                                 "multiply(n, kb) ROOT y = s32[5] convert(m)"})
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      const CheckReport report = check_partition(program(tail), {.seed = seed, .run = run_in_own_types});
      EXPECT_TRUE(report.passed) << tail << ", seed " << seed << "\n"
                                 << fmt::format("{}", fmt::join(report.failures, "\n"));
      ill_conditioned += report.ill_conditioned.empty() ? 0 : 1;
    }
  EXPECT_GE(ill_conditioned, 10);
  // A fault in the sum is found, although other results are noise.
  const auto with_sum = [&](const std::string& sum) {
    return program(
        "m = f32[5] multiply(n, n) v = f32[5] rsqrt(m) l = f32[5] log(n)\n"
        "k = f32[] constant(1.001) kb = f32[5] broadcast(k), dimensions={} wrong = f32[5] multiply(c, kb)\n"
        "ROOT y = (f32[5], f32[5], f32[5]) tuple(v, l, " +
        sum + ")");
  };
  EXPECT_TRUE(check_against(with_sum("c"), with_sum("d"), run_in_own_types).passed);
  EXPECT_FALSE(check_against(with_sum("c"), with_sum("wrong"), run_in_own_types).passed);
  EXPECT_FALSE(check_against(with_sum("c"), with_sum("l"), run_in_own_types).passed);
}

// ---- constants -----------------------------------------------------------------------------------------------------------

// One of the two programs computes with whole constants, the other with shards that it cuts at run time.
TEST(Check, ConstantsAreRoundedAlikeInBothPrograms) {
  const auto text = [](const std::string& dtype, const std::string& left, const std::string& right, const char* op) {
    return fmt::format(
        "ENTRY main {{ x = {0}[6] parameter(0), sharding={{devices=[3]<=[3]}} c = {0}[6] constant({{{1}}}) d = {0}[6] "
        "constant({{{2}}})\n m = {0}[6] {3}(c, d) ROOT t = {0}[6] add(m, x) }}",
        dtype, left, right, op);
  };
  const std::string tens = "10, 10, 10, 10, 10, 10";
  const std::string eighths = "0.125, 0.125, 0.125, 0.125, 0.125, 0.125";
  for (const std::string& body :
       {text("f32", "1e38, 2e38, 3e38, -3e38, 1, 2", tens, "multiply"),
        text("f16", "60000, 30000, 3, -60000, 1, 2", tens, "multiply"),
        text("bf16", "256, 512, 3, 5, 1024, 2048", "1, 1, 1, 1, 1, 1", "add"),
        text("f8e5m2", "1, 1.25, 1.5, 1.75, 2, 2.5", eighths, "add"),
        text("f8e4m3fn", "1, 1.125, 1.5, 1.75, 2, 2.5", "0.06, 0.06, 0.06, 0.06, 0.06, 0.06", "subtract")}) {
    const CheckReport report = check_partition(program_of_three(body));
    EXPECT_TRUE(report.passed) << body << "\n" << fmt::format("{}", fmt::join(report.failures, "\n"));
  }
}

// The partitioner inlines calls and then folds scalars, in their own types: 1e38 times 10 is infinite.
TEST(Check, ConstantsInCallsAreRoundedLikeFoldedOnes) {
  const auto program = [](const char* small) {
    return program_of_three(
        "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] multiply(a, b) }\n"
        "g { c = f32[] parameter(0) d = f32[] constant(10) ROOT m = f32[] call(c, d), to_apply=f }\n"
        "ENTRY main { x = f32[6] parameter(0), sharding={devices=[3]<=[3]} c = f32[] constant(1e38)\n"
        "m = f32[] call(c), to_apply=g mb = f32[6] broadcast(m), dimensions={} s = f32[] constant(" +
        std::string(small) +
        ")\nsb = f32[6] broadcast(s), dimensions={} q = f32[6] multiply(mb, sb) ROOT t = f32[6] add(q, x) }");
  };
  const CheckReport report = check_partition(program("1e-5"));
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  EXPECT_FALSE(check_against(program("1e-5"), program("-1e-5"), {}).passed);
}

}  // namespace
}  // namespace tessera
