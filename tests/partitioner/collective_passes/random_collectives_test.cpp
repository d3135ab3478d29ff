// SPDX-License-Identifier: Apache-2.0
// Random per-device programs with many collectives, straight-line and with loops: all passes together preserve every
// value (integers exactly), and increase neither bytes nor the number of collectives.
#include <fmt/format.h>

#include <random>

#include "partitioner/collective_passes/collective_programs.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"

namespace tessera::testing {
namespace {

class Lines {
 public:
  Lines(std::uint64_t seed, int devices) : random_(seed), devices_(devices) {}

  void parameter(const std::string& name, const Dims& dims) { values_.push_back({name, dims}); }

  void add(int count) {
    for (int k = 0; k < count; ++k) add_one();
  }
  /// Returns a value with these dims, or else a broadcast constant.
  std::string value_of(const Dims& dims) {
    for (auto it = values_.rbegin(); it != values_.rend(); ++it)
      if (it->dims == dims) return it->name;
    return emit(dims, "broadcast(%one), dimensions={}");
  }
  /// Returns a root that reads the last few values once more.
  [[nodiscard]] std::string root(const std::string& name) const {
    std::vector<std::string> types;
    std::vector<std::string> names;
    for (std::size_t k = values_.size() > 4 ? values_.size() - 4 : 0; k < values_.size(); ++k) {
      types.push_back(type(values_[k].dims));
      names.push_back("%" + values_[k].name);
    }
    return fmt::format("  ROOT %{} = ({}) tuple({})\n", name, fmt::join(types, ", "), fmt::join(names, ", "));
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  static std::string type(const Dims& dims) { return fmt::format("s32[{}]", fmt::join(dims, ",")); }

 private:
  struct Named {
    std::string name;
    Dims dims;
  };
  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  // Prefers later values.
  Named any() { return values_[values_.size() - 1 - static_cast<std::size_t>(pick(std::min(6, isize(values_))))]; }

  std::string emit(const Dims& dims, const std::string& what) {
    const std::string name = fmt::format("v{}", ++count_);
    text_ += fmt::format("  %{} = {} {}\n", name, type(dims), what);
    values_.push_back({name, dims});
    return name;
  }

  void add_one() {
    const Named x = any();
    const auto operand = "(%" + x.name + ")";
    switch (pick(10)) {
      case 0: emit(x.dims, "negate" + operand); return;
      case 1: emit({x.dims[1], x.dims[0]}, "transpose" + operand + ", dimensions={1,0}"); return;
      case 2: emit({x.dims[0] * x.dims[1], 1}, "reshape" + operand); return;
      case 3:
      case 4: {
        constexpr const char* kOps[] = {"add", "add", "subtract", "maximum", "multiply"};
        const std::string y = value_of(x.dims);
        emit(x.dims, fmt::format("{}(%{}, %{})", kOps[pick(5)], x.name, pick(3) == 0 ? x.name : y));
        return;
      }
      default: collective(x, operand);
    }
  }

  void collective(const Named& x, const std::string& operand) {
    struct Groups {
      std::string text;
      std::int64_t size;
    };
    const std::vector<Groups> six = {
        {"[2,3]<=[6]", 3}, {"[3,2]<=[2,3]T(1,0)", 2}, {"[1,6]<=[6]", 6}, {"{{2,1,0},{3,5,4}}", 3}};
    const std::vector<Groups> eight = {
        {"[2,4]<=[8]", 4}, {"[4,2]<=[2,4]T(1,0)", 2}, {"[1,8]<=[8]", 8}, {"[8,1]<=[8]", 1}};
    const Groups groups = (devices_ == 6 ? six : eight)[static_cast<std::size_t>(pick(2) == 0 ? 0 : pick(4))];
    const std::string at_groups = operand + ", " + over(groups.text, ++channel_);
    const int dim = pick(2);
    const char* reducer = pick(3) == 0 ? "maxi" : "addi";
    Dims dims = x.dims;
    switch (pick(4)) {
      case 0: emit(dims, fmt::format("all-reduce{}, to_apply=%{}", at_groups, reducer)); return;
      case 1:
        if (product(dims) > 200) return;
        at(dims, dim) *= groups.size;
        emit(dims, fmt::format("all-gather{}, dimensions={{{}}}", at_groups, dim));
        return;
      case 2:
        if (at(dims, dim) % groups.size != 0) return;
        at(dims, dim) /= groups.size;
        emit(dims, fmt::format("reduce-scatter{}, dimensions={{{}}}, to_apply=%{}", at_groups, dim, reducer));
        return;
      default:
        emit(dims, fmt::format("collective-permute{}, channel_id={}, source_target_pairs={}", operand, channel_,
                               pick(2) == 0 ? "{{0,1},{1,5},{5,2}}" : "{{3,0},{0,3}}"));
    }
  }

  std::mt19937_64 random_;
  int devices_;
  std::vector<Named> values_;
  std::string text_;
  int count_ = 0;
  int channel_ = 0;
};

const std::string kMaxi =
    "%maxi {\n  %a = s32[] parameter(0)\n  %b = s32[] parameter(1)\n  ROOT %r = s32[] maximum(%a, %b)\n}\n";

Program straight(std::uint64_t seed) {
  const int devices = seed % 2 == 0 ? 6 : 8;
  Lines lines(seed, devices);
  lines.parameter("x", {6, 4});
  lines.parameter("y", {4, 6});
  lines.add(24);
  return local_program(devices,
                       "  %x = s32[6,4] parameter(0)\n  %y = s32[4,6] parameter(1)\n  %one = s32[] constant(1)\n" +
                           lines.text() + lines.root("r"),
                       kMaxi);
}

// A loop of three iterations over a counter, a sum, a maximum and an invariant value. The body reads the invariant
// value and the counter.
Program looping(std::uint64_t seed) {
  const int devices = seed % 2 == 0 ? 6 : 8;
  Lines lines(seed, devices);
  lines.parameter("w", {6, 4});
  lines.parameter("turn", {6, 4});
  lines.add(14);
  const std::string sum = lines.value_of({6, 4});
  const std::string most = lines.value_of({4, 6});
  const std::string state = "(s32[], s32[6,4], s32[4,6], s32[6,4])";
  const std::string loop =
      "%cond {\n  %s = " + state +
      " parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n  %l = s32[] constant(3)\n"
      "  ROOT %c = pred[] compare(%i, %l), direction=LT\n}\n%body {\n  %s = " +
      state +
      " parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n  %one = s32[] constant(1)\n  %in = s32[] add(%i, "
      "%one)\n"
      "  %a = s32[6,4] get-tuple-element(%s), index=1\n  %m = s32[4,6] get-tuple-element(%s), index=2\n"
      "  %w = s32[6,4] get-tuple-element(%s), index=3\n  %turn = s32[6,4] broadcast(%i), dimensions={}\n" +
      lines.text() + "  %sr = s32[6,4] all-reduce(%" + sum + "), " +
      over(devices == 6 ? "[2,3]<=[6]" : "[2,4]<=[8]", 100) +
      ", to_apply=%addi\n  %an = s32[6,4] add(%a, %sr)\n  %mn = s32[4,6] maximum(%" + most +
      ", %m)\n  ROOT %r = " + state + " tuple(%in, %an, %mn, %w)\n}\n";
  return local_program(
      devices,
      "  %x = s32[6,4] parameter(0)\n  %y = s32[4,6] parameter(1)\n  %i0 = s32[] constant(0)\n  %init = " + state +
          " tuple(%i0, %x, %y, %x)\n  ROOT %w = " + state + " while(%init), condition=%cond, body=%body\n",
      kMaxi + loop);
}

int count_of(const Program& program) {
  int sum = 0;
  for (const auto& [name, count] : collectives_of(program)) sum += count;
  return sum;
}

void expect_kept(const std::function<Program(std::uint64_t)>& make, int cases) {
  int fewer = 0;
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(seed);
    const Program before = make(static_cast<std::uint64_t>(seed));
    const Program after = optimize_collectives(before);
    expect_same_values(before, after);
    EXPECT_LE(count_of(after), count_of(before));
    fewer += count_of(after) < count_of(before) ? 1 : 0;
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << print_program(before) << print_program(after);
      return;
    }
  }
  EXPECT_GE(fewer * 2, cases) << "the passes find too little to do";
}

TEST(RandomCollectives, PassesKeepValuesOfStraightPrograms) { expect_kept(straight, 150); }
TEST(RandomCollectives, PassesKeepValuesOfLoops) { expect_kept(looping, 150); }

}  // namespace
}  // namespace tessera::testing
