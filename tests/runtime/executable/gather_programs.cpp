// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/gather_programs.h"

#include <fmt/format.h>

#include <array>
#include <random>

#include "runtime/close.h"
#include "shared_memory/heap.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera::testing {
namespace {

class Refusing final : public NodeMemory {
 public:
  explicit Refusing(std::shared_ptr<NodeMemory> real) : real_(std::move(real)) {}
  std::byte* take(std::size_t bytes) override { return real_->take(bytes); }
  void give_back(std::byte* block, std::size_t bytes) override { real_->give_back(block, bytes); }
  [[nodiscard]] std::int64_t offset_of(const std::byte* data) const override { return real_->offset_of(data); }
  [[nodiscard]] std::shared_ptr<std::byte> side_by_side(std::span<const NodePlace> /*places*/, std::size_t /*bytes*/,
                                                        Use /*use*/) const override {
    return nullptr;
  }

 private:
  std::shared_ptr<NodeMemory> real_;
};

collectives::OwnNodeMemory& own() { return RankContext::current().get<collectives::OwnNodeMemory>(); }

// A program of random steps. Shards have one dim; `values_[c]` are the values with kSizes[c] elements.
class RandomText {
 public:
  RandomText(unsigned seed, bool one_group) : random_(seed), one_group_(one_group) {
    for (std::size_t c = 0; c < kSizes.size(); ++c)
      values_[c].push_back(add(fmt::format("p{}", c), fmt::format("s32[{}] parameter({})", kSizes[c], c)));
    add("zero", "s32[] constant(0)");
    for (int i = 0; i < 14; ++i) step();
  }
  std::string str() const {
    std::vector<std::string> types;
    std::vector<std::string> results;
    std::vector<std::string> parameters;
    for (std::size_t c = 0; c < kSizes.size(); ++c) {
      types.push_back(fmt::format("s32[{}]", kSizes[c]));
      results.push_back("%" + values_[c].back());
      parameters.push_back(fmt::format("p{}: {}", c, types.back()));
    }
    return fmt::format(
        R"(HloModule random, num_partitions=4, input_output_alias={{ {{0}}: (0, {{}}, may-alias), {{2}}: (2, {{}}, may-alias) }}
%add (a: s32[], b: s32[]) -> s32[] {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %sum = s32[] add(%a, %b)
}}
ENTRY %main ({}) -> ({}) {{
{}  ROOT %out = ({}) tuple({})
}})",
        fmt::join(parameters, ", "), fmt::join(types, ", "), body_, fmt::join(types, ", "), fmt::join(results, ", "));
  }

 private:
  // 8 KiB; a size that ends within a page; the same with an odd number of elements; few bytes.
  static constexpr std::array<int, 4> kSizes = {2048, 8200, 9001, 50};

  std::string add(const std::string& name, const std::string& what) {
    body_ += fmt::format("  %{} = {}\n", name, what);
    return name;
  }
  std::string fresh(const std::string& what) { return add(fmt::format("v{}", count_++), what); }
  std::size_t pick(std::size_t count) { return random_() % count; }
  const std::string& value(std::size_t c) { return values_[c][pick(values_[c].size())]; }

  void step() {
    const std::size_t c = pick(kSizes.size());
    const int size = kSizes[c];
    if (pick(4) == 0) {
      values_[c].push_back(fresh(fmt::format("s32[{}] subtract(%{}, %{})", size, value(c), value(c))));
      return;
    }
    static constexpr std::array<const char*, 3> kGroups = {"{{0,1,2,3}}", "{{0,1},{2,3}}", "{{0,2},{1,3}}"};
    const std::size_t group = one_group_ ? 0 : pick(kGroups.size());
    const int members = group == 0 ? 4 : 2;
    const std::string gathered = fmt::format("s32[{}]", size * members);
    const std::string all = fresh(fmt::format(
        "{} all-gather(%{}), channel_id={}, replica_groups={}, use_global_device_ids=true, dimensions={{0}}", gathered,
        value(c), ++channel_, kGroups[group]));
    if (group != 0 && pick(2) == 0) gather_again(all, c, kGroups[3 - group]);
    const std::string square = fresh(fmt::format("{} multiply(%{}, %{})", gathered, all, all));
    const std::string sum =
        fresh(fmt::format("s32[] reduce(%{}, %zero), dimensions={{0}}, to_apply=%add", pick(2) == 0 ? square : all));
    const std::size_t part = pick(static_cast<std::size_t>(members));
    const std::string slice =
        fresh(fmt::format("s32[{}] slice(%{}), slice={{[{}:{}]}}", size, pick(2) == 0 ? square : all,
                          part * static_cast<std::size_t>(size), (part + 1) * static_cast<std::size_t>(size)));
    const std::string spread = fresh(fmt::format("s32[{}] broadcast(%{}), dimensions={{}}", size, sum));
    values_[c].push_back(fresh(fmt::format("s32[{}] add(%{}, %{})", size, slice, spread)));
    const std::size_t other = pick(kSizes.size());
    const std::string far = fresh(fmt::format("s32[{}] broadcast(%{}), dimensions={{}}", kSizes[other], sum));
    values_[other].push_back(fresh(fmt::format("s32[{}] xor(%{}, %{})", kSizes[other], value(other), far)));
  }

  // Gathers a gathered value over the other pairs of ranks.
  void gather_again(const std::string& gathered, std::size_t c, const char* groups) {
    const int size = kSizes[c];
    const std::string all = fresh(fmt::format(
        "s32[{}] all-gather(%{}), channel_id={}, replica_groups={}, use_global_device_ids=true, dimensions={{0}}",
        size * 4, gathered, ++channel_, groups));
    const std::string sum = fresh(fmt::format("s32[] reduce(%{}, %zero), dimensions={{0}}, to_apply=%add", all));
    const std::string spread = fresh(fmt::format("s32[{}] broadcast(%{}), dimensions={{}}", size, sum));
    values_[c].push_back(fresh(fmt::format("s32[{}] add(%{}, %{})", size, value(c), spread)));
  }

  std::mt19937 random_;
  bool one_group_;
  int count_ = 0;
  int channel_ = 0;
  std::string body_;
  std::array<std::vector<std::string>, kSizes.size()> values_;
};

}  // namespace

Program gathered_in_turn(int ranks, const std::string& element, int rows, int columns) {
  const std::string shard = fmt::format("{}[{},{}]", element, rows, columns);
  const std::string row = fmt::format("{}[{}]", element, columns);
  const std::string gathered = fmt::format("{}[{},{}]", element, rows * ranks, columns);
  const std::string most = fmt::format("{}[{},{}]", element, rows * ranks - 1, columns);
  int channel = 0;
  const auto gather = [&](const std::string& name, const std::string& operand) {
    return fmt::format(R"(
  %{0}_all = {1} all-gather(%{2}), channel_id={3}, replica_groups=[1,{4}]<=[{4}], use_global_device_ids=true, dimensions={{0}}
  %{0}_cut = {5} slice(%{0}_all), slice={{[0:{6}], [0:{7}]}}
  %{0} = {8} reduce(%{0}_cut, %zero), dimensions={{0}}, to_apply=%add
  %{0}_rows = {9} broadcast(%{0}), dimensions={{1}})",
                       name, gathered, operand, ++channel, ranks, most, rows * ranks - 1, columns, row, shard);
  };
  std::string text =
      fmt::format(R"(HloModule turns, num_partitions={0}, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
%add (a: {1}[], b: {1}[]) -> {1}[] {{
  %a = {1}[] parameter(0)
  %b = {1}[] parameter(1)
  ROOT %sum = {1}[] add(%a, %b)
}}
ENTRY %main (p: {2}) -> ({2}, {3}, {3}) {{
  %p = {2} parameter(0)
  %zero = {1}[] constant(0))",
                  ranks, element, shard, row);
  text += gather("first", "p");
  text += fmt::format("\n  %q = {} multiply(%p, %first_rows)", shard);
  text += gather("second", "q");
  text += fmt::format("\n  %late = {} subtract(%second_rows, %p)", shard);
  text += gather("third", "late");
  text +=
      fmt::format("\n  %new = {0} add(%p, %third_rows)\n  ROOT %out = ({0}, {1}, {1}) tuple(%new, %second, %third)\n}}",
                  shard, row);
  return read(text);
}

Program looked_up(int ranks, int rows) {
  return read(fmt::format(R"(HloModule lookup, num_partitions={0}
ENTRY %main (table: f32[{1},8], ids: s32[16]) -> (f32[{1},8], s32[16], f32[16,8]) {{
  %table = f32[{1},8] parameter(0)
  %ids = s32[16] parameter(1)
  %all = f32[{2},8] all-gather(%table), channel_id=1, replica_groups=[1,{0}]<=[{0}], use_global_device_ids=true, dimensions={{0}}
  %words = f32[{3},8] slice(%all), slice={{[0:{3}], [0:8]}}
  %rows = f32[16,8] gather(%words, %ids), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}
  %next = s32[16] add(%ids, %ids)
  %twice = f32[{1},8] add(%table, %table)
  ROOT %out = (f32[{1},8], s32[16], f32[16,8]) tuple(%twice, %next, %rows)
}})",
                          ranks, rows, ranks * rows, ranks * rows - 1));
}

Program random_gathers(unsigned seed, bool one_group) { return read(RandomText(seed, one_group).str()); }

ScheduleOptions on_one_node(int ranks) {
  ScheduleOptions options;
  options.nodes.assign(static_cast<std::size_t>(ranks), 0);
  return options;
}

void expect_lockstep(const Program& program, ProcessGroup& plain, const SlowLinks& links, int steps) {
  const auto world = slow_down(std::shared_ptr<ProcessGroup>(&plain, [](ProcessGroup*) {}), links);
  const std::size_t kept = program.entry_computation().parameters.size();
  std::vector<std::vector<Literal>> arguments;
  for (int r = 0; r < world->size(); ++r) arguments.push_back(random_arguments(program, static_cast<unsigned>(r) + 1));
  // Of this rank, for each step; computed in advance, so that the evaluation does not synchronize the ranks.
  std::vector<std::vector<Literal>> expected;
  const std::vector<Literal> start = at(arguments, world->rank());
  for (int i = 0; i < steps; ++i) {
    const std::vector<Literal> results = evaluate_lockstep(program, arguments);
    expected.push_back(at(results, world->rank()).leaves());
    for (int r = 0; r < world->size(); ++r) {
      at(arguments, r) = at(results, r).leaves();
      at(arguments, r).resize(kept);
    }
  }
  const auto executable = compile(program, *world, {});
  std::vector<DeviceArray> state = to_device(start);
  for (int i = 0; i < steps; ++i) {
    state = executable->run(std::move(state));
    for (std::size_t k = 0; k < state.size(); ++k)
      EXPECT_TRUE(close(state[k].to_literal(), at(expected, i)[k], 1))
          << "step " << i << " rank " << world->rank() << " leaf " << k;
    state.resize(kept);
  }
  clear_compile_cache();
}

NoMappings::NoMappings() : real_(node_memory()) { own().memory = std::make_shared<Refusing>(real_); }
NoMappings::~NoMappings() { own().memory = real_; }

}  // namespace tessera::testing
