// SPDX-License-Identifier: Apache-2.0
// Dots next to gathers and scatters become chains: equal values for every dim that can be gathered or scattered, in
// less modelled time.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "partitioner/collective_passes/collective_programs.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera::testing {
namespace {

const Topology kSlow = Topology::parse(R"({"other": {"latency_us": 1, "gigabytes_per_second": 0.5}})");

Program chained(const Program& program) { return collective_matmul(program, MachineModel::with_links(kSlow)); }

// ---- the model -----------------------------------------------------------------------------------------------------

// Returns the time at which the last device ends if collectives overlap with instructions that do not read them. One
// collective runs at a time, and one other instruction.
double modelled_end(const Program& program) {
  constexpr double kFlops = 1e11;
  constexpr double kBytes = 2e10;
  const Computation& c = program[program.entry];
  std::vector<double> end(c.instructions.size(), 0);
  double link = 0;
  double unit = 0;
  for (Id id = 0; id < c.size(); ++id) {
    const Instruction& instruction = c[id];
    double start = 0;
    double bytes = static_cast<double>(instruction.type.byte_size());
    for (const Id operand : instruction.operands) {
      start = std::max(start, end[static_cast<std::size_t>(operand)]);
      bytes += static_cast<double>(c[operand].type.byte_size());
    }
    double& free = instruction.op->role == Role::kCollective ? link : unit;
    double seconds = flops_of(view_of(program, c, instruction)) / kFlops;
    if (instruction.op->role == Role::kCollective) {
      const auto received = std::min(instruction.type.byte_size(), c[instruction.operands[0]].type.byte_size());
      const bool hops = instruction.op->name == "collective-permute";
      const auto group = instruction.type.byte_size() + c[instruction.operands[0]].type.byte_size();
      const auto messages = hops ? 1 : group / received - 2;
      seconds = exchange_seconds(kSlow.other(), messages, messages * received);
    } else if (instruction.op->name == "dot" || instruction.op->name == "add") {
      seconds += bytes / kBytes;
    } else if (instruction.op->name == "dynamic-update-slice") {  // in place
      seconds = 2 * static_cast<double>(c[instruction.operands[1]].type.byte_size()) / kBytes;
    }
    if (seconds > 0) start = free = std::max(start, free) + seconds;
    end[static_cast<std::size_t>(id)] = start;
  }
  return end[static_cast<std::size_t>(c.root)];
}

// ---- programs ------------------------------------------------------------------------------------------------------

struct Ring {
  int devices;
  int size;
  std::string groups;
};
// All devices of a mesh, the rows and columns of 2x3, and a group whose order is not that of the device numbers.
const std::vector<Ring> kRings = {{2, 2, "[1,2]<=[2]"}, {3, 3, "[1,3]<=[3]"}, {4, 4, "{{2,0,3,1}}"},
                                  {6, 6, "[1,6]<=[6]"}, {6, 3, "[2,3]<=[6]"}, {6, 2, "[3,2]<=[2,3]T(1,0)"}};

struct Case {
  Ring ring;
  std::string lhs;
  std::string rhs;
  std::string result;
  char letter;       // the dim that is gathered or scattered
  bool even = true;  // else the last tile has padding
  std::string dtype = "f32";

  [[nodiscard]] std::string name() const {
    return fmt::format("{},{}->{} {} over {} {} {}", lhs, rhs, result, letter, ring.groups, even ? "even" : "uneven",
                       dtype);
  }
  [[nodiscard]] std::int64_t tile() const { return letter == 'b' ? 2 : letter == 'k' ? 45 : 9; }
  [[nodiscard]] std::int64_t all_tiles() const { return tile() * ring.size; }
  [[nodiscard]] std::int64_t length(char dim) const {
    if (dim == letter) return all_tiles() - (even ? 0 : 1);
    // Larger products, because slices of a batch take long compared with small products.
    const std::int64_t more = letter == 'b' ? 20 : 0;
    return dim == 'b' ? 3 : dim == 'k' ? 90 : dim == 'm' ? 17 + more : 19 + more;
  }
  // Returns the type with these dims. `own` is the size of dim `letter`.
  [[nodiscard]] std::string type(const std::string& dims, std::int64_t own) const {
    std::vector<std::string> sizes;
    for (const char dim : dims) sizes.push_back(std::to_string(dim == letter ? own : length(dim)));
    return fmt::format("{}[{}]", dtype, fmt::join(sizes, ","));
  }
  [[nodiscard]] std::string type(const std::string& dims) const { return type(dims, length(letter)); }
  [[nodiscard]] std::string dot(const std::string& operands) const {
    std::string texts[4];  // lhs batch, contracting, rhs batch, contracting
    for (std::size_t d = 0; d < lhs.size(); ++d) {
      const auto other = rhs.find(lhs[d]);
      if (other == std::string::npos) continue;
      const int kind = result.find(lhs[d]) == std::string::npos ? 1 : 0;
      texts[kind] += (texts[kind].empty() ? "" : ",") + std::to_string(d);
      texts[kind + 2] += (texts[kind + 2].empty() ? "" : ",") + std::to_string(other);
    }
    const std::string batch =
        texts[0].empty() ? "" : fmt::format("lhs_batch_dims={{{}}}, rhs_batch_dims={{{}}}, ", texts[0], texts[2]);
    return fmt::format("{} dot({}), {}lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}", type(result), operands,
                       batch, texts[1], texts[3]);
  }
};

// Returns slice=… or padding=… for dim `letter` only.
std::string slices(const Case& c, const std::string& dims) {
  std::vector<std::string> out;
  for (const char dim : dims) out.push_back(fmt::format("[0:{}]", c.length(dim)));
  return fmt::format("{}", fmt::join(out, ", "));
}

// Returns a dot with the operand `side` gathered.
Program gathered(const Case& c, int side) {
  const std::string& dims = side == 0 ? c.lhs : c.rhs;
  const std::string& others = side == 0 ? c.rhs : c.lhs;
  std::string body = fmt::format("  %x = {} parameter(0)\n  %y = {} parameter(1), sharding={{devices=[{}{}]<=[{}]}}\n",
                                 c.type(dims, c.tile()), c.type(others), others.size() == 3 ? "1,1," : "1,",
                                 c.ring.devices, c.ring.devices);
  body += fmt::format("  %g = {} all-gather(%x), {}, dimensions={{{}}}\n", c.type(dims, c.all_tiles()),
                      over(c.ring.groups, 5), dims.find(c.letter));
  if (!c.even) body += fmt::format("  %t = {} slice(%g), slice={{{}}}\n", c.type(dims), slices(c, dims));
  const std::string gathered = c.even ? "%g" : "%t";
  return local_program(c.ring.devices,
                       body + "  ROOT %d = " + c.dot(side == 0 ? gathered + ", %y" : "%y, " + gathered) + "\n");
}

// Returns a dot whose result is reduce-scattered.
Program scattered(const Case& c) {
  std::string body = fmt::format("  %x = {} parameter(0)\n  %y = {} parameter(1)\n  %d = {}\n", c.type(c.lhs),
                                 c.type(c.rhs), c.dot("%x, %y"));
  if (!c.even) {
    std::vector<std::string> padding;
    for (const char dim : c.result) padding.push_back(dim == c.letter ? "0_1" : "0_0");
    body += fmt::format("  %zero = {0}[] constant(0)\n  %p = {1} pad(%d, %zero), padding={2}\n", c.dtype,
                        c.type(c.result, c.all_tiles()), fmt::join(padding, "x"));
  }
  return local_program(
      c.ring.devices, body + fmt::format("  ROOT %s = {} reduce-scatter(%{}), {}, dimensions={{{}}}, to_apply=%add{}\n",
                                         c.type(c.result, c.tile()), c.even ? "d" : "p", over(c.ring.groups, 5),
                                         c.result.find(c.letter), c.dtype == "s32" ? "i" : ""));
}

void expect_chain(const Case& c, const Program& before) {
  SCOPED_TRACE(c.name());
  const Program after = expect_collectives(chained, before, {{"collective-permute", c.ring.size - 1}});
  EXPECT_EQ(program_stats(after).total_collective_bytes, program_stats(before).total_collective_bytes);
  EXPECT_LT(modelled_end(after), modelled_end(before));
  expect_untouched([](const Program& p) { return collective_matmul(p, MachineModel()); }, before);
}

// ---- gathers -------------------------------------------------------------------------------------------------------

TEST(CollectiveMatmul, AGatherOfAnyDimOfEitherOperandIsInterleavedWithTheDot) {
  for (const Ring& ring : kRings)
    for (const bool even : {true, false})
      for (const char letter : std::string("bmnk")) {
        const Case c{ring, "bmk", "kbn", "bmn", letter, even};
        if (c.lhs.find(letter) != std::string::npos) expect_chain(c, gathered(c, 0));
        if (c.rhs.find(letter) != std::string::npos) expect_chain(c, gathered(c, 1));
      }
}

TEST(CollectiveMatmul, IntegerResultsAreExact) {
  for (const char letter : std::string("mk")) {
    const Case c{kRings[4], "km", "nk", "mn", letter, false, "s32"};
    expect_chain(c, gathered(c, 0));
  }
  const Case c{kRings[4], "km", "nk", "mn", 'n', false, "s32"};
  expect_chain(c, scattered(c));
}

TEST(CollectiveMatmul, PartialSumsOfNarrowFloatsAreAddedUpInF32) {
  const Case c{kRings[3], "mk", "kn", "mn", 'k', true, "bf16"};
  const Program before = gathered(c, 0);
  const Program after = chained(before);
  const auto arguments = arguments_of(before);
  const auto want = evaluate_lockstep(before, arguments);
  const auto have = evaluate_lockstep(after, arguments);
  for (std::size_t device = 0; device < want.size(); ++device)
    for (std::int64_t i = 0; i < want[device].type().element_count(); ++i) {
      const double a = element_as_double(want[device], i);
      ASSERT_NEAR(element_as_double(have[device], i), a, std::fabs(a) / 128 + 1e-5);  // one rounding to 8 bits
    }
  EXPECT_EQ(collectives_of(after), (Counts{{"collective-permute", 5}}));
}

// Two dots read the gather. `second` contains the second dot and the instructions before it.
Program shared(const std::string& second, const std::string& marks = "") {
  return local_program(4,
                       "  %x = f32[9,90] parameter(0)\n  %v = f32[90,17] parameter(1)\n  %w = f32[90,17] parameter(2)\n"
                       "  %g = f32[36,90] all-gather(%x), " +
                           over("[1,4]<=[4]", 3) + ", dimensions={0}" + marks +
                           "\n  %d = f32[36,17] dot(%g, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" +
                           second + "  ROOT %t = (f32[36,17], f32[36,17]) tuple(%d, %e)\n");
}
const std::string kSecondDot = "  %e = f32[36,17] dot(%g, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";

TEST(CollectiveMatmul, DotsThatReadOneGatherShareItsPermutes) {
  expect_collectives(chained, shared(kSecondDot), {{"collective-permute", 3}});
}

TEST(CollectiveMatmul, GathersWithOtherConsumersMarksOrDependentDotsStay) {
  expect_untouched(chained, shared("  %e = f32[36,17] slice(%g), slice={[0:36], [2:19]}\n"));
  for (const char* mark : {"tessera.recompute", "tessera.barrier"})
    expect_untouched(chained, shared(kSecondDot, fmt::format(", frontend_attributes={{{}=\"true\"}}", mark)));
  // The second dot depends on the first.
  expect_untouched(chained,
                   shared("  %i = s32[] constant(0)\n  %u = f32[90,17] dynamic-update-slice(%w, %d, %i, %i)\n"
                          "  %e = f32[36,17] dot(%g, %u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"));
}

TEST(CollectiveMatmul, ValuesThatMayBeReplicatedAreNotSummedInDifferentOrders) {
  const Case c{kRings[2], "mk", "kn", "mn", 'k'};
  const std::string text = print_program(gathered(c, 0));
  for (const char* sharding : {"{replicated}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"})
    expect_untouched(
        chained,
        parse_program(std::regex_replace(text, std::regex("\\{devices=\\[1,4\\]<=\\[4\\]\\}"), sharding), op_table()));
  expect_chain(c, gathered(c, 0));
}

TEST(CollectiveMatmul, ScattersOfNarrowFloatsRoundOnce) {
  std::string text = print_program(scattered({kRings[2], "mk", "kn", "mn", 'm'}));
  text = std::regex_replace(text, std::regex("f32"), "bf16");
  expect_untouched(chained, parse_program(text, op_table()));
}

TEST(CollectiveMatmul, SmallDotsAreNotInterleaved) {
  expect_untouched(
      chained,
      local_program(2, "  %x = f32[1,2] parameter(0)\n  %y = f32[2,50] parameter(1)\n  %g = f32[2,2] all-gather(%x), " +
                           over("[1,2]<=[2]", 1) +
                           ", dimensions={0}\n  ROOT %d = f32[2,50] dot(%g, %y), "
                           "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"));
}

// ---- scatters ------------------------------------------------------------------------------------------------------

TEST(CollectiveMatmul, AScatterOfAnyDimIsInterleavedWithTheDot) {
  for (const Ring& ring : kRings)
    for (const bool even : {true, false})
      for (const char letter : std::string("bmn")) {
        const Case c{ring, "bmk", "kbn", "bmn", letter, even};
        expect_chain(c, scattered(c));
      }
}

TEST(CollectiveMatmul, PaddingZerosStayZeroNextToInfinity) {
  expect_collectives(
      chained,
      local_program(3,
                    "  %x = f32[17,90] parameter(0)\n  %a = f32[17,90] abs(%x)\n  %inf = f32[] constant(inf)\n"
                    "  %y = f32[90,19] broadcast(%inf), dimensions={}\n  %d = f32[17,19] dot(%a, %y), "
                    "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  %zero = f32[] constant(0)\n"
                    "  %p = f32[18,19] pad(%d, %zero), padding=0_1x0_0\n  ROOT %s = f32[6,19] reduce-scatter(%p), " +
                        over("[1,3]<=[3]", 2) + ", dimensions={0}, to_apply=%add\n"),
      {{"collective-permute", 2}});
}

TEST(CollectiveMatmul, OneOfAGatherAndAScatterAroundADotBecomesAChain) {
  const std::string body =
      "  %x = f32[9,90] parameter(0)\n  %v = f32[90,15] parameter(1)\n  %g = f32[27,90] all-gather(%x), " +
      over("[2,3]<=[6]", 3) +
      ", dimensions={0}\n  %d = f32[27,15] dot(%g, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  ROOT %s = f32[27,5] reduce-scatter(%d), " +
      over("[2,3]<=[6]", 4) + ", dimensions={1}, to_apply=%add\n";
  const Program before = local_program(6, body);
  expect_collectives(chained, before, {{"collective-permute", 2}, {"reduce-scatter", 1}});
  std::string largest = body;
  largest.replace(largest.find("%add"), 4, "%max");
  expect_collectives(chained, local_program(6, largest), {{"collective-permute", 2}, {"reduce-scatter", 1}});
}

// ---- within partition() --------------------------------------------------------------------------------------------

// A layer with tensor parallelism whose activations are sharded between layers, and also over data if the mesh has this
// axis.
Program layer(const Mesh& mesh, int rows) {
  const std::string text = R"(HloModule layer
ENTRY %main {
  %x = f32[ROWS,47] parameter(0)
  %v = f32[47,101] parameter(1)
  %w = f32[101,47] parameter(2)
  %h = f32[ROWS,101] dot(%x, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[ROWS,101] tanh(%h)
  ROOT %o = f32[ROWS,47] dot(%t, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
  Program program = parse_program(std::regex_replace(text, std::regex("ROWS"), std::to_string(rows)), op_table());
  program.num_partitions = mesh.device_count();
  const std::string by_rows = mesh.axis_count() == 1 ? "model,-" : "data+model,-";
  for (const auto& [name, spec] : std::vector<std::pair<std::string, std::string>>{
           {"x", by_rows}, {"v", "-,model"}, {"w", "model,-"}, {"o", by_rows}})
    program = annotate(program, mesh, name, spec);
  return program;
}

TEST(CollectiveMatmul, PartitionedLayersAreRightWithPaddingAndAreExplained) {
  const std::vector<std::pair<const char*, int>> cases = {
      {"model=2", 61}, {"model=3", 61}, {"model=6", 61}, {"data=2,model=3", 60}};
  for (const auto& [axes, rows] : cases) {
    SCOPED_TRACE(axes);
    const Program program = layer(Mesh::parse(axes), rows);
    PartitionOptions options;
    options.keep_shardings = true;
    options.machine = MachineModel::with_links(kSlow);
    const Partitioned chains = partition(program, options);
    const auto report = check_partitioned(program, chains);
    EXPECT_TRUE(report.passed) << (report.failures.empty() ? "" : report.failures.front());
    const auto says = [](const CollectiveNote& note) {
      return note.reason.starts_with("collective matmul: ") &&
             note.reason.find("overlaps with the dot %") != std::string::npos;
    };
    EXPECT_TRUE(std::all_of(chains.notes.begin(), chains.notes.end(), says)) << chains.notes.front().reason;
    EXPECT_EQ(collectives_of(chains.program).count("all-gather"), 0);
    EXPECT_EQ(collectives_of(chains.program).count("reduce-scatter"), 0);
    options.skip_passes = {"collective-matmul"};
    const Partitioned undivided = partition(program, options);
    EXPECT_EQ(collectives_of(undivided.program), (Counts{{"all-gather", 1}, {"reduce-scatter", 1}}));
    EXPECT_EQ(program_stats(undivided.program).total_collective_bytes,
              program_stats(chains.program).total_collective_bytes);
  }
}

TEST(CollectiveMatmul, PaddingOfAContractingDimIsNeitherSentNorSummed) {
  Program program = parse_program(R"(HloModule sums
ENTRY %main {
  %x = f32[31,95] parameter(0)
  %v = f32[95,601] parameter(1)
  ROOT %h = f32[31,601] dot(%x, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                  op_table());
  const Mesh mesh = Mesh::parse("model=4");
  program.num_partitions = 4;
  for (const auto& [name, spec] :
       std::vector<std::pair<std::string, std::string>>{{"x", "-,model"}, {"v", "-,model"}, {"h", "-,model"}})
    program = annotate(program, mesh, name, spec);
  PartitionOptions options;
  options.keep_shardings = true;
  options.machine = MachineModel::with_links(kSlow);
  const Partitioned parts = partition(program, options);
  EXPECT_EQ(collectives_of(parts.program), (Counts{{"collective-permute", 3}})) << print_program(parts.program);
  const auto report = check_partitioned(program, parts);
  EXPECT_TRUE(report.passed) << (report.failures.empty() ? "" : report.failures.front());
}

TEST(CollectiveMatmul, EachAsynchronousPairSpansADot) {
  const Case c{kRings[2], "mk", "kn", "mn", 'm'};
  const Program pairs = make_asynchronous(chained(gathered(c, 0)));
  expect_same_values(gathered(c, 0), pairs);
  int open = 0;
  int spanned = 0;
  for (const Instruction& instruction : pairs[pairs.entry].instructions) {
    if (instruction.op->name == "collective-permute-start") ++open;
    if (instruction.op->name == "collective-permute-done") --open;
    if (instruction.op->name == "dot") spanned += open;
  }
  EXPECT_EQ(spanned, 3);
}

}  // namespace
}  // namespace tessera::testing
