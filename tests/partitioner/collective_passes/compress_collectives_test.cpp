// SPDX-License-Identifier: Apache-2.0
// f32 values that are sent as bf16: half the bytes, errors within the bounds that the header documents, and the same
// bits on all members.
#include <limits>

#include "partitioner/collective_passes/collective_programs.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {
namespace {

constexpr double kRounding = 0x1p-8;  // of bf16, which has 8 significant bits

Program over_mesh(const std::string& body) {
  Program program = local_program(6, body);
  program.meshes = {Mesh::parse("data=2,model=3")};  // kRows: groups along model, kColumns along data
  return program;
}
Program compressed(const Program& program, const std::string& axis) { return compress_collectives(program, {axis}); }

std::vector<Literal> results_of(const Program& program, const std::vector<std::vector<Literal>>& arguments) {
  verify(program);
  EXPECT_EQ(difference(program, parse_program(print_program(program), op_table())), "");
  return evaluate_lockstep(program, arguments);
}

// Returns the largest error relative to its bound, where `bound(i)` belongs to element i.
double worst(const Literal& want, const Literal& have, const std::function<double(std::int64_t)>& bound) {
  EXPECT_EQ(want.type(), have.type());
  double out = 0;
  for (std::int64_t i = 0; i < want.type().element_count(); ++i)
    out = std::max(out, std::fabs(element_as_double(want, i) - element_as_double(have, i)) / bound(i));
  return out;
}

double value_at(const Literal& x, std::int64_t i) { return std::fabs(element_as_double(x, i)); }

std::int64_t bytes_of(const Program& program) { return program_stats(program).total_collective_bytes; }

TEST(CompressCollectives, GatheredOrPermutedValuesAreRoundedOnce) {
  for (const std::string& move : {"f32[3,97,61] all-gather(%x), " + over(kRows, 1) + ", dimensions={0}",
                                  std::string("f32[1,97,61] collective-permute(%x), channel_id=1, "
                                              "source_target_pairs={{0,1},{1,2},{2,0},{4,3},{3,5},{5,4}}")}) {
    const Program before = over_mesh("  %x = f32[1,97,61] parameter(0)\n  ROOT %r = " + move + "\n");
    const Program after = compressed(before, "model");
    EXPECT_EQ(collectives_of(after), collectives_of(before));
    EXPECT_EQ(bytes_of(after) * 2, bytes_of(before)) << move;
    const auto arguments = arguments_of(before);
    const auto want = results_of(before, arguments);
    const auto have = results_of(after, arguments);
    for (std::size_t device = 0; device < want.size(); ++device) {
      const double error = worst(want[device], have[device],
                                 [&](std::int64_t i) { return kRounding * value_at(want[device], i) + 1e-30; });
      EXPECT_LE(error, 1) << move;
      EXPECT_GT(error, 0.5) << "nothing was rounded";
    }
  }
}

// Replaces the arguments by their magnitudes and returns the results of the all-reduce for each device.
std::vector<Literal> magnitudes(const Program& sum, std::vector<std::vector<Literal>> arguments) {
  for (auto& of_device : arguments)
    for (auto& argument : of_device)
      argument = evaluate(
          local_program(1, fmt::format("  %x = {0} parameter(0)\n  ROOT %a = {0} abs(%x)\n", argument.type().str())),
          std::vector{argument});
  return evaluate_lockstep(sum, arguments);
}

// The bound for each element of a sum: `of_addends` times the sum of the magnitudes of the partial values, plus
// `of_sum` times the sum itself. Returns the results.
std::vector<Literal> expect_within(const Program& before, const Program& after, double of_addends, double of_sum) {
  const auto arguments = arguments_of(before);
  const auto want = results_of(before, arguments);
  auto have = results_of(after, arguments);
  const auto sizes = magnitudes(before, arguments);
  for (std::size_t device = 0; device < want.size(); ++device)
    EXPECT_LE(worst(want[device], have[device],
                    [&](std::int64_t i) {
                      return of_addends * value_at(sizes[device], i) + of_sum * value_at(want[device], i);
                    }),
              1)
        << "device " << device;
  return have;
}
constexpr double kOfAddends = 1.01 * kRounding;  // includes the rounding of f32

TEST(CompressCollectives, PartialValuesAreRoundedOnceAndSummedInF32) {
  const std::string shape = "f32[67,65]";  // 4355 elements, which neither 2 nor 3 divides
  for (const std::string& groups : {kRows, kColumns}) {
    const Program before = over_mesh("  %x = " + shape + " parameter(0)\n  ROOT %r = " + shape + " all-reduce(%x), " +
                                     over(groups, 1) + ", to_apply=%add\n");
    const Program after = compressed(before, groups == kRows ? "model" : "data");
    EXPECT_EQ(collectives_of(after), (Counts{{"all-to-all", 1}, {"all-gather", 1}})) << print_program(after);
    EXPECT_LE(bytes_of(after), bytes_of(before) / 2 + 16);
    const auto have = expect_within(before, after, kOfAddends, kRounding);
    const std::size_t neighbour = groups == kRows ? 1 : 3;  // of device 0 in its group
    EXPECT_EQ(worst(have[0], have[neighbour], [](std::int64_t) { return 1.0; }), 0) << "members differ";
  }
}

TEST(CompressCollectives, AReduceScatterMayBeAlongAnyDim) {
  for (const int dim : {0, 1, 2}) {
    SCOPED_TRACE(dim);
    Dims full = {15, 18, 21};
    Dims part = full;
    at(part, dim) /= 3;
    const auto text = [](const Dims& dims) { return Type::array(DType::kF32, dims).str(); };
    const Program before = over_mesh(
        fmt::format("  %x = {} parameter(0)\n  ROOT %r = {} reduce-scatter(%x), {}, dimensions={{{}}}, to_apply=%add\n",
                    text(full), text(part), over(kRows, 1), dim));
    const Program after = compressed(before, "model");
    EXPECT_EQ(collectives_of(after), (Counts{{"all-to-all", 1}}));
    EXPECT_EQ(bytes_of(after) * 2, bytes_of(before));
    expect_within(before, after, kOfAddends, 0);
  }
}

// ---- int8 ---------------------------------------------------------------------------------------------------------------------

Program in_int8(const Program& program, const std::string& axis) {
  return compress_collectives(program, {axis}, Compression::kInt8);
}
double largest_of(const std::vector<std::vector<Literal>>& arguments) {
  double out = 0;
  for (const auto& of_device : arguments)
    for (const Literal& x : of_device)
      for (std::int64_t i = 0; i < x.type().element_count(); ++i) out = std::max(out, value_at(x, i));
  return out;
}

TEST(CompressCollectives, Int8IsAQuarterOfTheBytesWithinAStepOfItsBlock) {
  const std::string x = "  %x = f32[6,97,61] parameter(0)\n  ROOT %r = ";
  struct Move {
    std::string text;
    double rounded_partial_values;  // per element
    bool rounds_the_sum;
  };
  for (const Move& move : std::vector<Move>{
           {"f32[18,97,61] all-gather(%x), " + over(kRows, 1) + ", dimensions={0}", 1, false},
           {"f32[6,97,183] all-gather(%x), " + over(kRows, 1) + ", dimensions={2}", 1, false},
           {"f32[6,97,61] all-to-all(%x), " + over(kRows, 1) + ", dimensions={0}", 1, false},
           {"f32[6,97,61] collective-permute(%x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,0},{4,3},{3,5}}", 1,
            false},
           {"f32[2,97,61] reduce-scatter(%x), " + over(kRows, 1) + ", dimensions={0}, to_apply=%add", 3, false},
           {"f32[6,97,61] all-reduce(%x), " + over(kRows, 1) + ", to_apply=%add", 3, true}}) {
    SCOPED_TRACE(move.text);
    const Program before = over_mesh(x + move.text + "\n");
    const Program after = in_int8(before, "model");
    EXPECT_LT(static_cast<double>(bytes_of(after)), 0.26 * static_cast<double>(bytes_of(before)) + 1500);
    const auto arguments = arguments_of(before);
    const auto want = results_of(before, arguments);
    const auto have = results_of(after, arguments);
    const double step = largest_of(arguments) / 254;
    const double bound = 1.001 * step * (move.rounded_partial_values + (move.rounds_the_sum ? 3 * (1 + 1.0 / 254) : 0));
    double error = 0;
    for (std::size_t device = 0; device < want.size(); ++device)
      error = std::max(error, worst(want[device], have[device], [&](std::int64_t) { return bound; }));
    EXPECT_LE(error, 1);
    EXPECT_GT(error, 0.2) << "nothing was rounded";
  }
}

TEST(CompressCollectives, Int8KeepsZerosAndMarksBlocksThatAreNotFinite) {
  const Program before = over_mesh("  %x = f32[1,64,128] parameter(0)\n  ROOT %r = f32[3,64,128] all-gather(%x), " +
                                   over(kRows, 1) + ", dimensions={0}\n");
  auto arguments = arguments_of(before);
  std::vector<float> values(std::size_t{64} * 128, 0.0F);
  values[5] = std::numeric_limits<float>::infinity();  // in the first block of 256
  values[300] = 127.0F;
  values[301] = -3.0F;
  for (auto& of_device : arguments) of_device[0] = Literal::from<float>({1, 64, 128}, values);
  for (const Literal& result : results_of(in_int8(before, "model"), arguments)) {
    EXPECT_TRUE(std::isnan(element_as_double(result, 5)));
    EXPECT_TRUE(std::isnan(element_as_double(result, 0)));
    EXPECT_EQ(element_as_double(result, 300), 127);
    EXPECT_EQ(element_as_double(result, 301), -3);
    EXPECT_EQ(element_as_double(result, 302), 0);
    EXPECT_EQ(element_as_double(result, 600), 0);
  }
}

// One block for each `largest`, with numbers up to it. 127 / largest is infinite below 3.7e-37, and for smaller blocks
// f32 cannot represent the steps.
TEST(CompressCollectives, Int8RoundsByHalfAStepForBlocksOfAnyMagnitude) {
  const Program before = over_mesh("  %x = f32[1,64,128] parameter(0)\n  ROOT %r = f32[3,64,128] all-gather(%x), " +
                                   over(kRows, 1) + ", dimensions={0}\n");
  const Program after = in_int8(before, "model");
  const double smallest = std::numeric_limits<float>::denorm_min();
  auto arguments = arguments_of(before);
  std::vector<double> largest;
  for (const double one : {3.4e38, 1.0, 1e-30, 3.8e-37, 3.6e-37, 1e-37, 1.4e-38, 1e-40, 1e-42, 200 * smallest,
                           100 * smallest, 3 * smallest, smallest, 0.0})
    largest.push_back(one);
  const auto of_block = [&](std::size_t i) { return largest[i / 256 % largest.size()]; };
  std::vector<float> values(std::size_t{64} * 128);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(of_block(i) * ((static_cast<double>(i % 256) - 127.5) / 127.5));
  for (auto& of_device : arguments) of_device[0] = Literal::from<float>({1, 64, 128}, values);
  for (const Literal& result : results_of(after, arguments))
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double have = element_as_double(result, static_cast<std::int64_t>(i));
      const double error = std::fabs(have - static_cast<double>(values[i]));
      ASSERT_LE(error, 1.001 * of_block(i) / 254 + smallest)
          << values[i] << " of " << of_block(i) << " came as " << have;
    }
}

TEST(CompressCollectives, OtherAxesTypesReductionsAndSmallOperandsAreNotCompressed) {
  const auto body = [](const std::string& type, const std::string& groups, const std::string& by) {
    return over_mesh("  %x = " + type + " parameter(0)\n  ROOT %r = " + type + " all-reduce(%x), " + over(groups, 1) +
                     ", to_apply=%" + by + "\n");
  };
  const auto over_model = [](const Program& program) { return compressed(program, "model"); };
  expect_untouched(over_model, body("f32[67,65]", kColumns, "add"));
  expect_untouched(over_model, body("s32[67,65]", kRows, "addi"));
  expect_untouched(over_model, body("f32[67,65]", kRows, "max"));
  expect_untouched(over_model, body("f32[7,5]", kRows, "add"));
  EXPECT_THROW(
      {
        try {
          (void)compressed(body("f32[67,65]", kRows, "add"), "modle");
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "no mesh has an axis \"modle\" to compress over; did you mean \"model\"?");
          throw;
        }
      },
      Error);
}

}  // namespace
}  // namespace tessera::testing
